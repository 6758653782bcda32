"""Which labels look tampered with: the rows that a halfspace gets wrong, furthest first.

A wrong row that every halfspace within the tested angle and shift of threshold gets wrong is
`agreed`: no choice among those that the tests cannot tell apart makes its label right.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streamhalf.algorithms.row_split import pilot
from streamhalf.data.block import RowRange, RowRanges
from streamhalf.data.source import Source
from streamhalf.data.suspects import SuspectTable
from streamhalf.data.transforms.isotropic import find_varying
from streamhalf.engine.memory import partial_limit
from streamhalf.engine.run import Run
from streamhalf.kernels.turns import Turns
from streamhalf.reductions.covariance import FeatureMoments, FeatureMomentsPartial
from streamhalf.reductions.row_view import Bundle
from streamhalf.reductions.suspects import ROW_NBYTES, SuspectList, Suspects, SuspectsPartial
from streamhalf.results import (
    AuditResult,
    FeatureShift,
    FitResult,
    Halfspace,
    HalfspaceClass,
    Outcome,
    PassRecord,
    Segment,
    Suspect,
    TransformRecord,
    Versions,
)
from streamhalf.testers.wedge import WedgeTester

STANDARDISED = "standardised"
"""Every feature about its mean, by its spread: where no transform of a fit says what is far.

So it is for models without a run, and for runs that were left with the rows as they are stored and
no proof: in raw units the feature with the largest numbers would rank alone."""

MOST_RECORDED = 100
"""Suspects in the record; the others are in the table."""

_PILOT_ROWS = 65_536
_MOMENT_ROWS = 1 << 18
_SMALL = 4
"""A partial takes one part in so many of what it may."""

_MOST_AT_ONCE = 1 << 20
"""Suspects that are on their way to a file."""


@dataclass(frozen=True, slots=True, eq=False)
class Audit:
    """The audit of one data set by one halfspace.

    Parameters
    ----------
    run, source
        Where and on what.
    halfspace
        Of the stored rows.
    fitted
        The fit that it is of, for its transform and the angle that was tested.
    """

    run: Run
    source: Source
    halfspace: Halfspace
    fitted: FitResult | None = None

    def ranked(self, top: int) -> tuple[AuditResult, SuspectTable]:
        """The `top` suspects, most suspicious first, from one pass."""
        turns, limit = self._turns(), min(top, self.source.n_rows)
        suspects, moments = self._pass(turns, limit, self.source.blocks)
        table = self._table(suspects.listed).ranked()
        return self._result(turns, suspects, moments, table, ranked=True), table

    def streamed(self, take: Callable[[SuspectTable], None]) -> AuditResult:
        """Hand over all suspects in the order of rows, some at a time; returns the counts.

        A segment of rows that holds more than there is room for is gone through again in halves.
        """
        turns, room, start = self._turns(), _room(self.run.split_every), 0
        total = Suspects(turns, self.source.n_rows, MOST_RECORDED)
        counted, seen = total.empty(self.source.dim), FeatureMoments().empty(self.source.dim)
        step = room
        while start < self.source.n_rows:
            rows = RowRange(start, self._stop(start, step))
            suspects, moments = self._pass(turns, room, RowRanges.of((rows,)))
            if suspects.n_wrong > room:
                step = rows.n_rows // 2
                continue
            take(self._table(suspects.listed))
            counted, start = total.combine(counted, suspects), rows.stop
            seen = FeatureMoments().combine(seen, moments)
            # twice as much room as is wanted
            step = max(room, room * counted.n_rows // (2 * max(1, counted.n_wrong)))
        first = self._table(counted.listed).ranked()
        return self._result(turns, counted, seen, first, ranked=False)

    def _pass(
        self, turns: Turns, limit: int, rows: RowRanges
    ) -> tuple[SuspectsPartial, FeatureMomentsPartial]:
        suspects = Suspects(turns, self.source.n_rows, limit)
        moments = FeatureMoments(every=max(1, self.source.n_rows // _MOMENT_ROWS))
        found: Any = self.run.reduce("audit", self.source, Bundle((suspects, moments)), blocks=rows)
        return found[0], found[1]

    def _stop(self, start: int, step: int) -> int:
        """Where so many rows from `start` on end, at the end of a block if there is one."""
        stop = min(start + step, self.source.n_rows)
        ends = self.source.blocks.bounds[:, 1]
        within = int(np.searchsorted(ends, stop, side="right"))
        return int(ends[within - 1]) if within and ends[within - 1] > start else stop

    def _turns(self) -> Turns:
        """Angles in the transform of the fit; without one, of standardised features."""
        plane, dim = self.halfspace.plane, self.source.dim
        if self.fitted is None or self._position == STANDARDISED:
            some = pilot(self.source.n_rows, _PILOT_ROWS, seed=0)
            found = self.run.reduce("pilot", self.source, FeatureMoments(), blocks=some)
            spread = found.deviation
            varies = find_varying(found.mean, spread)
            scale = np.divide(1.0, spread, out=np.zeros(dim), where=varies)
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
        """Where angles are measured."""
        fitted = self.fitted
        if fitted is None or (not fitted.transform.matrix and tested_around(fitted) is None):
            return STANDARDISED
        return fitted.transform.kind

    def _table(self, listed: SuspectList) -> SuspectTable:
        kept = slice(listed.count)
        classes = np.asarray(self.source.schema.label_values)
        return SuspectTable(
            listed.rows[kept],
            listed.labels[kept],
            listed.margins[kept],
            listed.agreed[kept],
            classes,
        )

    def _result(
        self,
        turns: Turns,
        suspects: SuspectsPartial,
        moments: FeatureMomentsPartial,
        first: SuspectTable,
        *,
        ranked: bool,
    ) -> AuditResult:
        negative, positive = suspects.wrong_by_label.tolist()
        return AuditResult(
            halfspace=self.halfspace,
            transform=self._position,
            angle=turns.angle,
            threshold_shift=turns.shift,
            n_wrong=suspects.n_wrong,
            n_agreed=suspects.n_agreed,
            n_wrong_negative=negative,
            n_wrong_positive=positive,
            n_listed=len(first) if ranked else suspects.n_wrong,
            ranked=ranked,
            suspects=_suspects(first.take(slice(MOST_RECORDED))),
            segments=_segments(suspects),
            features=_shifts(self.source, suspects, moments),
            passes=_together(self.run.passes),
            data=self.source.record,
            versions=Versions.current(),
            notices=self.source.notices,
        )


def held_by_audit(top: int | None, n_rows: int, split_every: int) -> int:
    """What the partials of an audit of so many suspects take in a task."""
    limit = _room(split_every) if top is None else min(top, n_rows)
    return (split_every + 2) * ROW_NBYTES * limit


def _room(split_every: int) -> int:
    """Suspects that a partial may hold where all are listed."""
    room = partial_limit(split_every) // (_SMALL * ROW_NBYTES)
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
    """Whether the halfspaces that compete may have thresholds of their own."""
    through = transform.class_of(halfspace) if result.error is None else result.error.through
    return HalfspaceClass.ANY in (through, transform.class_of(halfspace))


def _suspects(table: SuspectTable) -> tuple[Suspect, ...]:
    names = ("row", "given_label", "predicted_label", "label_score", "margin", "agreed")
    columns = table.columns()
    rows = zip(*(columns[name].tolist() for name in names), strict=True)
    return tuple(Suspect(*row) for row in rows)


def _segments(suspects: SuspectsPartial) -> tuple[Segment, ...]:
    stops = np.cumsum(suspects.segment_rows)
    columns = (
        stops - suspects.segment_rows,
        stops,
        suspects.segment_wrong,
        suspects.segment_agreed,
    )
    return tuple(Segment(*row) for row in zip(*(one.tolist() for one in columns), strict=True))


def _shifts(
    source: Source, suspects: SuspectsPartial, moments: FeatureMomentsPartial
) -> tuple[FeatureShift, ...]:
    if suspects.n_wrong == 0:
        return ()
    means, spread = suspects.wrong_sums / suspects.n_wrong, moments.deviation
    away = means - moments.mean
    shifts = np.divide(away, spread, out=np.zeros_like(away), where=spread > 0)
    columns = (one.tolist() for one in (moments.mean, spread, means, shifts))
    rows = zip(source.feature_names, *columns, strict=True)
    return tuple(FeatureShift(*row) for row in rows)


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
