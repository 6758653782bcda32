"""The command line: flags made from settings, one call of the API, words and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Mapping, Sequence
from contextvars import copy_context
from difflib import get_close_matches
from typing import Annotated, Any

from cyclopts import App, ArgumentCollection, CycloptsError, MissingArgumentError, Parameter, UnknownOptionError
from rich.console import Console

import streamhalf
from streamhalf import report as views
from streamhalf._flags import (
    File,
    Folder,
    Names,
    Place,
    ResultConsole,
    Share,
    Store,
    Switch,
    Whole,
    calling,
    check_outputs,
    check_writable,
    finish,
    naming,
    public_command,
    read_config,
    silence_output,
    storage_of,
    takes,
)
from streamhalf.config import SETTINGS, TOLERANCE, TOP
from streamhalf.errors import DataError, StreamhalfError, UnverifiedWarning, UsageError
from streamhalf.redact import plural, printable, public_name
from streamhalf.results import CertifyResult, FitResult, Outcome, StrictPlanRecord, Verdict, document, overall_outcome
from streamhalf.results.results import COMMAND
from streamhalf.synthetic.kinds import DIRECTIONS, DTYPES, Marginal, Noise


@takes(
    *("scheduler", "n_workers", "quiet", "log_json", "storage_option"),
    example="synth data.zarr --rows 1000000 --dim 10 --noise chow --rate 0.05",
)
def synth(
    out: Annotated[Place, Parameter(help="path or URL of the new Zarr store")],
    /,
    *,
    rows: Annotated[Whole, Parameter(help="rows")],
    dim: Annotated[Whole, Parameter(help="features")],
    marginal: Annotated[str, Parameter(choices=[*Marginal], help="distribution of the features")] = "gaussian",
    noise: Annotated[str, Parameter(choices=[*Noise], help="which labels are flipped")] = "none",
    rate: Annotated[float, Parameter(help="share of flipped labels")] = 0.0,
    planted: Annotated[str, Parameter(choices=DIRECTIONS, help="direction of the halfspace")] = "generic",
    positive: Annotated[Share, Parameter(help="share of +1 before the noise; sets the threshold")] = 0.5,
    dtype: Annotated[str, Parameter(choices=DTYPES, help="of the features")] = "float32",
    chunk_rows: Annotated[Whole | None, Parameter(help="rows in a stored chunk (262144, or 16777216 numbers)")] = None,
    seed: Annotated[Whole, Parameter(help="names the data set")] = 0,
    overwrite: Annotated[Switch, Parameter(help="replace an existing store")] = False,
    **given: Any,
) -> int:
    """Write a labelled data set with a planted halfspace and chosen label noise."""
    spec: dict[str, Any] = {"rows": rows, "dim": dim, "marginal": marginal, "noise": noise, "rate": rate}
    spec |= {"planted": planted, "positive": positive, "dtype": dtype, "chunk_rows": chunk_rows}
    with calling(given) as call:
        error = streamhalf.synth(out, seed=seed, overwrite=overwrite, **spec, **call)
    print(f"wrote {plural(rows, 'row')} of {plural(dim, 'feature')} to {public_name(str(out))}")
    share = "" if positive == 0.5 else f", positive {positive:g}"
    print(f"planted error {error:.6f} (marginal {marginal}, noise {noise}{share})")
    return 0


@takes("names", "storage_option", example="inspect data.zarr")
def inspect(store: Store, /, **given: Any) -> int:
    """Say what is in a store, how it is laid out, and whether it is whole."""
    config = read_config(given)
    report = streamhalf.inspect(store, storage_options=config.storage_options, **config.parameters)
    views.show_store(ResultConsole(), report)
    return DataError.exit_code if report.missing else 0


@takes(
    *("tables", "where it runs", "quiet", "log_json", "storage_option", "config"),
    example="convert rows.parquet rows.zarr --label bought",
)
def convert(
    table: Annotated[Place, Parameter(help="Parquet or CSV: a file, folder, glob or URL")],
    store: Annotated[Place, Parameter(help="path or URL of the new Zarr store")],
    /,
    *,
    overwrite: Annotated[Switch, Parameter(help="replace an existing store")] = False,
    **given: Any,
) -> int:
    """Write the encoded rows of a table as a Zarr store, for those who fit often."""
    with calling(given) as call:
        encoding = streamhalf.convert(table, store, overwrite=overwrite, **call)
    views.show_columns(ResultConsole(), encoding)
    print(f"wrote {plural(len(encoding.features), 'feature')} to {public_name(str(store))}")
    return 0


@takes(
    *("features", "scheduler", "n_workers", "quiet", "log_json", "storage_option"),
    example="predict new.csv --model result.json --out predictions.csv",
)
def predict(
    store: Store,
    /,
    *,
    model: Annotated[File, Parameter(help="what fit --json wrote")],
    out: Annotated[
        Place,
        Parameter(
            metavar="PRED",
            help="file for the predictions, .csv or .parquet; any other ending, or a URL: a new Zarr store",
        ),
    ],
    overwrite: Annotated[Switch, Parameter(help="replace an existing file or store")] = False,
    keep: Annotated[Names, Parameter(help="columns of a table to write beside the predictions, such as id")] = "",
    missing: Annotated[str, Parameter(choices=("auto", "drop"), help="drop: leave rows with gaps out")] = "auto",
    **given: Any,
) -> int:
    """Write the predictions of a fitted halfspace, chunk by chunk."""
    fitted = document.read_model(model, storage_options=storage_of(given))
    with naming("model", str(model)), calling(given) as call, warnings.catch_warnings():
        warnings.simplefilter("ignore", UnverifiedWarning)  # said below, in a line of its own
        call |= {"out": out, "overwrite": overwrite, "keep": _names(keep), "missing": missing}
        n_positive = streamhalf.predict(store, model=fitted, **call)
    from streamhalf._models import doubt
    from streamhalf.data.kinds import is_table_path

    low, high = fitted.data.label_names
    meant = f"+1 ({high}; -1 is {low})" if fitted.data.classes else "+1"
    said = f"{plural(n_positive, 'row')} {'is' if n_positive == 1 else 'are'} "
    said += high if is_table_path(out) else meant
    print(f"wrote predictions to {public_name(str(out))}: {said}")
    if (words := doubt(fitted)) and not given.get("quiet"):
        print(f"streamhalf: warning: {words}", file=sys.stderr)
    return 0


Result = Annotated[Place, Parameter(help="what fit or certify wrote")]
Require = Annotated[
    str | None,
    Parameter(
        choices=("accepted", "certified"),
        help="exit with 10 (rejected) or 11 unless the result is accepted, or at least certified",
    ),
]


def _required_code(required: str | None, result: FitResult | CertifyResult) -> int:
    """Return 0, or what a pipeline that requires a verdict gets instead."""
    factor = None if result.promise is None else result.promise.factor
    if isinstance(result, CertifyResult):
        run = result.run
        limit = float(str((run.settings if run else {}).get("max_ratio", 0)))
        verdict = Verdict.INCONCLUSIVE
        if result.promise is not None and result.promise.holds and factor is not None and factor <= limit:
            verdict = Verdict.CERTIFIED
    else:
        verdict = result.verdict
    enough = {None: tuple(Verdict), "accepted": (Verdict.ACCEPTED,)}
    if verdict in enough.get(required, (Verdict.ACCEPTED, Verdict.CERTIFIED)):
        return 0
    tests = result.testers
    return 10 if overall_outcome(tests) is Outcome.REJECTED else 11


_COMMON = ("where it runs", "names", "tables", "quiet", "log_json", "storage_option", "config", "json")


def _names(keep: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, keep.split(","))))


@takes("statistics", "verbose", *_COMMON, example="test data.zarr --tau 0.01 --json result.json")
def test(store: Store, /, **given: Any) -> int:
    """Test whether the features look like N(0, I) up to moments of degree k."""
    with calling(given) as call:
        result = streamhalf.test(store, **call)
    finish(given, result, views.show_test)
    return result.verdict.exit_code


@takes(
    *("statistics", "eps", "schedule", "through", "certificate", "names"),
    *("columns", "drop", "encode", "missing"),
    *("config", "json", "storage_option"),
    example="plan --dim 10 --rows 1000000",
)
def plan(
    store: Annotated[Place | None, Parameter(help="path or URL of a Zarr store: plan for its rows")] = None,
    /,
    *,
    dim: Annotated[Whole | None, Parameter(help="features, where there is no store")] = None,
    n_rows: Annotated[Whole | None, Parameter("--rows", help="rows at hand")] = None,
    positive: Annotated[Share | None, Parameter(help="share of the rows with label +1")] = None,
    reuse: Annotated[Switch, Parameter(help="passes that learn share all their rows")] = False,
    strict: Annotated[Switch, Parameter(help="print the paper's own parameters, which no data set can meet")] = False,
    **given: Any,
) -> int:
    """Say which eps and constant a number of rows can judge, or how many rows an eps needs."""
    config = read_config(given)
    record = streamhalf.plan(
        store,
        dim=dim,
        n_rows=n_rows,
        positive=positive,
        strict=strict,
        storage_options=config.storage_options,
        **{**config.parameters, **({"sampling": "reuse"} if reuse else {})},
    )
    if isinstance(record, StrictPlanRecord):
        finish(given, record, _show_strict)
        return 0
    finish(given, record, views.show_plan)
    return 0 if record.conclusive else 11


def _show_strict(console: Console, plan: StrictPlanRecord) -> None:
    console.print(
        f"The paper's own parameters for eps = {plan.eps:g} and {plural(plan.dim, 'feature')}, all "
        f"constants 1: eta = {plan.eta:g}, degree k = {plan.degree:.3g}, 10^"
        f"{plan.log10_monomials:.3g} monomials, 10^{plan.log10_rows:.3g} rows, "
        f"{plan.updates} updates. No data set can meet them.",
        highlight=False,
    )


@takes(
    *("statistics", "learning", "certificate", "report", "verbose", *_COMMON),
    example="fit data.zarr --json result.json",
)
def fit(
    store: Store,
    /,
    *,
    checkpoint: Annotated[Folder | None, Parameter(help="path or URL that takes the result of every pass")] = None,
    resume: Annotated[Switch, Parameter(help="go on from what the checkpoint folder holds")] = False,
    state: Annotated[Folder | None, Parameter(help="path or URL that takes what update adds further rows to")] = None,
    dry_run: Annotated[
        Switch, Parameter(help="only check versions, workers, credentials and reading, and show the plan")
    ] = False,
    require: Require = None,
    **given: Any,
) -> int:
    """Learn a halfspace: how good it is, how good any could be, and what is promised."""
    if dry_run:
        with calling(given) as call:
            found = streamhalf.dry_run(store, checkpoint=checkpoint, resume=resume, **call)
        views.show_dry_run(ResultConsole(), found)
        return 0
    with calling(given) as call:
        result: FitResult = streamhalf.fit(store, checkpoint=checkpoint, resume=resume, state=state, **call)
    finish(given, result, views.show_classifier)
    return _required_code(require, result)


@takes(
    *("where it runs", "names", "quiet", "verbose", "log_json", "storage_option", "config", "json", "report"),
    example="update result.json data.zarr --state state --json new.json",
)
def update(
    result: Annotated[Place, Parameter(help="what fit or the last update wrote")],
    store: Store,
    /,
    *,
    state: Annotated[Folder, Parameter(help="path or URL of what fit --state wrote")],
    check_old: Annotated[Switch, Parameter(help="read the old rows too, to make sure that none changed")] = False,
    require: Require = None,
    **given: Any,
) -> int:
    """Bring a result up to date with data that grew: only the new rows are read."""
    fitted = document.read_fit(result, storage_options=storage_of(given))
    with naming("result", str(result)), calling(given) as call:
        found = streamhalf.update(fitted, store, state=state, check_old=check_old, **call)
    finish(given, found, views.show_classifier)
    return _required_code(require, found)


@takes(
    *("tau", "feature_transform", "centre", "whiten", "seed"),
    *("certificate_degree", "certificate_rows", "max_ratio", "report", "verbose", *_COMMON),
    example="certify data.zarr --weights weights.npy --json certificate.json",
)
def certify(
    store: Store,
    /,
    *,
    weights: Annotated[
        File, Parameter(help=".npy vector, JSON list or object with normal and offset, or a result file")
    ],
    require: Require = None,
    **given: Any,
) -> int:
    """Certify a linear classifier: its error, and a bound that no halfspace can beat."""
    classifier = document.read_classifier(weights, storage_options=storage_of(given))
    with naming("weights", str(weights)), calling(given) as call:
        result = streamhalf.certify(store, weights=classifier, **call)
    finish(given, result, views.show_classifier)
    return _required_code(require, result)


@takes(*_COMMON, example="verify result.json data.zarr")
def verify(
    result: Result,
    store: Store,
    /,
    *,
    block_rows: Annotated[Whole | None, Parameter(help="read in other pieces than the stored chunks")] = None,
    **given: Any,
) -> int:
    """Recompute the claims of a result file from the data; exit code 12 if one fails."""
    if os.path.isdir(result) or ("://" in str(result) and not str(result).endswith(".json")):
        found = public_name(str(result))
        right = f"{public_name(str(store))} {found}" if os.path.isfile(store) else "RESULT STORE"
        raise UsageError(
            f"verify: {found} is no result file but a store; the result file comes first: streamhalf verify {right}"
        )
    claims = document.read_verifiable(result, storage_options=storage_of(given))
    with naming("document", str(result)), calling(given) as call:
        verification = streamhalf.verify(claims, store, block_rows=block_rows, **call)
    finish(given, verification, views.show_verification)
    return 0 if verification.holds else 12


@takes("tau", *_COMMON, "report", example="watch result.json new.zarr --state looks")
def watch(
    result: Annotated[Place, Parameter(help="what fit wrote")],
    store: Store,
    /,
    *,
    state: Annotated[Folder | None, Parameter(help="path or URL of the looks so far, for one that looks often")] = None,
    tolerance: Annotated[
        Share, Parameter(help="share of rows that a change may concern without being drift")
    ] = TOLERANCE,
    require: Annotated[
        str | None, Parameter(choices=("steady",), help="exit with 10 (drifted) or 11 (inconclusive) unless steady")
    ] = None,
    **given: Any,
) -> int:
    """Say whether new rows still look like those behind a result: steady, drifted or inconclusive."""
    fitted = document.read_model(result, storage_options=storage_of(given))
    with naming("result", str(result)), calling(given) as call:
        found = streamhalf.watch(fitted, store, state=state, tolerance=tolerance, **call)
    finish(given, found, views.show_watch)
    return found.outcome.exit_code if require else 0


@takes("storage_option", example="report result.json --out result.html")
def report(
    result: Result,
    /,
    *,
    out: Annotated[File | None, Parameter(help="the page; without it, RESULT with the ending .html")] = None,
    audit: Annotated[File | None, Parameter(help="what audit wrote, for a section about suspects")] = None,
    watch: Annotated[File | None, Parameter(help="what watch wrote, for a section about new rows")] = None,
    **given: Any,
) -> int:
    """Write a result file as one HTML page with figures that opens anywhere."""
    from streamhalf import api

    source, storage = str(result), storage_of(given)
    target = str(out) if out else os.path.splitext(source)[0] + ".html"
    check_writable(target, "out", storage)
    if os.path.exists(target) and os.path.exists(source) and os.path.samefile(target, source):
        raise UsageError(f"out: {target!r} is the result file itself; name another file")
    suspects = None if audit is None else document.read_audit(audit, storage_options=storage)
    shown = document.read_result(source, storage_options=storage)
    new_rows = None if watch is None else document.read_watch(watch, storage_options=storage)
    api.report(shown, target, audit=suspects, watch=new_rows, storage_options=storage)
    print(f"wrote {public_name(target)}")
    return 0


@takes(
    *("where it runs", "names", "tables", "quiet", "log_json", "storage_option", "config"),
    *("json", "report"),
    example="audit data.zarr --model result.json --out suspects.csv",
)
def audit(
    store: Annotated[Place | None, Parameter(help="path or URL of the data; --reviewed needs none")] = None,
    /,
    *,
    model: Annotated[File | None, Parameter(help="what fit or certify wrote, or weights as certify takes them")] = None,
    out: Annotated[File | None, Parameter(help="file for the rows: .csv, .parquet or .zarr")] = None,
    top: Annotated[Whole | None, Parameter(help=f"list so many, the surest first; without it, {TOP:,}")] = None,
    all: Annotated[  # noqa: A002
        Switch, Parameter(help="list every misclassified row, in the order of rows")
    ] = False,
    probabilities: Annotated[
        File | None,
        Parameter(help="FILE or FILE:COLUMN (.npy, .zarr, .csv, .parquet): the second class by another model"),
    ] = None,
    review: Annotated[Whole, Parameter(help="draw so many rows for a person to review, into --out")] = 0,
    reviewed: Annotated[
        File | None, Parameter(help="a reviewed file: how many labels are wrong; alone, or with the data for a page")
    ] = None,
    models: Annotated[
        str,
        Parameter(metavar="FILES", help="for several classes: what fit --positive CLASS wrote for each, with commas"),
    ] = "",
    proofs: Annotated[File | None, Parameter(help="write sets of rows that no halfspace gets right, as JSON")] = None,
    keep: Annotated[Names, Parameter(help="columns of the data to show beside the rows, such as id")] = "",
    overwrite: Annotated[Switch, Parameter(help="replace an existing file")] = False,
    **given: Any,
) -> int:
    """List the rows whose labels look wrong, the surest first; count wrong labels by reviews."""
    storage = storage_of(given)
    if reviewed is not None and store is None and model is None:
        tau = read_config(given).parameters.get("tau", SETTINGS["tau"].default)
        record = streamhalf.judge_review(reviewed, tau=tau)
        finish(given, record, views.show_review)
        return 0
    if models:
        listed = {"top": TOP if top is None else top, "keep": _names(keep), "overwrite": overwrite}
        return _audit_classes(store, models, model, out, given, **listed)
    if store is None or model is None:
        field, wanted = (
            ("STORE", "STORE: path or URL of the data")
            if store is None
            else ("model", "--model: what fit or certify wrote, or weights")
        )
        raise UsageError(f"{field}: not given; audit needs {wanted}; or give --reviewed FILE")
    if all and top is not None:
        raise UsageError(f"top: {top} given beside --all; give one of them")
    if all and out is None:
        raise UsageError("all: needs a file for the rows; give --out FILE")
    options: dict[str, Any] = {
        "top": None if all else TOP if top is None else top,
        "misclassified": all,
        "review": review,
        "proofs": 20 if proofs is not None else 0,
        "keep": _names(keep),
        "reviewed": reviewed,
    }
    if probabilities is not None:
        options["probabilities"] = str(probabilities)
    classifier = document.read_classifier(model, storage_options=storage)
    with naming("model", str(model)), calling(given) as call:
        found = streamhalf.audit(store, model=classifier, out=out, overwrite=overwrite, **options, **call)
    if proofs is not None:
        document.write_json(proofs, found.conflicts, storage_options=storage)
    finish(given, found.result, views.show_audit)
    return 0


def _audit_classes(
    store: Place | None, models: str, model: Place | None, out: Place | None, given: Mapping[str, Any], **options: Any
) -> int:
    if store is None or model is not None or out is None:
        raise UsageError("models: give the data and --out FILE beside it, and no --model")
    fitted = [document.read_model(one, storage_options=storage_of(given)) for one in _names(models)]
    with naming("models", models), calling(given) as call:
        found = streamhalf.audit_classes(store, models=fitted, out=out, **options, **call)
    print(f"{len(found):,} rows whose labels look wrong, the surest first: {public_name(str(out))}")
    return 0


EXIT_CODES = """exit codes: 0 done, 2 wrong usage, 3 bad data, 130 interrupted, 1 anything else;
of test, and with --require: 10 rejected, 11 inconclusive (watch: 10 drifted);
of verify: 12 a claim does not hold"""
_ALIKE = 0.75  # How alike an option must be to what was typed, to be suggested (difflib's ratio)
COMMANDS = (synth, inspect, convert, predict, test, plan, fit, update, certify, verify, watch, audit, report)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    code, on_interrupt, before = 1, "", COMMAND.get()
    try:
        command, bound = _parse(arguments)
        COMMAND.set(public_command(arguments))
        code = int(command in COMMANDS)  # help whose reader has gone (`| head`) is no failure
        on_interrupt = _how_to_resume(bound.arguments) if command is fit else ""
        check_outputs(bound.arguments)
        code = command(*bound.args, **bound.kwargs) or 0
        sys.stdout.flush()
        return code
    except StreamhalfError as error:
        print(f"streamhalf: error: {printable(str(error))}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(f"streamhalf: interrupted{printable(on_interrupt)}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        silence_output()
        return code
    except Exception as error:
        if os.environ.get("STREAMHALF_DEBUG"):
            traceback.print_exc()
        text = " ".join(str(error).split())
        print(
            f"streamhalf: unexpected {type(error).__name__}: {text} (set STREAMHALF_DEBUG=1 for the traceback)",
            file=sys.stderr,
        )
        return 1
    finally:
        COMMAND.set(before)


def main(arguments: Sequence[str] | None = None) -> int:
    for name in ("stdout", "stderr"):  # no character and no closed stream ends a command
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    given = sys.argv[1:] if arguments is None else arguments
    return copy_context().run(run, given)  # runs of this process after it are of no command


def versions() -> str:
    from streamhalf.results import installed_versions

    found = installed_versions()
    others = (f"{name} {version}" for name, version in found.items() if name != "streamhalf")
    return "\n".join((f"streamhalf {found['streamhalf']}", *others))


def build_app() -> App:
    app = App(
        name="streamhalf",
        help="Learn linear classifiers from labels that may have been tampered with, and say what "
        "can be proved of them.",
        help_format="plaintext",
        help_epilogue=EXIT_CODES,
        version=versions,
        default_parameter=Parameter(negative=()),
        console=ResultConsole(),
        print_error=False,
        exit_on_error=False,
    )
    for number, command in enumerate(COMMANDS):
        epilogue = f"example:\n  streamhalf {command.example}\n\n{EXIT_CODES}"
        app.command(command, help_epilogue=epilogue, sort_key=number)
    app.register_install_completion_command(help="Let the shell complete commands and flags.")
    return app


def _parse(arguments: Sequence[str]) -> Any:
    if not arguments:
        raise UsageError("no command given; streamhalf --help lists them all")
    try:
        return build_app().parse_args(arguments)[:2]
    except CycloptsError as error:
        _prefer_likely(error)
        missed = error.argument if isinstance(error, MissingArgumentError) else None
        if missed is not None and not set(missed.names) & set(arguments):
            command, said = " ".join(error.command_chain or ()), missed.parameter.help
            field = missed.name.removeprefix("--")
            raise UsageError(f"{field}: not given; {command} needs {missed.name}: {said}") from error
        wrong = printable(" ".join(str(error).split()))
        help_of = " ".join(["streamhalf", *(error.command_chain or ())])
        raise UsageError(f"{wrong} ({help_of} --help says more)") from error


def _prefer_likely(error: CycloptsError) -> None:
    """Of an unknown option, have those suggested that it begins with (--eps for --epsilon).

    Else those that are spelled much alike, or none.
    """
    if isinstance(error, UnknownOptionError):
        given = error.token.keyword or error.token.value
        flags = error.argument_collection
        begun = [one for one in flags if any(given.startswith(name) for name in one.names)]
        alike = [one for one in flags if get_close_matches(given, one.names, 1, _ALIKE)]
        error.argument_collection = ArgumentCollection(begun or alike)


def _how_to_resume(given: Mapping[str, Any]) -> str:
    if folder := given.get("checkpoint"):
        return f"; finished passes are in {folder}: run the same command with --resume to go on"
    return "; nothing was kept (with --checkpoint FOLDER a run can be resumed)"
