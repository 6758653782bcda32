"""In which transforms rows are to be tested: those that a first look at a sample does not rule out.

The sample holds rows for learning only, so what decides, the tests of held-out rows, is not
foreseen by it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from streamhalf.algorithms.radial import centre_of, settle
from streamhalf.algorithms.run_plan import RunPlan
from streamhalf.algorithms.sample import some_rows
from streamhalf.algorithms.sketches import sketch_directions
from streamhalf.config import RunConfig
from streamhalf.data.block import Block
from streamhalf.data.transforms import Identity, Isotropic, Radial, RowTransform
from streamhalf.errors import DataError, TransformError
from streamhalf.kernels.monomials import count_monomials
from streamhalf.results import Outcome, Stage, Transform, TransformTrial, worst_of
from streamhalf.testers.moments import SKETCH_DIRECTIONS, MomentTester

_WORK = 2 * 10**10
"""Products of two quadratics that a first look may take."""

_SHAPE_ROWS = 1 << 16

_LEAST_PER_FEATURE = 4
"""Rows for each feature below which a sample says nothing of the radial transform."""

_FEW = "a sample of {0.n_rows:,} rows is too small to tell how {0.dim:,} features are correlated"

_SKETCH = 1 << 21
"""Number of the sketch."""


def try_transforms(block: Block, plan: RunPlan, config: RunConfig) -> tuple[TransformTrial, ...]:
    """What a sample says of each transform, in the order in which they are to be tried."""
    order = (Transform.STORED, Transform.ISOTROPIC, Transform.RADIAL)
    return tuple(_look(kind, block, plan, config) for kind in order)


def transforms_to_try(trials: tuple[TransformTrial, ...]) -> tuple[Transform, ...]:
    """Those that the sample does not rule out; where it rules out all, one that exists."""
    if open_ones := tuple(one.kind for one in trials if is_open(one)):
        return open_ones
    isotropic = next(one for one in trials if one.kind is Transform.ISOTROPIC)
    return (Transform.STORED if isotropic.problem else Transform.ISOTROPIC,)


def is_open(trial: TransformTrial) -> bool:
    """Whether the sample tells enough of a transform to try it, and does not rule it out."""
    return trial.outcome is not Outcome.REJECTED and not trial.problem


def _look(kind: Transform, block: Block, plan: RunPlan, config: RunConfig) -> TransformTrial:
    """Judge the moments of the sample in a transform that is estimated from it."""
    context, dim = plan.context(Stage.INITIAL, config), block.dim
    if dim > SKETCH_DIRECTIONS:  # all quadratics of many features take too long for a first look
        directions = sketch_directions(dim, [], seed=config.seed, number=_SKETCH)
        context, dim = replace(context, directions=directions), SKETCH_DIRECTIONS
    tester = MomentTester.of(context)
    try:
        row_transform = _estimate(kind, block, config)
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


def _estimate(kind: Transform, block: Block, config: RunConfig) -> RowTransform:
    if kind is Transform.STORED:
        return Identity()
    if block.n_rows == 0:
        raise TransformError(f"{kind} transform: no rows to estimate it from; gather some")
    if kind is Transform.ISOTROPIC:
        return Isotropic.from_rows(block.X.astype(np.float64))
    if block.n_rows < _LEAST_PER_FEATURE * block.dim:  # steps towards it are many then
        raise TransformError(_FEW.format(block))
    some = some_rows(block, _SHAPE_ROWS, config)
    tyler, _ = settle(some.X.astype(np.float64), centre=centre_of(config))
    return Radial(tyler.centre, tyler.matrix, config.seed)


def in_transform(config: RunConfig, kind: Transform) -> RunConfig:
    """The configuration, with its transform fixed."""
    return replace(config, feature_transform=kind.value)
