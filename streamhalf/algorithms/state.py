"""State of Algorithm 3 between two steps, and the ways it moves on.

A state holds plain values only (numbers, arrays, records): it can be saved and resumed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streamhalf import results
from streamhalf.algorithms.baselines import choose
from streamhalf.algorithms.localized_update import Candidate
from streamhalf.algorithms.plan import RunPlan
from streamhalf.algorithms.promises import StepOutcome
from streamhalf.algorithms.row_split import RowSubset
from streamhalf.algorithms.wedge_bound import WedgeOutcome
from streamhalf.data.transforms import Identity, RowTransform
from streamhalf.kernels.plane import Frame, Plane
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.errors import PlaneErrorsResult
from streamhalf.reductions.moments import MomentsResult
from streamhalf.reductions.row_view import Bundle, in_space
from streamhalf.results import Notice, Outcome, Role, Sampling, Stage, Stop, StopReason, TestResult, overall_outcome

_TURN = 0.75


@dataclass(frozen=True, slots=True, eq=False)
class LocalizationState:
    """Everything that the next step depends on.

    `stage` and `delta` are those of the next step; `cursor` counts the learning rows used so far,
    `repeats` the updates at this scale. `frames` are those of the updates that were made, `turned` is
    a plane that no update starts from, and `planes` are all candidates, then all baselines, among
    stored rows. Bounds pay for the choice among `n_transforms`, open before held-out rows were looked
    at; `pinned` is the plane that an earlier look chose.
    """

    stage: Stage
    sampling: Sampling
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
    pinned: int | None = None

    @property
    def n_updates(self) -> int:
        return len(self.frames)

    @property
    def outcome(self) -> Outcome:
        return overall_outcome(self.test_results)

    @property
    def chosen(self) -> int | None:
        """Number of the best plane on fresh rows; None before errors were counted.

        Unless a test rejects, the path of the theorem is favoured, else the first baseline.
        """
        if self.errors is None or self.pinned is not None:
            return None if self.errors is None else self.pinned
        path = range(len(self.candidates))
        trusted = path and self.outcome is not Outcome.REJECTED
        others = range(len(path), len(self.planes))
        return choose(self.errors, path if trusted or not others else others[:1])


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """The next measurement, and the state that follows from its result.

    A store measures it in a pass over the rows of `subset`; a stream takes the next `n_rows` rows.
    `reduction` is of transformed rows, `beside` of the same rows as they are stored; with that, the
    result is a pair.
    """

    name: str
    reduction: Reduction[Any, Any]
    subset: RowSubset
    conclude: Callable[[Any], LocalizationState]
    n_rows: int
    detail: str = ""
    beside: Reduction[Any, Any] | None = None

    def statistic(self, transform: RowTransform) -> Reduction[Any, Any]:
        """Return the statistic of rows as they come, `beside` included."""
        found = self.reduction
        if not isinstance(transform, Identity):
            found = in_space(found, transform)
        return found if self.beside is None else Bundle((found, self.beside))

    @property
    def is_final(self) -> bool:
        """True of the batches of the final pass, whose rows are held out."""
        return self.name.startswith("final")


def unmeasured(state: LocalizationState) -> LocalizationState:
    """Return a state after the final pass as it was before that, its planes known."""
    early = tuple(one for one in state.test_results if one.stage is not Stage.FINAL)
    return replace(
        state,
        stage=Stage.FINAL,
        test_results=early,
        n_batches=0,
        batches=(),
        steps=(),
        final=None,
        errors=None,
        held_out=None,
    )


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
    """Return the plane before an update, turned by 3/4 of its scale towards what it found.

    Where labels next to the boundary are flipped, the best plane is not the one they were flipped
    about, but crosses it at an angle: there an update sees hardly anything but noise.
    """
    plane = turn(before, found.plane, _TURN * found.delta)
    return replace(found, plane=plane, step=float(np.linalg.norm(plane.normal - before.normal)))


def turn(plane: Plane, towards: Plane, angle: float) -> Plane:
    """The plane, turned by an angle towards another; both of length 1."""
    v, w = plane.normal, towards.normal
    across = Plane(w - (w @ v) * v).unit().normal
    return Plane(math.cos(angle) * v + math.sin(angle) * across, plane.threshold).unit()


def stop(state: LocalizationState, reason: StopReason, delta: float | None = None) -> LocalizationState:
    """End the updates for this reason; a turned candidate is put before the last."""
    *others, last = state.candidates
    aside = () if state.turned is None else (state.turned,)
    candidates = (*others, *aside, last)
    return replace(state, stage=Stage.REFINE, stop=Stop(reason, delta), candidates=candidates)


def as_early(found: tuple[TestResult, ...], stage: Stage, name: str) -> tuple[TestResult, ...]:
    """Return the test results of a learning pass, under its name: warnings, unless advisory."""
    return tuple(
        results.replace(one, pass_name=name, stage=stage, role=one.role if one.role is Role.ADVISORY else Role.EARLY)
        for one in found
    )
