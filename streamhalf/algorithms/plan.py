"""How many rows each pass needs, and the smallest eps that a number of rows can judge."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np

from streamhalf.algorithms.run_plan import RunPlan, affordable_rows, first_scale, scales
from streamhalf.config import LARGEST_EPS, SMALLEST_EPS, RunConfig
from streamhalf.kernels.frame import Frame
from streamhalf.kernels.plane import Plane
from streamhalf.results import Sampling, Stage
from streamhalf.testers import TESTERS, Tester, TesterSet
from streamhalf.testers.moments import SKETCH_DIRECTIONS, WIDE_DIM, MomentTester
from streamhalf.testers.slab_mass import SlabMassTester
from streamhalf.testers.wedge import WedgeTester

Testers: TypeAlias = tuple[type[Tester], ...]

FEW_ROWS = 1 << 20
"""So few rows can all be read, and learnt from, in every pass: that costs next to nothing."""

_SPARE_UPDATES = 6
_MOST_DEEPER = 6
"""Scales below the tested ones that updates may go on to, where the rows allow."""

_LEARNING_ROWS, _ROWS_PER_FEATURE = 1_000, 200
"""An update accepts 1,000 rows and 200 for each feature: a Chow direction within about 0.09 in the
frame, a quarter of the step that halves the scale."""

_MORE_WINDOWS = 1.0
"""An update that takes windows has so many times the rows that learning needs, if there are any."""

_MOST_MEASURING, _MEASURING = 0.25, 3.4
"""Share of few rows that measures, at most, and the features beyond which it is less. With clean
labels the error is about p = d / (2 learning rows): this share, h, makes the upper end of its
interval, p / (1 - h) + 2.6 sqrt(p / (h rows)), the least."""

_LARGEST_FIRST_SHARE, _FIRST_ROWS = 64, 1 << 18
"""A 64th of the rows, 2^18 at most, costs a first pass nothing and says more about their order."""

_SPARE = 1.05
"""A scale accepts a few per cent of rows less than expected now and then."""


def plan_for_eps(eps: float, dim: int, config: RunConfig, testers: Testers = TESTERS) -> RunPlan:
    """The fewest rows with which every tester is conclusive at scale eps."""
    split = Sampling.REUSE if config.sampling == "auto" else Sampling(config.sampling)
    return _plan(eps, dim, config, testers, split)


def _plan(
    eps: float,
    dim: int,
    config: RunConfig,
    testers: Testers,
    split: Sampling,
    threshold: float = 0.0,
) -> RunPlan:
    """The fewest rows, dealt in one way."""
    adaptive = config.schedule == "adaptive"
    first = first_scale(threshold, adaptive=adaptive)
    finest = min(first, 2 * eps)
    count = len(scales(finest, first))
    least = _LEARNING_ROWS + _ROWS_PER_FEATURE * dim
    plan = RunPlan(
        n_rows=0,
        dim=dim,
        eps=eps,
        tau=config.tau,
        split=split,
        adaptive=adaptive,
        initial_rows=2 * least,
        accepted_rows=least,
        update_rows=0,
        final_rows=1,
        tested_rows=1,
        ample_rows=1,
        max_updates=count + _MOST_DEEPER + _SPARE_UPDATES,
        finest_delta=finest,
        wedge_eps=eps,
        slab_eps=LARGEST_EPS,
        threshold=threshold,
    )
    tested = _tested_rows(plan, config, testers)
    about_candidates = TesterSet.of(testers, plan.context(Stage.FINAL, config)).rows_needed()
    plan = replace(
        plan,
        tested_rows=tested,
        ample_rows=ample_rows(tested, dim, 0),
        update_rows=_update_rows(plan, finest),
        final_rows=max(math.ceil(_SPARE * tested / plan.rate(finest)), about_candidates),
    )
    return replace(plan, n_rows=plan.required_rows)


def plan_for_rows(n_rows: int, dim: int, config: RunConfig, testers: Testers = TESTERS) -> RunPlan:
    """The smallest eps that `n_rows` rows can judge (or the configured one), all rows dealt out.

    Where the rows do not suffice the plan's `required_rows` exceeds `n_rows`.
    """
    coarsest = LARGEST_EPS if config.eps == "auto" else float(config.eps)
    plan = plan_for_eps(coarsest, dim, config, testers)
    if config.sampling == "auto" and n_rows > FEW_ROWS:
        in_windows = _plan(coarsest, dim, config, testers, Sampling.WINDOWS)
        plan = in_windows if in_windows.required_rows <= n_rows else plan
    make = partial(_plan, dim=dim, config=config, testers=testers, split=plan.split)
    if plan.required_rows > n_rows:
        return _plan_for_few(plan, n_rows, config, make)
    if config.eps == "auto":

        def fits(eps: float) -> bool:
            plan = make(eps)
            # half of the rows at least are to learn well from, unless that would leave no eps
            return max(plan.required_rows, 2 * plan.final_rows) <= n_rows

        plan = make(_round_up(smallest(fits, SMALLEST_EPS, LARGEST_EPS)))
    return _split_rows(plan, n_rows, config)


def _plan_for_few(
    plan: RunPlan, n_rows: int, config: RunConfig, make: Callable[[float], RunPlan]
) -> RunPlan:
    """A part of the rows is to measure what the others learn, whatever tests can tell of them.

    Updates go as far as the rows for learning allow; where these are too few for the first scale,
    the plan's `learning_rows` exceed them.
    """
    final = max(1, int(n_rows * min(_MOST_MEASURING, (_MEASURING / plan.dim) ** (1 / 3))))
    learning = n_rows - final
    eps = smallest(lambda eps: make(eps).learning_rows <= learning, plan.eps, LARGEST_EPS)
    few = replace(make(eps), eps=plan.eps, needed_rows=plan.required_rows)
    if few.learning_rows > learning:
        return replace(few, n_rows=n_rows, final_rows=final)
    few = replace(few, initial_rows=_first_rows(few, n_rows, learning))
    return _fill(few, config, n_rows=n_rows, final=final, learning=learning)


def _tested_rows(plan: RunPlan, config: RunConfig, testers: Testers) -> int:
    """Accepted rows that make the tests of every step conclusive."""
    axis = Plane(np.eye(1, plan.dim)[0], plan.threshold)
    steps = (
        plan.context(Stage.INITIAL, config),
        replace(plan.context(Stage.UPDATE, config), frame=Frame(axis, plan.finest_delta)),
    )
    found = [1]
    for context in steps:
        if plan.dim > WIDE_DIM:
            context = replace(context, directions=np.eye(SKETCH_DIRECTIONS, plan.dim))
        tester_set = TesterSet.of(testers, context)
        found.append(tester_set.rows_needed())
        if plan.dim <= WIDE_DIM:  # quadratics of a sketch support no constant
            found.append(tester_set.find(MomentTester).rows_for(config.quadratics_tolerance))
    return max(found)


def ample_rows(tested: int, dim: int, n_rows: int) -> int:
    """So many that quadratics exclude a sixth of what they must, if the work allows it.

    Coarse scales accept the rows for it, and the finer scales need less of them then.
    """
    return max(math.ceil(_SPARE * tested), min(32 * tested, affordable_rows(dim, n_rows)))


def _update_rows(plan: RunPlan, finest: float) -> int:
    """Rows of all updates down to a scale, with a few to spare at the first."""
    deltas = scales(finest, plan.first_delta)
    reads = sum(1 / plan.rate(delta) for delta in deltas)
    return math.ceil(plan.accepted_rows * (reads + _SPARE_UPDATES / plan.rate(deltas[0])))


def plan_about(plan: RunPlan, threshold: float, config: RunConfig, testers: Testers) -> RunPlan:
    """The plan for planes at a threshold, with the same rows held out, conclusive or not."""
    make = partial(
        _plan, dim=plan.dim, config=config, testers=testers, split=plan.split, threshold=threshold
    )
    learning, eps = plan.n_rows - plan.final_rows, config.eps
    if eps == "auto":

        def fits(eps: float) -> bool:
            found = make(eps)
            return found.final_rows <= plan.final_rows and found.learning_rows <= learning

        eps = _round_up(smallest(fits, SMALLEST_EPS, LARGEST_EPS))
    elif plan.split is not Sampling.REUSE:
        learning = plan.learning_rows
    found = replace(make(float(eps)), initial_rows=plan.initial_rows, needed_rows=plan.needed_rows)
    return _fill(found, config, n_rows=plan.n_rows, final=plan.final_rows, learning=learning)


def rows_about(plan: RunPlan, threshold: float, config: RunConfig) -> int:
    """Rows with which planes at a threshold can be judged at the eps of a plan.

    Half of them are held out, before anybody knows the threshold.
    """
    found = _plan(plan.eps, plan.dim, config, TESTERS, plan.split, threshold)
    return 2 * max(found.final_rows, found.learning_rows)


def suffices(plan: RunPlan, threshold: float, config: RunConfig) -> bool:
    """Whether the rows that a plan holds out, and those left to learn from, are enough for it."""
    found = _plan(plan.eps, plan.dim, config, TESTERS, plan.split, threshold)
    enough = found.final_rows <= plan.final_rows
    return enough and found.learning_rows <= plan.n_rows - plan.final_rows


def _split_rows(plan: RunPlan, n_rows: int, config: RunConfig) -> RunPlan:
    """Give every pass its share of all rows; windows for a given eps, of four times the rows."""
    final, learning = plan.final_rows, plan.learning_rows
    if _takes_all(plan, config):
        final = max(final, min(n_rows // 2, n_rows - learning))
        learning = n_rows - final
    else:
        factor = min(4.0, n_rows / plan.required_rows)
        final, learning = int(factor * final), int(factor * learning)
    plan = replace(plan, initial_rows=_first_rows(plan, n_rows, learning))
    return _fill(plan, config, n_rows=n_rows, final=final, learning=learning)


def _takes_all(plan: RunPlan, config: RunConfig) -> bool:
    return config.eps == "auto" or plan.split is Sampling.REUSE


def _fill(plan: RunPlan, config: RunConfig, *, n_rows: int, final: int, learning: int) -> RunPlan:
    """Go as deep as the rows for learning and those held out allow."""
    plan = replace(
        plan,
        n_rows=n_rows,
        final_rows=final,
        ample_rows=ample_rows(plan.tested_rows, plan.dim, n_rows),
    )
    for _ in range(_MOST_DEEPER if _takes_all(plan, config) else 0):
        deeper = replace(
            plan,
            finest_delta=plan.finest_delta / 2,
            update_rows=_update_rows(plan, plan.finest_delta / 2),
        )
        if deeper.learning_rows > learning:
            break
        plan = deeper
    growth = max(1.0, (learning - plan.initial_rows) / max(1, plan.update_rows))
    if plan.split is Sampling.REUSE:
        growth = max(1.0, learning * plan.rate(plan.finest_delta) / plan.accepted_rows)
    elif plan.split is Sampling.WINDOWS:  # more rows than these would have to be read for little
        growth = min(growth, _MORE_WINDOWS)
    plan = replace(
        plan,
        accepted_rows=int(growth * plan.accepted_rows),
        update_rows=int(growth * plan.update_rows),
        wedge_eps=plan.finest_delta / 2,
    )
    return replace(
        plan,
        wedge_eps=_finest_scale(WedgeTester, plan, config, plan.finest_delta / 2),
        # it takes a few rows over eps cubed
        slab_eps=_finest_scale(
            SlabMassTester,
            replace(plan, final_rows=plan.counted_rows),
            config,
            max(plan.eps, (2 / plan.counted_rows) ** (1 / 3)),
        ),
    )


def _first_rows(plan: RunPlan, n_rows: int, learning: int) -> int:
    """Rows of the first pass: as many as cost nothing, and leave the updates theirs."""
    if plan.split is Sampling.REUSE:
        most = min(_FIRST_ROWS, affordable_rows(plan.dim, n_rows))
        return min(learning, max(plan.initial_rows, most))
    most = min(n_rows // _LARGEST_FIRST_SHARE, _FIRST_ROWS, learning - plan.update_rows)
    return max(plan.initial_rows, min(most, learning // 4))


def _finest_scale(
    kind: type[WedgeTester] | type[SlabMassTester], plan: RunPlan, config: RunConfig, least: float
) -> float:
    """The finest scale, `least` at best, at which a tester of the final pass is conclusive."""
    context = plan.context(Stage.FINAL, config)

    def fits(eps: float) -> bool:
        tester = kind.of(replace(context, eps=eps, slab_eps=eps))
        return tester is not None and tester.rows_needed() <= plan.final_rows

    return smallest(fits, least, LARGEST_EPS)


def smallest(fits: Callable[[float], bool], low: float, high: float) -> float:
    """The smallest value in [low, high] that fits, to within a hundredth; `high` if none does."""
    if low >= high or fits(low):
        return low
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _round_up(eps: float) -> float:
    """Two significant digits, never below."""
    scale = 10.0 ** (math.floor(math.log10(eps)) - 1)
    return round(math.ceil(eps / scale - 1e-9) * scale, 12)
