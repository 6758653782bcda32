"""The terminal: a progress bar per pass while it runs, and the verdict in words at the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from streamhalf.data.inspection import StoreReport
from streamhalf.names import plural
from streamhalf.records import (
    AS_WRITTEN,
    CertifyResult,
    FitResult,
    Judgement,
    MomentTestResult,
    Outcome,
    PlanRecord,
    Verdict,
    VerifyResult,
)
from streamhalf.report.rejections import (
    evidence_features,
    leading_rejection,
    rejection_sentence,
    result_suggestions,
)
from streamhalf.report.words import (
    ABSENT,
    TAU,
    flagged,
    interval_details,
    interval_sentence,
    outcome_words,
    reuse_notice,
    sentence,
    through,
    useless,
    worst_judgement,
)

_SPARE = "spare: for updates that repeat, else unread"

_STYLE = {
    Outcome.PASSED: "green",
    Outcome.REJECTED: "bold red",
    Outcome.INCONCLUSIVE: "yellow",
    Outcome.NOT_JUDGED: "dim",
    Verdict.ACCEPTED: "green",
}


def show_test(console: Console, result: MomentTestResult) -> None:
    """The verdict of a moment test, its testers, and the evidence."""
    console.print(
        Panel(
            escape(moment_sentence(result)),
            title=f"[{_STYLE[Outcome(result.verdict)]}]{result.verdict.upper()}",
            title_align="left",
            expand=False,
        )
    )
    console.print(_tester_table(result.testers))
    for judgement in result.testers:
        if judgement.outcome is Outcome.REJECTED:
            console.print(_evidence_table(judgement, whitened=result.whitened))


def moment_sentence(result: MomentTestResult) -> str:
    """The verdict in words that need no statistics."""
    if result.verdict is Verdict.REJECTED:
        return _rejected(result)
    rows = str(result.data)
    if result.verdict is Verdict.INCONCLUSIVE:
        needed = max(judgement.rows_needed or 0 for judgement in result.testers)
        return (
            f"Too few rows to tell ({rows}).\nThe deviation seen could be chance; about "
            f"{needed:,} rows settle the question."
        )
    return f"Nothing speaks against standard Gaussian features ({rows})."


def _rejected(result: MomentTestResult | FitResult) -> str:
    """That the features are not Gaussian, what shows it, and what to do."""
    worst, whitened = leading_rejection(result.testers), result.whitened
    if worst is None:
        raise ValueError("no tester rejected")
    return "\n".join(
        (
            f"The features are not standard Gaussian ({result.data}).",
            rejection_sentence(worst, whitened=whitened),
            *result_suggestions(result),
        )
    )


def _tester_table(judgements: tuple[Judgement, ...]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("tester", "outcome"):
        table.add_column(column, no_wrap=True)
    for column in ("statistic", "limit", "chance alone", "rows"):
        table.add_column(column, justify="right")
    table.add_column("remark")
    for judgement in judgements:
        table.add_row(
            escape(judgement.tester),
            f"[{_STYLE[judgement.outcome]}]{outcome_words(judgement.outcome)}",
            f"{judgement.statistic:.4g}",
            ABSENT if judgement.outcome is Outcome.NOT_JUDGED else f"{judgement.limit:.4g}",
            f"{judgement.null_quantile:.4g}",
            f"{judgement.n_rows:,}",
            escape(judgement.remark),
        )
    return table


def _evidence_table(judgement: Judgement, *, whitened: bool) -> Table:
    table = Table(
        box=None,
        title=f"evidence: {escape(judgement.tester)}",
        caption=evidence_features(whitened=whitened) or None,
        caption_justify="left",
        title_justify="left",
        pad_edge=False,
    )
    table.add_column("quantity", overflow="fold")
    for column in ("observed", "expected", "deviation", "limit"):
        table.add_column(column, justify="right")
    for item in judgement.evidence:
        values = (item.observed, item.expected, item.deviation, item.limit)
        table.add_row(escape(item.name), *(f"{value:.4g}" for value in values))
    return table


def show_store(console: Console, report: StoreReport) -> None:
    """What `inspect` found."""
    facts = Table(box=None, show_header=False, pad_edge=False)
    for name, value in _store_facts(report):
        facts.add_row(f"[bold]{name}", escape(value))
    console.print(facts)
    for label, lines, style in (
        ("missing", report.missing, "bold red"),
        ("notice", report.notices, "yellow"),
        ("advice", report.advice, "cyan"),
    ):
        for line in lines:
            console.print(f"[{style}]{label}:[/] {escape(line)}", highlight=False, soft_wrap=True)


def _store_facts(report: StoreReport) -> Iterator[tuple[str, str]]:
    yield "store", f"{report.source} (Zarr v{report.zarr_format})"
    yield "rows", f"{report.rows:,}"
    yield "features", f"{report.dim:,}"
    yield "labels", report.labels
    for array in report.arrays:
        layout = f"chunks {array.chunks}" + (f" in shards {array.shards}" if array.shards else "")
        whole = "unknown" if array.n_missing is None else f"{array.n_missing:,}"
        yield (
            array.name,
            f"{array.dtype} {array.shape}, {layout}, {array.nbytes / 2**20:,.1f} MiB in "
            f"{array.n_objects:,} objects, missing: {whole}, codecs: {' > '.join(array.codecs)}",
        )
    yield "fingerprint", report.fingerprint
    if report.planted:
        yield "planted", _planted_words(report.planted)


def _planted_words(planted: Any) -> str:
    shown = {key: value for key, value in planted.items() if not isinstance(value, list | dict)}
    return ", ".join(f"{key} {value}" for key, value in shown.items())


def show_fit(console: Console, result: FitResult) -> None:
    """The verdict of a fit, its halfspace, its testers, and the evidence."""
    console.print(
        Panel(
            escape(fit_sentence(result)),
            title=f"[{_STYLE[Verdict(result.verdict)]}]{result.verdict.upper()}",
            title_align="left",
            expand=False,
        )
    )
    if result.testers:
        console.print(_summary_table(result.testers))
    for judgement in result.testers:
        if judgement.outcome is Outcome.REJECTED:
            console.print(_evidence_table(judgement, whitened=result.whitened))
            break


def show_certificate(console: Console, result: CertifyResult) -> None:
    """The certified interval of a classifier."""
    error = result.error
    text = (
        f"The classifier errs on {100 * error.empirical:.3f}% of {error.n_rows:,} rows (at most "
        f"{100 * error.upper:.3f}% on their source if it never saw them, confidence "
        f"{100 * (1 - result.tau):g}%).\n"
        + interval_details(result.certificate, result.tau, whitened=result.whitening is not None)
    )
    console.print(Panel(escape(text), title="CERTIFICATE", title_align="left", expand=False))


def show_verification(console: Console, result: VerifyResult) -> None:
    """Every claim, and whether it holds."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("claim", "holds", "claimed", "recomputed"):
        table.add_column(column)
    for claim in result.claims:
        holds = "[green]yes" if claim.holds else "[bold red]NO"
        table.add_row(escape(claim.name), holds, escape(claim.claimed), escape(claim.recomputed))
    console.print(table)
    failed = sum(not claim.holds for claim in result.claims)
    console.print(
        "[green]every claim holds"
        if result.holds
        else f"[bold red]{plural(failed, 'claim')} {'does' if failed == 1 else 'do'} not hold"
    )
    if any(claim.name == AS_WRITTEN and not claim.holds for claim in result.claims):
        console.print("the document was changed after it was written: its digest does not fit")


def fit_sentence(result: FitResult) -> str:
    """The verdict in words that need no statistics."""
    if result.verdict is Verdict.REJECTED:
        return _rejected(result)
    if result.verdict is Verdict.INCONCLUSIVE:
        return _inconclusive(result)
    if result.error is None:
        return f"Accepted ({result.data})."
    promise = (
        f"The halfspace errs on {100 * result.error.empirical:.3f}% of fresh rows, at most "
        f"{100 * result.error.upper:.3f}% (confidence {100 * (1 - result.tau):g}%).\n"
        f"The features look Gaussian at accuracy eps = {result.eps:.4g} ({result.data}), so this "
        f"is within a constant of the best halfspace {through(whitened=result.whitened)} plus eps, "
        "whichever labels were flipped."
    )
    interval = (
        interval_sentence(result.certificate, whitened=result.whitened)
        if result.certificate
        else ""
    )
    return "\n".join(text for text in (useless(result), promise, interval) if text)


def _inconclusive(result: FitResult) -> str:
    """What is missing, and what would do with the rows at hand."""
    if result.rows_needed is None:
        return f"Not accepted: {flagged(result.notices[-1])}."
    reuse = reuse_notice(result)
    return "\n".join(
        text
        for text in (
            f"Too few rows to tell ({result.data}).",
            f"Judging at eps = {result.eps:.4g} takes about {result.rows_needed:,} rows.",
            reuse and sentence(reuse),
        )
        if text
    )


def _summary_table(judgements: tuple[Judgement, ...]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("tester", "outcomes"):
        table.add_column(column)
    for column in ("worst", "limit", "pass"):
        table.add_column(column, justify="right")
    for name in dict.fromkeys(judgement.tester for judgement in judgements):
        own = [judgement for judgement in judgements if judgement.tester == name]
        counts = {outcome: sum(one.outcome is outcome for one in own) for outcome in Outcome}
        words = ", ".join(
            f"[{_STYLE[outcome]}]{outcome_words(outcome, n)}[/]"
            for outcome, n in counts.items()
            if n
        )
        worst = worst_judgement(own)
        shown = (
            (ABSENT, ABSENT, ABSENT)
            if worst is None
            else (f"{worst.statistic:.4g}", f"{worst.limit:.4g}", worst.pass_name)
        )
        table.add_row(escape(name), words, *shown)
    return table


def show_plan(console: Console, record: PlanRecord) -> None:
    """Rows, eps, passes, bytes and memory."""
    size = f"{plural(record.rows, 'row')} of {plural(record.dim, 'feature')}"
    if record.conclusive:
        text = f"{size} can judge eps = {record.eps:.4g}"
    else:
        text = f"{size} are too few for eps = {record.eps:.4g}: it takes {record.rows_needed:,}"
    console.print(text, highlight=False, soft_wrap=True)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("pass")
    for column in ("rows", "MB"):
        table.add_column(column, justify="right")
    for budget in record.passes:
        table.add_row(budget.name, f"{budget.rows:,}", f"{budget.nbytes / 1e6:,.1f}")
    _add_total(table, record)
    console.print(table)
    memory = f"memory of one task: about {record.memory_nbytes / 2**20:,.0f} MiB"
    sketched = "; degree above 2 is tested on a sketch" if record.sketched else ""
    words = f"tau = {record.tau:g} ({TAU}); {memory}{sketched}"
    console.print(words, highlight=False, soft_wrap=True)


def _add_total(table: Table, record: PlanRecord) -> None:
    """What the passes read, what is kept for repeated updates, and all: the rows add up."""
    rows, nbytes = sum(budget.rows for budget in record.passes), record.nbytes
    planned = record.rows if record.conclusive else record.rows_needed
    if rows < planned:  # not where every pass takes all rows
        per_row = nbytes / max(1, rows)
        spare = planned - rows
        table.add_row(_SPARE, f"{spare:,}", f"{spare * per_row / 1e6:,.1f}")
        rows, nbytes = planned, round(planned * per_row)
    table.add_row("all", f"{rows:,}", f"{nbytes / 1e6:,.1f}")
