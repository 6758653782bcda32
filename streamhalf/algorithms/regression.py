"""Logistic regression on rows that do not fit in memory: L-BFGS, one pass a step.

Every pass takes the loss and its gradient at several points of a line, so a step needs no second
read. The sample in memory tells how features are correlated, which the first guess of the Hessian
takes from it: few steps are left then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from streamhalf.algorithms.radial import windows_over
from streamhalf.algorithms.run_plan import REGRESSED_PER_FEATURE, REGRESSION_PASSES, RunPlan
from streamhalf.config import RunConfig
from streamhalf.data.block import Block, RowRanges
from streamhalf.data.source import Source
from streamhalf.data.transforms.isotropic import find_varying
from streamhalf.engine.run import Run
from streamhalf.kernels.plane import Plane
from streamhalf.kernels.streams import Stream
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.feature_moments import FeatureMoments, FeatureMomentsPartial
from streamhalf.reductions.logistic import LogisticLine, penalties, plane_of
from streamhalf.reductions.row_view import Sample, sampled

_LINE = (0.25, 0.5, 1.0, 2.0, 4.0)
_SETTLED = 3e-6
"""Loss of a row that the next step would take off, about, with which steps end."""

_PAIRS = 10
_EARLY = (3, 5, 9)
"""Passes whose weights are candidates too: where labels are noisy, the last ones fit noise."""


def regression_rows(source: Source, config: RunConfig) -> RowRanges:
    """What the passes of a regression read: all rows, or windows from all over them."""
    wanted = REGRESSED_PER_FEATURE * source.dim
    return windows_over(source, wanted, config.seed, Stream.REGRESSION_SHARE)


def regress(
    run: Run, source: Source, sample: Block, plan: RunPlan, config: RunConfig
) -> tuple[Plane, ...]:
    """Boundaries of logistic regressions of all rows for learning: the last, then earlier steps.

    With standardised features and scikit-learn's default penalty.
    """
    blocks = regression_rows(source, config)

    def reduce(name: str, reduction: Reduction[Any, Any]) -> Any:
        learning = sampled(reduction, Sample(config.seed, Stream.SHARES, plan.held_out))
        return run.reduce(name, source, learning, blocks=blocks)

    return _descend(reduce, sample)


def regress_in_memory(block: Block) -> Plane:
    """The boundary of a logistic regression of these rows: many features take no Hessian."""
    return _descend(lambda _, reduction: reduction.finalize(reduction.map(block)), block)[0]


def _descend(reduce: Callable[[str, Reduction[Any, Any]], Any], sample: Block) -> tuple[Plane, ...]:
    """Steps over rows of which `reduce` takes sums, and some of which are known."""
    moments: FeatureMomentsPartial = reduce("scales", FeatureMoments())
    centre, scale = _standardize(moments)
    penalty = penalties(sample.dim)
    hessian = cho_factor(_first_hessian((sample.X - centre) / scale, moments.n_rows))
    weights, early = np.zeros(sample.dim + 1), []
    pairs: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
    sums = reduce("regression-1", LogisticLine(centre, scale, weights, weights, (0.0,)))
    loss, slope, shorter = float(sums.losses[0]), sums.gradients[0], 1.0
    for number in range(2, REGRESSION_PASSES):
        move = _direction(slope, pairs, hessian)
        if -slope @ move / 2 < _SETTLED * max(1, moments.n_rows):
            break
        steps = tuple(shorter * one for one in _LINE)
        sums = reduce(f"regression-{number}", LogisticLine(centre, scale, weights, move, steps))
        points = weights + np.outer(steps, move)
        losses = sums.losses + points**2 @ penalty / 2
        best = int(np.argmin(losses))
        if not losses[best] < loss:  # far from a parabola: all points lie beyond the valley
            shorter *= _LINE[0] ** 3
            continue
        ahead = sums.gradients[best] + penalty * points[best]
        pairs = [*pairs, (points[best] - weights, ahead - slope)][-_PAIRS:]
        weights, loss, slope, shorter = points[best], float(losses[best]), ahead, 1.0
        if number in _EARLY:
            early.append(weights)
    return tuple(plane_of(one, centre, scale) for one in (weights, *early))


def _standardize(
    moments: FeatureMomentsPartial,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Means and standard deviations to within a few thousandths, the same for every chunking.

    A constant feature has an infinite scale, and so no weight.
    """
    spread = np.where(find_varying(moments.mean, moments.deviation), moments.deviation, np.inf)
    digits, power = np.frexp(spread)
    scale = np.where(np.isfinite(spread), np.ldexp(np.rint(256 * digits), power - 8), np.inf)
    with np.errstate(invalid="ignore"):
        centre = np.rint(256 * moments.mean / scale) * (scale / 256)
    return np.where(np.isfinite(scale), centre, moments.mean), scale


def _first_hessian(Z: NDArray[np.float64], n_rows: int) -> NDArray[np.float64]:
    """The Hessian of `n_rows` rows at 0, of second moments of a sample.

    These are mixed with the identity: the more of it, the fewer rows there are for each feature.
    """
    n_sampled, dim = Z.shape
    ones = np.column_stack([Z, np.ones(n_sampled)])
    share = dim / (n_sampled + dim)
    moments = (1 - share) / max(1, n_sampled) * (ones.T @ ones) + share * np.eye(dim + 1)
    return np.asarray(n_rows / 4 * moments + np.diag(penalties(dim)))


def _direction(
    slope: NDArray[np.float64],
    pairs: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]],
    hessian: tuple[NDArray[np.float64], bool],
) -> NDArray[np.float64]:
    """Minus the inverse Hessian times the gradient, by two loops over what steps told of it."""
    left, shares = -slope, []
    for step, change in reversed(pairs):
        shares.append(step @ left / (step @ change))
        left = left - shares[-1] * change
    move = cho_solve(hessian, left)
    if pairs:
        step, change = pairs[-1]
        move *= step @ change / (change @ cho_solve(hessian, change))
    for (step, change), share in zip(pairs, reversed(shares), strict=True):
        move = move + (share - change @ move / (step @ change)) * step
    return np.asarray(move)
