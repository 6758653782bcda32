"""Is the second moment orthogonal to a candidate at most 2 in every slab? (Algorithm 2, line 6).

Coarser slabs are unions of these; their second moment is an average, so nothing new to test.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from streamhalf.records import Evidence, Judgement, Outcome
from streamhalf.reductions.slab_covariance import SlabCovarianceResult
from streamhalf.testers.base import judge
from streamhalf.testers.moments import direction_name

COVARIANCE_LIMIT = 2.0
_SEVERITY = {Outcome.PASSED: 0, Outcome.INCONCLUSIVE: 1, Outcome.REJECTED: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class SlabCovarianceTester:
    """Largest eigenvalue over all slabs that hold enough rows; thin slabs are merged outwards."""

    tau: float
    n_slabs: int

    name = "slab covariance"

    def quantile(self, n_rows: int, dim: int) -> float:
        """Null quantile of lambda_max in one slab of n rows (Gaussian matrices)."""
        edge = (math.sqrt(dim) + math.sqrt(2 * math.log(self.n_slabs / self.tau))) / math.sqrt(
            max(1, n_rows)
        )
        return (1 + edge) ** 2

    def rows_per_slab(self, dim: int) -> int:
        """Rows that make a slab conclusive: 5.83 = (sqrt 2 - 1)^-2."""
        root = math.sqrt(dim) + math.sqrt(2 * math.log(self.n_slabs / self.tau))
        return math.ceil((root / (math.sqrt(COVARIANCE_LIMIT) - 1)) ** 2)

    def judge(self, result: SlabCovarianceResult, candidate: int) -> Judgement:
        """Merge outwards, then judge the slab whose eigenvalue is worst against its quantile."""
        dim = result.candidates.shape[1]
        counts = result.counts[candidate]
        groups = merge_outwards(counts, result.edges, self.rows_per_slab(dim))
        if not groups:
            raise ValueError("no slab to judge")
        sums = result.second_moments(candidate) * counts[:, None, None]
        groups.sort()  # neighbours without gaps, but for slabs without rows
        starts = [group[0] for group in groups]
        n_rows = np.add.reduceat(counts, starts).tolist()
        moments = np.add.reduceat(sums, starts) / np.maximum(1, n_rows)[:, None, None]
        values = np.linalg.eigvalsh(moments)[:, -1].tolist()
        found = [
            judge(value, limit=COVARIANCE_LIMIT, null_quantile=self.quantile(n, dim))
            for value, n in zip(values, n_rows, strict=True)
        ]
        worst = max(range(len(groups)), key=lambda i: (_SEVERITY[found[i]], values[i]))
        return self._judgement(result, groups[worst], moments[worst], n_rows[worst], found[worst])

    def _judgement(
        self,
        result: SlabCovarianceResult,
        group: list[int],
        moment: NDArray[np.float64],
        n_rows: int,
        outcome: Outcome,
    ) -> Judgement:
        dim = len(moment)
        values, vectors = np.linalg.eigh(moment)
        statistic = float(values[-1])
        quantile = self.quantile(n_rows, dim)
        direction = vectors[:, -1]
        edges = np.concatenate([[-np.inf], result.edges, [np.inf]])
        return Judgement(
            tester=self.name,
            outcome=outcome,
            statistic=statistic,
            limit=COVARIANCE_LIMIT,
            null_quantile=quantile,
            n_rows=n_rows,
            rows_needed=self.rows_per_slab(dim) if outcome is Outcome.INCONCLUSIVE else None,
            evidence=(
                Evidence(
                    name=f"second moment along {direction_name(direction)} in slab "
                    f"{edges[group[0]]:.4g} <= v·x < {edges[group[-1] + 1]:.4g}",
                    observed=statistic,
                    expected=1.0,
                    deviation=statistic,
                    limit=COVARIANCE_LIMIT,
                    direction=tuple(float(a) for a in direction),
                ),
            ),
        )


def covariance_edges(
    width: float, half_count: int, n_rows: int, rows_per_slab: int
) -> NDArray[np.float64]:
    """Edges, multiples of `width`, whose slabs are expected to hold twice the rows needed.

    Grown outwards from 0 on the right, and mirrored.
    """
    positive = width * np.arange(half_count + 1)
    mass = ndtr(positive)
    edges = [0.0]
    for i in range(1, half_count + 1):
        wanted = 2 * rows_per_slab / max(1, n_rows)
        last = ndtr(edges[-1])
        if mass[i] - last >= wanted and 1 - mass[i] >= wanted:
            edges.append(float(positive[i]))
    inner = np.array(edges[1:])
    return np.concatenate([-inner[::-1], [0.0], inner])


def merge_outwards(
    counts: NDArray[np.int64], edges: NDArray[np.float64], rows_per_slab: int
) -> list[list[int]]:
    """Group slabs, from the boundary outwards on each side, until each group has enough rows.

    A last group that stays short joins its inner neighbour.
    """
    zero = int(np.searchsorted(edges, 0.0)) + 1  # first slab of non-negative margins
    groups: list[list[int]] = []
    for side in (list(range(zero - 1, -1, -1)), list(range(zero, len(counts)))):
        open_group: list[int] = []
        closed: list[list[int]] = []
        held = 0
        for i in side:
            open_group.append(i)
            held += int(counts[i])
            if held >= rows_per_slab:
                closed.append(open_group)
                open_group, held = [], 0
        if open_group:
            if closed:
                closed[-1] = closed[-1] + open_group
            else:
                closed.append(open_group)
        groups.extend(sorted(group) for group in closed)
    return [group for group in groups if counts[group].sum() > 0]
