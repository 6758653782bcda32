"""How a result was made: data, seed, settings, versions and digests, as tables."""

from __future__ import annotations

from collections.abc import Iterable

from streamhalf.config import SETTINGS, show_size
from streamhalf.report import codes
from streamhalf.report.codes import ABSENT
from streamhalf.report.features import class_words
from streamhalf.report.tables import Table
from streamhalf.report.words import TAU
from streamhalf.results import CertificateMethod, CertifyResult, FitResult, Verdict


def fact_table(result: FitResult | CertifyResult) -> Table:
    """Data, parameters, versions and digests."""
    return Table("Facts", ("fact", "value"), tuple(_facts(result)), words=("fact", "value"))


def _facts(result: FitResult | CertifyResult) -> Iterable[tuple[str, str]]:
    yield "source", result.data.source or ABSENT
    yield "rows", codes.count(result.data.rows)
    yield "features", codes.count(result.data.dim)
    yield "fingerprint of the data", result.data.fingerprint or ABSENT
    if isinstance(result, FitResult):
        yield from _fit_facts(result)
    if (certificate := result.certificate) is not None:
        yield "rows of the certificate", codes.count(certificate.n_rows)
        yield "errors on them", codes.count(certificate.n_errors)
        yield "halfspaces that its bound is for", class_words(certificate.opt.through, certificate)
        if certificate.method is CertificateMethod.SETS:
            yield "disjoint sets of rows in conflict", codes.count(certificate.n_sets)
        else:
            yield "degree of its slab moments", str(certificate.degree)
        yield "digest of every row", certificate.digest or ABSENT
    versions = result.versions
    yield "seed", seed_words(result)
    yield f"tau, {TAU}", codes.number(result.tau)
    shares = {"the upper bound": result.error, "L of the source": result.opt}
    for name, bound in shares.items():
        if bound is not None and bound.tau is not None:
            yield f"share of tau for {name}", codes.number(bound.tau)
    yield "streamhalf", versions.streamhalf
    yield "Python", versions.python
    yield "NumPy, Dask, Zarr", f"{versions.numpy}, {versions.dask}, {versions.zarr}"
    if (run := result.run) is not None:
        yield "started (UTC)", run.started
        yield "host", run.host or ABSENT
        yield "scheduler", run.scheduler
        yield "command", run.command or "called from Python"
    yield "schema", result.schema
    yield "digest of this document", result.digest or ABSENT


def _fit_facts(result: FitResult) -> Iterable[tuple[str, str]]:
    yield "eps, accuracy judged", codes.number(result.eps)
    if result.verdict is Verdict.ACCEPTED and result.constant is not None:
        yield (
            "constant C in C opt + eps (a lower bound on the worst case)",
            codes.constant(result.constant),
        )
    yield "rows of the passes that learn", result.split
    yield "transform of the rows", result.transform.kind
    if result.error is not None:
        yield "halfspaces learned among", class_words(result.error.through)
    if result.chosen is not None:
        found = result.candidates[result.chosen : result.chosen + 1]
        how = "".join(f", by {codes.method_words(one.method)}" for one in found)
        yield "returned candidate", f"{result.chosen}{how}"
    if result.error is not None:
        yield "error on held-out rows", codes.percent(result.error.empirical)
        yield "its upper bound", codes.percent(result.error.upper)
        if (labels := result.error.by_label) is not None:
            yield "error of the constant guess", codes.percent(labels.guess_error)
            yield "balanced error", codes.percent(labels.balanced)
        yield "held-out rows", codes.count(result.error.n_rows)


def setting_table(result: FitResult | CertifyResult) -> Table:
    """Every setting of the run, and whether it is the default."""
    settings = {} if result.run is None else result.run.settings
    rows = tuple((name, setting_words(name, value)) for name, value in settings.items())
    return Table("Settings", ("setting", "value"), rows, words=("setting", "value"))


def setting_words(name: str, value: object) -> str:
    """The value as a user writes it."""
    declared = SETTINGS.get(name)
    if value is None:
        return ABSENT
    if declared is not None and declared.is_size and isinstance(value, int):
        return show_size(value)
    return str(value).lower() if isinstance(value, bool) else f"{value}"


def seed_words(result: FitResult | CertifyResult) -> str:
    """What repeats the run, and where it came from."""
    seed = result.seed if isinstance(result, FitResult) else result.certificate.seed
    return f"{seed}, {'drawn by the system' if result.seed_drawn else 'given'}"
