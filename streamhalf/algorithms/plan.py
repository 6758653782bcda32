"""Row budget of a run: how many rows each pass needs, and the smallest eps they can judge."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TypeAlias

import numpy as np

from streamhalf.config import LARGEST_EPS, SMALLEST_EPS, RunConfig
from streamhalf.engine.memory import partial_limit
from streamhalf.kernels.monomials import count_monomials
from streamhalf.kernels.plane import Frame, Plane, acceptance_rate
from streamhalf.results import HalfspaceClass, Sampling, Stage
from streamhalf.testers import TESTERS, Context, Tester, TesterSet
from streamhalf.testers.moments import SKETCH_DIRECTIONS, WIDE_DIM, MomentTester
from streamhalf.testers.slabs import SlabMassTester
from streamhalf.testers.wedge import WedgeTester

TESTERS_TAU = 1 / 2  # Of a fit: Gaussian rows are not accepted
ERROR_TAU = 1 / 4  # Of a fit: the upper bound of the error is below the error on the source, for some candidate
BOUND_TAU = 1 / 4  # Of a fit: L of the source is above what some halfspace errs on there
CERTIFIED_TAU = 1 / 2  # Of a certificate, which tests nothing: the upper bound, and L of the source, each
FIRST_DELTA = 0.5
PAPER_FIRST_DELTA = 0.01
# From this threshold on the first scale is finer: of the rows that 1/2 accepts, few lie beyond
_FAR_DELTA, _FAR = 0.25, 0.5
SCANNED_ROWS = 1 << 20  # Rows that choose thresholds: so many place one to within a millionth of the rows
REFINING_ROWS = 1 << 20  # Rows that refine learns from, at most
# Rows that errors and slabs are counted on: these tell an error to within two hundredths of a per cent, and every
# candidate has to go through all of them
_MOST_COUNTED = 1 << 24
REFINED = 2  # Candidates at most that refine adds
_MOST_SAMPLED = 1 << 17  # Rows in memory: so many place a regression within a few ten-thousandths of what more would
# Rows for each feature with which a sample will do for a regression, and beyond which more are not read: with d
# features its error exceeds that of endless rows by about d / (2 rows) where labels are clean, and by twice that
# where 5% are noise
_ENOUGH_PER_FEATURE, REGRESSED_PER_FEATURE = 256, 1024
_MORE_REUSED = 8  # Times the rows an update needs that it takes where rows are reused, if there are any
# Products of two quadratics that the tests of a step may take: a few seconds of one core, and more where there is
# more to read
_LEAST_WORK, _WORK_PER_ROW = 2 * 10**11, 10**4


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """Row budget of a run: with it every tester is conclusive at scale eps.

    Parameters
    ----------
    adaptive
        Whether delta halves only after a small step, starting at 1/2.
    initial_rows, accepted_rows, update_rows, final_rows
        Rows of the first pass; rows that an update accepts (it reads accepted_rows / delta); rows
        of all updates together; rows held out for the final pass.
    tested_rows, ample_rows
        Accepted rows that make the tests of a step conclusive, and the most it is tested on.
    max_updates
        Updates at most; tau is shared over so many steps.
    finest_delta
        Scale at which learning ends: 2 eps, or that halved a few times where there are rows.
    wedge_eps, slab_eps
        Finest scales at which the wedge bound and the mass of slabs can be tested.
    threshold
        Of the planes, about: away from 0 fewer rows are near them.
    needed_rows
        Rows that all tests take, where there are too few; else 0.
    """

    n_rows: int
    dim: int
    eps: float
    tau: float
    sampling: Sampling
    adaptive: bool
    initial_rows: int
    accepted_rows: int
    update_rows: int
    final_rows: int
    tested_rows: int
    ample_rows: int
    max_updates: int
    finest_delta: float
    wedge_eps: float
    slab_eps: float
    threshold: float = 0.0
    needed_rows: int = 0

    @property
    def first_delta(self) -> float:
        return first_scale(self.threshold, adaptive=self.adaptive)

    def rate(self, delta: float) -> float:
        """Share of the rows that an update at this scale accepts, if they are Gaussian."""
        return acceptance_rate(self.threshold, delta)

    @property
    def learning_rows(self) -> int:
        if self.sampling is Sampling.REUSE:
            last = math.ceil(self.accepted_rows / self.rate(self.finest_delta))
            return max(self.initial_rows, last)
        return self.initial_rows + self.update_rows

    @property
    def required_rows(self) -> int:
        return self.needed_rows or self.learning_rows + self.final_rows

    @property
    def can_learn(self) -> bool:
        return self.learning_rows + self.final_rows <= self.n_rows

    @property
    def held_out(self) -> float:
        """Share of all rows that is held out for the final pass."""
        return self.final_rows / max(1, self.n_rows)

    @property
    def counted_rows(self) -> int:
        """Held-out rows that the candidates' errors and slabs are counted on."""
        return min(self.final_rows, _MOST_COUNTED)

    @property
    def deltas(self) -> tuple[float, ...]:
        """The scales of a run without repetitions; 2 eps is among them."""
        return scales(self.finest_delta, self.first_delta)

    def reused_rows(self, rate: float) -> int:
        """Rows of an update where all updates may use the same ones, and it accepts a share."""
        more = min(_MORE_REUSED * self.accepted_rows, affordable_rows(self.dim, self.n_rows))
        return min(self.learning_rows, math.ceil(max(self.accepted_rows, more) / rate))

    def rows_for_step(self, rate: float) -> int:
        """Held-out rows that a step which accepts a share of them is tested on."""
        return min(self.final_rows, math.ceil(self.ample_rows / rate))

    def context(self, stage: Stage, config: RunConfig, n_rows: int = 1) -> Context:
        """The context of a pass, to which the pass adds what it knows.

        Half of the testers' tau is for the steps of the path, each of which is tested once in the
        final pass, and half for what is tested about the candidates there.
        """
        of_testers = self.tau * TESTERS_TAU / 2
        return Context(
            stage=stage,
            config=config,
            dim=self.dim,
            n_rows=n_rows,
            total_rows=self.n_rows,
            eps=self.wedge_eps,
            slab_eps=self.slab_eps,
            tau=of_testers if stage is Stage.FINAL else of_testers / (self.max_updates + 1),
            most_candidates=self.max_updates + 3 + REFINED,  # the first, a mean, a turned one
            any_threshold=config.through == HalfspaceClass.ANY,
            threshold=abs(self.threshold),
        )


def first_scale(threshold: float, *, adaptive: bool) -> float:
    """The scale of the first update: 1/2 or 1/4 (adaptive), or 1/100 (the paper)."""
    if not adaptive:
        return PAPER_FIRST_DELTA
    return FIRST_DELTA if abs(threshold) <= _FAR else _FAR_DELTA


def scales(finest: float, first: float) -> tuple[float, ...]:
    """Halving scales down to `finest`, after the first."""
    found = [finest]
    while 2 * found[-1] < 0.9 * first:
        found.append(2 * found[-1])
    return (first, *reversed(found)) if finest < 0.9 * first else (first,)


def affordable_rows(dim: int, n_rows: int) -> int:
    """Accepted rows whose quadratics a step may test, of so many rows in all."""
    features = count_monomials(SKETCH_DIRECTIONS if dim > WIDE_DIM else dim, 2)
    return (_LEAST_WORK + _WORK_PER_ROW * n_rows) // features**2


def sample_room(config: RunConfig, dim: int) -> int:
    """Rows that a partial may hold, with their numbers, and that are worth it."""
    return max(1, min(_MOST_SAMPLED, partial_limit(config.split_every) // (16 * (dim + 2))))


def lacks_rows(plan: RunPlan, config: RunConfig) -> bool:
    """Return whether a sample in memory has too few rows for a regression, and there are more."""
    learning = plan.n_rows - plan.final_rows
    return sample_room(config, plan.dim) < min(learning, _ENOUGH_PER_FEATURE * plan.dim)


Testers: TypeAlias = tuple[type[Tester], ...]
FEW_ROWS = 1 << 20  # So few rows can all be read, and learnt from, in every pass: that costs next to nothing
_SPARE_UPDATES = 6
_MOST_DEEPER = 6  # Scales below the tested ones that updates may go on to, where the rows allow
# An update accepts 1,000 rows and 200 for each feature: a Chow direction within about 0.09 in the frame, a quarter of
# the step that halves the scale
_LEARNING_ROWS, _ROWS_PER_FEATURE = 1_000, 200
_MORE_WINDOWS = 1.0  # An update that takes windows has so many times the rows that learning needs, if there are any
# Few rows: share that measures, at most, and at least so many rows. Less for many features: with clean labels the
# error is about p = d / (2 learning rows), and this share, h, makes the upper end of its interval, p / (1 - h) + 2.6
# sqrt(p / (h rows)), the least. Still less for few rows per feature: the error of a regression falls by up to 0.18
# sqrt(d / rows) per unit of ln(rows) (2 to 17 rows per feature, clean and 5% wrong), so that rows held out add about
# 0.003.
_MOST_MEASURING, _MEASURING, _COSTING, _LEAST_MEASURING = 0.25, 3.4, 0.015, 100
# A 64th of the rows, 2^18 at most, costs a first pass nothing and says more about their order
_LARGEST_FIRST_SHARE, _FIRST_ROWS = 64, 1 << 18
_SPARE = 1.05  # A scale accepts a few per cent of rows less than expected now and then


def plan_for_eps(
    eps: float,
    dim: int,
    config: RunConfig,
    testers: Testers = TESTERS,
    *,
    sampling: Sampling | None = None,
    threshold: float = 0.0,
) -> RunPlan:
    """The fewest rows with which every tester is conclusive at scale eps, for planes at a threshold."""
    if sampling is None:
        sampling = Sampling.REUSE if config.sampling == "auto" else Sampling(config.sampling)
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
        sampling=sampling,
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


def smallest_plan(dim: int, config: RunConfig) -> RunPlan:
    """The fewest rows that anything can be tested with, where every step takes fresh ones."""
    plan = plan_for_eps(LARGEST_EPS, dim, config, sampling=Sampling.WINDOWS)
    return _split_rows(plan, plan.required_rows, config)


@lru_cache(maxsize=8)
def plan_for_rows(n_rows: int, dim: int, config: RunConfig, testers: Testers = TESTERS) -> RunPlan:
    """The smallest eps that `n_rows` rows can judge (or the configured one), all rows dealt out.

    Where the rows do not suffice the plan's `required_rows` exceeds `n_rows`.
    """
    coarsest = LARGEST_EPS if config.eps == "auto" else float(config.eps)
    plan = plan_for_eps(coarsest, dim, config, testers)
    if config.sampling == "auto" and n_rows > FEW_ROWS:
        in_windows = plan_for_eps(coarsest, dim, config, testers, sampling=Sampling.WINDOWS)
        plan = in_windows if in_windows.required_rows <= n_rows else plan
    make = partial(plan_for_eps, dim=dim, config=config, testers=testers, sampling=plan.sampling)
    if plan.required_rows > n_rows:
        return _plan_for_few(plan, n_rows, config, make)
    if config.eps == "auto":
        # half of the rows at least are to learn well from, unless that would leave no eps
        plan = _finest(make, lambda plan: max(plan.required_rows, 2 * plan.final_rows) <= n_rows)
    return _split_rows(plan, n_rows, config)


def _plan_for_few(plan: RunPlan, n_rows: int, config: RunConfig, make: Callable[[float], RunPlan]) -> RunPlan:
    """A part of the rows is to measure what the others learn, whatever tests can tell of them.

    Updates go as far as the learning rows allow; where these are too few for the first scale,
    the plan's `learning_rows` exceed them.
    """
    final = _measuring_rows(n_rows, plan.dim)
    learning = n_rows - final
    eps = smallest(lambda eps: make(eps).learning_rows <= learning, plan.eps, LARGEST_EPS)
    few = replace(make(eps), eps=plan.eps, needed_rows=plan.required_rows)
    if few.learning_rows > learning:
        return replace(few, n_rows=n_rows, final_rows=final)
    few = replace(few, initial_rows=_first_rows(few, n_rows, learning))
    return _fill(few, config, n_rows=n_rows, final=final, learning=learning)


def _measuring_rows(n_rows: int, dim: int) -> int:
    """Rows to hold out of few."""
    most = max(1, int(_MOST_MEASURING * n_rows))
    share = min((_MEASURING / dim) ** (1 / 3), _COSTING * math.sqrt(n_rows / dim))
    return min(most, max(_LEAST_MEASURING, int(share * n_rows)))


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
    """Return the rows with which quadratics exclude a sixth of what they must, if work allows.

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
        plan_for_eps, dim=plan.dim, config=config, testers=testers, sampling=plan.sampling, threshold=threshold
    )
    learning = plan.n_rows - plan.final_rows
    if config.eps == "auto":
        found = _finest(make, lambda one: one.final_rows <= plan.final_rows and one.learning_rows <= learning)
    else:
        found = make(float(config.eps))
        learning = learning if plan.sampling is Sampling.REUSE else plan.learning_rows
    found = replace(found, initial_rows=plan.initial_rows, needed_rows=plan.needed_rows)
    return _fill(found, config, n_rows=plan.n_rows, final=plan.final_rows, learning=learning)


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
    return config.eps == "auto" or plan.sampling is Sampling.REUSE


def _fill(plan: RunPlan, config: RunConfig, *, n_rows: int, final: int, learning: int) -> RunPlan:
    """Go as deep as learning and held-out rows allow."""
    plan = replace(plan, n_rows=n_rows, final_rows=final, ample_rows=ample_rows(plan.tested_rows, plan.dim, n_rows))
    for _ in range(_MOST_DEEPER if _takes_all(plan, config) else 0):
        deeper = replace(
            plan, finest_delta=plan.finest_delta / 2, update_rows=_update_rows(plan, plan.finest_delta / 2)
        )
        if deeper.learning_rows > learning:
            break
        plan = deeper
    growth = max(1.0, (learning - plan.initial_rows) / max(1, plan.update_rows))
    if plan.sampling is Sampling.REUSE:
        growth = max(1.0, learning * plan.rate(plan.finest_delta) / plan.accepted_rows)
    elif plan.sampling is Sampling.WINDOWS:  # more rows than these would have to be read for little
        growth = min(growth, _MORE_WINDOWS)
    plan = replace(
        plan,
        accepted_rows=int(growth * plan.accepted_rows),
        update_rows=int(growth * plan.update_rows),
        wedge_eps=plan.finest_delta / 2,
    )
    counted = replace(plan, final_rows=plan.counted_rows)
    # the mass of slabs takes a few rows over eps cubed
    least = max(plan.eps, (2 / plan.counted_rows) ** (1 / 3))
    return replace(
        plan,
        wedge_eps=_finest_scale(WedgeTester, plan, config, plan.finest_delta / 2),
        slab_eps=_finest_scale(SlabMassTester, counted, config, least),
    )


def _first_rows(plan: RunPlan, n_rows: int, learning: int) -> int:
    """Rows of the first pass: as many as cost nothing, and leave the updates theirs."""
    if plan.sampling is Sampling.REUSE:
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


def _finest(make: Callable[[float], RunPlan], fits: Callable[[RunPlan], bool]) -> RunPlan:
    """The plan of the smallest eps that fits, of two significant digits."""
    eps = smallest(lambda eps: fits(make(eps)), SMALLEST_EPS, LARGEST_EPS)
    scale = 10.0 ** (math.floor(math.log10(eps)) - 1)
    return make(round(math.ceil(eps / scale - 1e-9) * scale, 12))
