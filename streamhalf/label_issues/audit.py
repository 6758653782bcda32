"""Label issues of a data set by one halfspace, and beside it by another model: the surest first.

A misclassified row that every halfspace within the tested angle and shift of threshold gets wrong
is `agreed`: no choice among those that the tests cannot tell apart makes its label right.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.algorithms.row_split import pilot
from streamhalf.config import TOP, draw_seed
from streamhalf.data.block import Block, RowRange, RowRanges
from streamhalf.data.probabilities import Probabilities
from streamhalf.data.row_files import open_rows, renamed
from streamhalf.data.source import Source
from streamhalf.data.suspects import SuspectTable, Writer, column_names, open_suspects
from streamhalf.data.transforms import find_varying
from streamhalf.engine.memory import partial_limit
from streamhalf.engine.run import Run
from streamhalf.errors import UsageError
from streamhalf.kernels.plane import are_wrong
from streamhalf.kernels.streams import Stream
from streamhalf.kernels.turns import Turns
from streamhalf.label_issues.proofs import find_sets
from streamhalf.label_issues.reviews import REVIEW_COLUMNS, review_columns
from streamhalf.label_issues.second_look import look_again
from streamhalf.label_issues.where import gatherings
from streamhalf.reductions.covariance import FeatureMoments
from streamhalf.reductions.margin_counts import MarginCounts, bin_centres
from streamhalf.reductions.review_sample import ReviewSample, share_out
from streamhalf.reductions.rows import RowSample
from streamhalf.reductions.suspects import ROW, OtherModel, SuspectList, Suspects, SuspectsPartial
from streamhalf.reductions.value_counts import quantile_edges
from streamhalf.results import (
    AuditResult,
    CalibrationRecord,
    ConflictSets,
    FitResult,
    Gathering,
    Halfspace,
    HalfspaceClass,
    Outcome,
    PassRecord,
    Segment,
    Suspect,
    TransformRecord,
    Verdict,
    Versions,
)
from streamhalf.testers.wedge import WedgeTester

if TYPE_CHECKING:
    import pandas as pd

STANDARDISED = "standardised"
"""Every feature about its mean, by its spread: where no transform of a fit says what is far.

So it is for models without a run, and for runs that were left with the rows as they are stored and
no proof: in raw units the feature with the largest numbers would rank alone."""

MOST_RECORDED = 100
"""Suspects in the record; the others are in the table."""

_SAMPLE_ROWS = 65_536
_COMPARED_ROWS, _COMPARED_KEPT = 1 << 18, 1 << 16
"""Rows that issues are compared with, by feature and by columns of the user."""

_SMALL = 4
"""A partial takes one part in so many of what it may."""

_MOST_DRAWN = 100_000
"""Rows of a review, and sets in conflict."""

_PROOF_ROWS = 1 << 15
"""Rows among which sets in conflict are looked for."""

_MOST_AT_ONCE = 1 << 20
"""Suspects that are on their way to a file."""


@dataclass(frozen=True, slots=True, eq=False)
class Audited:
    """Result of `audit`: its record, and the rows that it lists.

    `suspects` is None where all of them went to a file; `conflicts` are there if asked for.
    """

    result: AuditResult
    suspects: SuspectTable | None
    conflicts: ConflictSets | None = None

    def to_frame(self) -> pd.DataFrame:
        """Return the listed rows as a data frame, columns named as cleanlab names them."""
        if self.suspects is None:
            raise UsageError(f"suspects: all of them are in {self.result.out}; read that file, or give `top`")
        return self.suspects.to_frame()

    def __repr__(self) -> str:
        return repr(self.result)

    def _repr_html_(self) -> str:
        from streamhalf.report.notebook import audit_html  # for notebooks alone

        return audit_html(self.result)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRequest:
    """Selection of rows for an audit to list.

    Parameters
    ----------
    top
        Rows to list, the surest first; None: all, in the order of the rows.
    misclassified
        List every misclassified row, not label issues alone.
    review
        Rows to draw for a review instead of a list; 0: none.
    proofs
        Sets of rows in conflict to look for, at most.
    keep
        Columns of the data to show beside the rows.
    """

    top: int | None = TOP
    misclassified: bool = False
    review: int = 0
    proofs: int = 0
    keep: tuple[str, ...] = ()

    def check(self, out: str | os.PathLike[str] | None) -> None:
        """Refuse what cannot be done, before any row is read."""
        if own := {*column_names(beside=True), *REVIEW_COLUMNS} & {*self.keep}:
            raise UsageError(f"keep: {sorted(own)[0]!r} is a column of the list itself; rename yours, or leave it out")
        if self.keep and out is not None and os.fspath(out).rstrip("/").lower().endswith(".zarr"):
            raise UsageError("keep: columns go to files alone; let out end in .csv or .parquet")
        if self.top is not None and self.top < 1:
            raise UsageError(f"top: {self.top} given; list 1 row at least, or all (None, --all)")
        for name in ("review", "proofs"):
            if not 0 <= getattr(self, name) <= _MOST_DRAWN:
                raise UsageError(f"{name}: {getattr(self, name)} given; must be between 0 and {_MOST_DRAWN:,}")
        if self.review and (out is None or not os.fspath(out).lower().endswith(".csv")):
            raise UsageError("review: needs a file for the rows that ends in .csv; give out")


@dataclass(frozen=True, slots=True, eq=False)
class Audit:
    """The audit of one data set by one halfspace.

    Parameters
    ----------
    run, source
        Run and data.
    halfspace
        Of the stored rows.
    request
        Rows to list.
    fitted
        The fit that the halfspace is of, for its transform, calibration and tested angle.
    probabilities
        Probabilities of label +1 by another model, one for each row.
    """

    run: Run
    source: Source
    halfspace: Halfspace
    request: AuditRequest
    fitted: FitResult | None = None
    probabilities: Probabilities | None = None

    def write(
        self,
        out: str | os.PathLike[str] | None,
        *,
        storage_options: Mapping[str, Any] | None = None,
        overwrite: bool = False,
    ) -> Audited:
        """Return what was found, and write rows to `out`, if any."""
        if self.request.review and out is not None:
            result, columns = self.draw_review()
            with renamed(Path(out).resolve()) as temporary, open_rows(temporary, columns) as file:
                file.append(columns)
            return Audited(result, None)
        marks = {
            "fingerprint": self.source.fingerprint,
            "rows": self.source.n_rows,
            "ranked": self.request.top is not None,
        }
        opened: AbstractContextManager[Writer | None] = nullcontext()
        if out is not None:
            opened = open_suspects(
                out,
                marks,
                classes=np.asarray(self.source.schema.label_values),
                storage_options=storage_options,
                overwrite=overwrite,
                beside=self.probabilities is not None,
                kept=self.source.kept_columns(np.empty(0, np.int64), self.request.keep),
            )
        with opened as writer:
            streams = self.request.top is None and writer is not None
            found = self.list(writer.append if streams and writer is not None else None)
            if writer is not None and found.suspects is not None:
                writer.append(found.suspects)
        return replace(found, conflicts=self.find_conflicts()) if self.request.proofs else found

    def find_conflicts(self) -> ConflictSets:
        """Return sets of rows that no halfspace gets right, of a sample of the data."""
        drawn: Any = self.run.reduce("proofs", self.source, RowSample(_PROOF_ROWS, draw_seed(), Stream.CONFLICT_SAMPLE))
        plane = self.halfspace.plane.unit()
        margins = plane.margins(drawn.block.X)
        wrong = np.flatnonzero(are_wrong(margins, drawn.block.y))
        surest = wrong[np.argsort(-np.abs(margins[wrong]), kind="stable")]
        sets = find_sets(drawn.block, surest.tolist(), margins, self.request.proofs)
        return ConflictSets(data=self.source.record, sets=sets, versions=Versions.current())

    def list(self, take: Callable[[SuspectTable], None] | None) -> Audited:
        """Return the listed rows, or hand them over where `take` is given."""
        suspects = self._suspects()
        if self.request.top is None:
            tables: list[SuspectTable] = []
            result = self._streamed(suspects, tables.append if take is None else take)
            return Audited(result, SuspectTable.joined(tables) if take is None else None)
        limit = min(self.request.top, self.source.n_rows)
        suspects = replace(suspects, limit=limit)
        found = self._pass(suspects, self.source.blocks)
        table = self._table(found.listed).ranked()
        if take is not None:
            take(table)
        return Audited(self._result(suspects, found, table), table)

    def draw_review(self) -> tuple[AuditResult, dict[str, NDArray[Any]]]:
        """Return counts and a table of rows for a reviewer, drawn by stratum."""
        suspects = replace(self._suspects(), limit=min(TOP, self.source.n_rows))
        found = self._pass(suspects, self.source.blocks)
        table = self._table(found.listed).ranked()
        middle = found.listed.taken["suspicion"]
        cut = float(np.median(middle)) if len(middle) else math.inf
        issues, rest = found.n_issues, found.n_wrong
        sizes = (issues // 2, issues - issues // 2, max(rest - issues, 0), found.n_rows - rest)
        shared = share_out(min(self.request.review, self.source.n_rows), sizes)
        numbers = tuple(max(1, one) for one in shared)  # a stratum without a row in the file would be forgotten
        sample = ReviewSample(suspects, cut, numbers, draw_seed(), Stream.REVIEW)
        drawn = self.run.reduce("review", self.source, sample, blocks=self.source.blocks)
        result = self._result(suspects, found, table)
        return result, review_columns(drawn, self.source, self.request.keep)

    def _streamed(self, suspects: Suspects, take: Callable[[SuspectTable], None]) -> AuditResult:
        """Hand over all suspects in the order of rows, some at a time.

        A segment of rows that holds more than there is room for is read again in halves.
        """
        room, start = _room(self.run.split_every), 0
        total, suspects = replace(suspects, limit=MOST_RECORDED), replace(suspects, limit=room)
        counted = total.empty(self.source.dim)
        step = room
        while start < self.source.n_rows:
            rows = RowRange(start, self._stop(start, step))
            found = self._pass(suspects, RowRanges.of((rows,)))
            if found.n_listed > room:
                step = rows.n_rows // 2
                continue
            take(self._table(found.listed))
            counted, start = total.combine(counted, found), rows.stop
            # twice as much room as is wanted
            step = max(room, room * counted.n_rows // (2 * max(1, counted.n_listed)))
        return self._result(suspects, counted, self._table(counted.listed).ranked())

    def _suspects(self) -> Suspects:
        """Return the statistic, with calibrated curves: of the fit, or of a first pass."""
        plane = self.halfspace.plane.unit()
        own = None if self.fitted is None else self.fitted.calibration
        other: OtherModel | None = None
        if own is None or self.probabilities is not None:
            planes = (plane,) if own is None else ()
            counts = MarginCounts(planes, self.probabilities)
            found: Any = self.run.reduce("calibration", self.source, counts)
            centres = bin_centres()
            curves = [CalibrationRecord.of(one, centres, held_out=False) for one in found.counts]
            own = curves[0] if own is None else own
            if self.probabilities is not None and curves[-1] is not None:
                other = OtherModel(self.probabilities, curves[-1])
        sample = self._sample()
        trusted = self.fitted is not None and self.fitted.verdict is Verdict.ACCEPTED and self._is_of_these_rows
        second = None if own is None or trusted else look_again(sample, plane, own)
        return Suspects(
            self._turns(sample),
            own,
            self.source.n_rows,
            1,
            self.request.misclassified,
            other,
            second,
            quantile_edges(sample.X.astype(np.float64)),
            min(1.0, _COMPARED_ROWS / self.source.n_rows),
            draw_seed(),
        )

    @property
    def _is_of_these_rows(self) -> bool:
        return self.fitted is not None and self.fitted.data.fingerprint == self.source.fingerprint

    def _gatherings(self, found: SuspectsPartial, first: SuspectTable) -> tuple[Gathering, ...]:
        """Return where issues gather: all of them by feature, listed ones by columns of the user."""
        n_rows, kept = self.source.n_rows, {}
        if self.request.keep:
            some = np.arange(n_rows)
            if n_rows > _COMPARED_KEPT:
                some = np.sort(np.random.default_rng(draw_seed()).choice(n_rows, _COMPARED_KEPT, replace=False))
            issues = np.asarray(first.column("is_label_issue"))
            kept = {
                name: (np.asarray(first.kept[name])[issues], np.asarray(values))
                for name, values in self.source.kept_columns(some, self.request.keep).items()
            }
        return gatherings(found, self.source.feature_names, kept)

    def _sample(self) -> Block:
        """Return rows from all over the data, in memory."""
        room = partial_limit(self.run.split_every) // (8 * (self.source.dim + 3))
        some = pilot(self.source.n_rows, min(_SAMPLE_ROWS, room), seed=0)
        drawn: Any = self.run.reduce("sample", self.source, RowSample(some.n_rows, 0, Stream.AUDIT_SAMPLE), blocks=some)
        block: Block = drawn.block
        return block

    def _pass(self, suspects: Suspects, rows: RowRanges) -> SuspectsPartial:
        found: SuspectsPartial = self.run.reduce("audit", self.source, suspects, blocks=rows)
        return found

    def _stop(self, start: int, step: int) -> int:
        """Where so many rows from `start` on end, at the end of a block if there is one."""
        stop = min(start + step, self.source.n_rows)
        ends = self.source.blocks.bounds[:, 1]
        within = int(np.searchsorted(ends, stop, side="right"))
        return int(ends[within - 1]) if within and ends[within - 1] > start else stop

    def _turns(self, sample: Block) -> Turns:
        """Angles in the transform of the fit; without one, of standardised features."""
        plane, dim = self.halfspace.plane, self.source.dim
        if self.fitted is None or self._position == STANDARDISED:
            found = FeatureMoments().map(sample)
            scale = np.divide(1.0, found.deviation, out=np.zeros(dim), where=find_varying(found.mean, found.deviation))
            return Turns.of(plane, found.mean, scale)
        record = self.fitted.transform
        if not record.matrix:
            turns = Turns.of(plane, np.zeros(dim), np.ones(dim))
        else:
            turns = Turns.of(plane, np.array(record.centre), np.array(record.matrix))
        if (tested := tested_around(self.fitted)) is None:
            return turns
        angle, shift = tested
        compete = _has_threshold(self.fitted, self.halfspace, record)
        return replace(turns, angle=angle, shift=shift if compete else 0.0)

    @property
    def _position(self) -> str:
        fitted = self.fitted
        if fitted is None or (not fitted.transform.matrix and tested_around(fitted) is None):
            return STANDARDISED
        return fitted.transform.kind

    def _table(self, listed: SuspectList) -> SuspectTable:
        """Return listed rows under the numbers that they have in the stored data."""
        rows, classes = listed.taken.copy(), np.asarray(self.source.schema.label_values)
        kept = self.source.kept_columns(rows["row"], self.request.keep)
        rows["row"] = self.source.stored_numbers(rows["row"])
        return SuspectTable(rows, classes, self.probabilities is not None, kept)

    def _result(self, suspects: Suspects, found: SuspectsPartial, first: SuspectTable) -> AuditResult:
        negative, positive = found.wrong_by_label.tolist()
        issues_negative, issues_positive = found.issues_by_label.tolist()
        ranked = self.request.top is not None
        return AuditResult(
            halfspace=self.halfspace,
            transform=self._position,
            angle=suspects.turns.angle,
            threshold_shift=suspects.turns.shift,
            n_wrong=found.n_wrong,
            n_agreed=found.n_agreed,
            n_wrong_negative=negative,
            n_wrong_positive=positive,
            n_issues=found.n_issues,
            n_issues_negative=issues_negative,
            n_issues_positive=issues_positive,
            n_listed=len(first) if ranked else found.n_listed,
            least_wrong=_least_wrong(self.fitted, self.source),
            ranked=ranked,
            misclassified=self.request.misclassified,
            calibration=suspects.calibration,
            other_calibration=None if suspects.other is None else suspects.other.calibration,
            columns=self.request.keep,
            suspects=_listed(first.take(slice(MOST_RECORDED))),
            segments=_segments(found),
            gatherings=self._gatherings(found, first),
            passes=_together(self.run.passes),
            data=self.source.record,
            versions=Versions.current(),
            notices=self.source.notices,
        )


def _least_wrong(fitted: FitResult | None, source: Source) -> int | None:
    """Return how many labels every halfspace contradicts, by a certificate of these rows."""
    if fitted is None or (certificate := fitted.certificate) is None:
        return None
    same = fitted.data.fingerprint == source.fingerprint and certificate.n_rows == source.n_rows
    if not same or certificate.opt.through is not HalfspaceClass.ANY:
        return None
    return math.ceil(certificate.opt.lower_empirical * source.n_rows - 1e-6)


def held_by_audit(request: AuditRequest, n_rows: int, split_every: int) -> int:
    """Return what the partials of an audit take in a task."""
    limit = _room(split_every) if request.top is None else min(request.top, n_rows)
    return (split_every + 2) * ROW.itemsize * limit


def _room(split_every: int) -> int:
    room = partial_limit(split_every) // (_SMALL * ROW.itemsize)
    return max(MOST_RECORDED, min(_MOST_AT_ONCE, room))


def tested_around(result: FitResult) -> tuple[float, float] | None:
    """Angle and shift of threshold about the halfspace that hold all a passed wedge test speaks of.

    The test is that of the halfspace itself, or of the candidate nearest to it where it comes from
    elsewhere and has none: then halfspaces within eta of that candidate lie within eta and the
    angle between the two. The wedge test may speak of finer scales than those of all steps, which
    `eps` is: the coarser one counts, for halfspaces that the steps cannot tell apart lie that far
    from each other. None: no such test passed, or the angle is a right one or more.
    """
    wedges = [one for one in result.testers if one.tester == WedgeTester.name]
    wedges = [one for one in wedges if one.candidate == result.chosen] or wedges
    found = []
    for one in wedges:
        eta = max(one.scale or 0.0, result.eps)
        if one.outcome is Outcome.PASSED and one.candidate is not None and 0 < eta < 1:
            tested, own = result.candidates[one.candidate], result.candidates[result.chosen or 0]
            # the test bounds t' / cos(angle), at most eta from t; 1 - cos(angle) is eta² / 2
            shift = eta + abs(tested.threshold) * eta**2 / 2
            shift += abs(tested.threshold - own.threshold)
            found.append((2 * math.asin(eta / 2) + tested.angle, shift))
    nearest = min(found, default=(math.inf, 0.0))
    return nearest if nearest[0] < math.pi / 2 else None


def _has_threshold(result: FitResult, halfspace: Halfspace, transform: TransformRecord) -> bool:
    through = transform.class_of(halfspace) if result.error is None else result.error.through
    return HalfspaceClass.ANY in (through, transform.class_of(halfspace))


def _listed(table: SuspectTable) -> tuple[Suspect, ...]:
    names = column_names(beside=table.beside)
    columns = [table.column(name).tolist() for name in names]
    kept = [[_plain(one) for one in values.tolist()] for values in table.kept.values()]
    values = zip(*kept, strict=True) if kept else itertools.repeat((), len(table))
    return tuple(
        Suspect(**dict(zip(names, row, strict=True)), values=own) for *row, own in zip(*columns, values, strict=True)
    )


def _plain(value: Any) -> bool | int | float | str | None:
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)


def _segments(found: SuspectsPartial) -> tuple[Segment, ...]:
    stops = np.cumsum(found.segment_rows)
    counts = (found.segment_wrong, found.segment_agreed, found.segment_issues)
    columns = (one.tolist() for one in (stops - found.segment_rows, stops, *counts))
    return tuple(Segment(*row) for row in zip(*columns, strict=True))


def _together(passes: list[PassRecord]) -> tuple[PassRecord, ...]:
    """Passes of one name as one."""
    found: dict[str, PassRecord] = {}
    for one in passes:
        before = found.get(one.name, PassRecord(one.name, 0, 0, 0, 0.0))
        found[one.name] = PassRecord(
            one.name,
            before.rows_read + one.rows_read,
            before.bytes_read + one.bytes_read,
            before.rows_accepted + one.rows_accepted,
            before.seconds + one.seconds,
            before.bytes_moved + one.bytes_moved,
            before.requests + one.requests,
        )
    return tuple(found.values())
