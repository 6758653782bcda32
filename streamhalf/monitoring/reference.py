"""What new rows are compared with: held-out rows behind a result, in a statistic beside its last pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamhalf.algorithms.state import LocalizationState
from streamhalf.algorithms.transform import class_of
from streamhalf.config import RunConfig
from streamhalf.data.transforms import Radial, RowTransform, make_transform
from streamhalf.kernels.frame import Frame
from streamhalf.kernels.plane import Plane
from streamhalf.kernels.streams import Stream
from streamhalf.reductions.margin_counts import MarginCounts, MarginCountsResult, bin_centres
from streamhalf.reductions.row_profile import RowProfile, RowProfileResult
from streamhalf.reductions.row_view import Bundle, Sample, in_space, sampled
from streamhalf.reductions.wedge_sums import WedgeSums, WedgeSumsResult
from streamhalf.results import (
    CalibrationRecord,
    FitResult,
    FrameRecord,
    Halfspace,
    HalfspaceClass,
    WatchReference,
    finite,
)

_ROWS = 1 << 20
"""Held-out rows behind a reference: of more, chance in the new rows is all that counts."""

_COARSEST = 0.45
"""Of eta: the neighbourhood of halfspaces that the bound of disagreement speaks of."""

_CLUSTERED = 4.0
"""Of F, in its standard errors for independent rows: beyond, a mean varies as its segments do."""


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
        centre, scale = _column_scales(affine, state)
        profile = RowProfile(
            plane=halfspace.plane,
            transform=affine,
            about=affine.to_transformed(halfspace.plane).unit(),
            centre=centre,
            scale=scale,
            frames=state.frames,
            total_rows=n_rows,
        )
        eta = min(_COARSEST, state.plan.eps)
        moves = class_of(config, row_transform) is HalfspaceClass.ANY
        return cls(profile, eta, eta if moves else 0.0, min(1.0, _ROWS / max(1.0, held_rows)), config.seed)

    @classmethod
    def behind(cls, result: FitResult, reference: WatchReference, n_rows: int, *, labelled: bool) -> Self:
        """The same statistic of new rows."""
        assert result.halfspace is not None
        affine, plane = _affine(make_transform(result.transform)), result.halfspace.plane
        frames = (Frame(Plane(np.array(one.normal), one.threshold), one.delta) for one in reference.frames)
        profile = RowProfile(
            plane=plane,
            transform=affine,
            about=affine.to_transformed(plane).unit(),
            centre=np.array(reference.centre),
            scale=np.array(reference.scale),
            frames=tuple(frames),
            total_rows=n_rows,
            reads_labels=labelled,
        )
        return cls(profile, reference.eta, reference.kappa)

    @property
    def statistic(self) -> Bundle:
        """Margins by label, for calibration; then `likeness`."""
        return Bundle((MarginCounts((self.profile.plane.unit(),)), self.likeness))

    @property
    def likeness(self) -> Bundle:
        """Profile, and sums that bound how far nearby halfspaces disagree."""
        wedge = in_space(WedgeSums((self.profile.about,), self.eta, self.kappa), self.profile.transform)
        sample = None if self.share >= 1 else Sample(self.seed, Stream.SHARES, 0.0, self.share)
        return Bundle(tuple(sampled(one, sample) for one in (self.profile, wedge)))

    def conclude(
        self, found: tuple[MarginCountsResult, tuple[RowProfileResult, WedgeSumsResult]]
    ) -> tuple[CalibrationRecord | None, WatchReference]:
        """The records of a run's held-out rows."""
        margins, (like, wedge) = found
        frames = self.profile.frames
        record = WatchReference(
            n_rows=like.n_rows,
            centre=tuple(self.profile.centre.tolist()),
            scale=tuple(self.profile.scale.tolist()),
            frames=tuple(FrameRecord(_plain(one.plane.normal), one.plane.threshold, one.delta) for one in frames),
            means=_plain(like.means),
            deviations=_plain(np.sqrt(like.variances)),
            factors=_plain(_factors(like)),
            eta=self.eta,
            kappa=self.kappa,
            beta=float(wedge.betas()[0]),
        )
        return CalibrationRecord.of(margins.counts[0], bin_centres(), held_out=True), record


def _affine(row_transform: RowTransform) -> RowTransform:
    """The transform without drawn lengths and signs: these would hide what rows are like."""
    return row_transform.affine() if isinstance(row_transform, Radial) else row_transform


def _column_scales(affine: RowTransform, state: LocalizationState) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """About the mean and the standard deviation of every stored feature."""
    dim = state.plan.dim
    if (record := affine.record).matrix:
        with np.errstate(all="ignore"):
            scale = np.linalg.norm(np.linalg.pinv(np.array(record.matrix)), axis=1)
        centre = np.array(record.centre)
    else:
        centre, scale = np.zeros(dim), np.ones(dim)
        if state.moments is not None and state.moments.dim == dim:
            centre, second = state.moments.feature_moment[:, 0], state.moments.feature_moment[:, 1]
            scale = np.sqrt(np.maximum(np.sqrt(2) * second + 1 - centre**2, 0.0))
    return centre, np.where(np.isfinite(scale) & (scale > 0), scale, 1.0)


def _factors(like: RowProfileResult) -> NDArray[np.float64]:
    """How much more means vary than those of independent rows; 1 where segments do not say more."""
    degrees = max(1, len(like.counts) - 1)
    clustered = like.ratios > 1 + _CLUSTERED * np.sqrt(2 / degrees)
    return np.where(clustered, like.ratios, 1.0)


def _plain(values: Any) -> tuple[float, ...]:
    return tuple(finite(value) for value in np.asarray(values).tolist())
