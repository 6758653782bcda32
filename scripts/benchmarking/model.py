"""Cost of a fit by the formulas of docs/cost.md, held against measured fits, and beyond them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scripts.benchmarking.fits import DIM
from scripts.benchmarking.passes import THREADS
from scripts.benchmarking.tables import Criterion, Table
from streamhalf.algorithms.plan import RunPlan, plan_for_rows
from streamhalf.certificate.slab_choice import certificate_degree, certificate_share
from streamhalf.config import RunConfig
from streamhalf.engine.plan import MAX_TASKS
from streamhalf.kernels.monomials import count_monomials

_ERROR = 0.05
_WORKERS = 1000
_SLABS = 420


@dataclass(frozen=True, slots=True)
class Costs:
    """Worker-nanoseconds of one row in each kind of pass, and what does not grow with rows."""

    moments: float
    localised: float
    final: float
    digest: float
    certificate: float
    bound: float
    task: float

    @classmethod
    def of(cls, tables: dict[str, Any]) -> Costs:
        """Read off the measured tables."""
        if missing := [name for name in ("passes", "fits", "tasks") if name not in tables]:
            raise SystemExit(f"measure first: --only {' '.join(missing)}")
        rate = {row[1].split(",")[0]: row[3] for row in tables["passes"]["rows"] if row[0] == DIM}
        ns = {name: 1e3 * THREADS / value for name, value in rate.items()}
        largest = tables["fits"]["rows"][-1]
        return cls(
            moments=ns["moments of degree 4"],
            localised=ns["localised"],
            final=ns["final"],
            digest=ns["digest of all rows"],
            certificate=ns["certificate"],
            bound=largest[3] * (1 - largest[6]),
            task=1e-3 * tables["tasks"]["rows"][-1][5],
        )

    def worker_seconds(self, plan: RunPlan) -> float:
        """Work of all workers together."""
        degree = certificate_degree("auto", plan.dim)
        share = certificate_share("auto", n_rows=plan.n_rows, dim=plan.dim, error=_ERROR, degree=degree)
        updates = sum(plan.accepted_rows / delta for delta in plan.deltas)
        return 1e-9 * (
            plan.initial_rows * self.moments
            + updates * self.localised
            + (plan.n_rows - plan.initial_rows - updates) * self.final
            + plan.n_rows * (self.digest + share * (self.certificate - self.digest))
        )


def check(tables: dict[str, Any]) -> Table:
    """The formulas against the measured fits."""
    costs = Costs.of(tables)
    lines, criteria = [], []
    for row in tables["fits"]["rows"]:
        plan = plan_for_rows(row[0], DIM, RunConfig())
        expected = costs.worker_seconds(plan) / THREADS + costs.bound
        lines.append((row[0], expected, row[3], expected / row[3]))
        criteria.append(Criterion(f"formula / measured, {row[0]:.0e} rows", expected / row[3], 1.5))
    return Table(
        "model",
        "The formulas against the measured fits",
        ("rows", "by the formulas, s", "measured, s", "quotient"),
        lines,
        criteria,
    )


def extrapolate(tables: dict[str, Any]) -> Table:
    """Up to 1e12 rows on 1,000 workers."""
    costs = Costs.of(tables)
    lines = []
    for power in (9, 10, 11, 12):
        rows = 10**power
        plan = plan_for_rows(rows, DIM, RunConfig())
        passes = len(plan.deltas) + 3
        blocks = rows * (4 * DIM + 1) / 2**24
        tasks = min(MAX_TASKS, blocks) * 2 + 64 * (passes - 2)
        partial = 8 * _SLABS * count_monomials(DIM - 1, 4)
        lines.append(
            (
                f"1e{power}",
                plan.eps,
                passes,
                int(tasks),
                2 * rows * (4 * DIM + 1) / _WORKERS / 1e9,
                costs.worker_seconds(plan) / _WORKERS,
                tasks * costs.task,
                min(MAX_TASKS, blocks) * partial / 1e9,
            )
        )
    return Table(
        "extrapolation",
        f"By the formulas: {_WORKERS:,} workers of one thread, d = {DIM}",
        (
            "rows",
            "smallest eps",
            "passes",
            "tasks",
            "GB read by a worker",
            "seconds of work of each",
            "seconds of the scheduler",
            "GB of partials, certificate pass",
        ),
        lines,
        remark="Storage must keep that pace; the scheduler works beside the workers.",
    )
