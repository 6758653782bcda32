"""How many rows each pass needs, and the smallest eps that a number of rows can judge."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from streamhalf.config import LARGEST_EPS, SMALLEST_EPS, RunConfig
from streamhalf.data.source import BLOCK_NBYTES
from streamhalf.engine.plan import TASK_COPIES
from streamhalf.errors import UsageError
from streamhalf.kernels.frame import Frame
from streamhalf.kernels.monomials import count_monomials
from streamhalf.kernels.plane import Plane
from streamhalf.planning.strict import refuse_strict
from streamhalf.records import PassBudget, PlanRecord, Split, Stage
from streamhalf.testers import TESTERS, Context, Panel, Tester
from streamhalf.testers.moments import WIDE_DIM
from streamhalf.testers.slab_mass import finest_half_count

Testers: TypeAlias = tuple[type[Tester], ...]

FIRST_DELTA = 0.5
PAPER_FIRST_DELTA = 0.01
_SPARE_UPDATES = 6
_ROWS_PER_FEATURE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """Row budget of a run.

    Parameters
    ----------
    n_rows, dim, eps, tau
        Of the run; every tester is conclusive at scale eps with these budgets.
    split
        How passes share the rows.
    adaptive
        Whether delta halves only after a small step, starting at 1/2.
    initial_rows, final_rows
        Rows of the first and the last pass.
    accepted_rows
        Rows an update should accept: it reads accepted_rows / delta.
    update_rows
        Rows of all updates together.
    max_updates
        Updates at most; tau is shared over so many passes.
    """

    n_rows: int
    dim: int
    eps: float
    tau: float
    split: Split
    adaptive: bool
    initial_rows: int
    accepted_rows: int
    update_rows: int
    final_rows: int
    max_updates: int

    @property
    def required_rows(self) -> int:
        """Rows the data set must have."""
        if self.split is Split.REUSE:
            last = min(self.deltas)
            return max(self.initial_rows, math.ceil(self.accepted_rows / last), self.final_rows)
        return self.initial_rows + self.update_rows + self.final_rows

    @property
    def deltas(self) -> tuple[float, ...]:
        """The scales of a run without repetitions, down to eps / 2."""
        return scales(self.eps, adaptive=self.adaptive)

    @property
    def tau_pass(self) -> float:
        """The share of tau of one pass; smaller where rows are reused.

        Then directions depend on the rows they are tested on: a union bound over a net of the
        unit sphere costs a factor e^-d.
        """
        share = self.tau / (self.max_updates + 2)
        return share * math.exp(-min(self.dim, 300)) if self.split is Split.REUSE else share

    def context(self, stage: Stage, config: RunConfig, n_rows: int = 1) -> Context:
        """What testers are told before a pass; the pass itself adds what it knows."""
        return Context(
            stage=stage,
            config=config,
            dim=self.dim,
            n_rows=n_rows,
            total_rows=self.n_rows,
            eps=self.eps,
            tau=self.tau_pass,
            most_candidates=self.max_updates + 1,
        )


def scales(eps: float, *, adaptive: bool) -> tuple[float, ...]:
    """Halving scales: from 1/2 (adaptive) or 1/100 (the paper), the last one below eps."""
    delta = FIRST_DELTA if adaptive else PAPER_FIRST_DELTA
    found = [delta]
    while found[-1] > eps / 2 * 1.999:
        found.append(found[-1] / 2)
    return tuple(found)


def plan_for_eps(eps: float, dim: int, config: RunConfig, testers: Testers = TESTERS) -> RunPlan:
    """The fewest rows with which every tester is conclusive at scale eps."""
    adaptive = config.schedule == "adaptive"
    deltas = scales(eps, adaptive=adaptive)
    plan = RunPlan(
        n_rows=0,
        dim=dim,
        eps=eps,
        tau=config.tau,
        split=Split.WINDOWS if config.rows == "auto" else Split(config.rows),
        adaptive=adaptive,
        initial_rows=0,
        accepted_rows=0,
        update_rows=0,
        final_rows=0,
        max_updates=len(deltas) + _SPARE_UPDATES,
    )
    least = _ROWS_PER_FEATURE * dim
    accepted = max(least, _rows_needed(plan, Stage.UPDATE, config, testers))
    spare = _SPARE_UPDATES / deltas[0]
    plan = replace(
        plan,
        initial_rows=max(least, _rows_needed(plan, Stage.INITIAL, config, testers)),
        accepted_rows=accepted,
        update_rows=math.ceil(accepted * (sum(1 / delta for delta in deltas) + spare)),
        final_rows=_rows_needed(plan, Stage.FINAL, config, testers),
    )
    return replace(plan, n_rows=plan.required_rows)


def plan_for_rows(n_rows: int, dim: int, config: RunConfig, testers: Testers = TESTERS) -> RunPlan:
    """The smallest eps that `n_rows` rows can judge (or the configured one), all rows dealt out.

    Where the rows do not suffice the plan's `required_rows` exceeds `n_rows`.
    """
    if config.eps != "auto":
        plan = plan_for_eps(float(config.eps), dim, config, testers)
        return _spread_surplus(plan, n_rows, config, most=4.0)
    largest = plan_for_eps(LARGEST_EPS, dim, config, testers)
    if largest.required_rows > n_rows:
        return replace(largest, n_rows=n_rows)
    low, high = SMALLEST_EPS, LARGEST_EPS
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        enough = plan_for_eps(middle, dim, config, testers).required_rows <= n_rows
        low, high = (low, middle) if enough else (middle, high)
    plan = plan_for_eps(_round_up(high), dim, config, testers)
    return _spread_surplus(plan, n_rows, config, most=math.inf)


def make_plan(*, dim: int, n_rows: int | None, row_nbytes: int, config: RunConfig) -> PlanRecord:
    """Plan for a number of rows, or for an eps."""
    for name, value in (("dim", dim), ("rows", n_rows)):
        if value is not None and value < 1:
            raise UsageError(f"{name}: {value} given; must be at least 1")
    if n_rows is None and config.eps == "auto":
        raise UsageError(
            "eps: 'auto' needs a number of rows; give rows, or an eps for which to plan"
        )
    if config.mode == "strict":
        raise refuse_strict(0.01 if config.eps == "auto" else float(config.eps), dim)
    if n_rows is None:
        plan = plan_for_eps(float(config.eps), dim, config)
    else:
        plan = plan_for_rows(n_rows, dim, config)
    reuse = plan.split is Split.REUSE

    def budget(name: str, count: int, delta: float | None = None) -> PassBudget:
        count = plan.n_rows if reuse else count
        return PassBudget(name, count, count * row_nbytes, delta)

    updates = (
        budget(f"update at delta {delta:.4g}", math.ceil(plan.accepted_rows / delta), delta)
        for delta in plan.deltas
    )
    passes = (budget("initial", plan.initial_rows), *updates, budget("final", plan.final_rows))
    return PlanRecord(
        rows=plan.n_rows,
        dim=dim,
        eps=plan.eps,
        tau=plan.tau,
        conclusive=plan.required_rows <= plan.n_rows,
        rows_needed=plan.required_rows,
        passes=passes,
        nbytes=sum(one.nbytes for one in passes),
        memory_nbytes=_memory(plan, config, row_nbytes),
        sketched=dim > WIDE_DIM,
    )


def _rows_needed(plan: RunPlan, stage: Stage, config: RunConfig, testers: Testers) -> int:
    """Rows that make the testers of a pass conclusive: of an update, accepted ones."""
    context = plan.context(stage, config)
    if stage is Stage.UPDATE:
        axis = Plane(np.eye(1, plan.dim)[0])
        context = replace(context, frame=Frame(axis, plan.deltas[-1]))
    contexts = [context]
    if stage is not Stage.FINAL and plan.dim > WIDE_DIM:
        in_full = replace(context, config=replace(config, degree=2))
        contexts = [in_full, replace(context, dim=WIDE_DIM)]
    return max(Panel.of(testers, one).rows_needed() for one in contexts)


def _spread_surplus(plan: RunPlan, n_rows: int, config: RunConfig, *, most: float) -> RunPlan:
    """Give every pass its share of the rows that are left, up to `most` times what it needs."""
    factor = min(n_rows / plan.required_rows, most)
    if factor <= 1 or plan.split is Split.REUSE:
        return replace(plan, n_rows=n_rows)
    features = count_monomials(min(plan.dim, WIDE_DIM), config.degree // 2)
    # beyond 125 p accepted rows even the extra spectral test is conclusive: more is of no use
    accepted = int(min(factor * plan.accepted_rows, max(plan.accepted_rows, 125 * features)))
    growth = accepted / plan.accepted_rows
    # updates may repeat a scale more often than foreseen: they get their share in any case
    initial, updates = int(growth * plan.initial_rows), int(factor * plan.update_rows)
    final = min(
        n_rows - initial - updates, int(most * plan.final_rows) if most < math.inf else n_rows
    )
    return replace(
        plan,
        n_rows=n_rows,
        initial_rows=initial,
        accepted_rows=accepted,
        update_rows=updates,
        final_rows=final,
    )


def _round_up(eps: float) -> float:
    """Two significant digits, never below."""
    scale = 10.0 ** (math.floor(math.log10(eps)) - 1)
    return round(math.ceil(eps / scale - 1e-9) * scale, 12)


def _memory(plan: RunPlan, config: RunConfig, row_nbytes: int) -> int:
    """Projected memory of one task of the largest pass."""
    moments = 8 * max(count_monomials(min(plan.dim, WIDE_DIM), config.degree), plan.dim**2)
    slabs = 2 * finest_half_count(plan.eps) + 2
    final = 8 * (plan.max_updates + 1) * slabs * (1 + plan.dim * (plan.dim + 1) // 2)
    largest = max(moments, min(final, partial_limit(config)))
    return TASK_COPIES * BLOCK_NBYTES + (config.split_every + 2) * largest


def partial_limit(config: RunConfig) -> int:
    """What one partial may take: half a worker's memory, two tasks with all they combine."""
    return config.memory_limit // (4 * (config.split_every + 2))
