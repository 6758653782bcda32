"""True Gaussian rows at the planned number of rows: how many runs are not accepted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from scripts.evaluation.drawing import draw, learn
from scripts.evaluation.tables import Advance, Cell, Table
from streamhalf.api import plan
from streamhalf.config import RunConfig
from streamhalf.synthetic.spec import SyntheticSpec

DIMS = (2, 5, 10, 20)
SCALES = (0.25, 0.2, 0.15, 0.1)
RATES = (0.01, 0.05, 0.1, 0.2)
REPEATS = {"short": 3, "long": 20}


def count_runs(form: str) -> int:
    return len(DIMS) * len(SCALES) * REPEATS[form]


def run(form: str, advance: Advance) -> Table:
    """Count verdicts over dimensions, eps and rates of random noise."""
    rows: list[tuple[Cell, ...]] = []
    refused: Counter[str] = Counter()
    for dim in DIMS:
        for eps in SCALES:
            n_rows = plan(dim=dim, eps=eps).rows_needed
            verdicts: Counter[str] = Counter()
            for verdict, testers in _verdicts(form, dim, eps, n_rows):
                verdicts[verdict] += 1
                refused.update(testers)
                advance()
            kinds = ("accepted", "rejected", "inconclusive")
            rows.append((dim, eps, n_rows, *(verdicts[kind] for kind in kinds)))
    n_runs, tau = count_runs(form), RunConfig().tau
    n_refused = n_runs - sum(int(row[3] or 0) for row in rows)
    blamed = ", ".join(f"{name} {count}" for name, count in refused.most_common())
    return Table(
        name="completeness",
        criterion=f"at most tau = {tau:g} of the runs on Gaussian rows are not accepted",
        met=n_refused <= tau * n_runs,
        summary=f"{n_refused} of {n_runs} runs not accepted" + (f" ({blamed})" if blamed else ""),
        columns=("d", "eps", "rows", "accepted", "rejected", "inconclusive"),
        rows=tuple(rows),
        details={"runs": n_runs, "not_accepted": n_refused, "testers": dict(refused)},
    )


def _verdicts(form: str, dim: int, eps: float, n_rows: int) -> Iterator[tuple[str, list[str]]]:
    for seed in range(REPEATS[form]):
        spec = SyntheticSpec(
            rows=n_rows,
            dim=dim,
            marginal="gaussian",
            noise="random",
            rate=RATES[seed % len(RATES)],
            seed=1_000 * dim + seed,
        )
        problem = draw(spec)
        result = learn(problem, eps=eps, seed=seed)
        doubts = [
            f"{one.tester} {one.outcome} ({one.pass_name})"
            for one in result.testers
            if one.outcome in ("rejected", "inconclusive")
        ]
        yield (
            str(result.verdict),
            doubts or ([] if result.verdict == "accepted" else [str(result.stop.reason)]),
        )
