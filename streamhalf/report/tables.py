"""Tables of testers, evidence, passes, bounds and facts, for pages and terminals alike."""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from streamhalf.config import SETTINGS, show_size
from streamhalf.redact import plural
from streamhalf.report import words as say
from streamhalf.report.words import ABSENT, Names, at_least, count, nbytes, number, percent
from streamhalf.results import (
    CandidateRecord,
    CertificateMethod,
    CertificateRecord,
    ColumnRecord,
    ColumnUse,
    DropReason,
    EncodingRecord,
    FitResult,
    Method,
    Outcome,
    PassRecord,
    Result,
    Role,
    TestResult,
    Transform,
    TransformTrial,
    worst_of,
)
from streamhalf.testers import WORDS
from streamhalf.testers.leading import SCALED_BY_ETA, telling_evidence

# Columns of a table: a label, and how to write its cell for one record
Cells: TypeAlias = Mapping[str, Callable[[Any], str]]


@dataclass(frozen=True, slots=True)
class Table:
    """Formatted cells under a caption; the first cell of a row is its heading.

    Columns are numbers, aligned to the right, unless their label is among the words, which may break, or the names,
    which may not.
    """

    caption: str
    labels: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, caption: str, cells: Cells, records: Iterable[Any], **kinds: tuple[str, ...]) -> Table:
        rows = tuple(tuple(write(one) for write in cells.values()) for one in records)
        return cls(caption, tuple(cells), rows, **kinds)

    @property
    def slug(self) -> str:
        """Return the caption as the name of a file."""
        return "-".join(re.findall(r"[a-z0-9]+", self.caption.lower())) or "table"

    def csv(self) -> str:
        """Return plain numbers for a program, with units in the heading."""
        ends = [{row[i][-1:] for row in self.rows} - {"", ABSENT} for i in range(len(self.labels))]
        units = [one.pop() if one in ({"%"}, {"°"}) else "" for one in ends]
        stream = io.StringIO()
        write = csv.writer(stream, lineterminator="\n").writerow
        write(f"{name} ({unit})" if unit else name for name, unit in zip(self.labels, units, strict=True))
        for row in self.rows:
            write(_bare(cell, unit) for cell, unit in zip(row, units, strict=True))
        return stream.getvalue()

    def kind(self, label: str) -> str | None:
        if label in self.words:
            return None
        return "unbroken" if label in self.names else "number"


def _bare(cell: str, unit: str) -> str:
    bare = cell.removesuffix(unit).strip()
    if bare == ABSENT:
        return ""
    return bare.replace(",", "") if re.fullmatch(r"-?\d{1,3}(,\d{3})+", bare) else bare


# testers

_ROLES = {
    Role.EARLY: "warns only: the pass's own rows",
    Role.EXTRA: "too few rows; ignore it",
    Role.REFINEMENT: "finer than the scale that is judged",
    Role.ADVISORY: "segments of rows differ",
    Role.FALLBACK: "segments of rows differ",
}
_UNHEARD = {Role.EXTRA: "extra, not judged", Role.FALLBACK: "began anew", Role.ADVISORY: "noticed"}


def outcome_words(one: TestResult) -> str:
    """Return the outcome, or that it has no say."""
    if one.role is Role.EARLY:
        return f"{one.outcome}, early"
    return str(one.outcome) if one.has_say else _UNHEARD.get(one.role, "not judged")


def deciding(test_results: Iterable[TestResult]) -> list[TestResult]:
    """Return those without early warnings; all of them where there is nothing else."""
    found = list(test_results)
    return [one for one in found if one.role is not Role.EARLY] or found


def by_tester(test_results: Iterable[TestResult]) -> dict[str, list[TestResult]]:
    found: dict[str, list[TestResult]] = {}
    for one in test_results:
        found.setdefault(one.tester, []).append(one)
    return found


def _remark(one: TestResult) -> str:
    scale = "eta" if one.tester in SCALED_BY_ETA else "delta"
    said = (
        "" if one.candidate is None else f"candidate {one.candidate}",
        "" if one.scale is None else f"{scale} {number(one.scale)}",
        "" if one.has_say else _ROLES.get(one.role, ""),
        "" if one.directions is None else f"sketched on {one.directions} directions",
    )
    return " · ".join(filter(None, said)) or ABSENT


def result_table(caption: str, found: Iterable[TestResult], names: Names, *labels: str) -> Table:
    """Return the asked columns of every test result."""
    known: Cells = {
        "tester": lambda one: one.tester,
        "pass": lambda one: one.pass_name,
        "outcome": outcome_words,
        "statistic": lambda one: number(one.statistic),
        "limit": lambda one: number(one.limit if one.has_say else math.nan),
        "chance alone": lambda one: number(one.null_quantile),
        "rows": lambda one: count(one.n_rows),
        "worst": lambda one: names.evidence(one.evidence[0]) if one.evidence else ABSENT,
        "remark": _remark,
    }
    cells = {label: known[label] for label in labels}
    return Table.of(caption, cells, found, words=("outcome", "worst", "remark"), names=("tester", "pass"))


def tester_summary(test_results: Iterable[TestResult]) -> Table:
    """Return one row for each tester: how often which outcome, and its worst result."""
    rows = []
    for name, own in by_tester(deciding(test_results)).items():
        ordered = sorted(own, key=lambda one: (not one.has_say, list(Outcome).index(one.outcome)))
        outcomes = ", ".join(f"{n} {word}" for word, n in Counter(map(outcome_words, ordered)).items())
        worst = worst_of(own)
        shown = (ABSENT,) * 3 if worst is None else (number(worst.statistic), number(worst.limit), worst.pass_name)
        rows.append((name, outcomes, *shown))
    labels = ("tester", "outcomes", "worst", "limit", "in pass")
    return Table("Testers", labels, tuple(rows), words=("tester", "outcomes"), names=("in pass",))


def tester_details(test_results: Iterable[TestResult], names: Names) -> tuple[Table, ...]:
    """Return every test result, one table for each tester."""
    labels = ("pass", "outcome", "statistic", "limit", "chance alone", "rows", "worst", "remark")
    found = []
    for name, own in by_tester(test_results).items():
        asks = WORDS[name].asks if name in WORDS else ""
        caption = f"{name}: {plural(len(own), 'result')}. {asks}".strip()
        found.append(result_table(caption, own, names, *labels))
    return tuple(found)


def lacking_table(result: FitResult) -> Table:
    lacking = (
        one
        for one in result.testers
        if (one.has_say and one.outcome is Outcome.INCONCLUSIVE)
        or (one.role is Role.REFINEMENT and one.rows_needed is not None)
    )
    cells: Cells = {
        "tester": lambda one: one.tester,
        "rows it used": lambda one: count(one.n_rows),
        "rows it needs": lambda one: count(one.rows_needed),
    }
    caption = "Testers with too few rows; each uses only a part of all rows"
    return Table.of(caption, cells, lacking, words=("outcome", "worst", "remark"), names=("tester", "pass"))


def evidence_table(one: TestResult, names: Names) -> Table:
    cells: Cells = {
        "quantity": names.evidence,
        "observed": lambda found: number(found.observed),
        "expected": lambda found: number(found.expected),
        "deviation": lambda found: number(found.deviation),
        "limit": lambda found: number(found.limit),
    }
    return Table.of(f"Evidence of {one.tester}", cells, one.evidence, words=("quantity",))


def transform_table(result: FitResult) -> Table:
    """Return the outcome for each transform, and the strongest evidence against it."""
    cells: Cells = {
        "transform": lambda one: f"{one.kind}, taken" if one.kind == result.transform.kind else str(one.kind),
        "outcome": _tried,
        "judged by": lambda one: "held-out rows" if one.tried else "a sample",
        "strongest evidence": lambda one: _problem(result, one) or _strongest(result, one),
    }
    words, names = ("judged by", "strongest evidence"), ("transform", "outcome")
    return Table.of("Transforms", cells, result.transforms, words=words, names=names)


def _tried(trial: TransformTrial) -> str:
    if trial.problem and trial.outcome is Outcome.REJECTED:
        return "impossible"
    return str(trial.outcome if trial.evidence else Outcome.NOT_JUDGED)


def _problem(result: FitResult, trial: TransformTrial) -> str:
    """Return why there is no such transform, features by their names."""
    if not trial.features:
        return trial.problem
    names = say.listed([result.data.feature_names[j] for j in trial.features])
    return f"constant there: {names}" if trial.constant else f"{names} repeat each other there, or hardly vary"


def _strongest(result: FitResult, trial: TransformTrial) -> str:
    first = None if trial.evidence is None else telling_evidence(trial.evidence)
    if trial.outcome is Outcome.PASSED or first is None:
        return ABSENT
    taken = trial.kind == result.transform.kind or trial.kind is Transform.STORED
    names = Names.of(result) if taken else Names(result.data.features)
    return f"{names.evidence(first)}: {number(first.observed)}, a Gaussian has {number(first.expected)}"


def constant_table(result: FitResult) -> Table:
    """Return the constant that the tests support at each scale, and the error that it allows."""
    error = result.error.empirical if result.error else math.nan
    cells: Cells = {
        "scale delta": lambda one: number(one.delta),
        "eps": lambda one: number(one.eps),
        "quadratics off by less than": lambda one: number(one.deviation),
        "slab masses off by less than": lambda one: number(one.masses_off),
        "constant C": lambda one: say.constant(one.constant),
        "C · error + eps": lambda one: percent(math.nan if one.constant is None else one.constant * error + one.eps),
    }
    return Table.of("Constant by scale", cells, result.promises)


# error, bounds, candidates, passes


def column_table(encoding: EncodingRecord | None) -> Table:
    """Return what became of every column of a table; empty without an encoding."""
    cells: Cells = {
        "column": lambda one: one.name,
        "used as": lambda one: _DROPPED[one.reason] if one.reason else str(one.use),
        "features": lambda one: count(len(one.features)),
        "gaps": lambda one: count(one.gaps) if one.gaps else "",
        "filled with": _filled_with,
        "left out": lambda one: one.base or "",
    }
    words = ("used as", "filled with", "left out")
    columns = () if encoding is None else encoding.columns
    return Table.of("Columns of the table", cells, columns, words=words, names=("column",))


def _filled_with(column: ColumnRecord) -> str:
    if not column.gaps or not column.features:
        return ""
    if column.use is ColumnUse.CATEGORY:
        return "a value of its own"
    return "" if column.fill is None else number(column.fill)


_DROPPED = {
    DropReason.ASKED: "dropped: asked for",
    DropReason.CONSTANT: "dropped: constant",
    DropReason.EMPTY: "dropped: no value",
    DropReason.IDENTIFIER: "dropped: identifier, nearly all values differ",
    DropReason.MANY_VALUES: "dropped: too many rare values",
    DropReason.COLLINEAR: "dropped: other columns determine it",
}


def label_table(result: Result) -> Table:
    """Return errors by label, and of the constant guess; empty if they are not known."""
    labels, cells = ("label", "rows", "wrong", "share"), []
    if result.error is not None and (found := result.error.by_label) is not None:
        names = Names.of(result)
        rows, errors = found.positive + found.negative, found.positive_errors + found.negative_errors
        guess, wrong = f"always guessing {names.label(found.guess)}", min(found.positive, found.negative)
        lines = (
            (names.label(1), found.positive, found.positive_errors, found.rates[0]),
            (names.label(-1), found.negative, found.negative_errors, found.rates[1]),
            ("both", rows, errors, errors / max(1, rows)),
            ("balanced (mean of the two)", None, None, found.balanced),
            (guess, rows, wrong, found.guess_error),
        )
        cells = [(name, count(n), count(n_wrong), percent(share)) for name, n, n_wrong, share in lines]
    return Table("Errors by label", labels, tuple(cells), words=labels[:1])


def bound_table(certificate: CertificateRecord, names: Names) -> Table:
    """Return L for every class of halfspaces that was looked at, the claimed one first."""
    found = {one.through: one for one in (certificate.opt, *certificate.bounds)}
    cells: Cells = {
        "linear classifiers": lambda one: names.halfspaces(one.through, certificate),
        "L on these rows": lambda one: at_least(one.lower_empirical),
        "L for new rows": lambda one: at_least(one.lower),
    }
    return Table.of("Lower bounds by class", cells, found.values(), words=("linear classifiers",))


def candidate_table(candidates: tuple[CandidateRecord, ...]) -> Table:
    """Return all that is known of the candidates; what is known of none is left out."""

    def ratio(one: CandidateRecord) -> float:
        expected = one.rows_seen * (one.delta if one.rate is None else one.rate)
        return one.rows_accepted / expected if expected > 0 else math.nan

    def of_path(write: Callable[[Any], str]) -> Callable[[Any], str]:
        return lambda one: write(one) if one.method is Method.PATH else ABSENT

    cells: Cells = {
        "found by": lambda one: say.method_words(one.method),
        "error": lambda one: percent(one.error),
        "angle to the returned": lambda one: say.degrees(one.angle),
        "threshold": lambda one: number(one.threshold),
        "scale delta": of_path(lambda one: number(one.delta)),
        "step": of_path(lambda one: number(one.step)),
        "rows seen": of_path(lambda one: count(one.rows_seen)),
        "accepted": of_path(lambda one: count(one.rows_accepted)),
        "of expected": of_path(lambda one: number(ratio(one))),
        "nearby ones differ on, at most": lambda one: percent(one.beta),
    }
    known = {name: write for name, write in cells.items() if any(write(one) != ABSENT for one in candidates)}
    table = Table.of("Candidates", known, candidates, words=("found by",))
    rows = tuple((str(j), *row) for j, row in enumerate(table.rows))
    return replace(table, labels=("candidate", *table.labels), rows=rows)


def pass_table(passes: tuple[PassRecord, ...]) -> Table:

    def total(name: str) -> Any:
        return sum(getattr(one, name) for one in passes)

    fields = ("rows_read", "bytes_read", "rows_accepted", "seconds", "bytes_moved", "requests")
    every = PassRecord("all", *map(total, fields))
    cells: dict[str, Callable[[Any], str]] = {
        "pass": lambda one: one.name,
        "rows read": lambda one: count(one.rows_read),
        "rows used": lambda one: ABSENT if one is every else count(one.rows_accepted),
        "bytes read": lambda one: nbytes(one.bytes_read),
        "time": lambda one: say.seconds(one.seconds),
    }
    if every.bytes_moved or every.requests:
        cells["over the network"] = lambda one: nbytes(one.bytes_moved)
        cells["requests"] = lambda one: count(one.requests)
    return Table.of("Passes", cells, (*passes, every) if passes else (), names=("pass",))


# provenance

_WORDS = (
    ("linear classifier", "one label where a weighted sum of the features is at least a threshold, else the other"),
    ("halfspace", "the rows to which a linear classifier gives one label; also the classifier itself"),
    ("U", "the error of this classifier on the rows that the certificate read"),
    ("L", "a share of these rows that every linear classifier gets wrong, or more"),
    ("tau", "the probability that any bound or verdict of this page is wrong, all together"),
    ("tester", "a test of the features against a Gaussian; those on held-out rows decide"),
    ("he₁ to he₄", "Hermite moments of a feature: mean, scale, skew and tails; 0 for a standard Gaussian"),
    ("slab", "the rows in a range of distances from the boundary of a classifier"),
    ("wedge", "the rows on which a classifier and one turned a little disagree"),
    ("eps, delta, eta", "scales of the tests: the smaller, the closer to the boundary they look"),
)


def word_table() -> Table:
    return Table("Words of this page", ("word", "meaning"), _WORDS, words=("word", "meaning"))


def fact_table(result: Result) -> Table:
    return Table("Facts", ("fact", "value"), tuple(_facts(result)), words=("fact", "value"))


def _facts(result: Result) -> Iterator[tuple[str, str]]:
    yield "source", result.data.source or ABSENT
    yield "rows", count(result.data.rows)
    yield "features", count(result.data.dim)
    yield "fingerprint of the data", result.data.fingerprint or ABSENT
    if isinstance(result, FitResult):
        yield "eps, accuracy judged", number(result.eps)
        yield "transform", result.transform.kind
    if (error := result.error) is not None and error.tau is not None:
        yield "share of tau for the upper bound", number(error.tau)
    if (certificate := result.certificate) is not None:
        if certificate.method is CertificateMethod.SETS:
            yield "groups of rows that each force an error", count(certificate.n_sets)
        else:
            yield "degree of its slab moments", str(certificate.degree)
        if certificate.opt.tau is not None:
            yield "share of tau for L", number(certificate.opt.tau)
        yield "digest of every row", certificate.digest or ABSENT
    yield "seed", seed_words(result)
    yield f"tau, {say.TAU}", number(result.tau)
    versions = result.versions
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


def setting_table(result: Result) -> Table:
    settings = {} if result.run is None else result.run.settings
    rows = tuple((name, _setting(name, value)) for name, value in settings.items())
    return Table("Settings", ("setting", "value"), rows, words=("setting", "value"))


def _setting(name: str, value: object) -> str:
    if value is None:
        return ABSENT
    if name in SETTINGS and SETTINGS[name].is_size and isinstance(value, int):
        return show_size(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def seed_words(result: Result) -> str:
    return f"{result.seed}, drawn by the system" if result.seed_drawn else f"{result.seed}"
