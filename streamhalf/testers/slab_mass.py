"""Is the mass of thin slabs along a candidate Gaussian? (Algorithm 2, line 4).

One histogram with slabs of width eps serves every eta = j eps below 1/2: the slabs of eta are
unions of finest ones.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from streamhalf.kernels.plane import Plane
from streamhalf.kernels.slabs import gaussian_masses
from streamhalf.records import Evidence, Judgement, Outcome, SlabShare, Stage
from streamhalf.reductions.candidate_slabs import CandidateSlabs, CandidateSlabsResult
from streamhalf.testers.base import (
    ALONG,
    Context,
    TesterWords,
    judgement,
    rows_until,
    upper_normal_quantile,
)

_SHOWN = 5


def slab_half_count(eta: float) -> int:
    """B = ceil(sqrt(2 ln(1/eta)) / eta): beyond B eta lies mass at most eta."""
    return math.ceil(math.sqrt(2 * math.log(1 / eta)) / eta)


def finest_half_count(eps: float) -> int:
    """Finest slabs on each side that cover every eta = j eps below 1/2."""
    return max(j * slab_half_count(j * eps) for j in range(1, count_scales(eps) + 1))


def count_scales(eps: float) -> int:
    """How many j have j eps below 1/2."""
    return max(1, math.ceil(0.5 / eps) - 1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlabMassTester:
    """Sum over slabs of |observed mass - Gaussian mass|, for every scale eta = j eps.

    `tau` is that of one candidate, `first` the number of the first, `total_rows` the rows of the
    data set.
    """

    eps: float
    tau: float
    total_rows: int
    candidates: tuple[Plane, ...] = ()
    first: int = 0

    name: ClassVar[str] = "slab mass"
    share: ClassVar[float] = 1 / 3
    words: ClassVar[Mapping[str, TesterWords]] = {
        name: TesterWords("Is the histogram along the candidate a Gaussian bell?", *ALONG)
    }

    @classmethod
    def of(cls, context: Context) -> Self | None:
        """In the final pass, about every candidate."""
        if context.stage is not Stage.FINAL:
            return None
        return cls(
            eps=context.slab_width,
            tau=cls.share * context.tau / context.most_candidates,
            total_rows=context.total_rows,
            candidates=context.candidates,
            first=context.first,
        )

    def needs(self) -> CandidateSlabs:
        """Errors and finest slabs of every candidate."""
        half_count = finest_half_count(self.eps)
        return CandidateSlabs(self.candidates, self.eps, half_count, self.total_rows)

    def quantile(self, n_rows: int, eta: float) -> float:
        """Null quantile of the L1 distance at scale eta.

        0.603 = sqrt(1 - 2/pi) is the standard deviation of the sum of independent half-normals
        with variances p.
        """
        n = max(1, n_rows)
        mean = float(deviation_bound(n, gaussian_masses(eta, slab_half_count(eta))).sum()) / n
        z = upper_normal_quantile(self.tau / count_scales(self.eps))
        return mean + 0.603 * z / math.sqrt(n)

    def rows_needed(self) -> int:
        """Rows that make the finest scale conclusive; all coarser ones follow."""
        return rows_until(lambda n: self.quantile(n, self.eps), self.eps)

    def judge(self, result: CandidateSlabsResult, *, n_seen: int) -> tuple[Judgement, ...]:
        """Judge every candidate's histogram over the finest slabs."""
        return tuple(
            one
            for i, counts in enumerate(result.counts)
            for one in self._judge_candidate(counts, self.first + i)
        )

    def _judge_candidate(self, counts: NDArray[np.int64], candidate: int) -> Iterator[Judgement]:
        """The finest scale, then another that rejects.

        The finest scale carries the verdict: passing it implies all others whose slabs reach no
        further, by the triangle inequality. A coarser scale can still reject where it is
        inconclusive.
        """
        finest = self._judge_scale(counts, 1, candidate)
        yield finest
        if finest.outcome is Outcome.REJECTED:
            return
        scales: Iterable[int] = range(2, count_scales(self.eps) + 1)
        if finest.outcome is Outcome.PASSED:
            reach = slab_half_count(self.eps)
            scales = (j for j in scales if j * slab_half_count(j * self.eps) > reach)
        others = (self._judge_scale(counts, j, candidate) for j in scales)
        rejected = (other for other in others if other.outcome is Outcome.REJECTED)
        yield from itertools.islice(rejected, 1)

    def _judge_scale(self, counts: NDArray[np.int64], j: int, candidate: int) -> Judgement:
        eta = j * self.eps
        half_count = slab_half_count(eta)
        n_rows = int(counts.sum())
        observed = merge_slabs(counts, j, half_count) / max(1, n_rows)
        expected = gaussian_masses(eta, half_count)
        gaps = np.abs(observed - expected)
        return judgement(
            self.name,
            statistic=float(gaps.sum()),
            limit=eta,
            null_quantile=self.quantile(n_rows, eta),
            n_rows=n_rows,
            rows_needed=self.rows_needed,
            evidence=tuple(
                Evidence(
                    subject=slab_subject(int(i), eta, half_count),
                    observed=float(observed[i]),
                    expected=float(expected[i]),
                    deviation=float(gaps[i]),
                    limit=eta,
                )
                for i in np.argsort(-gaps, kind="stable")[:_SHOWN]
            ),
            candidate=candidate,
            scale=eta,
        )


def deviation_bound(n_rows: int, p: NDArray[np.float64]) -> NDArray[np.float64]:
    """At least the mean absolute deviation of binomial counts of n rows and shares p.

    It is at most 2 n p, and at most sqrt(2/pi) (1 + 1 / (15 v)) standard deviations, v the
    variance: the excess over a normal law is largest where n p is half-way between whole numbers,
    1 / (24 v) for small p and up to 1 / (15.6 v) for p = 1/2.
    """
    variance = np.maximum(n_rows * p * (1 - p), np.finfo(np.float64).tiny)
    normal = np.sqrt(2 / math.pi * variance) * (1 + 1 / (15 * variance))
    return np.asarray(np.minimum(2 * n_rows * p, normal))


def merge_slabs(counts: NDArray[np.int64], j: int, half_count: int) -> NDArray[np.int64]:
    """Counts of slabs of width j eps (half_count on each side) and the tails, from finest ones."""
    finest = (len(counts) - 2) // 2
    reach = j * half_count
    middle = counts[1 + finest - reach : 1 + finest + reach].reshape(2 * half_count, j)
    low = counts[: 1 + finest - reach].sum()
    high = counts[1 + finest + reach :].sum()
    return np.concatenate([[low], middle.sum(axis=1), [high]])


def slab_subject(i: int, eta: float, half_count: int) -> SlabShare:
    """The slab by the margins it holds."""
    low = (i - 1 - half_count) * eta
    return SlabShare(low=low if i > 0 else None, high=low + eta if i < 2 * half_count + 1 else None)
