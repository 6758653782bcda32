"""Watching: whether new rows still look like those behind a result.

A quantity has drifted where distance - chance > tolerance, and is steady where distance + chance <= tolerance: more
rows never turn one into the other while its distance stays where it is. Chance counts both samples. Look k spends
tau * 6 / (pi² k²), shared over all quantities, so that with probability 1 - tau no look ever says drifted of rows from
where the reference came from.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from streamhalf.algorithms.state import LocalizationState
from streamhalf.algorithms.transform import class_of
from streamhalf.config import RunConfig
from streamhalf.data.source import Source
from streamhalf.data.transforms import Radial, RowTransform, make_transform
from streamhalf.engine.run import Run
from streamhalf.errors import DataError, UsageError
from streamhalf.kernels.binomial import anytime_lower, anytime_upper, binomial_lower, binomial_upper, look_tau
from streamhalf.kernels.monomials import feature_spreads
from streamhalf.kernels.plane import Frame, Plane
from streamhalf.kernels.streams import Stream
from streamhalf.paths import Folder
from streamhalf.reductions.base import Counts
from streamhalf.reductions.candidates import WedgeSums, WedgeSumsResult
from streamhalf.reductions.margin_counts import MarginCounts, bin_centres
from streamhalf.reductions.row_view import Bundle, Sample, in_space, sampled
from streamhalf.reductions.segment_means import EDGES, RowProfile, RowProfileResult
from streamhalf.results import (
    IN_DEVIATIONS,
    CalibrationRecord,
    Drift,
    DriftStatement,
    ErrorStretch,
    FitResult,
    FrameRecord,
    Halfspace,
    HalfspaceClass,
    Versions,
    WatchLook,
    WatchReference,
    WatchResult,
    finite,
    from_json,
    replace,
    to_json,
)

PER_SHARE = 2.5  # Standard deviations that a mean moves by where a share of the rows of N(0, 1) changes: 1 / phi(0)
_STRETCH_ROWS = 200  # At least about so many rows in a stretch that errors are counted in
_REFERENCE_ROWS = 1 << 20  # Held-out rows behind a reference: of more, chance in the new rows is all that counts
_COARSEST = 0.45  # Of eta: the neighbourhood of halfspaces that the bound of disagreement speaks of
_CLUSTERED = 4.0  # Of F, in its standard errors for independent rows: beyond, a mean varies as its segments do
_LARGEST_LOOK = 16 << 20
_MOST_COLUMNS = 12  # Features with statements of their own in the record
_MOST_SHIFTS = 64  # Features whose shifts a look remembers
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """The statistic of rows that a watch compares, behind a result or new."""

    profile: RowProfile
    eta: float
    kappa: float
    share: float = 1.0
    seed: int = 0

    @classmethod
    def of(
        cls,
        n_rows: int,
        held_rows: float,
        config: RunConfig,
        halfspace: Halfspace,
        row_transform: RowTransform,
        state: LocalizationState,
    ) -> Self:
        """The statistic of a run's held-out rows, about so many at first."""
        affine = _affine(row_transform)
        profile = _profile(halfspace, affine, *_column_scales(affine, state), state.frames, n_rows)
        eta = min(_COARSEST, state.plan.eps)
        moves = class_of(config, row_transform) is HalfspaceClass.ANY
        share = min(1.0, _REFERENCE_ROWS / max(1.0, held_rows))
        return cls(profile, eta, eta if moves else 0.0, share, config.seed)

    @classmethod
    def behind(cls, result: FitResult, reference: WatchReference, n_rows: int, *, labelled: bool) -> Self:
        """The same statistic of new rows."""
        assert result.halfspace is not None
        affine = _affine(make_transform(result.transform))
        frames = tuple(Frame(Plane(np.array(one.normal), one.threshold), one.delta) for one in reference.frames)
        centre, scale = np.array(reference.centre), np.array(reference.scale)
        profile = _profile(result.halfspace, affine, centre, scale, frames, n_rows, labelled=labelled)
        return cls(profile, reference.eta, reference.kappa)

    @property
    def statistic(self) -> Bundle:
        """Margins by label, for calibration; then `likeness`."""
        return Bundle((MarginCounts((self.profile.plane.unit(),)), self.likeness))

    @property
    def likeness(self) -> Bundle:
        """Profile, and sums that bound how far nearby halfspaces disagree."""
        wedge = in_space(WedgeSums((self.profile.about,), self.eta, self.kappa), self.profile.transform)
        sample = Sample(self.seed, Stream.SHARES, 0.0, self.share)
        return Bundle(tuple(sampled(one, sample) for one in (self.profile, wedge)))

    def conclude(
        self, found: tuple[Counts, tuple[RowProfileResult, WedgeSumsResult]]
    ) -> tuple[CalibrationRecord | None, WatchReference]:
        """The records of a run's held-out rows."""
        margins, (like, wedge) = found
        # means vary more than those of independent rows where segments say so
        clustered = like.ratios > 1 + _CLUSTERED * np.sqrt(2 / max(1, len(like.counts) - 1))
        record = WatchReference(
            n_rows=like.n_rows,
            centre=tuple(self.profile.centre.tolist()),
            scale=tuple(self.profile.scale.tolist()),
            frames=tuple(
                FrameRecord(_plain(one.plane.normal), one.plane.threshold, one.delta) for one in self.profile.frames
            ),
            means=_plain(like.means),
            deviations=_plain(np.sqrt(like.variances)),
            factors=_plain(np.where(clustered, like.ratios, 1.0)),
            eta=self.eta,
            kappa=self.kappa,
            beta=float(wedge.betas[0]),
        )
        return CalibrationRecord.of(margins.counts[0], bin_centres(), held_out=True), record


def _profile(
    halfspace: Halfspace,
    affine: RowTransform,
    centre: Array,
    scale: Array,
    frames: tuple[Frame, ...],
    n_rows: int,
    *,
    labelled: bool = True,
) -> RowProfile:
    plane = halfspace.plane
    about = affine.to_transformed(plane).unit()
    return RowProfile(plane, affine, about, centre, scale, frames, n_rows, labelled)


def _affine(row_transform: RowTransform) -> RowTransform:
    """The transform without drawn lengths and signs: these would hide what rows are like."""
    return row_transform.affine() if isinstance(row_transform, Radial) else row_transform


def _column_scales(affine: RowTransform, state: LocalizationState) -> tuple[Array, Array]:
    """About the mean and the standard deviation of every stored feature."""
    record, dim = affine.record, state.plan.dim
    moments = state.moments.feature_moment if state.moments is not None and state.moments.dim == dim else None
    scale = feature_spreads(record.matrix, moments)
    found = np.zeros(dim) if moments is None else moments[:, 0]
    centre = np.array(record.centre) if record.matrix else found
    return centre, np.ones(dim) if scale is None else np.where(np.isfinite(scale) & (scale > 0), scale, 1.0)


def _plain(values: Array) -> tuple[float, ...]:
    return tuple(map(finite, values.tolist()))


@dataclass(frozen=True, eq=False)
class Comparison:
    """Profiles of the rows behind a result and of new ones, at one look.

    `tolerance` is a share of rows, or `PER_SHARE` times as many standard deviations; `tau` the chance that this look
    may spend. The error behind the result pays for the `n_candidates` among which its rows chose.
    """

    profile: RowProfile
    reference: WatchReference
    found: RowProfileResult
    tolerance: float
    tau: float
    n_candidates: int = 1

    @property
    def tail(self) -> float:
        """Probability of a false alarm of one quantity: stretches of rows have a part, too."""
        n_stretches = len(self.found.counts) if self.profile.reads_labels else 0
        return self.tau / (len(self.found.means) + self.n_candidates + n_stretches)

    @cached_property
    def distances(self) -> tuple[Array, Array, Array]:
        """Distance, chance and unit of every quantity; the unit is its standard deviation."""
        one, other = self.reference, self.found
        n_old, n_new = one.n_rows, other.n_rows
        behind, spread = np.array(one.means[: len(other.means)]), np.array(one.deviations[: len(other.means)])
        new, dim = other.means.copy(), self.profile.plane.dim
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for values in (behind, new):  # spreads are about the mean of their own rows
                values[dim : 2 * dim] -= values[:dim] ** 2
            variance = np.maximum(spread**2, other.variances)
            unit = np.where(spread > 0, spread, np.sqrt(other.variances))
            away = np.abs(new - behind)
            # what neither sample ever saw move: equal but for rounding, or a constant that changed
            same = away <= 1e-9 * (np.abs(behind) + np.abs(new))
            unit = np.where(unit > 0, unit, np.where(same, 1.0, away))
            factors = np.array(one.factors[: len(other.means)])
            q = -stdtrit(max(1, min(n_old, n_new) - 1), self.tail / 2)
            chance = q * np.sqrt(variance * factors * (1 / max(1, n_old) + 1 / max(1, n_new)))
            surprise = n_new * math.log1p(n_old / max(1, n_new)) < -math.log(self.tail)
            chance = np.where((variance == 0) & ~same & surprise, math.inf, chance)
        if min(n_old, n_new) < 2:
            chance = np.full_like(chance, math.inf)
        distance = np.where(np.isnan(away), math.inf, away)
        return distance, np.where(np.isnan(chance), math.inf, chance), unit

    def statements(self, names: tuple[str, ...], classes: tuple[str, str]) -> tuple[DriftStatement, ...]:
        """One statement for each kind of quantity, of the member that says most."""
        found = (list(self.members(kind, names, classes)) for kind in self.profile.parts(len(names)))
        return tuple(_leading(members) for members in found if members)

    def columns(self, names: tuple[str, ...], most: int) -> tuple[DriftStatement, ...]:
        """Means and spreads of the features that are furthest away."""
        found = [one for kind in ("means", "spreads") for one in self.members(kind, names, ("", ""))]
        return tuple(sorted(found, key=lambda one: -one.distance + one.chance)[:most])

    def members(self, kind: str, names: tuple[str, ...], classes: tuple[str, str]) -> Iterator[DriftStatement]:
        """The statements of every quantity of a kind."""
        part = self.profile.parts(len(names))[kind]
        if part.start == part.stop:
            return
        distance, chance, unit = (one[part] for one in self.distances)
        variance = np.maximum(np.array(self.reference.deviations)[part] ** 2, self.found.variances[part])
        tolerance = self.tolerance
        if kind in IN_DEVIATIONS:
            tolerance *= PER_SHARE
            distance, chance, variance = distance / unit, chance / unit, variance / unit**2
        behind, new = self._shown(kind, part)
        for i, subject in enumerate(self._subjects(kind, names, classes)):
            away, by_chance, needed = float(distance[i]), float(chance[i]), None
            if away - by_chance > tolerance:
                outcome = Drift.DRIFTED
            elif away + by_chance <= tolerance:
                outcome = Drift.STEADY
            else:
                outcome, needed = Drift.INCONCLUSIVE, self._rows_needed(away, tolerance, float(variance[i]))
            yield DriftStatement(
                kind,
                subject,
                outcome,
                behind=finite(behind[i]),
                new=finite(new[i]),
                distance=finite(away),
                chance=finite(by_chance),
                tolerance=tolerance,
                rows_needed=needed,
            )

    def stretches(self) -> tuple[ErrorStretch, ...]:
        """Errors by contiguous stretches of the new rows, those beyond tolerance and chance marked."""
        if not self.profile.reads_labels:
            return ()
        place = self.profile.parts(self.profile.plane.dim)["errors"].start
        rows, found, old = self.profile.segments, self.found, self.reference
        errors = np.rint(found.segment_means[:, place] * found.counts).astype(np.int64)
        factor = old.factors[place]
        highest = binomial_upper(old.means[place] * old.n_rows / factor, old.n_rows / factor, self.tail)
        step = max(1, math.ceil(_STRETCH_ROWS * len(errors) / max(1, found.n_rows)))
        stretches = []
        for first in range(0, len(errors), step):
            held = slice(first, first + step)
            wrong, n_rows = int(errors[held].sum()), int(found.counts[held].sum())
            begin, end = (-(-int(i) * rows.total_rows // rows.count) for i in found.segments[held][[0, -1]] + [0, 1])
            least = binomial_lower(wrong / factor, n_rows / factor, self.tail)
            drifted = least - highest > self.tolerance
            stretches.append(ErrorStretch(begin, end, n_rows, wrong / max(1, n_rows), drifted))
        return tuple(stretches)

    def _subjects(self, kind: str, names: tuple[str, ...], classes: tuple[str, str]) -> list[str]:
        if kind in ("means", "spreads"):
            return list(names)
        if kind == "moments":
            return [f"{names[i]} × {names[j]}" for i, j in zip(*np.triu_indices(len(names)), strict=True)]
        if kind == "slabs":
            between = (f"{low:g} to {high:g}" for low, high in pairwise(EDGES))
            return [f"below {EDGES[0]:g}", *between, f"above {EDGES[-1]:g}"]
        if kind == "acceptance":
            return [f"at scale {one.delta:.3g}" for one in self.profile.frames]
        return ["" if kind == "errors" else classes[1]]

    def _shown(self, kind: str, part: slice) -> Iterator[list[float]]:
        """Both values in the unit that a reader knows: stored means and standard deviations, and shares."""
        profile = self.profile
        for means in (np.array(self.reference.means), self.found.means):
            values = means[part]
            if kind == "means":
                values = profile.centre + profile.scale * values
            elif kind == "spreads":
                with np.errstate(over="ignore", invalid="ignore"):
                    squares = values - means[: profile.plane.dim] ** 2
                    values = profile.scale * np.sqrt(np.maximum(squares, 0.0))
            yield values.tolist()

    def _rows_needed(self, distance: float, tolerance: float, variance: float) -> int | None:
        """New rows that would be conclusive at this distance; None where the reference has too few."""
        square, gap = float(stdtrit(1e6, self.tail / 2)) ** 2 * variance, abs(distance - tolerance)
        room = gap**2 / square - 1 / max(1, self.reference.n_rows) if square > 0 and math.isfinite(gap) else 0.0
        return math.ceil(1 / room) if room > 1e-15 else None


def _leading(members: list[DriftStatement]) -> DriftStatement:
    """The member that is furthest beyond its tolerance, or nearest to it."""
    drifted = [one for one in members if one.outcome is Drift.DRIFTED]
    found = max(drifted or members, key=lambda one: one.distance - one.chance if drifted else one.distance + one.chance)
    return replace(found, n_compared=len(members), n_drifted=len(drifted))


def _file(look: int) -> str:
    return f"look-{look:06d}.json"


def _read_looks(folder: Folder | None, result: FitResult) -> list[WatchResult]:
    """Read the looks of a result so far, one file each; those of another result are refused."""
    found: list[WatchResult] = []
    while folder is not None and (content := folder.read(_file(len(found) + 1), _LARGEST_LOOK)) is not None:
        where = f"{folder.name}/{_file(len(found) + 1)}"
        try:
            look = from_json(WatchResult, json.loads(content), where=where)
        except ValueError as error:
            raise DataError(f"{where}: not JSON: {' '.join(str(error).split())}; restore or remove it") from None
        if look.halfspace_digest != halfspace_digest(result):
            raise UsageError(
                f"state: {folder.name} holds looks at rows behind another halfspace; name a folder of its own for "
                "this result (its updates go on in the same)"
            )
        found.append(look)
    return found


def halfspace_digest(result: FitResult) -> str:
    """Return a digest of the halfspace and the transform of a result, which its updates keep."""
    text = json.dumps(to_json((result.halfspace, result.transform)))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def reference_of(result: FitResult) -> WatchReference:
    """Return the reference of a result, or say why there is none."""
    if result.halfspace is None:
        raise UsageError(f"result: the run was {result.verdict} and has no halfspace to watch; fit again")
    if result.reference is None:
        raise UsageError("result: it holds nothing to compare new rows with; fit again, and save that result")
    return result.reference


def look_at(
    run: Run, source: Source, result: FitResult, folder: Folder | None, *, tolerance: float, tau: float
) -> WatchResult:
    """Compare rows with those behind a result, in one pass; the look is kept in the folder, beside those before it."""
    before = _read_looks(folder, result)
    record, number = reference_of(result), len(before) + 1
    reference = Reference.behind(result, record, source.n_rows, labelled=source.is_labelled)
    found, wedge = run.reduce("watch", source, reference.likeness)
    spent, n_candidates = look_tau(tau, number), max(1, len(result.candidates))
    comparison = Comparison(reference.profile, record, found, tolerance, spent, n_candidates)
    names = source.feature_names
    statements = comparison.statements(names, result.data.label_names)
    stretches = comparison.stretches()
    if any(one.drifted for one in stretches):  # a part of the rows says more than all of them
        statements = tuple(
            replace(one, outcome=Drift.DRIFTED, rows_needed=None) if one.kind == "errors" else one for one in statements
        )
    outcome = Drift.of_all([one.outcome for one in statements])
    this = _summary(number, comparison, source, outcome)
    made = WatchResult(
        outcome=outcome,
        look=number,
        tau=tau,
        tau_spent=spent,
        tolerance=tolerance,
        rows_behind=record.n_rows,
        labelled=source.is_labelled,
        statements=statements,
        columns=comparison.columns(names, _MOST_COLUMNS),
        stretches=stretches,
        eta=record.eta,
        beta=float(wedge.betas[0]),
        beta_behind=record.beta,
        history=(*(one.history[-1] for one in before if one.history), this),
        halfspace_digest=halfspace_digest(result),
        passes=tuple(run.passes),
        data=source.record,
        versions=Versions.current(),
        run=run.provenance,
        notices=source.notices,
    )
    if folder is not None:  # a file for each look: none is lost where a later one fails
        text = json.dumps(to_json(replace(made, history=(this,))), allow_nan=False)
        folder.write(_file(number), text.encode())
    return made


def _summary(number: int, comparison: Comparison, source: Source, outcome: Drift) -> WatchLook:
    """The summary of a look; bounds of its error hold for all looks at once."""
    found, profile = comparison.found, comparison.profile
    distance, _, unit = comparison.distances
    signs = np.sign(found.means - np.array(comparison.reference.means)[: len(found.means)])
    shifts = np.nan_to_num(signs * distance / unit, posinf=1e300, neginf=-1e300)[: min(source.dim, _MOST_SHIFTS)]
    error: dict[str, Any] = {}
    if profile.reads_labels:
        rate = float(found.means[profile.parts(source.dim)["errors"].start])
        ends = (anytime_lower, anytime_upper)
        low, high = (float(end(rate * found.n_rows, found.n_rows, comparison.tau)) for end in ends)
        error = {"error": rate, "error_low": low, "error_high": high}
    finished = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    rounded = tuple(float(f"{value:.4g}") for value in shifts.tolist())
    return WatchLook(number, finished, source.n_rows, outcome, shifts=rounded, **error)
