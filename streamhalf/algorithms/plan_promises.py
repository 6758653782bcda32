"""What the tests of a plan would support, and the rows that would support more."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from streamhalf.algorithms.plan import ample_rows, smallest
from streamhalf.algorithms.run_plan import RunPlan
from streamhalf.config import RunConfig
from streamhalf.results import PromiseRecord, Stage
from streamhalf.testers.constants import (
    LARGEST_DEVIATION,
    SlabSlack,
    constant_by_scale,
    have_no_gap,
)
from streamhalf.testers.moment_nulls import excluded_deviation, expected_quadratics
from streamhalf.testers.moments import WIDE_DIM, MomentTester
from streamhalf.testers.slab_mass import SlabMassTester

GOOD_CONSTANT = 5.0
"""The constant from which on a run says what a better one would take."""

_LEAST_TIMES, _MOST_TIMES = 1.1, 1e4
_SAFE = 0.97
"""So much better than good is planned for: what tests see of Gaussian rows varies."""


def expected_promises(plan: RunPlan, config: RunConfig) -> tuple[PromiseRecord, ...]:
    """What the tests support if the rows are Gaussian and no update has to be repeated."""
    if config.degree != 4 or plan.dim > WIDE_DIM or not have_no_gap(plan.deltas):
        return ()
    tau = MomentTester.share * plan.context(Stage.UPDATE, config).tau
    excluded: dict[float, float] = {}
    for delta in (1.0, *plan.deltas):
        n_rows = int(plan.rows_for_step(delta) * delta)
        excluded[delta] = excluded_deviation(expected_quadratics(n_rows, plan.dim), n_rows, tau)
    return tuple(supported(excluded, _expected_slack(plan, config)))


def _expected_slack(plan: RunPlan, config: RunConfig) -> SlabSlack:
    """What slab masses of Gaussian rows leave open, about."""
    tester = SlabMassTester.of(plan.context(Stage.FINAL, config))
    if tester is None:  # pragma: no cover - the final pass has one
        return SlabSlack(plan.slab_eps, math.inf)
    return SlabSlack(tester.eps, tester.expected_slack(plan.counted_rows))


def supported(excluded: Mapping[float, float], slack: SlabSlack) -> Iterator[PromiseRecord]:
    """Promises at the scales of updates, given the deviation that is excluded at each, from 1 down.

    Each rests on all scales above, and on slab masses. Where quadratics leave room for any
    constant, there is no promise; below the finest scale of the tables it has no constant.
    """
    above: dict[float, float] = {}
    for delta, deviation in excluded.items():
        above[delta] = deviation
        if delta < 1 and max(above.values()) <= LARGEST_DEVIATION:
            masses_off = slack.at(delta / 2)
            constant = constant_by_scale(above, masses_off=masses_off)
            yield PromiseRecord(
                delta,
                delta / 2,
                deviation,
                constant if math.isfinite(constant) else None,
                masses_off if math.isfinite(masses_off) else None,
            )


def rows_for_good_constant(plan: RunPlan, config: RunConfig, eps: float) -> int | None:
    """About how many rows support a good constant at eps; None where no number of them does."""
    plan = replace(plan, finest_delta=2 * eps)

    def supports(times: float) -> bool:
        more = replace(
            plan,
            final_rows=math.ceil(times * plan.final_rows),
            ample_rows=ample_rows(plan.tested_rows, plan.dim, math.ceil(times * plan.n_rows)),
        )
        found = expected_promises(more, config)
        last = found[-1] if found else None
        return (
            last is not None and last.eps <= eps and (last.constant or 0) <= _SAFE * GOOD_CONSTANT
        )

    times = smallest(supports, _LEAST_TIMES, _MOST_TIMES)
    return math.ceil(times * plan.n_rows) if times < _MOST_TIMES else None
