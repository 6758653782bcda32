"""How many rows each pass needs, and the smallest eps that a number of rows can judge."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from streamhalf.config import RunConfig
from streamhalf.data.source import BLOCK_NBYTES
from streamhalf.engine.plan import TASK_COPIES
from streamhalf.engine.shares import Split
from streamhalf.errors import UsageError
from streamhalf.kernels.monomials import count_monomials
from streamhalf.records import PassBudget, PlanRecord
from streamhalf.testers.moments import MomentTester
from streamhalf.testers.slab_covariance import SlabCovarianceTester
from streamhalf.testers.slab_mass import SlabMassTester, finest_half_count

FIRST_DELTA = 0.5
PAPER_FIRST_DELTA = 0.01
WIDE_DIM = 64
"""Above this many features, degree k is tested on a sketch."""

LARGEST_EPS, SMALLEST_EPS = 0.25, 1e-4
_SPARE_UPDATES = 6
_ROWS_PER_FEATURE = 100
_COVARIANCE_SLABS = 20


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

    def moment_tester(self, config: RunConfig) -> MomentTester:
        """The moment tester of a pass, with three quarters of its tau."""
        return MomentTester(
            degree=config.degree,
            moment_tolerance=config.moment_tolerance,
            spectral_tolerance=config.spectral_tolerance,
            tau=0.75 * self.tau_pass,
        )

    def mass_tester(self) -> SlabMassTester:
        """The slab mass tester of one candidate."""
        return SlabMassTester(eps=self.eps, tau=self.tau_pass / (2 * (self.max_updates + 1)))

    def covariance_tester(self) -> SlabCovarianceTester:
        """The slab covariance tester of one candidate."""
        return SlabCovarianceTester(
            tau=self.tau_pass / (2 * (self.max_updates + 1)),
            n_slabs=2 * finest_half_count(self.eps) + 2,
        )


def scales(eps: float, *, adaptive: bool) -> tuple[float, ...]:
    """Halving scales: from 1/2 (adaptive) or 1/100 (the paper), the last one below eps."""
    delta = FIRST_DELTA if adaptive else PAPER_FIRST_DELTA
    found = [delta]
    while found[-1] > eps / 2 * 1.999:
        found.append(found[-1] / 2)
    return tuple(found)


def plan_for_eps(eps: float, dim: int, config: RunConfig) -> RunPlan:
    """The fewest rows with which every tester is conclusive at scale eps."""
    adaptive = config.schedule == "adaptive"
    deltas = scales(eps, adaptive=adaptive)
    plan = RunPlan(
        n_rows=0,
        dim=dim,
        eps=eps,
        tau=config.tau,
        split=Split.CHUNKS if config.rows == "auto" else Split(config.rows),
        adaptive=adaptive,
        initial_rows=0,
        accepted_rows=0,
        update_rows=0,
        final_rows=0,
        max_updates=len(deltas) + _SPARE_UPDATES,
    )
    moments = max(_moment_rows(plan, config), _ROWS_PER_FEATURE * dim)
    spare = _SPARE_UPDATES / deltas[0]
    covariance = _COVARIANCE_SLABS * plan.covariance_tester().rows_per_slab(dim)
    plan = replace(
        plan,
        initial_rows=moments,
        accepted_rows=moments,
        update_rows=math.ceil(moments * (sum(1 / delta for delta in deltas) + spare)),
        final_rows=max(plan.mass_tester().rows_needed(), covariance),
    )
    return replace(plan, n_rows=plan.required_rows)


def plan_for_rows(n_rows: int, dim: int, config: RunConfig) -> RunPlan:
    """The smallest eps that `n_rows` rows can judge (or the configured one), all rows dealt out.

    Where the rows do not suffice the plan's `required_rows` exceeds `n_rows`.
    """
    if config.eps != "auto":
        plan = plan_for_eps(float(config.eps), dim, config)
        return _spread_surplus(plan, n_rows, config, most=4.0)
    largest = plan_for_eps(LARGEST_EPS, dim, config)
    if largest.required_rows > n_rows:
        return replace(largest, n_rows=n_rows)
    low, high = SMALLEST_EPS, LARGEST_EPS
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        enough = plan_for_eps(middle, dim, config).required_rows <= n_rows
        low, high = (low, middle) if enough else (middle, high)
    plan = plan_for_eps(_round_up(high), dim, config)
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


def strict_parameters(eps: float, dim: int) -> dict[str, float]:
    """The paper's parameters for its constants C = C_A = 1, as base-10 logarithms where huge.

    eta = 1/20000 (Algorithm 4), k = log(1/eta)/eta^2, log10 of the number of monomials and of
    the rows d^(k log k) (Algorithm 1).
    """
    eta = 1 / 20000
    k = math.ceil(math.log(1 / eta) / eta**2)
    log_monomials = (
        math.lgamma(dim + k + 1) - math.lgamma(k + 1) - math.lgamma(dim + 1)
    ) / math.log(10)
    return {
        "eta": eta,
        "degree": float(k),
        "log10_monomials": log_monomials,
        "log10_rows": k * math.log(k) * math.log10(max(2, dim)),
        "updates": math.ceil(math.log2(1 / eps)) + 1,
    }


def refuse_strict(eps: float, dim: int) -> UsageError:
    """The error that a strict run ends with, the paper's parameters in it."""
    found = strict_parameters(eps, dim)
    return UsageError(
        f"mode: 'strict' cannot run: at eta = 1/20000 (Algorithm 4, all constants 1) the degree is "
        f"k = {found['degree']:.3g}, with 10^{found['log10_monomials']:.3g} monomials of {dim} "
        f"features and 10^{found['log10_rows']:.3g} rows; use mode: practical"
    )


def _moment_rows(plan: RunPlan, config: RunConfig) -> int:
    tester = plan.moment_tester(config)
    if plan.dim <= WIDE_DIM:
        return tester.rows_needed(plan.dim)
    in_full = replace(tester, degree=2).rows_needed(plan.dim)
    return max(in_full, tester.rows_needed(WIDE_DIM))


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
