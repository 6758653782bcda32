"""Gaussian rows under halfspaces with a threshold: how many runs are not accepted."""

from __future__ import annotations

import itertools
import math
import zlib
from collections import Counter

from scipy.special import ndtr

from scripts.evaluation.completeness import RATES, doubts_of
from scripts.evaluation.drawing import draw, learn
from scripts.evaluation.tables import Advance, Cell, Table
from streamhalf.api import plan
from streamhalf.config import RunConfig
from streamhalf.synthetic.spec import SyntheticSpec

DIMS = {"short": (4,), "long": (2, 4, 8)}
THRESHOLDS = (0.0, 0.5, 1.0, 1.5, 1.9)
EPS = 0.2
REPEATS = {"short": 2, "long": 14}


def count_runs(form: str) -> int:
    return len(DIMS[form]) * len(THRESHOLDS) * REPEATS[form]


def run(form: str, advance: Advance) -> Table:
    """Count verdicts over dimensions and thresholds; random noise, as shares of the smaller class.

    Half of the runs have positive labels in the smaller class.
    """
    rows: list[tuple[Cell, ...]] = []
    refused: Counter[str] = Counter()
    for dim, threshold in itertools.product(DIMS[form], THRESHOLDS):
        n_rows = rows_for(dim, threshold)
        verdicts: Counter[str] = Counter()
        for seed in range(REPEATS[form]):
            result = learn(draw(_spec(dim, threshold, n_rows, seed)), eps=EPS, seed=seed)
            verdicts[str(result.verdict)] += 1
            refused.update(doubts_of(result))
            advance()
        found = (verdicts[one] for one in ("accepted", "rejected", "inconclusive"))
        rows.append((dim, threshold, n_rows, *found))
    n_runs, tau = count_runs(form), RunConfig().tau
    n_refused = n_runs - sum(int(row[3] or 0) for row in rows)
    blamed = ", ".join(f"{name} {count}" for name, count in refused.most_common())
    return Table(
        name="threshold-completeness",
        criterion=(
            f"at most tau = {tau:g} of the runs on Gaussian rows, whatever the threshold, are not "
            f"accepted (eps = {EPS:g} asked for)"
        ),
        met=n_refused <= tau * n_runs,
        summary=f"{n_refused} of {n_runs} runs not accepted" + (f" ({blamed})" if blamed else ""),
        columns=("d", "threshold", "rows", "accepted", "rejected", "inconclusive"),
        rows=tuple(rows),
        details={"runs": n_runs, "not_accepted": n_refused, "testers": dict(refused)},
    )


def rows_for(dim: int, threshold: float) -> int:
    """Rows at which a run is conclusive: those near the plane thin out like exp(-t²/2)."""
    return math.ceil(plan(dim=dim, eps=EPS).rows_needed * math.exp(threshold**2 / 2))


def _spec(dim: int, threshold: float, n_rows: int, seed: int) -> SyntheticSpec:
    positive = float(ndtr(threshold if seed % 2 else -threshold))
    return SyntheticSpec(
        rows=n_rows,
        dim=dim,
        marginal="gaussian",
        noise="random",
        rate=RATES[seed % len(RATES)] * min(positive, 1 - positive),
        positive=positive,
        seed=zlib.crc32(repr((dim, threshold, seed)).encode()),
    )
