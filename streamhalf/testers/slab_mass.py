"""Is the mass of thin slabs along a candidate Gaussian? (Algorithm 2, line 4).

One histogram with slabs of width eps serves every eta = j eps below 1/2: the slabs of eta are
unions of finest ones.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamhalf.kernels.slabs import gaussian_masses
from streamhalf.records import Evidence, Judgement, Outcome
from streamhalf.testers.base import judge, rows_until, upper_normal_quantile


def slab_half_count(eta: float) -> int:
    """B = ceil(sqrt(2 ln(1/eta)) / eta): beyond B eta lies mass at most eta."""
    return math.ceil(math.sqrt(2 * math.log(1 / eta)) / eta)


def finest_half_count(eps: float) -> int:
    """Finest slabs on each side that cover every eta = j eps below 1/2."""
    return max(j * slab_half_count(j * eps) for j in range(1, count_scales(eps) + 1))


def count_scales(eps: float) -> int:
    """How many j have j eps below 1/2."""
    return max(1, math.ceil(0.5 / eps) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlabMassTester:
    """Sum over slabs of |observed mass - Gaussian mass|, for every scale eta = j eps."""

    eps: float
    tau: float

    name = "slab mass"

    def quantile(self, n_rows: int, eta: float) -> float:
        """Null quantile of the L1 distance at scale eta.

        Its mean is at most sqrt(2 / (pi n)) sum sqrt(p (1 - p)); 0.603 = sqrt(1 - 2/pi) is the
        standard deviation of the sum of independent half-normals with variances p.
        """
        p = gaussian_masses(eta, slab_half_count(eta))
        mean = math.sqrt(2 / math.pi) * float(np.sqrt(p * (1 - p)).sum())
        z = upper_normal_quantile(self.tau / count_scales(self.eps))
        return (mean + 0.603 * z) / math.sqrt(max(1, n_rows))

    def rows_needed(self) -> int:
        """Rows that make the finest scale conclusive; all coarser ones follow."""
        return rows_until(lambda n: self.quantile(n, self.eps), self.eps)

    def judge(self, counts: NDArray[np.int64]) -> tuple[Judgement, ...]:
        """Judge a histogram over the finest slabs: the finest scale, then another that rejects.

        The finest scale carries the verdict: passing it implies all others whose slabs reach no
        further, by the triangle inequality. A coarser scale can still reject where it is
        inconclusive.
        """
        finest = self._judge_scale(counts, 1)
        if finest.outcome is Outcome.REJECTED:
            return (finest,)
        scales: Iterable[int] = range(2, count_scales(self.eps) + 1)
        if finest.outcome is Outcome.PASSED:
            reach = slab_half_count(self.eps)
            scales = (j for j in scales if j * slab_half_count(j * self.eps) > reach)
        others = (self._judge_scale(counts, j) for j in scales)
        rejected = (judgement for judgement in others if judgement.outcome is Outcome.REJECTED)
        return (finest, *itertools.islice(rejected, 1))

    def _judge_scale(self, counts: NDArray[np.int64], j: int) -> Judgement:
        eta = j * self.eps
        half_count = slab_half_count(eta)
        observed = merge_slabs(counts, j, half_count) / max(1, int(counts.sum()))
        expected = gaussian_masses(eta, half_count)
        gaps = np.abs(observed - expected)
        statistic = float(gaps.sum())
        n_rows = int(counts.sum())
        quantile = self.quantile(n_rows, eta)
        outcome = judge(statistic, limit=eta, null_quantile=quantile)
        worst = np.argsort(-gaps, kind="stable")[:5]
        return Judgement(
            tester=self.name,
            outcome=outcome,
            statistic=statistic,
            limit=eta,
            null_quantile=quantile,
            n_rows=n_rows,
            rows_needed=self.rows_needed() if outcome is Outcome.INCONCLUSIVE else None,
            evidence=tuple(
                Evidence(
                    name=slab_name(int(i), eta, half_count),
                    observed=float(observed[i]),
                    expected=float(expected[i]),
                    deviation=float(gaps[i]),
                    limit=eta,
                )
                for i in worst
            ),
            remark=f"eta {eta:.4g}",
        )


def merge_slabs(counts: NDArray[np.int64], j: int, half_count: int) -> NDArray[np.int64]:
    """Counts of slabs of width j eps (half_count on each side) and the tails, from finest ones."""
    finest = (len(counts) - 2) // 2
    reach = j * half_count
    middle = counts[1 + finest - reach : 1 + finest + reach].reshape(2 * half_count, j)
    low = counts[: 1 + finest - reach].sum()
    high = counts[1 + finest + reach :].sum()
    return np.concatenate([[low], middle.sum(axis=1), [high]])


def slab_name(i: int, eta: float, half_count: int) -> str:
    """Name a slab by the margins it holds."""
    reach = eta * half_count
    if i == 0:
        return f"slab v·x < {-reach:.4g}"
    if i == 2 * half_count + 1:
        return f"slab v·x >= {reach:.4g}"
    low = (i - 1 - half_count) * eta
    return f"slab {low:.4g} <= v·x < {low + eta:.4g}"
