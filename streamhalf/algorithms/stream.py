"""Learning from rows that keep coming: every row is seen once, and none is kept but a block.

Algorithm 3 asks for fresh rows at every step, and a stream has nothing else. A path is learned step
by step from the rows as they arrive; every row after its last step is held out for all of it:
errors of all candidates, tests of all steps, slabs, and the certificate's moments. When rows have
grown fourfold, a new path is learned beside the old one and takes its place when it is better.

All of this happens block by block of the same rows, so that the sizes of batches make no difference.
Bounds hold at all numbers of rows at once; paths, and the looks of their tests at doubling numbers
of rows, share tau as looks do.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from streamhalf import results
from streamhalf.algorithms.assemble import Closing, Seen, assemble, held_out_error
from streamhalf.algorithms.baselines import Baseline, learn_baselines_on_sample
from streamhalf.algorithms.final_pass import FinalPass
from streamhalf.algorithms.kept import CertificatePlan, Measurement, Path, in_segments
from streamhalf.algorithms.localization import Localization
from streamhalf.algorithms.plan import BOUND_TAU, RunPlan, plan_for_rows, smallest_plan
from streamhalf.algorithms.row_split import RowSubset
from streamhalf.algorithms.state import LocalizationState, Step, unmeasured
from streamhalf.algorithms.transform import (
    choose_transforms,
    in_transform,
    is_open,
    transform_notices,
    transform_of_sample,
)
from streamhalf.certificate.certification import Certification, within_room
from streamhalf.certificate.certify import towards
from streamhalf.config import RunConfig
from streamhalf.data.block import Block, RowRanges
from streamhalf.data.transforms import Identity, make_transform
from streamhalf.errors import TransformError
from streamhalf.kernels.binomial import anytime_lower, anytime_upper, look_tau
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.errors import PlaneErrors
from streamhalf.reductions.row_view import Bundle
from streamhalf.testers import TESTERS

BLOCK_ROWS = 1 << 14  # Rows that are looked at together; fewer wait for more
_GROWTH = 4  # A new path is learned when rows have grown so many times
_MOST_PLANNED = 1 << 23  # Rows that a path is planned for, at most: half of them are tested, and enter its certificate
_FIRST_SAMPLE, _SAMPLE = 1 << 14, 1 << 16
_LOOKS = 4  # Tests are judged when an eighth, a quarter, a half and all of a path's rows for tests are there
_RARE_LABEL = 64  # Rows of the rarer label with which the first path begins
_FIRST_SEGMENTED = 1 << 20  # Rows that the first error segments are cut for; twice as many whenever these are full
_BEYOND_CHANCE = 2.6


def _added(statistic: Reduction[Any, Any], partial: Any, block: Block) -> Any:
    """The partial with one block more."""
    found = statistic.map(block)
    return found if partial is None else statistic.combine(partial, found)


def seed_of(seed: int, number: int) -> int:
    """A seed for each path, which those of others tell nothing about."""
    return int.from_bytes(hashlib.sha256(f"{seed} {number}".encode()).digest()[:6], "big")


@dataclass(frozen=True, slots=True, eq=False)
class _FreshRows:
    """Takes the place of a `RowSplit`: every step has the rows that come next."""

    plan: RunPlan
    sampling: results.Sampling = results.Sampling.WINDOWS

    @property
    def learning_rows(self) -> int:
        """Rows of refine, and of the scan of thresholds."""
        return max(BLOCK_ROWS, (self.plan.n_rows - self.plan.final_rows) // 4)

    def take(self, cursor: int = 0, n_rows: int = 0) -> RowSubset:
        """No rows of a store."""
        return RowSubset(RowRanges.of(()), 0)

    held_out_subset = take


@dataclass(slots=True, eq=False)
class Learning:
    """A path under way: a sample first, then the steps of Algorithm 3, each from the next rows.

    `number` counts paths; `kind` is the transform that is tried (None: the first that the sample
    leaves open), `sample` the rows so far, `taken` those of the step under way.
    """

    number: int
    n_planned: int
    wanted: int
    kind: results.Transform | None = None
    n_rows: int = 0
    sample: tuple[Block, ...] = ()
    trials: tuple[results.TransformTrial, ...] = ()
    kinds: tuple[results.Transform, ...] = ()
    transform: results.TransformRecord = field(default_factory=results.TransformRecord)
    baselines: tuple[Baseline, ...] = ()
    plan: RunPlan | None = None
    state: LocalizationState | None = None
    partial: Any = None
    taken: int = 0

    def algorithm(self, config: RunConfig) -> Localization:
        assert self.plan is not None
        kind, laid = results.Transform(self.transform.kind), make_transform(self.transform)
        split: Any = _FreshRows(self.plan)
        return Localization(self.plan, in_transform(config, kind), split, TESTERS, laid, self.baselines)

    def step(self, config: RunConfig) -> tuple[Step, Reduction[Any, Any]]:
        """The step under way, and its statistic."""
        assert self.state is not None
        algorithm = self.algorithm(config)
        step = algorithm.next_step(self.state)
        assert step is not None
        return step, step.statistic(algorithm.row_transform)

    def take(self, block: Block, config: RunConfig) -> bool:
        """Take one block of rows; True when all steps are done, and what follows is held out."""
        local = block.renumbered(self.n_rows)
        self.n_rows += block.n_rows
        if self.state is None:
            self._sample(local, config)
        else:
            step, needs = self.step(config)
            self.partial = _added(needs, self.partial, local)
            self.taken += block.n_rows
            if self.taken >= step.n_rows:
                self.state = step.conclude(needs.finalize(self.partial))
                self.partial, self.taken = None, 0
        return self.state is not None and self.step(config)[0].is_final

    def _sample(self, block: Block, config: RunConfig) -> None:
        """Gather rows; with enough of them choose the transform, learn baselines and plan the steps."""
        keep = max(1, self.wanted // block.n_rows)
        self.sample = (*self.sample, block)[-keep:]  # of one label for a long time, the last rows
        positive = sum(int(np.count_nonzero(one.y > 0)) for one in self.sample)
        n_rows = sum(one.n_rows for one in self.sample)
        if n_rows < self.wanted or min(positive, n_rows - positive) < _RARE_LABEL:
            return
        sample, self.sample = Block.concatenate(self.sample), ()
        plan = smallest_plan(block.dim, config)
        if self.n_planned > plan.required_rows:
            plan = plan_for_rows(self.n_planned, block.dim, config)
        self.plan = plan
        self.trials, kinds = choose_transforms(sample, plan, config)
        if self.kind in kinds:
            kinds = kinds[kinds.index(self.kind) :]
        self.kinds = kinds[1:]
        try:
            self.transform = transform_of_sample(kinds[0], sample, config).record
        except TransformError:
            if config.feature_transform != "auto":
                raise
        spare = any(is_open(one) for one in self.trials)
        self.baselines = learn_baselines_on_sample(sample, plan, in_transform(config, kinds[0]), spare=spare)
        self.state = self.algorithm(config).start()

    def learned(self, config: RunConfig, first_row: int) -> Measured:
        """The path with its last step done, about which rows from `first_row` on will tell."""
        assert self.state is not None
        algorithm = self.algorithm(config)
        final = FinalPass(self.state.plan, algorithm.config, TESTERS, algorithm.row_transform, self.baselines)
        state = final.with_planes(unmeasured(self.state))
        path = Path(
            settings=algorithm.config.recorded(),
            state=state,
            baselines=self.baselines,
            transform=self.transform,
            trials=self.trials,
            notices=transform_notices(self.transform),
            chosen=0,
            certificate=None,
            first_rows=state.plan.final_rows,
            held_out=1.0,
        )
        return Measured(self.number, first_row, path, config.seed, config.tau, self.kinds)


@dataclass(slots=True, eq=False)
class Measured:
    """A path, and what the rows after its last step say of it.

    `errors` are those of all candidates on all rows, from `first_row` of the stream on, `finals` partials of the tests
    on the first `n_tested` rows, `closing` those of the certificate pass on `n_closing` rows from `closing_row` on,
    where the candidate was chosen; `judged` is the state after the last of `looks` looks at the tests, and `found` the
    last certificate with its rows.
    """

    number: int
    first_row: int
    path: Path
    seed: int
    tau: float
    kinds: tuple[results.Transform, ...]
    n_rows: int = 0
    errors: Any = None
    n_segmented: int = _FIRST_SEGMENTED
    finals: tuple[Any, ...] | None = None
    n_tested: int = 0
    closing: Any = None
    n_closing: int = 0
    closing_row: int = 0
    judged: LocalizationState | None = None
    looks: int = 0
    found: tuple[int, results.CertificateRecord | None] | None = None

    @property
    def for_tests(self) -> int:
        """Rows that tests look at."""
        return self.path.state.plan.final_rows

    @property
    def is_tested(self) -> bool:
        return self.n_tested >= self.for_tests

    def measurement(self, share: float = 1.0) -> Measurement:
        """The statistics of the path; tests judge at a share of its tau."""
        return Measurement(path=self.path, seed=self.seed, tau=self.tau * share, n_rows=self.for_tests)

    def state(self) -> LocalizationState:
        pinned = self.path.chosen if self.n_closing else None
        return replace(self.judged or self.measurement().start, errors=self.errors, pinned=pinned)

    def take(self, block: Block) -> None:
        """Count one block of further rows."""
        local = block.renumbered(self.n_rows)
        if self.n_rows + block.n_rows > self.n_segmented:
            doubled, dim = 2 * self.n_segmented, block.dim
            like = self.counts(doubled).empty(dim)
            self.errors = in_segments(self.errors, self.n_segmented, doubled, like)
            self.n_segmented = doubled
        self.errors = _added(self.counts(), self.errors, local)
        if not self.is_tested:
            self.finals = _added(self.tests(), self.finals, local)
            self.n_tested += block.n_rows
        if self.n_tested >= self.for_tests // _LOOKS and self.n_closing < self.for_tests:
            if not self.n_closing:
                self._choose()
                self.closing_row = self.first_row + self.n_rows
            self.closing = _added(self.closing_needs(), self.closing, local)
            self.n_closing += block.n_rows
        self.n_rows += block.n_rows
        self._judge()

    def counts(self, total: int | None = None) -> PlaneErrors:
        """Errors of all candidates, in segments of so many rows."""
        return PlaneErrors(self.path.state.planes, total or self.n_segmented)

    def tests(self) -> Bundle:
        """Statistics of the tests; errors are counted apart."""
        measurement = self.measurement()
        return Bundle(measurement.final().batches(replace(measurement.start, errors=self.errors)))

    def closing_needs(self) -> Bundle:
        return self.measurement().closing()

    def _choose(self) -> None:
        """Fix the candidate that is the answer, and the certificate about it, of all rows tested from now on."""
        self.path = replace(self.path, chosen=self.state().chosen or 0)
        path, plane = self.path, self.path.plane
        config = RunConfig(**path.settings)  # type: ignore[arg-type]
        if config.certificate_degree == 0:
            return
        error = float(self.errors.errors[path.chosen]) / max(1, self.errors.n_rows)
        seen: Any = Seen(plane.dim, self.for_tests, results.DataRecord(self.for_tests, plane.dim, ""))
        config, transform = replace(config, certificate_rows="all"), make_transform(path.transform)
        certification = Certification.of(seen, config, results.Halfspace.of(plane), transform, error)
        if path.state.candidates:
            certification = towards(certification, path.state.candidates[0].plane, config)
        self.path = replace(path, certificate=CertificatePlan.of(certification))

    def _judge(self) -> None:
        """Look at the tests at doubling numbers of rows."""
        due = [self.for_tests >> (_LOOKS - 1 - look) for look in range(_LOOKS)]
        passed = sum(self.n_tested >= rows for rows in due)
        if passed <= self.looks or self.finals is None:
            return
        self.looks = passed
        measurement = self.measurement(look_tau(1.0, passed))
        start = replace(measurement.start, errors=self.errors)
        self.judged = replace(measurement.conclude(self.finals, start), errors=None)


@dataclass(slots=True, eq=False)
class StreamState:
    """Everything that is known of a stream; blocks of `BLOCK_ROWS` rows go in, results come out."""

    config: RunConfig
    dim: int
    n_rows: int = 0
    n_positive: int = 0
    n_looks: int = 0
    n_paths: int = 0
    learned_at: int = 0
    current: Measured | None = None
    rival: Measured | None = None
    learning: Learning | None = None
    common: Any = None

    @property
    def is_quiet(self) -> bool:
        """True if a path is tested, and none is under way."""
        one = self.current
        under_way = self.learning is not None or self.rival is not None
        return one is not None and not under_way and min(one.n_tested, one.n_closing) >= one.for_tests

    def take(self, block: Block) -> None:
        """Take one block of rows, numbered from 0."""
        if self.learning is None and self.rival is None and self.n_rows >= _GROWTH * self.learned_at:
            self._begin(None)
        ready = None
        if self.learning is not None:
            config = self._config(self.learning.number)
            if self.learning.take(block, config):
                self.learned_at = self.n_rows + block.n_rows
                ready = self.learning.learned(config, self.learned_at)
        for one in (self.current, self.rival):
            if one is not None:
                one.take(block)
        if self.rival is not None and self.current is not None and self.current.n_closing and self.rival.n_closing:
            self.common = _added(self.pair(), self.common, block)
        self.n_rows += block.n_rows
        self.n_positive += int(np.count_nonzero(block.y > 0))
        if ready is not None:
            self.learning = None
            self.current, self.rival = (ready, None) if self.current is None else (self.current, ready)
        self._settle()

    def _begin(self, kind: results.Transform | None) -> None:
        """Begin to learn a path, for three times the rows so far."""
        first = self.current is None
        planned = 0 if first else min(_MOST_PLANNED, (_GROWTH - 1) * self.n_rows)
        per_feature = BLOCK_ROWS * math.ceil(256 * self.dim / BLOCK_ROWS)
        wanted = max(_FIRST_SAMPLE, min(per_feature, _SAMPLE)) if first else _SAMPLE
        self.learning = Learning(self.n_paths, planned, wanted, kind)
        self.n_paths += 1

    def pair(self) -> PlaneErrors:
        assert self.current is not None
        assert self.rival is not None
        return PlaneErrors((self.current.path.plane, self.rival.path.plane), 1)

    def statistic_of(self, path: Learning) -> Reduction[Any, Any]:
        return path.step(self._config(path.number))[1]

    def _config(self, number: int) -> RunConfig:
        """The configuration of a path: rows set the eps, tau is shared, and no seed tells that of another."""
        seed, tau = seed_of(self.config.seed, number), look_tau(self.config.tau, number + 1)
        config = replace(self.config, seed=seed, tau=tau, sampling=results.Sampling.WINDOWS.value, eps="auto")
        return within_room(config, self.dim)

    def _settle(self) -> None:
        """Let a rival take the place of the current path, or drop it, when it has its tests."""
        current, rival = self.current, self.rival
        if current is None:
            return
        if rival is None:
            rejected = current.is_tested and current.state().outcome is results.Outcome.REJECTED
            if rejected and current.kinds and self.learning is None and current.number == self.n_paths - 1:
                self._begin(current.kinds[0])
            return
        if not rival.is_tested or self.common is None:
            return
        gain = int(self.common.errors[0] - self.common.errors[1])
        chance = _BEYOND_CHANCE * math.sqrt(max(1, self.common.disagreements(0, 1)))
        ranks = {results.Outcome.PASSED: 2, results.Outcome.INCONCLUSIVE: 1}
        of_tests = [ranks.get(one.state().outcome, 0) for one in (current, rival)]
        better = gain > chance or (gain >= -chance and of_tests[1] > of_tests[0])
        if better or (gain > 0 and of_tests[1] == of_tests[0]):
            self.current = rival
        self.rival, self.common = None, None

    def result(
        self, *, name: str, search: bool = True, columns: tuple[str, ...] = (), waiting: int = 0
    ) -> results.FitResult:
        """The result of the rows so far; `search` for the bound L too.

        Until a path is learned, rows are those too that wait.
        """
        self.n_looks += 1
        one = self.current if self.current is not None and self.current.n_rows else None
        n_rows = self.n_rows + (waiting if one is None else 0)
        data = results.DataRecord(n_rows, self.dim, "", name, columns)
        seen = Seen(self.dim, n_rows, data, self._notices())
        if one is None:
            return self._early(seen)
        state = one.state()
        config = replace(self.config, tau=one.tau, sampling=results.Sampling.WINDOWS.value)
        closing: Closing = (None, None, None)
        if one.n_closing:
            measurement, stale = one.measurement(), one.found is None or one.found[0] != one.n_closing
            certificate, calibration, reference = measurement.conclude_closing(one.closing, search=search and stale)
            if search and stale:
                one.found = one.n_closing, certificate
            certificate = one.found[1] if search and one.found is not None else None
            if certificate is not None:
                certificate = _at_all_times(certificate, BOUND_TAU * one.tau)
            closing = (certificate, calibration, reference)
        first, last = one.first_row, one.closing_row + one.n_closing
        stream = results.StreamRecord(
            errors=(first, first + one.n_rows),
            tests=(first, first + one.n_tested),
            certificate=None if closing[0] is None else (one.closing_row, last),
        )
        found = assemble(
            seen,
            seen,
            config,
            state=state,
            row_transform=make_transform(one.path.transform),
            baselines=one.path.baselines,
            trials=one.path.trials,
            closing=closing,
            notices=one.path.notices,
            error=self._error(one, state, config),
            stream=stream,
        )
        if found.rows_needed is not None:
            needed = self._needed(one, found.rows_needed)
            promise = found.promise and results.replace(found.promise, rows_needed=needed)
            found = results.replace(found, rows_needed=needed, promise=promise)
        return self._secret(found)

    def _needed(self, one: Measured, planned: int) -> int | None:
        """Rows of the stream at which a path for so many rows has its tests; None where no path is for so many."""
        looked = one.for_tests >> (_LOOKS - one.looks) if one.looks else 0  # of an early look, what the last one lacks
        planned = planned if one.is_tested else planned * looked // one.for_tests
        if planned > _MOST_PLANNED:
            return None
        if not one.is_tested and planned <= one.path.state.plan.n_rows:
            at = one.first_row + one.for_tests
        elif self.rival is not None and planned <= self.rival.path.state.plan.n_rows:
            at = self.rival.first_row + self.rival.for_tests
        elif self.learning is not None and planned <= self.learning.n_planned:
            at = self.n_rows - self.learning.n_rows + self.learning.n_planned
        else:  # for three times the rows with which it begins
            learned = self.n_rows if self.learning is not None else self.learned_at
            at = _GROWTH * max(self.n_rows, _GROWTH * learned, math.ceil(planned / (_GROWTH - 1)))
        return max(self.n_rows + BLOCK_ROWS, BLOCK_ROWS * math.ceil(at / BLOCK_ROWS))

    def _early(self, seen: Seen) -> results.FitResult:
        """Before the first path is learned: nothing is said of any halfspace."""
        plan = smallest_plan(self.dim, self._config(0))
        needed = max(plan.required_rows + _FIRST_SAMPLE, 2 * seen.n_rows)
        if self.current is not None:
            needed = BLOCK_ROWS * math.ceil((self.current.first_row + self.current.for_tests) / BLOCK_ROWS)
        state = LocalizationState(
            stage=results.Stage.FINAL,
            sampling=results.Sampling.WINDOWS,
            plan=replace(plan, needed_rows=needed),
            delta=plan.first_delta,
            stop=results.Stop(results.StopReason.TOO_FEW_ROWS),
        )
        nothing: Closing = (None, None, None)
        config = replace(self.config, eps="auto")
        found = assemble(seen, seen, config, state=state, row_transform=Identity(), closing=nothing, notices=())
        return self._secret(found)

    def _secret(self, found: results.FitResult) -> results.FitResult:
        """The result without the seed of rows to come, if that was drawn: a digest of it instead."""
        if self.config.seed_drawn:
            shown = seed_of(self.config.seed, -1)
            certificate = found.certificate and results.replace(found.certificate, seed=shown)
            transform = results.replace(found.transform, seed=None if found.transform.seed is None else shown)
            if certificate and certificate.transform is not None and certificate.transform.seed is not None:
                certificate = results.replace(certificate, transform=results.replace(certificate.transform, seed=shown))
            found = results.replace(found, seed=shown, seed_drawn=True, certificate=certificate, transform=transform)
        return results.seal(found)

    def _notices(self) -> tuple[results.Notice, ...]:
        if self.n_rows and self.n_positive in (0, self.n_rows):
            return (results.Notice.of(results.NoticeCode.ONE_CLASS, label=1 if self.n_positive else -1),)
        return ()

    def _error(self, one: Measured, state: LocalizationState, config: RunConfig) -> results.ErrorRecord | None:
        """The error on all rows since the path was learned, with a bound for all numbers of rows at once.

        Where errors cluster, the bound is that of segments, at this look's part of tau.
        """
        each = look_tau(0.5, self.n_looks)
        record = held_out_error(state, make_transform(one.path.transform), config, share=each)
        if record is None or record.tau is None or record.by_label is None:
            return None
        wrong, n_rows = record.by_label.positive_errors + record.by_label.negative_errors, record.n_rows
        here = float(anytime_upper(wrong, n_rows, record.tau / len(state.planes) / 2))
        if record.segments is None:
            return results.replace(record, upper=here, upper_here=None)
        return results.replace(record, upper=max(here, record.upper), upper_here=here)


def _at_all_times(record: results.CertificateRecord, tau: float) -> results.CertificateRecord:
    """The certificate with bounds for the source that hold at all numbers of rows at once.

    The best halfspace is fixed, and errs on as many of the rows as every halfspace does.
    """
    each = tau / len(record.bounds)

    def held(opt: results.OptRecord) -> results.OptRecord:
        wrong = math.ceil(opt.lower_empirical * record.n_rows * (1 - 1e-12))
        lower = float(anytime_lower(wrong, record.n_rows, each))
        return results.replace(opt, lower=min(opt.lower_empirical, lower), tau=each)

    return results.replace(record, opt=held(record.opt), bounds=tuple(map(held, record.bounds)))
