"""The final pass: the tests of every step, Algorithm 2 and the errors of all candidates.

Its rows are drawn one by one from the whole data set, and no step of the path has used them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from streamhalf import results
from streamhalf.algorithms.baselines import Baseline
from streamhalf.algorithms.plan import RunPlan, Testers
from streamhalf.algorithms.promises import StepTest, as_refinement
from streamhalf.algorithms.row_split import RowSubset
from streamhalf.algorithms.state import LocalizationState, Step
from streamhalf.algorithms.transform import class_of
from streamhalf.algorithms.wedge_bound import WedgeOutcome
from streamhalf.config import RunConfig
from streamhalf.data.block import RowRanges
from streamhalf.data.transforms import Identity, RowTransform
from streamhalf.engine.memory import partial_limit
from streamhalf.kernels.plane import Plane
from streamhalf.kernels.streams import Stream
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.candidates import CandidateSlabs
from streamhalf.reductions.errors import PlaneErrors
from streamhalf.reductions.row_view import Bundle, RowView, Sample, Viewed
from streamhalf.results import HalfspaceClass, Stage
from streamhalf.testers import Context, TesterSet
from streamhalf.testers.moments import with_sketch
from streamhalf.testers.slabs import SlabCovarianceTester
from streamhalf.testers.wedge import WedgeTester

_SKETCHES = 1 << 20  # Sketches of the final pass are numbered from here


@dataclass(frozen=True, slots=True, eq=False)
class FinalPass:
    """The final pass of a plan, in as many batches as memory asks for."""

    plan: RunPlan
    config: RunConfig
    testers: Testers
    row_transform: RowTransform = field(default_factory=Identity)
    baselines: tuple[Baseline, ...] = ()
    sketch_seed: int | None = None  # of an earlier look, whose sketches these rows are added to
    tau_share: float = 1.0  # of that look's tau, by which the statistics are chosen

    def step(self, state: LocalizationState, subset: RowSubset) -> Step:
        """Return the next batch of candidates and steps, measured on the held-out rows."""
        state = self.with_planes(state)
        context, tests = self._batch(state, sum(len(batch.betas) for batch in state.batches), len(state.steps))
        tester_set, needs, errors = self._needs(state, context, tests, with_errors=state.errors is None)

        def conclude(result: Any) -> LocalizationState:
            found, counted = (result, state.errors) if errors is None else result
            count = len(found) - len(tests)
            about = (WedgeOutcome.of(tester_set.stricter(self.tau_share), found[:count]),) if count else ()
            judged = zip(tests, found[count:], strict=True)
            moved = replace(
                state,
                n_batches=state.n_batches + 1,
                batches=(*state.batches, *about),
                steps=(*state.steps, *(test.stricter(self.tau_share).conclude(one) for test, one in judged)),
                errors=counted,
            )
            measured = sum(len(batch.betas) for batch in moved.batches)
            if measured < len(state.candidates) or len(moved.steps) <= state.n_updates:
                return moved
            return _finish(moved, replace(subset, high=self.part * subset.high))

        whole = len(tests) > state.n_updates and len(context.candidates) == len(state.candidates)
        name = "final" if whole else f"final-{state.n_batches + 1}"
        return Step(name, needs, subset, conclude, self.plan.final_rows, beside=errors)

    @property
    def part(self) -> float:
        """Share of the held-out rows that errors and slabs are counted on."""
        return self.plan.counted_rows / self.plan.final_rows

    def batches(self, state: LocalizationState) -> tuple[Reduction[Any, Any], ...]:
        """Return the statistics of all batches, of rows as they are stored."""
        found: list[Reduction[Any, Any]] = []
        state, n_steps, n_candidates = self.with_planes(state), 0, 0
        while n_steps <= state.n_updates or n_candidates < len(state.candidates):
            context, tests = self._batch(state, n_candidates, n_steps)
            _, needs, errors = self._needs(state, context, tests, with_errors=not found and state.errors is None)
            step = Step("final", needs, RowSubset(RowRanges.of(()), 0), lambda _: state, 0, beside=errors)
            found.append(step.statistic(self.row_transform))
            n_steps, n_candidates = n_steps + len(tests), n_candidates + len(context.candidates)
        return tuple(found)

    def with_planes(self, state: LocalizationState) -> LocalizationState:
        """Return the state with the planes of all candidates and baselines among stored rows."""
        return state if state.planes else replace(state, planes=self._planes(state))

    def _needs(
        self, state: LocalizationState, context: Context, tests: tuple[StepTest, ...], *, with_errors: bool
    ) -> tuple[TesterSet, Bundle, Reduction[Any, Any] | None]:
        """Testers of the candidates of a batch, all its statistics, and the errors beside them."""
        tester_set, part = TesterSet.of(self.testers, context), self.part
        about_candidates = tester_set.needs().members if context.candidates else ()
        parts = (part if isinstance(one, CandidateSlabs) else 1.0 for one in about_candidates)
        wanted = (*about_candidates, *(test.needs() for test in tests))
        tops = (*parts, *(test.top for test in tests))
        needs = Bundle(tuple(map(self._nearest, wanted, tops)))
        if not with_errors:
            return tester_set, needs, None
        errors: Reduction[Any, Any] = PlaneErrors(state.planes, self.plan.n_rows)
        return tester_set, needs, self._nearest(errors, part) if part < 1 else errors

    def _nearest(self, reduction: Reduction[Any, Any], top: float) -> Reduction[Any, Any]:
        """The reduction over the rows with the smallest numbers; frames draw from these too."""
        return Viewed(reduction, RowView(Sample(self.config.seed, Stream.SHARES, 0.0, top)))

    def _planes(self, state: LocalizationState) -> tuple[Plane, ...]:
        pulled = (self.row_transform.to_stored(candidate.plane) for candidate in state.candidates)
        members = tuple(one.plane for one in self.baselines)
        if self.config.through == HalfspaceClass.CENTRE:  # of the transform, which a sample knew about
            centre = np.array(self.row_transform.record.centre or [0.0] * self.plan.dim)
            members = tuple(plane.moved_to(centre) for plane in members)
        return (*pulled, *members)

    def _batch(self, state: LocalizationState, first: int, n_steps: int) -> tuple[Context, tuple[StepTest, ...]]:
        """As many candidates from `first` on, then as many steps, as their matrices fit in memory."""
        limit, dim = partial_limit(self.config.split_every), self.plan.dim
        planes = tuple(candidate.plane for candidate in state.candidates)
        context = self.plan.context(Stage.FINAL, self.config, self.plan.final_rows)
        # no promise is finer than half of the last scale
        finest = min((frame.delta for frame in state.frames), default=0.0)
        eps = max(context.eps, finest / 2)
        threshold = max((abs(plane.threshold) for plane in planes), default=0.0)
        context = replace(
            context,
            candidates=planes[first:],
            first=first,
            eps=eps,
            threshold=threshold,
            any_threshold=class_of(self.config, self.row_transform) is HalfspaceClass.ANY,
        )
        if context.candidates:
            tester_set = TesterSet.of(self.testers, context)
            edges, etas = (tester_set.find(SlabCovarianceTester).edges(), tester_set.find(WedgeTester).etas)
            room = limit // (4 * dim * (dim + 3))
            slabs = min(len(edges) + 1, max(4, room - len(etas)))
            size = max(1, room // (slabs + len(etas)))
            context = replace(context, candidates=planes[first : first + size], most_slabs=slabs)
            limit -= TesterSet.of(self.testers, context).needs().partial_nbytes(dim)
        tests: list[StepTest] = []
        for number in range(n_steps, state.n_updates + 1):
            test = self._step_test(state, number)
            limit -= test.needs().partial_nbytes(dim)
            if limit < 0 and (tests or context.candidates):
                break
            tests.append(test)
        return context, tuple(tests)

    def _step_test(self, state: LocalizationState, number: int) -> StepTest:
        """The tests of the first pass (number 0) or of an update."""
        frame = state.frames[number - 1] if number else None
        n_rows = self.plan.rows_for_step(frame.rate if frame else 1.0)
        stage = Stage.UPDATE if number else Stage.INITIAL
        context = replace(self.plan.context(stage, self.config, n_rows), frame=frame)
        # the candidate that the update started from; its threshold may have moved since
        normals = enumerate(one.plane.normal for one in state.candidates)
        candidate = next((i for i, normal in normals if frame and np.array_equal(normal, frame.plane.normal)), None)
        around = () if candidate is None else state.candidates[max(0, candidate - 1) :][:2]
        anchors = tuple(one.plane.normal for one in around)
        return StepTest(
            number=number,
            frame=frame,
            candidate=candidate,
            tester_set=TesterSet.of(
                self.testers, with_sketch(context, anchors, number=_SKETCHES + number, seed=self.sketch_seed)
            ),
            top=n_rows / self.plan.final_rows,
            seed=self.config.seed,
        )


def _finish(state: LocalizationState, share: RowSubset) -> LocalizationState:
    outcome = WedgeOutcome.joined(state.batches) if state.batches else None
    about_candidates = (
        results.replace(one, pass_name="final", stage=Stage.FINAL) for one in (outcome.test_results if outcome else ())
    )
    return replace(
        state,
        stage=Stage.DONE,
        final=outcome,
        held_out=share,
        test_results=(*state.test_results, *as_refinement(state.steps), *about_candidates),
    )
