"""Halfspaces that compete with those of the theorem's path, whatever the rows' distribution.

They are learnt in memory, from a sample of the rows for learning: logistic regression, and from it
and from the Chow vector paths of localised updates, by Chow vectors and by least squares, in the
isotropic and in the radial transform. Every direction gets its best threshold. No member can be
trusted before held-out rows have measured it.

Of more rows than a sample holds, the regression is L-BFGS, one pass per step. Every pass returns the
loss and its gradient at several points of a line, so that a step needs no second read. The sample
gives the correlations of the features, and with them the first Hessian: few steps remain. Where rows
are few for their features, a fifth of them chooses the penalty before all of them are used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import ndtri

from streamhalf.algorithms.plan import REGRESSED_PER_FEATURE, RunPlan
from streamhalf.algorithms.row_split import some_rows, windows_over
from streamhalf.algorithms.transform import settle
from streamhalf.config import RunConfig
from streamhalf.data.block import Block, RowRanges
from streamhalf.data.source import Source
from streamhalf.data.transforms import Identity, Isotropic, Radial, RowTransform, find_varying
from streamhalf.engine.run import Run
from streamhalf.errors import TransformError
from streamhalf.kernels.plane import Plane, are_wrong
from streamhalf.kernels.streams import Stream, generator_of, uniforms_at
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.candidates import ThresholdScan
from streamhalf.reductions.errors import PlaneErrors, PlaneErrorsResult
from streamhalf.reductions.logistic import LogisticLine, logistic_plane, penalties, plane_of
from streamhalf.reductions.row_view import RowView, Sample, Viewed
from streamhalf.reductions.spread import CentredSums, FeatureMoments
from streamhalf.results import HalfspaceClass, Method, Transform

_LEAST_ACCEPTED, _ACCEPTED_PER_FEATURE = 400, 10
_FIRST, _FINEST, _MOST_STEPS, _SMALL_STEP = 0.5, 0.01, 14, 0.35
_RIDGE = 1e-6
_MOST_RADIAL = 128  # The shape of more features takes longer to find than it is worth
_MOST_NEWTON = 128  # The Hessian of more features takes longer than the steps that it saves
_LEAST_PER_FEATURE = 4  # Rows for each feature below which nothing but a regression, with its penalty, is learnt
_MOST_LOCAL = 1.5
FEW_TO_CHOOSE = 1 << 12  # With fewer held-out rows, learning rows choose among methods
_FOLDS = 5
_ENOUGH_ROWS = 1 << 15  # So many are enough where the path of the theorem is likely to be ahead of all baselines
# By whether the transform is radial, the start the regression, and updates least squares
METHODS = {
    (False, False, False): Method.CHOW,
    (False, False, True): Method.SQUARES,
    (False, True, False): Method.REGRESSION_CHOW,
    (False, True, True): Method.REGRESSION_SQUARES,
    (True, False, False): Method.RADIAL_CHOW,
    (True, False, True): Method.RADIAL_SQUARES,
    (True, True, False): Method.RADIAL_REGRESSION_CHOW,
    (True, True, True): Method.RADIAL_REGRESSION_SQUARES,
}


@dataclass(frozen=True, slots=True, eq=False)
class Baseline:
    """A halfspace among stored rows, and how it was found."""

    method: Method
    plane: Plane


def learn_baselines(
    block: Block, *, seed: int, point: Vector | None = None, regression: Plane | None = None
) -> tuple[Baseline, ...]:
    """Return one baseline for every method that works, the regression first.

    Fewer than four rows per feature are enough for a regression, and for nothing else. All go
    through `point`, if there is one. A `regression` of more rows replaces that of these.
    """
    if block.n_rows == 0:  # nothing is known, and any halfspace will do
        any_plane = Plane(np.eye(block.dim)[0])
        through = any_plane if point is None else any_plane.moved_to(point)
        return (Baseline(Method.REGRESSION, through),)
    X = block.X.astype(np.float64)
    alike = abs(int(block.y.sum(dtype=np.int64))) == block.n_rows
    if alike and regression is None:
        return (Baseline(Method.REGRESSION, _constant_guess(X, block.y)),)
    if regression is None:
        rows = Block(X, block.y, np.arange(len(X)))
        regression = _at_best_threshold(regress_rows(rows, seed), rows)
    regression = _or_guess(regression, X)
    through = regression if point is None else regression.moved_to(point)
    first = Baseline(Method.REGRESSION, through)
    if alike or block.n_rows < _LEAST_PER_FEATURE * block.dim:
        return (first,)
    whitening = Isotropic.from_rows(X, strict=False)
    laid = whitening.apply(block.renumbered())
    start = whitening.to_transformed(regression).unit()
    found: list[tuple[Method, Plane]] = []
    for radial in (False, True) if block.dim <= _MOST_RADIAL else (False,):
        found += _paths(laid, start, radial=radial, seed=seed)
    methods = [method for method, _ in found]
    planes = _place([plane for _, plane in found], laid, whitening, point)
    margins = laid.X @ np.array([plane.normal for plane in planes], dtype=laid.X.dtype).T
    wrong = are_wrong((margins - [plane.threshold for plane in planes]).T, laid.y)
    errors = np.count_nonzero(wrong, axis=1)
    best = {
        method: min((i for i, one in enumerate(methods) if one is method), key=errors.__getitem__)
        for method in dict.fromkeys(methods)
    }
    pulled = {method: whitening.to_stored(planes[i]) for method, i in best.items()}
    pulled = {method: _or_guess(plane, X) for method, plane in pulled.items()}
    if point is not None:  # exactly, whatever rounding did
        pulled = {method: plane.moved_to(point) for method, plane in pulled.items()}
    return (first, *(Baseline(method, plane) for method, plane in pulled.items()))


def regress_rows(block: Block, seed: int) -> Plane:
    """Return the boundary of the logistic regression of rows in memory."""
    if block.dim > _MOST_NEWTON or is_short_of_rows(block.n_rows, block.dim):
        return regress_in_memory(block, seed=seed)
    return logistic_plane(block)


def _at_best_threshold(plane: Plane, block: Block) -> Plane:
    """A plane among neighbouring rows, moved to where it errs least."""
    if not (spread := float(plane.margins(block.X).std())) > 0:
        return plane
    # thresholds are tried in units of the spread of margins
    scan = ThresholdScan((Plane(plane.normal / spread, plane.threshold / spread),))
    return scan.finalize(scan.map(block))[0]


def _or_guess(plane: Plane, X: Vector) -> Plane:
    """The plane, or the guess that is left where all features count as constant."""
    known = np.isfinite([*plane.normal, plane.threshold]).all()
    if known and plane.normal.any():
        return plane
    return _constant_guess(X, np.sign([-plane.threshold if known else 1.0]))


def _constant_guess(X: Vector, y: NDArray[Any]) -> Plane:
    """A plane beyond all rows, for labels that are all the same."""
    first = X[:, 0]
    beyond = 1 + float(np.ptp(first))
    threshold = first.min() - beyond if (y >= 0).all() else first.max() + beyond
    return Plane(np.eye(X.shape[1])[0], float(threshold))


def _place(planes: list[Plane], laid: Block, whitening: Isotropic, point: Vector | None) -> tuple[Plane, ...]:
    """The planes through the point, or each at its best threshold."""
    if point is None:
        scan = ThresholdScan(tuple(planes))
        return scan.finalize(scan.map(laid))
    at = whitening.matrix @ (point - whitening.centre)
    return tuple(plane.moved_to(at) for plane in planes)


def _paths(laid: Block, regression: Plane, *, radial: bool, seed: int) -> Iterator[tuple[Method, Plane]]:
    """The planes that localised updates come by, in one of the transforms."""
    space: RowTransform = Identity()
    if radial:
        try:
            tyler, _ = settle(laid.X.astype(np.float64), centre="auto")
        except TransformError:  # it has none: the other transform serves
            return
        space = Radial(tyler.centre, tyler.matrix, seed)
    block, start = space.apply(laid), space.to_transformed(regression).unit() if radial else regression
    chow = Plane(block.y.astype(np.float64) @ block.X).unit()
    if not radial:
        chow = Plane(chow.normal, _threshold(float(block.y.mean(dtype=np.float64)), 4.0))
    for first, from_regression in ((chow, False), (start, True)):
        for squares in (False, True):
            method = METHODS[radial, from_regression, squares]
            rng = generator_of(seed, Stream.BASELINES + list(Method).index(method))
            path = _path(block, first, rng, squares=squares, centred=radial)
            yield from ((method, space.to_stored(plane).unit()) for plane in path)


def _path(block: Block, plane: Plane, rng: np.random.Generator, *, squares: bool, centred: bool) -> Iterator[Plane]:
    """The start, and one plane after another while labels near it tell where to go."""
    yield plane
    X, delta = block.X, _FIRST
    least = _LEAST_ACCEPTED + _ACCEPTED_PER_FEATURE * block.dim
    for _ in range(_MOST_STEPS):
        v = plane.normal.astype(X.dtype)
        margins = X @ v - X.dtype.type(plane.threshold)
        chance = np.exp(np.square(margins) * X.dtype.type((1 - delta**-2) / 2))
        keep = np.flatnonzero(rng.random(len(X), dtype=np.float32) < chance)
        if len(keep) < least:
            return
        # along the normal, rows are taken from the plane on and stretched
        moved = margins[keep] * X.dtype.type(1 / delta) - X[keep] @ v
        local = X[keep] + np.outer(moved, v)
        update = least_squares if squares else _chow
        w, offset = update(local.astype(np.float64), block.y[keep].astype(np.float64))
        overlap = float(w @ plane.normal)
        if overlap <= 0:
            return
        stretched = overlap / delta
        found = Plane(
            w + (stretched - overlap) * plane.normal, 0.0 if centred else stretched * plane.threshold - offset
        ).unit()
        step = math.hypot(float(np.linalg.norm(found.normal - plane.normal)), found.threshold - plane.threshold)
        plane = found
        yield plane
        if step < _SMALL_STEP * delta:
            delta /= 2
        if delta < _FINEST:
            return


def _chow(Z: Vector, y: Vector) -> tuple[Vector, float]:
    """w and offset of the plane w·z + offset = 0 from the Chow vector and the mean label."""
    vector = y @ Z / len(y)
    return vector, -_threshold(float(y.mean()), _MOST_LOCAL) * float(np.linalg.norm(vector))


def least_squares(Z: Vector, y: Vector, weights: Vector | None = None) -> tuple[Vector, float]:
    """w and offset of the plane where the best linear guess of the label is 0."""
    ones = np.column_stack([Z, np.ones(len(Z))])
    weighted, total = (ones, len(Z)) if weights is None else (ones * weights[:, None], float(weights.sum()))
    gram = weighted.T @ ones / total + _RIDGE * np.eye(ones.shape[1])
    solution = np.linalg.solve(gram, y @ weighted / total)
    return np.asarray(solution[:-1], dtype=np.float64), float(solution[-1])


def _threshold(mean_label: float, most: float) -> float:
    """The threshold beyond which N(0, 1) rows are as rare as the label +1, within limits."""
    return float(np.clip(ndtri(np.clip((1 - mean_label) / 2, 1e-9, 1 - 1e-9)), -most, most))


def choose(found: PlaneErrorsResult, favourites: Sequence[int]) -> int:
    """The plane with the fewest errors, or the best of the favourites if it is hardly behind."""
    best = int(np.argmin(found.errors))
    favourite = min(favourites, key=lambda i: int(found.errors[i]), default=best)
    gain = int(found.errors[favourite] - found.errors[best])
    return favourite if gain <= math.sqrt(found.disagreements(favourite, best)) else best


def cross_fit(block: Block, members: Sequence[Baseline], *, seed: int, point: Vector | None = None) -> Baseline:
    """The member whose method does best on rows that it was not learnt from, fold by fold.

    The first baseline, which every part has, is preferred.
    """
    fold = (uniforms_at(seed, Stream.FOLDS, block.rows) * _FOLDS).astype(np.int64)
    apart = [fold == number for number in range(_FOLDS)]
    pools = [
        {one.method: one.plane for one in learn_baselines(block.select(~out), seed=seed, point=point)} for out in apart
    ]
    common = [one for one in members if all(one.method in pool for pool in pools)]
    counted = [
        PlaneErrors(tuple(pool[one.method] for one in common), block.n_rows).map(block.select(out))
        for out, pool in zip(apart, pools, strict=True)
    ]
    return common[choose(PlaneErrors(()).combine(*counted), [0])]


def learn_baselines_on_sample(
    block: Block, plan: RunPlan, config: RunConfig, *, spare: bool, regression: Plane | None = None
) -> tuple[Baseline, ...]:
    """Return all baselines; where few rows are held out, the best of them by cross-validation.

    `spare` where the path of the theorem is likely to win: then a part of the rows will do.
    With a `regression` of more rows than the sample has, all of them are returned.
    """
    block = some_rows(block, _ENOUGH_ROWS, config) if spare else block
    point = _point(block, config)
    found = learn_baselines(block, seed=config.seed, point=point, regression=regression)
    if plan.final_rows >= FEW_TO_CHOOSE or regression is not None or len(found) == 1:
        return found
    return (cross_fit(block, found, seed=config.seed, point=point),)


def _point(block: Block, config: RunConfig) -> Vector | None:
    """The point that halfspaces must go through, or None."""
    if config.through == HalfspaceClass.ANY:
        return None
    about_origin = config.through == HalfspaceClass.ORIGIN or config.feature_transform == Transform.STORED
    if about_origin or block.n_rows == 0:
        return np.zeros(block.dim)
    return np.asarray(block.X.mean(axis=0), dtype=np.float64)


_LINE = (0.25, 0.5, 1.0, 2.0, 4.0)
# Loss per row that the next step would gain, about, at which a descent ends: the last one, and those that compare
# penalties
_SETTLED, _NEARLY_SETTLED = 3e-6, 1e-4
_PAIRS, _MOST, _MOST_ROUGH = 10, 20, 12
# Times scikit-learn's default. With 5 rows per feature and 5% wrong labels the first has an error of 0.174 where the
# last has 0.190; without noise, 0.099 and 0.087.
_PENALTIES = (100.0, 10.0, 1.0)
_CHOOSING = 0.2  # Share of the learning rows that compares penalties
# Rows per feature above which the penalty hardly matters, and rows below which none is chosen
_FEW_PER_FEATURE, _LEAST_TO_CHOOSE = 12, 320
REGRESSION_PASSES = 2 + _MOST
# Passes of a regression at most, and of the choice of its penalty
CHOOSING_PASSES = 1 + len(_PENALTIES) * (1 + _MOST_ROUGH)
Vector: TypeAlias = NDArray[np.float64]
# A pass (name, reduction, low, high) over the learning rows whose place, even in [0, 1), is from low to below high
_Reduce: TypeAlias = Callable[..., Any]


def regression_rows(source: Source, config: RunConfig) -> RowRanges:
    """The rows that the passes of a regression read: all, or windows from everywhere."""
    wanted = REGRESSED_PER_FEATURE * source.dim
    return windows_over(source, wanted, config.seed, Stream.REGRESSION_SHARE)


def regression_passes(n_rows: int, dim: int) -> int:
    """The most passes that a regression of so many rows takes."""
    return REGRESSION_PASSES + CHOOSING_PASSES * is_short_of_rows(n_rows, dim)


def regress(run: Run, source: Source, sample: Block, plan: RunPlan, config: RunConfig) -> Plane:
    """Return the boundary of a logistic regression on all learning rows.

    Features are standardised, as before scikit-learn's LogisticRegression.
    """
    blocks = regression_rows(source, config)

    def reduce(name: str, reduction: Reduction[Any, Any], low: float = 0.0, high: float = 1.0) -> Any:
        ends = (plan.held_out + one * (1 - plan.held_out) for one in (low, high))
        rows = Viewed(reduction, RowView(Sample(config.seed, Stream.SHARES, *ends)))
        return run.reduce(name, source, rows, blocks=blocks)

    return _Regression.start(reduce, sample).fit()


def regress_in_memory(block: Block, *, seed: int) -> Plane:
    """Return the boundary of a logistic regression on these rows."""
    # not those of the folds: a fold that is left out would take one whole share
    places = uniforms_at(seed, Stream.REGRESSION_PART, block.rows)

    def reduce(_: str, reduction: Reduction[Any, Any], low: float = 0.0, high: float = 1.0) -> Any:
        inside = (places >= low) & (places < high)
        rows = block if inside.all() else block.select(inside)
        return reduction.finalize(reduction.map(rows))

    return _Regression.start(reduce, block).fit()


def is_short_of_rows(n_rows: int, dim: int) -> bool:
    """Return whether the penalty of a regression is chosen."""
    return _LEAST_TO_CHOOSE <= n_rows <= _FEW_PER_FEATURE * dim


@dataclass(frozen=True, slots=True, eq=False)
class _Regression:
    """Standardised features and their second moments; `reduce` makes the passes."""

    reduce: _Reduce
    n_rows: int
    centre: Vector
    scale: Vector
    second_moments: Vector

    @classmethod
    def start(cls, reduce: _Reduce, sample: Block) -> _Regression:
        moments: CentredSums = reduce("scales", FeatureMoments())
        centre, scale = _standardize(moments)
        return cls(reduce, moments.n_rows, centre, scale, _second_moments(sample, centre, scale))

    def fit(self) -> Plane:
        """Descend at the default penalty, or at the one that validation rows prefer."""
        weights, penalty = np.zeros(len(self.centre) + 1), 1.0
        if is_short_of_rows(self.n_rows, len(self.centre)):
            weights, penalty = self._choose_penalty(weights)
        weights = self._descend(weights, penalty, "regression", most=_MOST)
        return plane_of(weights, self.centre, self.scale)

    def _choose_penalty(self, weights: Vector) -> tuple[Vector, float]:
        found = []
        for penalty in _PENALTIES:
            weights = self._descend(
                weights, penalty, f"penalty-{penalty:g}", low=_CHOOSING, settled=_NEARLY_SETTLED, most=_MOST_ROUGH
            )
            found.append(weights)
        planes = tuple(plane_of(one, self.centre, self.scale) for one in found)
        errors = self.reduce("penalty", PlaneErrors(planes, self.n_rows), 0.0, _CHOOSING).errors
        best = min(range(len(found)), key=lambda i: (int(errors[i]), -i))
        return found[best], _PENALTIES[best]

    def _descend(
        self, weights: Vector, times: float, name: str, *, most: int, low: float = 0.0, settled: float = _SETTLED
    ) -> Vector:
        """L-BFGS steps from the weights, over the rows from `low` on."""
        penalty = penalties(len(self.centre), times)

        def look(number: int, weights: Vector, move: Vector, steps: tuple[float, ...]) -> Any:
            line = LogisticLine(self.centre, self.scale, weights, move, steps)
            return self.reduce(f"{name}-{number}", line, low)

        sums = look(1, weights, weights, (0.0,))
        n_rows = max(1, sums.n_rows)
        hessian = cho_factor(n_rows / 4 * self.second_moments + np.diag(penalty))
        loss = float(sums.losses[0] + weights**2 @ penalty / 2)
        slope, shorter = sums.gradients[0] + penalty * weights, 1.0
        pairs: list[tuple[Vector, Vector]] = []
        for number in range(2, most + 2):
            move = _direction(slope, pairs, hessian)
            if -slope @ move / 2 < settled * n_rows:
                break
            steps = tuple(shorter * one for one in _LINE)
            sums = look(number, weights, move, steps)
            points = weights + np.outer(steps, move)
            losses = sums.losses + points**2 @ penalty / 2
            best = int(np.argmin(losses))
            if not losses[best] < loss:  # far from a parabola: every point lies beyond the minimum
                shorter *= _LINE[0] ** 3
                continue
            ahead = sums.gradients[best] + penalty * points[best]
            pairs = [*pairs, (points[best] - weights, ahead - slope)][-_PAIRS:]
            weights, loss, slope, shorter = points[best], float(losses[best]), ahead, 1.0
        return weights


def _standardize(moments: CentredSums) -> tuple[Vector, Vector]:
    """Means and standard deviations to within a few thousandths, the same for every chunking.

    A constant feature has an infinite scale, and so no weight.
    """
    spread = np.where(find_varying(moments.mean, moments.deviation), moments.deviation, np.inf)
    digits, power = np.frexp(spread)
    scale = np.where(np.isfinite(spread), np.ldexp(np.rint(256 * digits), power - 8), np.inf)
    with np.errstate(invalid="ignore"):
        centre = np.rint(256 * moments.mean / scale) * (scale / 256)
    return np.where(np.isfinite(scale), centre, moments.mean), scale


def _second_moments(sample: Block, centre: Vector, scale: Vector) -> Vector:
    """Second moments of [features, 1], shrunk to the identity: more, the fewer rows per feature."""
    n_rows, dim = sample.X.shape
    ones = np.column_stack([(sample.X - centre) / scale, np.ones(n_rows)])
    share = dim / (n_rows + dim)
    return np.asarray((1 - share) / max(1, n_rows) * (ones.T @ ones) + share * np.eye(dim + 1))


def _direction(slope: Vector, pairs: Sequence[tuple[Vector, Vector]], hessian: tuple[Vector, bool]) -> Vector:
    """Minus the inverse Hessian times the gradient (two-loop recursion)."""
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
