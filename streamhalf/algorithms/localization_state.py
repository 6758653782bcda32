"""The state of Algorithm 3 between two passes, and the ways it moves on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streamhalf import results
from streamhalf.algorithms.choice import choose
from streamhalf.algorithms.path_tests import StepOutcome
from streamhalf.algorithms.row_split import RowSubset
from streamhalf.algorithms.run_plan import RunPlan
from streamhalf.algorithms.wedge_bound import WedgeOutcome
from streamhalf.kernels.frame import Frame
from streamhalf.kernels.plane import Plane
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.errors import PlaneErrorsResult
from streamhalf.reductions.moments import MomentsResult
from streamhalf.results import (
    Notice,
    Outcome,
    Role,
    Sampling,
    Stage,
    Stop,
    StopReason,
    TestResult,
    overall_outcome,
)

_TURN = 0.75


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A plane and how it was found: from a localised update at scale `delta`, or Chow.

    `rate` is the share of N(0, I) rows that the update accepts.
    """

    plane: Plane
    delta: float
    step: float
    overlap: float
    n_seen: int
    n_accepted: int
    rate: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class LocalizationState:
    """Everything that the next pass depends on.

    `stage` is what to do next; what the testers said is `outcome`. `plan` is the row budget, which
    follows the threshold of the first candidate. `frames` are those of the
    updates that were made, `steps` what the final pass said about them. `turned` is a candidate
    that no update starts from; `planes` are all candidates, and after them the pool's members,
    among stored rows, and `errors` what they got wrong. `n_transforms` is how many transforms were
    open before held-out rows spoke: bounds pay for the choice among them.
    """

    stage: Stage
    split: Sampling
    plan: RunPlan
    delta: float
    cursor: int = 0
    repeats: int = 0
    frames: tuple[Frame, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    turned: Candidate | None = None
    test_results: tuple[TestResult, ...] = ()
    stop: Stop | None = None
    n_batches: int = 0
    batches: tuple[WedgeOutcome, ...] = ()
    steps: tuple[StepOutcome, ...] = ()
    final: WedgeOutcome | None = None
    planes: tuple[Plane, ...] = ()
    errors: PlaneErrorsResult | None = None
    held_out: RowSubset | None = None
    moments: MomentsResult | None = None
    repeated_rows: Notice | None = None
    n_transforms: int = 1

    @property
    def n_updates(self) -> int:
        """Updates that were made."""
        return len(self.frames)

    @property
    def outcome(self) -> Outcome:
        """What the testers have said so far."""
        return overall_outcome(self.test_results)

    @property
    def chosen(self) -> int | None:
        """The best on fresh rows, of candidates and members; None before they were counted.

        Where the tests do not speak against it the path of the theorem is favoured, else the first
        member.
        """
        if self.errors is None:
            return None
        path = range(len(self.candidates))
        trusted = path and self.outcome is not Outcome.REJECTED
        others = range(len(path), len(self.planes))
        return choose(self.errors, path if trusted or not others else others[:1])


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """The next pass: its name, its statistic, its rows, and the state that its result leads to.

    `beside` is a statistic of the same rows as they are stored, in whatever transform the other is;
    where there is one, the result is a pair.
    """

    name: str
    reduction: Reduction[Any, Any]
    share: RowSubset
    conclude: Callable[[Any], LocalizationState]
    detail: str = ""
    beside: Reduction[Any, Any] | None = None


def with_mean(state: LocalizationState) -> LocalizationState:
    """Add the mean of the last two candidates, by the precision of the rows behind them.

    An update at scale delta errs by an angle proportional to delta / sqrt(accepted rows), and two
    of them used different rows: under random noise their mean is nearer than either.
    """
    if len(state.candidates) < 3:
        return state
    before, last = state.candidates[-2:]
    weights = [one.n_accepted / one.delta**2 for one in (before, last)]
    mean = Plane(
        weights[0] * before.plane.normal + weights[1] * last.plane.normal,
        weights[0] * before.plane.threshold + weights[1] * last.plane.threshold,
    ).unit()
    step = float(np.linalg.norm(mean.normal - last.plane.normal))
    return replace(state, candidates=(*state.candidates, replace(last, plane=mean, step=step)))


def turned(found: Candidate, before: Plane) -> Candidate:
    """The plane before an update, turned by three quarters of its scale towards what it found.

    Where labels next to the boundary are flipped, the best plane is not the one they were flipped
    about, but crosses it at an angle: there an update sees hardly anything but noise.
    """
    plane = turn(before, found.plane, _TURN * found.delta)
    return replace(found, plane=plane, step=float(np.linalg.norm(plane.normal - before.normal)))


def turn(plane: Plane, towards: Plane, angle: float) -> Plane:
    """A plane, turned by an angle towards another; both of length 1."""
    v, w = plane.normal, towards.normal
    across = Plane(w - (w @ v) * v).unit().normal
    return Plane(math.cos(angle) * v + math.sin(angle) * across, plane.threshold).unit()


def stop(
    state: LocalizationState, reason: StopReason, delta: float | None = None
) -> LocalizationState:
    """Refine instead of updates, for this reason; a turned candidate stands before the last."""
    *others, last = state.candidates
    aside = () if state.turned is None else (state.turned,)
    candidates = (*others, *aside, last)
    return replace(state, stage=Stage.REFINE, stop=Stop(reason, delta), candidates=candidates)


def as_early(
    test_results: tuple[TestResult, ...], stage: Stage, name: str
) -> tuple[TestResult, ...]:
    """The test_results of a learning pass, under its name: warnings, unless they are advice."""
    return tuple(
        results.replace(
            one,
            pass_name=name,
            stage=stage,
            role=one.role if one.role is Role.ADVISORY else Role.EARLY,
        )
        for one in test_results
    )
