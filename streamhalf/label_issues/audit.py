"""Label issues of a data set by one halfspace, and beside it by another model: the surest first.

A misclassified row that every halfspace within the tested angle and shift of threshold gets wrong
is `agreed`: no choice among those that the tests cannot tell apart makes its label right.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.algorithms.baselines import is_short_of_rows, regress_rows
from streamhalf.algorithms.row_split import pilot
from streamhalf.config import TOP, draw_seed
from streamhalf.data.block import Block, RowRange, RowRanges
from streamhalf.data.probabilities import Probabilities
from streamhalf.data.row_files import SUSPECT_COLUMNS, SuspectTable, open_rows, open_suspects, renamed
from streamhalf.data.schema import distinct, is_rest
from streamhalf.data.source import Source
from streamhalf.data.transforms import find_varying
from streamhalf.engine.memory import partial_limit
from streamhalf.engine.run import Run
from streamhalf.errors import UsageError
from streamhalf.kernels.plane import Plane, Turns, are_wrong
from streamhalf.kernels.streams import Stream
from streamhalf.label_issues.proofs import find_sets
from streamhalf.label_issues.reviews import REVIEW_COLUMNS, review_columns
from streamhalf.label_issues.where import gatherings
from streamhalf.redact import plural
from streamhalf.reductions.margin_counts import MarginCounts, bin_centres, count_margins
from streamhalf.reductions.rows import RowSample
from streamhalf.reductions.spread import FeatureMoments
from streamhalf.reductions.suspects import (
    ROW,
    Listed,
    OtherModel,
    PlaneModel,
    ReviewSample,
    Suspects,
    SuspectsPartial,
    quantile_edges,
    share_out,
)
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
    Verdict,
    Versions,
)
from streamhalf.testers.wedge import WedgeTester

if TYPE_CHECKING:
    import pandas as pd

# Every feature about its mean, by its spread: where no transform of a fit says what is far. So it is for models
# without a run, and for runs that were left with the rows as they are stored and no proof: in raw units the feature
# with the largest numbers would rank alone.
STANDARDISED = "standardised"
MOST_RECORDED = 100  # Suspects in the record; the others are in the table
_SAMPLE_ROWS = 65_536
# Rows that issues are compared with, by feature and by columns of the user
_COMPARED_ROWS, _COMPARED_KEPT = 1 << 18, 1 << 16
_SMALL = 4  # A partial takes one part in so many of what it may
_MOST_DRAWN = 100_000  # Rows of a review, and sets in conflict
_PROOF_ROWS = 1 << 15  # Rows among which sets in conflict are looked for
_MOST_AT_ONCE = 1 << 20  # Suspects that are on their way to a file
_ROUNDS = 5  # Of the second look: chosen on the ten tables of `scripts/compare_audit --tables`


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
    """Rows for an audit to list, of the settings of `audit` with these names."""

    top: int | None = TOP
    misclassified: bool = False
    review: int = 0
    proofs: int = 0
    keep: tuple[str, ...] = ()

    def check(self, out: str | os.PathLike[str] | None) -> None:
        """Refuse what cannot be done, before any row is read."""
        place = "" if out is None else os.fspath(out).rstrip("/").lower()
        if own := {*SUSPECT_COLUMNS, *REVIEW_COLUMNS} & {*self.keep}:
            raise UsageError(f"keep: {sorted(own)[0]!r} is a column of the list itself; rename yours, or leave it out")
        if self.keep and place.endswith(".zarr"):
            raise UsageError("keep: columns go to files alone; let out end in .csv or .parquet")
        if self.top is not None and self.top < 1:
            raise UsageError(f"top: {self.top} given; list 1 row at least, or all (None, --all)")
        for name in ("review", "proofs"):
            if not 0 <= getattr(self, name) <= _MOST_DRAWN:
                raise UsageError(f"{name}: {getattr(self, name)} given; must be between 0 and {_MOST_DRAWN:,}")
        if self.review and not place.endswith(".csv"):
            raise UsageError("review: needs a file for the rows that ends in .csv; give out")


@dataclass(frozen=True, slots=True, eq=False)
class Audit:
    """The audit of one data set by one halfspace of its stored rows.

    `fitted` is the fit that the halfspace is of, for its transform, calibration and tested angle; `probabilities` are
    those of label +1 by another model, one for each row.
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
            result, columns = self._draw_review()
            with renamed(Path(out).resolve()) as temporary, open_rows(temporary, columns) as append:
                append(columns)
            return Audited(result, None)
        opened: AbstractContextManager[Callable[[SuspectTable], None] | None] = nullcontext()
        if out is not None:
            fingerprint, ranked = self.source.fingerprint, self.request.top is not None
            marks = {"fingerprint": fingerprint, "rows": self.source.n_rows, "ranked": ranked}
            empty = self._table(np.empty(0, ROW))
            opened = open_suspects(out, marks, empty, storage_options=storage_options, overwrite=overwrite)
        with opened as take:
            found = self._list_all(take) if self.request.top is None else self._list(self.request.top, take)
        return replace(found, conflicts=self._find_conflicts()) if self.request.proofs else found

    def _find_conflicts(self) -> ConflictSets:
        """Return sets of rows that no halfspace gets right, of a sample of the data."""
        drawn: Any = self.run.reduce("proofs", self.source, RowSample(_PROOF_ROWS, draw_seed(), Stream.CONFLICT_SAMPLE))
        margins = self.halfspace.plane.unit().margins(drawn.block.X)
        wrong = np.flatnonzero(are_wrong(margins, drawn.block.y))
        surest = wrong[np.argsort(-np.abs(margins[wrong]), kind="stable")]
        sets = find_sets(drawn.block, surest.tolist(), margins, self.request.proofs)
        return ConflictSets(data=self.source.record, sets=sets, versions=Versions.current())

    def _surest(self, limit: int) -> tuple[Suspects, SuspectsPartial, SuspectTable]:
        suspects = replace(self._suspects(), limit=min(limit, self.source.n_rows))
        found = self._pass(suspects, self.source.blocks)
        return suspects, found, self._table(found.listed.taken).ranked()

    def _list(self, top: int, take: Callable[[SuspectTable], None] | None) -> Audited:
        suspects, found, table = self._surest(top)
        if take is not None:
            take(table)
        return Audited(self._result(suspects, found, table), table)

    def _list_all(self, take: Callable[[SuspectTable], None] | None) -> Audited:
        """Hand over all suspects in the order of rows, some at a time; without `take`, return them.

        A segment of rows that holds more than there is room for is read again in halves.
        """
        gathered: list[SuspectTable] = []
        room, start = _room(self.run.split_every), 0
        suspects = replace(self._suspects(), limit=room)
        total = replace(suspects, limit=MOST_RECORDED)
        counted = total.empty(self.source.dim)
        step = room
        while start < self.source.n_rows:
            rows = RowRange(start, self._stop(start, step))
            found = self._pass(suspects, RowRanges.of((rows,)))
            if found.n_listed > room:
                step = rows.n_rows // 2
                continue
            (take or gathered.append)(self._table(found.listed.taken))
            counted, start = total.combine(counted, found), rows.stop
            # twice as much room as is wanted
            step = max(room, room * counted.n_rows // (2 * max(1, counted.n_listed)))
        result = self._result(total, counted, self._table(counted.listed.taken).ranked())
        return Audited(result, SuspectTable.joined(gathered) if take is None else None)

    def _draw_review(self) -> tuple[AuditResult, dict[str, NDArray[Any]]]:
        """Return counts and a table of rows for a reviewer, drawn by stratum."""
        suspects, found, table = self._surest(TOP)
        middle = found.listed.taken["suspicion"]
        cut = float(np.median(middle)) if len(middle) else math.inf
        issues, wrong = found.n_issues, found.n_wrong
        sizes = (issues // 2, issues - issues // 2, max(wrong - issues, 0), found.n_rows - wrong)
        shared = share_out(min(self.request.review, self.source.n_rows), sizes)
        numbers = tuple(max(1, one) for one in shared)  # a stratum without a row in the file would be forgotten
        sample = ReviewSample(suspects, cut, numbers, draw_seed(), Stream.REVIEW)
        drawn = self.run.reduce("review", self.source, sample, blocks=self.source.blocks)
        result = self._result(suspects, found, table)
        return result, review_columns(drawn, self.source, self.request.keep)

    def _suspects(self) -> Suspects:
        """Return the statistic, with calibrated curves: of the fit, or of a first pass."""
        plane, fitted = self.halfspace.plane.unit(), self.fitted
        own = None if fitted is None else fitted.calibration
        other: OtherModel | None = None
        if own is None or self.probabilities is not None:
            counts = MarginCounts((plane,) if own is None else (), self.probabilities)
            found: Any = self.run.reduce("calibration", self.source, counts)
            curves = [CalibrationRecord.of(one, bin_centres(), held_out=False) for one in found.counts]
            own = curves[0] if own is None else own
            if self.probabilities is not None and curves[-1] is not None:
                other = OtherModel(self.probabilities, curves[-1])
        sample = self._sample()
        trusted = fitted is not None and fitted.verdict is Verdict.ACCEPTED and self._is_of_these_rows(fitted)
        return Suspects(
            turns=self._turns(sample),
            calibration=own,
            total_rows=self.source.n_rows,
            limit=1,
            misclassified=self.request.misclassified,
            other=other,
            second=None if own is None or trusted else look_again(sample, plane, own),
            edges=quantile_edges(sample.X.astype(np.float64)),
            share=min(1.0, _COMPARED_ROWS / self.source.n_rows),
            seed=draw_seed(),
        )

    def _is_of_these_rows(self, fitted: FitResult) -> bool:
        return fitted.data.fingerprint == self.source.fingerprint

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
        if record.matrix:
            turns = Turns.of(plane, np.array(record.centre), np.array(record.matrix))
        else:
            turns = Turns.of(plane, np.zeros(dim), np.ones(dim))
        if (tested := tested_around(self.fitted)) is None:
            return turns
        own = record.class_of(self.halfspace)
        through = own if self.fitted.error is None else self.fitted.error.through
        # halfspaces of a class without thresholds compete by angle alone
        return replace(turns, angle=tested[0], shift=tested[1] if HalfspaceClass.ANY in (through, own) else 0.0)

    @property
    def _position(self) -> str:
        """Where angles are measured."""
        fitted = self.fitted
        if fitted is None or (not fitted.transform.matrix and tested_around(fitted) is None):
            return STANDARDISED
        return fitted.transform.kind

    def _table(self, listed: Listed) -> SuspectTable:
        """Return listed rows under the numbers that they have in the stored data."""
        rows, classes = listed.copy(), np.asarray(self.source.schema.label_values)
        kept = self.source.kept_columns(rows["row"], self.request.keep)
        rows["row"] = self.source.stored_numbers(rows["row"])
        return SuspectTable(rows, classes, self.probabilities is not None, kept)

    def _result(self, suspects: Suspects, found: SuspectsPartial, first: SuspectTable) -> AuditResult:
        (negative, positive), (issues_negative, issues_positive) = found.by_label.tolist()
        rows, *counts = found.segments
        stops = np.cumsum(rows)
        segments = zip(*(one.tolist() for one in (stops - rows, stops, *counts)), strict=True)
        ranked = self.request.top is not None
        return AuditResult(
            halfspace=self.halfspace,
            transform=self._position,
            angle=suspects.turns.angle,
            threshold_shift=suspects.turns.shift,
            n_wrong=found.n_wrong,
            n_agreed=int(found.segments[2].sum()),
            n_wrong_negative=negative,
            n_wrong_positive=positive,
            n_issues=found.n_issues,
            n_issues_negative=issues_negative,
            n_issues_positive=issues_positive,
            n_listed=len(first) if ranked else found.n_listed,
            least_wrong=self._least_wrong(),
            ranked=ranked,
            misclassified=self.request.misclassified,
            calibration=suspects.calibration,
            other_calibration=None if suspects.other is None else suspects.other.calibration,
            columns=self.request.keep,
            suspects=_listed(first.take(np.arange(min(len(first), MOST_RECORDED)))),
            segments=tuple(Segment(*one) for one in segments),
            gatherings=self._gatherings(found, first),
            passes=_together(self.run.passes),
            data=self.source.record,
            versions=Versions.current(),
            notices=self.source.notices,
        )

    def _least_wrong(self) -> int | None:
        """Return how many labels every halfspace contradicts, by a certificate of these rows."""
        fitted, n_rows = self.fitted, self.source.n_rows
        if fitted is None or (certificate := fitted.certificate) is None or certificate.n_rows != n_rows:
            return None
        if not self._is_of_these_rows(fitted) or certificate.opt.through is not HalfspaceClass.ANY:
            return None
        return math.ceil(certificate.opt.lower_empirical * n_rows - 1e-6)


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


def look_again(sample: Block, plane: Plane, calibration: CalibrationRecord) -> PlaneModel | None:
    """Return a regression of the rows that do not look wrong; None where these are too few for their features.

    Flips along one direction pull every model of all rows towards them, and then look right. So the rows that look
    wrong to `plane` are left out, the regression is fitted again, and so on: each time it is pulled less.
    """
    found, positive = None, sample.y > 0
    for _ in range(_ROUNDS):
        margins = plane.margins(sample.X)
        least = np.where(positive, *calibration.issue_scores()[::-1])
        issues = are_wrong(margins, sample.y) & (calibration.label_scores(margins, positive) <= least)
        kept = sample.select(~issues)
        if is_short_of_rows(kept.n_rows, kept.dim) or abs(int(kept.y.sum(dtype=np.int64))) == kept.n_rows:
            return found
        plane = regress_rows(kept, 0).unit()
        curve = CalibrationRecord.of(count_margins(plane.margins(sample.X), sample.y), bin_centres(), held_out=False)
        if curve is None:
            return found
        calibration, found = curve, PlaneModel(plane, curve)
    return found


def _listed(table: SuspectTable) -> tuple[Suspect, ...]:
    columns = [table.column(name).tolist() for name in table.names]
    kept = [[_plain(one) for one in values.tolist()] for values in table.kept.values()]
    values = zip(*kept, strict=True) if kept else itertools.repeat((), len(table))
    rows = zip(zip(*columns, strict=True), values, strict=True)
    return tuple(Suspect(**dict(zip(table.names, row, strict=True)), values=own) for row, own in rows)


def _plain(value: Any) -> bool | int | float | str | None:
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)


def _together(passes: list[PassRecord]) -> tuple[PassRecord, ...]:
    """Passes of one name as one."""
    groups = {one.name: [other for other in passes if other.name == one.name] for one in passes}
    counts = PassRecord.__struct_fields__[1:]
    return tuple(
        PassRecord(name, *(sum(getattr(one, field) for one in group) for field in counts))
        for name, group in groups.items()
    )


def class_of(model: FitResult) -> Any:
    """Return the class that a fit tells from the rest, or refuse one of two classes."""
    classes = model.data.classes
    if len(classes) != 2 or not is_rest(*classes):
        shown = " and ".join(map(str, classes)) or "-1 and +1"
        raise UsageError(f"models: one is of {shown}; fit each class against the rest (positive=..., --positive CLASS)")
    return classes[1]


def check_classes(classes: Sequence[Any], source: Source, label: str) -> None:
    """Refuse a class that has two models, and classes of the labels that have none."""
    if twice := [one for i, one in enumerate(classes) if one in classes[:i]]:
        raise UsageError(f"models: two are of class {twice[0]!r}; give one for each class")
    found: dict[Any, None] = {}
    for rows in source.blocks:
        stored = source.stored_numbers(np.arange(rows.start, rows.stop))
        if source.own is not None and label in source.own.names:
            given = np.asarray(source.own.take(stored, [label])[label].to_pandas())
        else:
            given = _raw_labels(source, stored)
        found |= dict.fromkeys(distinct(label, given))
    if absent := [one for one in found if one not in classes]:
        shown = ", ".join(map(repr, absent[:8])) + (", ..." if len(absent) > 8 else "")
        raise UsageError(f"models: none for {plural(len(absent), 'label')} ({shown}); fit each class against the rest")


def join_classes(
    tables: Mapping[Any, SuspectTable], source: Source, label: str, keep: Sequence[str], top: int | None
) -> pd.DataFrame:
    """Join audits of every class against the rest: every listed row once, the surest first, at most `top`.

    The predicted label is the class that claims the row most; where none does, it is that the row is not of its own.
    Given labels are those of `label` in the data.
    """
    import pandas as pd

    parts = []
    for one, table in tables.items():
        claims = table.rows["label"] < 0
        columns = {name: table.rows[name] for name in ("row", "label_score", "suspicion")}
        predicted = np.where(claims, str(one), f"not {one}")
        parts.append(pd.DataFrame({**columns, "claims": claims, "predicted_label": predicted}))
    every = pd.concat(parts).sort_values(["claims", "suspicion"], ascending=False, kind="stable")
    joined = every.groupby("row", as_index=False).agg(
        predicted_label=("predicted_label", "first"), label_score=("label_score", "min"), suspicion=("suspicion", "max")
    )
    joined = joined.sort_values(["suspicion", "row"], ascending=[False, True])[:top]
    rows = joined["row"].to_numpy()
    stored, places = np.unique(rows, return_inverse=True)
    own = () if source.own is None else source.own.names
    wanted = list(dict.fromkeys([*keep, *([label] if label in own else [])]))
    taken = source.own.take(stored, wanted) if source.own is not None and wanted else {}
    columns = {name: values.take(places).to_pandas() for name, values in taken.items()}
    given = np.asarray(columns[label]) if label in own else _raw_labels(source, stored)[places]
    found = {"row": rows, **{name: columns[name] for name in keep}, "given_label": given}
    return pd.DataFrame(found | {name: joined[name].to_numpy() for name in ("predicted_label", "label_score")})


def _raw_labels(source: Source, stored: NDArray[np.int64]) -> NDArray[Any]:
    """Return labels of stored rows as they are in the data."""
    rows = stored - np.searchsorted(source.dropped, stored)
    if not len(rows):
        return np.empty(0)
    return source.reader.read_labels(RowRanges(np.stack([rows, rows + 1], axis=1)).joined())
