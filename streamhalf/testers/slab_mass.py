"""Is the mass of thin slabs along a candidate Gaussian? (Algorithm 2, line 4).

One histogram with slabs of width eps serves every eta = j eps below 1/2: the slabs of eta are
unions of finest ones. About a plane with a threshold t the tolerance is eta exp(-t²/2), which takes
exp(t²) times the rows: there the finest scale that the rows allow is judged, and where they allow
none, doubts do not count.
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
from streamhalf.kernels.slabs import masses_about
from streamhalf.reductions.plane_slabs import CandidateSlabs, CandidateSlabsResult
from streamhalf.results import Evidence, Outcome, Role, SlabShare, Stage, TestResult, replace
from streamhalf.testers.base import (
    ALONG,
    MOST_ROWS,
    Context,
    TesterWords,
    judged,
    rows_until,
    thinning,
    upper_normal_quantile,
)

_SHOWN = 5

FARTHEST = 4.0
"""Largest threshold that slabs reach for: beyond it all of the mass may be in one tail."""


def slab_half_count(eta: float, threshold: float = 0.0) -> int:
    """Return B = ceil((sqrt(2 ln(1/eta)) + t) / eta): beyond B eta lies mass at most eta."""
    reach = math.sqrt(2 * math.log(1 / eta)) + min(abs(threshold), FARTHEST)
    return math.ceil(reach / eta)


def finest_half_count(eps: float, threshold: float = 0.0) -> int:
    """Return the number of finest slabs on each side that cover every eta = j eps below 1/2."""
    return max(j * slab_half_count(j * eps, threshold) for j in range(1, count_scales(eps) + 1))


def count_scales(eps: float) -> int:
    """Return how many j have j eps below 1/2."""
    return max(1, math.ceil(0.5 / eps) - 1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlabMassTester:
    """Sum over slabs of |observed mass - Gaussian mass|, for every scale eta = j eps.

    `tau` is that of one candidate, `first` the number of the first, `threshold` the size of the
    candidates' thresholds that slabs and rows are planned for.
    """

    eps: float
    tau: float
    candidates: tuple[Plane, ...] = ()
    first: int = 0
    threshold: float = 0.0

    name: ClassVar[str] = "slab mass"
    share: ClassVar[float] = 1 / 3
    words: ClassVar[Mapping[str, TesterWords]] = {
        name: TesterWords("Is the histogram along the candidate a Gaussian bell?", *ALONG)
    }

    @classmethod
    def of(cls, context: Context) -> Self | None:
        """Return the tester of the final pass, about every candidate."""
        if context.stage is not Stage.FINAL:
            return None
        return cls(
            eps=context.slab_width,
            tau=cls.share * context.tau / context.most_candidates,
            candidates=context.candidates,
            first=context.first,
            threshold=context.threshold,
        )

    def needs(self) -> CandidateSlabs:
        """Errors and finest slabs of every candidate."""
        return CandidateSlabs(self.candidates, self.eps, finest_half_count(self.eps, self.threshold))

    def half_count(self, eta: float, threshold: float = 0.0) -> int:
        """Slabs on each side about a threshold: no further than those that are counted."""
        return slab_half_count(eta, min(abs(threshold), abs(self.threshold)))

    def quantile(self, n_rows: int, eta: float, threshold: float = 0.0) -> float:
        """Null quantile of the L1 distance at scale eta.

        0.603 = sqrt(1 - 2/pi) is the standard deviation of the sum of independent half-normals
        with variances p, and sum p^1.5 about its skewness. About a threshold, where the tolerance
        no longer hides it, the skewness counts (Cornish and Fisher), also where slabs do not reach
        the bulk and a tail holds most rows: seen at most as often as it should, from 30 rows.
        """
        n = max(1, n_rows)
        masses = masses_about(eta, self.half_count(eta, threshold), threshold)
        mean = float(deviation_bound(n, masses).sum()) / n
        z = upper_normal_quantile(self.tau / count_scales(self.eps))
        skewed = 0.0 if threshold == 0 else float((masses**1.5).sum()) * max(0.0, z**2 - 1) / 6
        return mean + 0.603 * (z + skewed) / math.sqrt(n)

    def expected_slack(self, n_rows: int) -> float:
        """Statistic + null quantile at the finest scale, about, of N(0, I) rows."""
        n = max(1, n_rows)
        masses = masses_about(self.eps, self.half_count(self.eps), 0.0)
        mean = float(deviation_bound(n, masses).sum()) / n
        return mean + self.quantile(n, self.eps)

    def rows_needed(self) -> int:
        """Rows that make the finest scale conclusive; all coarser ones follow."""
        return self._rows_at(self.eps, self.threshold)

    def _rows_at(self, eta: float, threshold: float) -> int:
        limit = eta * thinning(threshold)
        return rows_until(lambda n: self.quantile(n, eta, threshold), limit, most=MOST_ROWS)

    def judge(self, result: CandidateSlabsResult, *, n_seen: int) -> tuple[TestResult, ...]:
        """Judge every candidate's histogram over the finest slabs."""
        # histograms may come without their candidates, of planes through the origin
        thresholds = [plane.threshold for plane in self.candidates] or [0.0] * len(result.counts)
        return tuple(
            one
            for i, (counts, threshold) in enumerate(zip(result.counts, thresholds, strict=True))
            for one in self._judge_candidate(counts, threshold, self.first + i)
        )

    def _judge_candidate(self, counts: NDArray[np.int64], threshold: float, candidate: int) -> Iterator[TestResult]:
        """The scale that carries the verdict, then another that rejects.

        Passing the finest scale implies all others whose slabs reach no further, by the triangle
        inequality. Any other scale can still reject.
        """
        scales = range(1, count_scales(self.eps) + 1)
        carrying = 1 if threshold == 0 else self._finest_conclusive(int(counts.sum()), threshold)
        role = Role.EXTRA if carrying is None else Role.REQUIRED
        first = self._judge_scale(counts, carrying or 1, threshold, candidate)
        yield replace(first, role=role)
        if first.outcome is Outcome.REJECTED:
            return
        others: Iterable[int] = (j for j in scales if j != (carrying or 1))
        if first.outcome is Outcome.PASSED and carrying == 1:
            reach = self.half_count(self.eps, threshold)
            others = (j for j in others if j * self.half_count(j * self.eps, threshold) > reach)
        judged = (self._judge_scale(counts, j, threshold, candidate) for j in others)
        rejected = (other for other in judged if other.outcome is Outcome.REJECTED)
        yield from itertools.islice(rejected, 1)

    def _finest_conclusive(self, n_rows: int, threshold: float) -> int | None:
        """The smallest j whose null quantile is within its tolerance, if there is one."""
        thin = thinning(threshold)
        scales = ((j, j * self.eps) for j in range(1, count_scales(self.eps) + 1))
        fits = (j for j, eta in scales if self.quantile(n_rows, eta, threshold) <= eta * thin)
        return next(fits, None)

    def _judge_scale(self, counts: NDArray[np.int64], j: int, threshold: float, candidate: int) -> TestResult:
        eta = j * self.eps
        half_count = self.half_count(eta, threshold)
        limit = eta * thinning(threshold)
        n_rows = int(counts.sum())
        observed = merge_slabs(counts, j, half_count) / max(1, n_rows)
        expected = masses_about(eta, half_count, threshold)
        gaps = np.abs(observed - expected)
        largest = np.argsort(-gaps, kind="stable")[:_SHOWN].tolist()
        return judged(
            self.name,
            statistic=float(gaps.sum()),
            limit=limit,
            null_quantile=self.quantile(n_rows, eta, threshold),
            n_rows=n_rows,
            rows_needed=lambda: self._rows_to_settle(threshold),
            evidence=tuple(
                Evidence(
                    slab_subject(i, eta, half_count), float(observed[i]), float(expected[i]), float(gaps[i]), limit
                )
                for i in largest
            ),
            candidate=candidate,
            scale=eta,
        )

    def _rows_to_settle(self, threshold: float) -> int:
        """At the finest scale; with a threshold, at the coarsest."""
        eta = self.eps if threshold == 0 else self.eps * count_scales(self.eps)
        return self._rows_at(eta, threshold)


def deviation_bound(n_rows: int, p: NDArray[np.float64]) -> NDArray[np.float64]:
    """At least the mean absolute deviation of binomial counts of n rows and shares p.

    It is at most 2 n p and 2 n (1 - p), and at most sqrt(2/pi) (1 + 1 / (15 v)) standard
    deviations, v the variance: the excess over a normal distribution is largest where n p is half-way
    between whole numbers, 1 / (24 v) for small p and up to 1 / (15.6 v) for p = 1/2.
    """
    variance = np.maximum(n_rows * p * (1 - p), np.finfo(np.float64).tiny)
    normal = np.sqrt(2 / math.pi * variance) * (1 + 1 / (15 * variance))
    return np.asarray(np.minimum(2 * n_rows * np.minimum(p, 1 - p), normal))


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
