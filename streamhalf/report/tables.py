"""Tables of testers, evidence, passes and facts, for the page and for the terminal alike."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from streamhalf.redact import plural
from streamhalf.report import codes, test_results
from streamhalf.report.codes import ABSENT
from streamhalf.report.features import class_words, speaking_of
from streamhalf.report.rejections import telling_evidence
from streamhalf.results import (
    CertificateRecord,
    CertifyResult,
    FitResult,
    Outcome,
    PassRecord,
    Role,
    TestResult,
    TransformRecord,
    TransformTrial,
    Verdict,
    worst_of,
)
from streamhalf.results import replace as replace_record

Cells: TypeAlias = Mapping[str, Callable[[Any], str]]
"""Columns of a table as data: a label, and how to write its cell for one record."""


@dataclass(frozen=True, slots=True)
class Table:
    """Formatted cells under a caption; the first cell of a row is its heading.

    Columns are numbers, aligned to the right, unless their label is among the words, which may
    break, or the names, which may not.
    """

    caption: str
    labels: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, caption: str, cells: Cells, records: Iterable[Any], **kinds: tuple[str, ...]
    ) -> Table:
        """A row for each record; `kinds` are the words and the names."""
        rows = tuple(tuple(write(one) for write in cells.values()) for one in records)
        return cls(caption, tuple(cells), rows, **kinds)

    @property
    def slug(self) -> str:
        """Its caption as the name of a file."""
        return "-".join(re.findall(r"[a-z0-9]+", self.caption.lower())) or "table"

    def csv(self) -> str:
        """The cells for a program: plain numbers, units in the heading, nothing where none is."""
        units = {i: _unit_of(row[i] for row in self.rows) for i in range(len(self.labels))}
        stream = io.StringIO()
        write = csv.writer(stream, lineterminator="\n").writerow
        write(f"{name} ({units[i]})" if units[i] else name for i, name in enumerate(self.labels))
        for row in self.rows:
            write(_bare(cell, units[i]) for i, cell in enumerate(row))
        return stream.getvalue()

    def kind(self, label: str) -> str | None:
        """What the stylesheet calls a column of numbers or of names."""
        if label in self.words:
            return None
        return "unbroken" if label in self.names else "number"


def _unit_of(cells: Iterable[str]) -> str:
    """The sign that every number of a column ends with."""
    given = {cell[-1:] for cell in cells if cell not in ("", ABSENT)}
    return next((sign for sign in ("%", "°") if given == {sign}), "")


def _bare(cell: str, unit: str) -> str:
    bare = cell.removesuffix(unit).strip()
    if bare == ABSENT:
        return ""
    return bare.replace(",", "") if re.fullmatch(r"-?\d{1,3}(,\d{3})+", bare) else bare


_TEST_RESULT: Cells = {
    "tester": lambda one: one.tester,
    "pass": lambda one: one.pass_name,
    "outcome": lambda one: test_results.outcome_words(one),
    "statistic": lambda one: codes.number(one.statistic),
    "limit": lambda one: codes.number(one.limit),
    "chance alone": lambda one: codes.number(one.null_quantile),
    "rows": lambda one: codes.count(one.n_rows),
    "rows seen": lambda one: codes.count(one.n_rows),
    "rows needed": lambda one: codes.count(one.rows_needed),
    "worst": lambda one: codes.evidence_name(one.evidence[0]) if one.evidence else ABSENT,
    "remark": lambda one: test_results.remark_words(one) or ABSENT,
}
_EVIDENCE: Cells = {
    "quantity": codes.evidence_name,
    "observed": lambda one: codes.number(one.observed),
    "expected": lambda one: codes.number(one.expected),
    "deviation": lambda one: codes.number(one.deviation),
    "limit": lambda one: codes.number(one.limit),
}
_PROMISE: Cells = {
    "scale delta": lambda one: codes.number(one.delta),
    "eps": lambda one: codes.number(one.eps),
    "quadratics off by less than": lambda one: codes.number(one.deviation),
    "slab masses off by less than": lambda one: codes.number(one.masses_off),
    "constant C": lambda one: ABSENT if one.constant is None else codes.constant(one.constant),
}
_PASS: Cells = {
    "pass": lambda one: one.name,
    "rows read": lambda one: codes.count(one.rows_read),
    "rows used": lambda one: codes.count(one.rows_accepted),
    "bytes read": lambda one: codes.nbytes(one.bytes_read),
    "time": lambda one: codes.seconds(one.seconds),
}

_MOVED: Cells = {
    "over the network": lambda one: codes.nbytes(one.bytes_moved),
    "requests": lambda one: codes.count(one.requests),
}


def result_table(caption: str, judged: Iterable[TestResult], *labels: str) -> Table:
    """What is asked for of every test_result."""
    cells = {label: _TEST_RESULT[label] for label in labels}
    words = ("outcome", "worst", "remark")
    return Table.of(caption, cells, judged, words=words, names=("tester", "pass"))


def lacking_table(result: FitResult) -> Table:
    """The testers that left an inconclusive run without an answer."""
    open_ones = (Verdict.INCONCLUSIVE, Verdict.CERTIFIED)
    asked = result.testers if result.verdict in open_ones else ()
    lacking = [
        one
        for one in asked
        if (one.has_say and one.outcome is Outcome.INCONCLUSIVE)
        or (one.role is Role.REFINEMENT and one.rows_needed is not None)
    ]
    labels = ("tester", "rows seen", "rows needed")
    return result_table("Testers that could not tell", lacking, *labels)


def tester_summary(judged: tuple[TestResult, ...]) -> Table:
    """One row for each tester: how often which outcome, and its worst word; no early warnings."""
    found = by_tester(test_results.deciding(judged))
    rows = tuple(_summary_row(name, own) for name, own in found.items())
    labels = ("tester", "outcomes", "worst", "limit", "in pass")
    return Table("Testers", labels, rows, words=("tester", "outcomes"), names=("in pass",))


def tester_details(judged: tuple[TestResult, ...]) -> tuple[Table, ...]:
    """Every test_result, one table for each tester."""
    labels = ("pass", "outcome", "statistic", "limit", "chance alone", "rows", "worst", "remark")
    found = []
    for name, own in by_tester(judged).items():
        caption = (
            f"{name}: {plural(len(own), 'test_result')}. {test_results.question(name)}".strip()
        )
        found.append(result_table(caption, own, *labels))
    return tuple(found)


def by_tester(judged: Iterable[TestResult]) -> dict[str, list[TestResult]]:
    """The test_results of each tester, by its name."""
    found: dict[str, list[TestResult]] = {}
    for one in judged:
        found.setdefault(one.tester, []).append(one)
    return found


def _summary_row(name: str, own: list[TestResult]) -> tuple[str, ...]:
    words = test_results.outcome_counts(own)
    if (found := worst_of(own)) is None:
        return (name, words, ABSENT, ABSENT, ABSENT)
    return (name, words, codes.number(found.statistic), codes.number(found.limit), found.pass_name)


def evidence_table(test_result: TestResult) -> Table:
    """Every quantity that a tester names, against what a Gaussian has."""
    caption = f"Evidence of tester {test_result.tester}"
    return Table.of(caption, _EVIDENCE, test_result.evidence, words=("quantity",))


def transform_table(result: FitResult) -> Table:
    """What was said of each transform, and what speaks most against it; empty if one was given."""
    labels = ("transform", "outcome", "judged by", "strongest evidence")
    rows = tuple(
        (
            f"{one.kind}, taken" if one.kind == result.transform.kind else str(one.kind),
            _trial_outcome(one),
            "held-out rows" if one.tried else "a sample",
            _problem(result, one) or _strongest(result, one),
        )
        for one in result.transforms
    )
    return Table("Positions", labels, rows, words=labels[2:], names=labels[:2])


def _problem(result: FitResult, trial: TransformTrial) -> str:
    """Why there is no such transform, features by their names."""
    if not trial.features:
        return trial.problem
    names = codes.named([result.data.feature_names[j] for j in trial.features])
    if trial.constant:
        them = "it" if len(trial.features) == 1 else "them"
        return f"constant there: {names}; remove {them} if that holds of all rows"
    return f"{names} tell the same there, or hardly vary; remove one of them"


def _trial_outcome(trial: TransformTrial) -> str:
    if trial.problem and trial.outcome is Outcome.REJECTED:
        return "impossible"
    return str(trial.outcome if trial.evidence else Outcome.NOT_JUDGED)


def _strongest(result: FitResult, trial: TransformTrial) -> str:
    first = None if trial.evidence is None else telling_evidence(trial.evidence)
    if trial.outcome is Outcome.PASSED or first is None:
        return ABSENT
    own = result.transform if trial.kind == result.transform.kind else TransformRecord(trial.kind)
    with speaking_of(replace_record(result, transform=own)):
        name = codes.evidence_name(first)
    return f"{name}: {codes.number(first.observed)}, a Gaussian has {codes.number(first.expected)}"


def pass_table(passes: tuple[PassRecord, ...]) -> Table:
    """What each pass read and took, and all of them together."""
    moved = sum(one.bytes_moved for one in passes), sum(one.requests for one in passes)
    far = any(moved)
    table = Table.of("Passes", {**_PASS, **(_MOVED if far else {})}, passes, names=("pass",))
    if not passes:
        return table
    read, size = sum(one.rows_read for one in passes), sum(one.bytes_read for one in passes)
    time = codes.seconds(sum(one.seconds for one in passes))
    last = ("all", codes.count(read), ABSENT, codes.nbytes(size), time)
    sums = (codes.nbytes(moved[0]), codes.count(moved[1])) if far else ()
    return replace(table, rows=(*table.rows, (*last, *sums)))


def promise_table(result: FitResult) -> Table:
    """Which constant the tests support at which scale, and what that comes to."""
    table = Table.of("Which constant at which scale", _PROMISE, result.promises)
    error = result.error.empirical if result.error else math.nan
    bounds = (
        math.nan if one.constant is None else one.constant * error + one.eps
        for one in result.promises
    )
    rows = zip(table.rows, map(codes.percent, bounds), strict=True)
    return replace(
        table,
        labels=(*table.labels, "C · held-out error + eps"),
        rows=tuple((*row, bound) for row, bound in rows),
    )


def label_table(result: FitResult | CertifyResult) -> Table:
    """Errors by label, of both alike (balanced), and of the constant guess; empty if not known."""
    labels = ("label", "rows", "wrong", "share")
    found = None if result.error is None else result.error.by_label
    if found is None:
        return Table("By label", labels, (), words=labels[:1])
    rows, errors = (found.positive, found.negative), (found.positive_errors, found.negative_errors)
    rates = tuple(e / n if n else math.nan for e, n in zip(errors, rows, strict=True))
    low, high = result.data.label_names
    lines = (
        *zip((high, low), rows, errors, rates, strict=True),
        ("both", sum(rows), sum(errors), sum(errors) / max(1, sum(rows))),
        ("balanced (mean of the two)", None, None, sum(rates) / 2),
        (
            f"always guessing {high if found.guess > 0 else low}",
            sum(rows),
            min(rows),
            found.guess_error,
        ),
    )
    cells = tuple(
        (name, codes.count(n), codes.count(wrong), codes.percent(share))
        for name, n, wrong, share in lines
    )
    return Table("By label", labels, cells, words=labels[:1])


def bound_table(certificate: CertificateRecord) -> Table:
    """L for every class of halfspaces that was looked at, the one that is claimed first."""
    found = {one.through: one for one in (certificate.opt, *certificate.bounds)}
    cells: Cells = {
        "halfspaces": lambda one: class_words(one.through, certificate),
        "L on these rows": lambda one: codes.percent(one.lower_empirical),
        "L on their source": lambda one: codes.percent(one.lower),
    }
    return Table.of("Lower bounds by class", cells, found.values(), words=("halfspaces",))
