"""The record that `plan` returns: passes, rows, bytes and memory of a run to come."""

from __future__ import annotations

import math
from dataclasses import replace

from scipy.special import ndtri

from streamhalf.algorithms.plan import (
    REFINING_ROWS,
    REGRESSED_PER_FEATURE,
    SCANNED_ROWS,
    RunPlan,
    lacks_rows,
    plan_about,
    plan_for_eps,
    plan_for_rows,
    rows_about,
    sample_room,
    suffices,
)
from streamhalf.algorithms.promises import expected_promises
from streamhalf.algorithms.regression import regression_passes
from streamhalf.config import RunConfig
from streamhalf.data.source import BLOCK_NBYTES
from streamhalf.engine.memory import partial_limit, rows_nbytes
from streamhalf.errors import UsageError
from streamhalf.kernels.monomials import count_monomials
from streamhalf.results import HalfspaceClass, PassBudget, PlanRecord, Sampling, Stage, StrictPlanRecord
from streamhalf.testers import TESTERS
from streamhalf.testers.moments import WIDE_DIM
from streamhalf.testers.slab_mass import finest_half_count

_MATRICES = 12
"""Of a single candidate in the final pass, however little room there is: slabs and wedges."""

_ETA = 1 / 20000
"""Algorithm 4, with all constants 1."""


def make_plan(
    *,
    dim: int,
    n_rows: int | None,
    row_nbytes: int,
    config: RunConfig,
    positive: float | None = None,
    at_hand: bool = False,
) -> PlanRecord:
    """Plan for a number of rows, or for an eps.

    `positive` is the share of the rows with label +1, from which the threshold of Gaussian rows
    follows; None for no threshold. Where rows are too few, the passes are those of as many as it
    takes, or, with rows `at_hand`, those that a run makes of them all the same.
    """
    for name, value in (("dim", dim), ("rows", n_rows)):
        if value is not None and value < 1:
            raise UsageError(f"{name}: {value} given; must be at least 1")
    if n_rows is None and config.eps == "auto":
        raise UsageError("eps: 'auto' needs a number of rows; give rows, or an eps for which to plan")
    threshold = 0.0 if positive is None else _threshold(positive, config)
    if n_rows is None:
        least = plan_for_eps(float(config.eps), dim, config)
        n_rows = rows_about(least, threshold, config) if threshold else least.required_rows
    plan = plan_for_rows(n_rows, dim, config)
    needed = plan.required_rows
    conclusive = needed <= n_rows
    if threshold:
        plan = plan_about(plan, threshold, config, TESTERS) if conclusive else plan
        conclusive = conclusive and suffices(plan, threshold, config)
        needed = rows_about(plan, threshold, config)
    shown = plan
    if not at_hand and not conclusive and needed > n_rows:  # what so many rows would be dealt
        shown = plan_for_rows(needed, dim, config)
        shown = plan_about(shown, threshold, config, TESTERS) if threshold else shown
    passes = _passes(shown, shown, config, row_nbytes)
    if at_hand and not plan.can_learn:  # updates would have too few rows
        passes = passes[-1:]
    return PlanRecord(
        rows=n_rows,
        dim=dim,
        eps=plan.eps,
        tau=plan.tau,
        conclusive=conclusive,
        rows_needed=needed,
        passes=passes,
        nbytes=sum(one.nbytes for one in passes),
        memory_nbytes=rows_nbytes(1, BLOCK_NBYTES) + held_by_learning(plan, config),
        sketched=dim > WIDE_DIM,
        # with a threshold no constant is known
        promises=() if threshold else expected_promises(plan, config),
        positive=positive,
    )


def planned_rows(n_rows: int, dim: int, config: RunConfig) -> int:
    """Rows that all passes of a fit read, about: what becomes of a run shows while it runs."""
    plan = plan_for_rows(n_rows, dim, config)
    passes = _passes(plan, replace(plan, n_rows=n_rows), config, 1)
    certificate = 0 if config.certificate_degree == 0 else n_rows
    regressed = min(n_rows, REGRESSED_PER_FEATURE * dim) if lacks_rows(plan, config) else 0
    read = sum(one.nbytes for one in passes) + certificate
    return read + regression_passes(regressed, dim) * regressed


def _threshold(positive: float, config: RunConfig) -> float:
    """The point above which N(0, 1) has this share of its mass."""
    if not 0 < positive < 1:
        raise UsageError(f"positive: {positive} given; must be above 0 and below 1")
    if config.through != HalfspaceClass.ANY:
        raise UsageError(
            f"positive: {positive} given, but through is {config.through!r}: halfspaces through "
            "one point have no threshold; leave one of the two out"
        )
    return float(-ndtri(positive))


def _passes(plan: RunPlan, whole: RunPlan, config: RunConfig, row_nbytes: int) -> tuple[PassBudget, ...]:
    """Rows and bytes of every pass."""
    learning = math.ceil(whole.n_rows * (1 - whole.held_out))
    beside = {Stage.REFINE: REFINING_ROWS}
    if config.through == HalfspaceClass.ANY:
        beside[Stage.THRESHOLDS] = SCANNED_ROWS
    return (
        _budget(whole, "initial", plan.initial_rows, row_nbytes),
        *(
            _budget(
                whole,
                f"update at delta {delta:.4g}",
                math.ceil(plan.accepted_rows / plan.rate(delta)),
                row_nbytes,
                delta,
            )
            for delta in plan.deltas
        ),
        *(_budget(whole, one, min(most, learning), row_nbytes) for one, most in beside.items()),
        # it reads all rows, and keeps those that are held out
        PassBudget("final", plan.final_rows, whole.n_rows * row_nbytes),
    )


def _budget(plan: RunPlan, name: str, rows: int, row_nbytes: int, delta: float | None = None) -> PassBudget:
    """Rows that a learning pass uses, and the bytes that it reads for them."""
    if plan.sampling is Sampling.REUSE and delta is not None:
        rows = plan.reused_rows(plan.rate(delta))
    read = rows / (1 - plan.held_out) if plan.sampling is Sampling.WINDOWS else plan.n_rows
    return PassBudget(name, rows, math.ceil(read) * row_nbytes, delta)


def held_by_learning(plan: RunPlan, config: RunConfig, *, learns: bool = True) -> int:
    """Return the most bytes that partials take in a task, the certificate aside.

    Without candidates where nothing is learnt.
    """
    dim, split_every = plan.dim, config.split_every
    moments = 8 * max(count_monomials(min(dim, WIDE_DIM), config.degree), dim**2)
    largest = max(moments, sample_room(config, dim) * (8 * (dim + 2) + 1))
    if learns and plan.can_learn:  # candidates have matrices for slabs and wedges
        matrix, slabs = 4 * dim * (dim + 3), 2 * finest_half_count(plan.slab_eps) + 2
        final = (plan.max_updates + 1) * (moments + (slabs + _MATRICES) * matrix)
        batch = min(final, partial_limit(split_every))
        largest = max(largest, batch, _MATRICES * matrix)
    return (split_every + 2) * largest


def strict_plan(config: RunConfig, dim: int) -> StrictPlanRecord:
    """Return the paper's parameters for an eps (0.01 where none is given), constants C = C_A = 1.

    k = log(1/eta)/eta^2, and rows d^(k log k) (Algorithm 1).
    """
    eps = 0.01 if config.eps == "auto" else float(config.eps)
    k = math.ceil(math.log(1 / _ETA) / _ETA**2)
    monomials = math.lgamma(dim + k + 1) - math.lgamma(k + 1) - math.lgamma(dim + 1)
    return StrictPlanRecord(
        eps=eps,
        dim=dim,
        eta=_ETA,
        degree=k,
        log10_monomials=monomials / math.log(10),
        log10_rows=k * math.log(k) * math.log10(max(2, dim)),
        updates=math.ceil(math.log2(1 / eps)) + 1,
    )
