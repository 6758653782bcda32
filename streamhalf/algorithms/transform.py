"""The transform in which rows are tested and learned from, estimated where it must be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.algorithms.plan import RunPlan
from streamhalf.algorithms.row_split import some_rows, windows_over
from streamhalf.config import RunConfig
from streamhalf.data.block import Block, RowRanges
from streamhalf.data.source import Source
from streamhalf.data.transforms import (
    Identity,
    Isotropic,
    Radial,
    RowTransform,
    involved,
    name_features,
    require_more_rows,
)
from streamhalf.engine.memory import partial_limit
from streamhalf.engine.run import Run
from streamhalf.errors import DataError, TransformError
from streamhalf.kernels.monomials import count_monomials
from streamhalf.kernels.streams import Stream
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.row_view import Sample, sampled
from streamhalf.reductions.rows import RowSample
from streamhalf.reductions.spread import Covariance, Tyler, TylerSums
from streamhalf.results import (
    HalfspaceClass,
    Notice,
    NoticeCode,
    Outcome,
    Stage,
    Transform,
    TransformRecord,
    TransformTrial,
    worst_of,
)
from streamhalf.testers.moments import SKETCH_DIRECTIONS, MomentTester, sketch_directions

# Rows of a transform for each feature from which on its error, about sqrt(d / rows), is lost in the noise of
# quadratics that just pass: those of 20 features were rejected in 13 of 15 runs where 10,000 rows had estimated it
_MANY_PER_FEATURE = 1 << 14


def estimate_transform(run: Run, source: Source, config: RunConfig, *, held_out: float = 0.0) -> RowTransform:
    """The row transform that the configuration asks for; TransformError where the rows have none.

    The isotropic one is estimated from all rows, whichever are held out: their mean is what
    halfspaces go through, and which rows measure them has no part in it. The radial one is
    estimated from rows that are not held out if these are many; from few of them it would be off
    by so much that tests on the others see it, and it is estimated from all.
    """
    if config.feature_transform == Transform.STORED:
        return Identity()
    if config.feature_transform == Transform.RADIAL:
        many = (1 - held_out) * source.n_rows > _MANY_PER_FEATURE * source.dim
        return estimate_radial(run, source, config, held_out=held_out if many else 0.0)
    estimate = run.reduce("whitening", source, Covariance())
    mean, moments = estimate.mean, estimate.covariance
    if config.through == HalfspaceClass.ORIGIN:  # second moments about it, which stays where it is
        mean, moments = np.zeros_like(mean), moments + np.outer(mean, mean)
    return Isotropic.from_moments(mean, moments, n_rows=estimate.n_rows, columns=source.schema.columns)


def transform_notices(transform: TransformRecord) -> tuple[Notice, ...]:
    """Notices about what a transform leaves untested."""
    is_radial = transform.kind == Transform.RADIAL
    return (Notice.of(NoticeCode.RADII_DRAWN, at_centre=transform.at_centre),) if is_radial else ()


def class_of(config: RunConfig, row_transform: RowTransform) -> HalfspaceClass:
    """The class of halfspaces that the path of a run learns among."""
    free = config.through == HalfspaceClass.ANY and not isinstance(row_transform, Radial)
    return HalfspaceClass.ANY if free else row_transform.record.through


_SAMPLE_ROWS, _SAMPLE_PER_FEATURE = 1 << 16, 64
# Rows in memory, and rows of a pass, a quarter of all at least: the shape is off by about sqrt(d / rows), and the
# centre by 1 / sqrt(rows) along a direction, which adds 0.4 of that to the error of a halfspace through it
_PASS_ROWS, _PASS_PER_FEATURE, _PASS_SHARE = 1 << 19, 1 << 11, 4
_MOST_STEPS, _SETTLED = 100, 1e-5
_MOST_PASSES, _NEAR = 4, 0.003  # Passes end when entries of the spread are off by less than this before the last step
_UNEVEN = 0.05  # A direction with so much less than its share of the spread means: no radial transform
_LEAST_SPREAD = 1e-10  # Below this share of the even spread, features are linearly dependent
_LEAST_SCALE = 1e-150  # Below it, squares of what features differ by are lost


def estimate_radial(run: Run, source: Source, config: RunConfig, *, held_out: float = 0.0) -> Radial:
    """Return the radial transform of the rows, estimated without a share `held_out` of them.

    From windows from everywhere: of more than 2^21 rows a pass reads a quarter, and two to four
    passes are made.
    """
    size, centre = _sample_size(config, source.dim), centre_of(config)
    wanted = max(_PASS_ROWS, _PASS_PER_FEATURE * source.dim, source.n_rows // _PASS_SHARE)
    some, more = (windows_over(source, rows, config.seed, Stream.POSITION_SHARE) for rows in (4 * size, wanted))

    def reduce(name: str, reduction: Reduction[Any, Any], blocks: RowRanges) -> Any:
        fresh = Sample(config.seed, Stream.SHARES, held_out)
        return run.reduce(name, source, sampled(reduction, fresh), blocks=blocks)

    sample = reduce("radial", RowSample(size, config.seed, Stream.POSITION_SAMPLE), some)
    tyler, sums = settle(sample.block.X, centre=centre)
    for number in range(_MOST_PASSES if sample.n_rows > sample.block.n_rows else 0):
        sums = reduce(f"radial-{number + 2}", tyler, more)
        _require_spread(sums.spread, tyler)
        tyler = _stepped(tyler, sums, centre)
        # the mean of n even directions has about this length
        leans = centre == "auto" and sums.lean**2 * sums.n_rows > 1
        if sums.unevenness < _NEAR and not leans:
            break
    at_centre = sums.n_central / max(1, sums.n_rows)
    return Radial(tyler.centre, tyler.matrix, config.seed, at_centre)


def centre_of(config: RunConfig) -> str:
    """The centre that the configuration asks for: the origin where halfspaces go through it."""
    return "origin" if config.through == HalfspaceClass.ORIGIN else config.centre


def settle(X: NDArray[np.float64], *, centre: str) -> tuple[Tyler, TylerSums]:
    """The fixed point on rows in memory, and what its last step found."""
    block = Block(X, np.ones(len(X), dtype=np.int8), np.arange(len(X), dtype=np.int64))
    tyler = _start(X, centre)
    require_more_rows("radial transform", *X.shape)
    for _ in range(_MOST_STEPS):
        sums = tyler.map(block)
        _require_spread(sums.spread, tyler)
        if max(sums.unevenness, sums.lean if centre == "auto" else 0.0) < _SETTLED:
            break
        tyler = _stepped(tyler, sums, centre)
    if np.linalg.eigvalsh(sums.spread)[0] < 1 - _UNEVEN:
        raise _uneven(tyler, sums)
    return tyler, sums


def _stepped(tyler: Tyler, sums: TylerSums, centre: str) -> Tyler:
    """The next step, unless steps go on without end: shapes then run out of numbers."""
    try:
        found = tyler.step(sums, centre=centre)
    except np.linalg.LinAlgError:
        raise _uneven(tyler, sums) from None
    if not (np.isfinite(found.centre).all() and np.isfinite(found.matrix).all()):
        raise _uneven(tyler, sums)
    return found


def _start(X: NDArray[np.float64], centre: str) -> Tyler:
    """Centre and scales of the features, one by one; a feature that stands still is refused."""
    dim = X.shape[1]
    if len(X) == 0:
        raise TransformError("radial transform: no rows to estimate it from; gather some")
    starts = {"origin": lambda: np.zeros(dim), "mean": lambda: X.mean(axis=0)}
    middle = starts.get(centre, lambda: np.median(X, axis=0))()
    sizes = np.abs(X - middle)
    # about the origin, a constant that is not 0 is a direction like others
    stands = (np.ptp(X, axis=0) == 0) & ((centre != "origin") | (X[0] == 0))
    if still := tuple(int(j) for j in np.flatnonzero(stands)):
        first = still[0]
        raise TransformError(
            f"radial transform: feature {first + 1} is constant ({X[0, first]:.6g}); remove it", still, constant=True
        )
    scales = np.array([np.median(size[size > 0]) if size.any() else 1.0 for size in sizes.T])
    if len(least := np.flatnonzero(scales < _LEAST_SCALE)):
        first = int(least[0])
        raise TransformError(
            f"radial transform: feature {first + 1} differs by about {scales[first]:.2g}, limit "
            f"{_LEAST_SCALE:.2g}, from its middle; scale it",
            tuple(int(j) for j in least),
        )
    return Tyler(middle, np.diag(1 / scales))


def _require_spread(spread: NDArray[np.float64], tyler: Tyler) -> None:
    """Refuse features that are linearly dependent."""
    if not np.isfinite(spread).all():
        raise TransformError("radial transform: features are too far apart in scale; scale them")
    values, vectors = np.linalg.eigh(spread)
    if values[0] < _LEAST_SPREAD:
        features = involved(_in_features(vectors[:, 0], tyler))
        raise TransformError(
            f"radial transform: features are linearly dependent (smallest spread of directions "
            f"{max(0.0, values[0]):.2g}, limit {_LEAST_SPREAD:.2g}); look at features "
            f"{name_features(features)} and remove one of them",
            features,
        )


def _uneven(tyler: Tyler, sums: TylerSums) -> TransformError:
    """No map can spread directions evenly if a subspace holds more than its share of the rows."""
    values, vectors = np.linalg.eigh(sums.spread)
    outside = vectors[:, values < max(1 - _UNEVEN / 2, 1.0000001 * values[0])].T
    dim, inner = len(values), len(values) - len(outside)
    weights = [np.abs(_in_features(vector, tyler)) for vector in outside]
    features = involved(np.sum([one / one.max() for one in weights], axis=0))
    return TransformError(
        f"radial transform: directions cannot be spread evenly (spread {values[0]:.2g} of an even "
        f"one, limit {1 - _UNEVEN:g}): about {inner / dim:.1%} of the rows or more lie in a "
        f"subspace of dimension {inner} of {dim}, or next to it; look at features "
        f"{name_features(features)}, which hardly vary there, and remove them, or take another "
        "transform",
        features,
    )


def _in_features(vector: NDArray[np.float64], tyler: Tyler) -> NDArray[np.float64]:
    """The weights of scaled features in a direction of turned rows."""
    scales = 1 / np.linalg.norm(tyler.matrix, axis=0)
    return np.asarray(vector @ tyler.matrix * scales)


def _sample_size(config: RunConfig, dim: int) -> int:
    """Rows in memory: as many as are worth it, and fit."""
    wanted = max(_SAMPLE_ROWS, _SAMPLE_PER_FEATURE * dim)
    return max(2 * dim, min(wanted, partial_limit(config.split_every) // (16 * (dim + 1))))


_WORK = 2 * 10**10  # Products of two quadratics that a first look may take
_SHAPE_ROWS = 1 << 16
_LEAST_PER_FEATURE = 4  # Rows for each feature below which a sample says nothing of the radial transform
_FEW = "a sample of {0.n_rows:,} rows is too small to tell how {0.dim:,} features are correlated"
_SKETCH = 1 << 21  # Number of the sketch


def try_transforms(block: Block, plan: RunPlan, config: RunConfig) -> tuple[TransformTrial, ...]:
    """Judge a sample in each transform, in the order in which they are to be tried."""
    order = (Transform.STORED, Transform.ISOTROPIC, Transform.RADIAL)
    return tuple(_look(kind, block, plan, config) for kind in order)


def choose_transforms(
    sample: Block, plan: RunPlan, config: RunConfig
) -> tuple[tuple[TransformTrial, ...], tuple[Transform, ...]]:
    """Trials on a sample, where the configuration leaves the transform open, and what to try in turn."""
    if config.feature_transform != "auto":
        return (), (Transform(config.feature_transform),)
    trials = try_transforms(sample, plan, config)
    return trials, transforms_to_try(trials)


def transforms_to_try(trials: tuple[TransformTrial, ...]) -> tuple[Transform, ...]:
    """Those that the sample does not rule out; where it rules out all, one that exists."""
    if open_ones := tuple(one.kind for one in trials if is_open(one)):
        return open_ones
    isotropic = next(one for one in trials if one.kind is Transform.ISOTROPIC)
    return (Transform.STORED if isotropic.problem else Transform.ISOTROPIC,)


def is_open(trial: TransformTrial) -> bool:
    """Return whether a transform is to be tried: the sample is large enough, and passes."""
    return trial.outcome is not Outcome.REJECTED and not trial.problem


def _look(kind: Transform, block: Block, plan: RunPlan, config: RunConfig) -> TransformTrial:
    """Judge the moments of the sample in a transform that is estimated from it."""
    context, dim = plan.context(Stage.INITIAL, config), block.dim
    if dim > SKETCH_DIRECTIONS:  # all quadratics of many features take too long for a first look
        directions = sketch_directions(dim, seed=config.seed, number=_SKETCH)
        context, dim = replace(context, directions=directions), SKETCH_DIRECTIONS
    tester = MomentTester.of(context)
    try:
        row_transform = transform_of_sample(kind, block, config)
        if tester is None or block.n_rows == 0:
            return TransformTrial(kind, Outcome.NOT_JUDGED)
        most = max(1000, _WORK // count_monomials(dim, config.degree // 2) ** 2)
        some = some_rows(block, most, config).renumbered()
        needs = tester.needs()
        result = needs.finalize(needs.map(row_transform.apply(some)))
    except TransformError as error:
        few = 0 < block.n_rows < _LEAST_PER_FEATURE * block.dim and not error.features
        return TransformTrial(
            kind,
            Outcome.NOT_JUDGED if few else Outcome.REJECTED,
            problem=_FEW.format(block) if few else str(error),
            features=error.features,
            constant=error.constant,
        )
    except DataError as error:  # products overflow in it
        return TransformTrial(kind, Outcome.REJECTED, problem=str(error))
    worst = worst_of(tester.judge(result, n_seen=some.n_rows))
    return TransformTrial(kind, Outcome.PASSED if worst is None else worst.outcome, worst)


def transform_of_sample(kind: Transform, block: Block, config: RunConfig) -> RowTransform:
    if kind is Transform.STORED:
        return Identity()
    if block.n_rows == 0:
        raise TransformError(f"{kind} transform: no rows to estimate it from; gather some")
    if kind is Transform.ISOTROPIC and config.through == HalfspaceClass.ORIGIN:
        X = block.X.astype(np.float64)
        return Isotropic.from_moments(np.zeros(block.dim), X.T @ X / len(X), n_rows=len(X))
    if kind is Transform.ISOTROPIC:
        return Isotropic.from_rows(block.X.astype(np.float64))
    if block.n_rows < _LEAST_PER_FEATURE * block.dim:  # steps towards it are many then
        raise TransformError(_FEW.format(block))
    some = some_rows(block, _SHAPE_ROWS, config)
    tyler, _ = settle(some.X.astype(np.float64), centre=centre_of(config))
    return Radial(tyler.centre, tyler.matrix, config.seed)


def in_transform(config: RunConfig, kind: Transform) -> RunConfig:
    return replace(config, feature_transform=kind.value)
