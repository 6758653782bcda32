"""The row budget of a run."""

from __future__ import annotations

import math
from dataclasses import dataclass

from streamhalf.algorithms import budget
from streamhalf.config import RunConfig
from streamhalf.engine.memory import partial_limit
from streamhalf.kernels.frame import acceptance_rate
from streamhalf.kernels.monomials import count_monomials
from streamhalf.results import HalfspaceClass, Sampling, Stage
from streamhalf.testers import Context
from streamhalf.testers.moments import SKETCH_DIRECTIONS, WIDE_DIM

FIRST_DELTA = 0.5
PAPER_FIRST_DELTA = 0.01

_FAR_DELTA, _FAR = 0.25, 0.5
"""From this threshold on the first scale is finer: of the rows that 1/2 accepts, few lie beyond."""

SCANNED_ROWS = 1 << 20
"""Rows that choose thresholds: so many place one to within a millionth of the rows."""

REFINING_ROWS = 1 << 20
"""Rows that refine learns from, at most."""

_MOST_COUNTED = 1 << 24
"""Rows that errors and slabs are counted on: these tell an error to within two hundredths of a per
cent, and every candidate has to go through all of them."""

REFINED = 2
"""Candidates at most that refine adds."""

_MOST_SAMPLED = 1 << 17
"""Rows in memory: so many place a regression within a few ten-thousandths of what more would."""

REGRESSION_PASSES = 22
"""Passes of a regression at most; Gaussian rows of 200 to 2,000 features take 10 to 22."""

_ENOUGH_PER_FEATURE, REGRESSED_PER_FEATURE = 256, 1024
"""Rows for each feature with which a sample will do for a regression, and beyond which more are not
read: with d features its error exceeds that of endless rows by about d / (2 rows) where labels are
clean, and by twice that where 5% are noise."""

_MORE_REUSED = 8
"""Where rows are reused an update takes so many times the rows that it needs, if there are any."""


_LEAST_WORK, _WORK_PER_ROW = 2 * 10**11, 10**4
"""Products of two quadratics that the tests of a step may take: a few seconds of one core, and more
where there is more to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """Row budget of a run.

    Parameters
    ----------
    n_rows, dim, eps, tau
        Of the run; every tester is conclusive at scale eps with these budgets.
    split
        How learning passes share the rows.
    adaptive
        Whether delta halves only after a small step, starting at 1/2.
    initial_rows
        Rows of the first pass.
    accepted_rows
        Rows an update should accept: it reads accepted_rows / delta.
    update_rows
        Rows of all updates together.
    final_rows
        Rows that are held out for the final pass.
    tested_rows, ample_rows
        Accepted rows that make the tests of a step conclusive, those of quadratics among them, and
        at most as many as a step is tested on.
    max_updates
        Updates at most; tau is shared over so many steps.
    finest_delta
        The scale at which learning ends: 2 eps, or that halved a few times where there are rows.
    wedge_eps, slab_eps
        The finest scales at which the wedge bound and the mass of slabs can be tested.
    threshold
        Of the planes, about: away from 0 fewer rows are near them.
    needed_rows
        Where the rows are too few for all tests, how many it takes; else 0.
    """

    n_rows: int
    dim: int
    eps: float
    tau: float
    split: Sampling
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
        """The scale of the first update."""
        return first_scale(self.threshold, adaptive=self.adaptive)

    def rate(self, delta: float) -> float:
        """Share of the rows that an update at this scale accepts, if they are Gaussian."""
        return acceptance_rate(self.threshold, delta)

    @property
    def learning_rows(self) -> int:
        """Rows of the first pass and all updates."""
        if self.split is Sampling.REUSE:
            last = math.ceil(self.accepted_rows / self.rate(self.finest_delta))
            return max(self.initial_rows, last)
        return self.initial_rows + self.update_rows

    @property
    def required_rows(self) -> int:
        """Rows the data set must have."""
        return self.needed_rows or self.learning_rows + self.final_rows

    @property
    def can_learn(self) -> bool:
        """Whether the rows that are not held out are enough for updates."""
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
        """What testers are told before a pass; the pass itself adds what it knows.

        Half of the testers' tau is for the steps of the path, each of which is tested once in the
        final pass, and half for what is tested about the candidates there.
        """
        of_testers = self.tau * budget.TESTERS / 2
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
    """Whether a sample in memory has too few rows for a regression, and there are more."""
    learning = plan.n_rows - plan.final_rows
    return sample_room(config, plan.dim) < min(learning, _ENOUGH_PER_FEATURE * plan.dim)
