"""True Gaussian rows at the planned number of rows: how many runs are not accepted."""

from __future__ import annotations

import itertools
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from scripts.evaluation.drawing import draw, learn
from scripts.evaluation.tables import Advance, Cell, Table
from streamhalf.api import plan
from streamhalf.config import RunConfig
from streamhalf.results import FitResult
from streamhalf.synthetic.spec import SyntheticSpec

DIMS = (2, 5, 10, 20)
SCALES = (0.25, 0.2, 0.15, 0.1)
RATES = (0.01, 0.05, 0.1, 0.2)
KINDS: Mapping[str, Mapping[str, Any]] = {"plain": {}, "whitened": {"whiten": True}, "reuse": {"sampling": "reuse"}}
"""Ways to run; rows that are whitened are turned and shifted before."""
REPEATS = {"short": 1, "long": 7}


def count_runs(form: str) -> int:
    return len(KINDS) * len(DIMS) * len(SCALES) * REPEATS[form]


def run(form: str, advance: Advance) -> Table:
    """Count verdicts over dimensions, eps and rates of random noise."""
    rows: list[tuple[Cell, ...]] = []
    refused: Counter[str] = Counter()
    for kind, dim, eps in itertools.product(KINDS, DIMS, SCALES):
        n_rows = plan(dim=dim, eps=eps, **KINDS[kind]).rows_needed
        verdicts: Counter[str] = Counter()
        for verdict, testers in _verdicts(form, kind, dim, eps, n_rows):
            verdicts[verdict] += 1
            refused.update(testers)
            advance()
        found = (verdicts[one] for one in ("accepted", "rejected", "inconclusive"))
        rows.append((kind, dim, eps, n_rows, *found))
    n_runs, tau = count_runs(form), RunConfig().tau
    n_refused = n_runs - sum(int(row[4] or 0) for row in rows)
    blamed = ", ".join(f"{name} {count}" for name, count in refused.most_common())
    return Table(
        name="completeness",
        criterion=f"at most tau = {tau:g} of the runs on Gaussian rows are not accepted",
        met=n_refused <= tau * n_runs,
        summary=f"{n_refused} of {n_runs} runs not accepted" + (f" ({blamed})" if blamed else ""),
        columns=("run", "d", "eps", "rows", "accepted", "rejected", "inconclusive"),
        rows=tuple(rows),
        details={"runs": n_runs, "not_accepted": n_refused, "testers": dict(refused)},
    )


def _verdicts(form: str, kind: str, dim: int, eps: float, n_rows: int) -> Iterator[tuple[str, list[str]]]:
    for seed in range(REPEATS[form]):
        spec = SyntheticSpec(
            rows=n_rows,
            dim=dim,
            marginal="gaussian",
            noise="random",
            rate=RATES[seed % len(RATES)],
            seed=zlib.crc32(repr((kind, dim, eps, seed)).encode()),
        )
        problem = draw(spec)
        if kind == "whitened":
            rng = np.random.default_rng(spec.seed)
            turned = problem.X @ rng.standard_normal((dim, dim)) + rng.standard_normal(dim)
            problem = replace(problem, X=turned.astype(np.float32))
        result = learn(problem, eps=eps, seed=seed, **KINDS[kind])
        yield str(result.verdict), doubts_of(result)


def doubts_of(result: FitResult) -> list[str]:
    """Testers that had doubts; if none had and the run was not accepted, why it ended."""
    doubts = [
        f"{one.tester} {one.outcome} ({one.pass_name})"
        for one in result.testers
        if one.has_say and one.outcome in ("rejected", "inconclusive")
    ]
    return doubts or ([] if result.verdict == "accepted" else [str(result.stop.reason)])
