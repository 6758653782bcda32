"""Testers of slabs along a candidate: Gaussian masses, and bounded second moments (Algorithm 2, lines 4 and 6).

One histogram with slabs of width eps serves every eta = j eps below 1/2: the slabs of eta are unions of finest ones.
About a plane with a threshold t the tolerance is eta exp(-t²/2), which takes exp(t²) times the rows: there the finest
scale that the rows allow is judged, and where they allow none, doubts do not count. Second moments orthogonal to the
candidate are at most 2 in every slab; that of a coarser slab is an average of these, so nothing new to test.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from streamhalf.kernels.slabs import masses_about
from streamhalf.kernels.streams import Stream
from streamhalf.reductions.base import Counts, Reduction
from streamhalf.reductions.candidates import CandidateSlabs, SlabCovariance, SlabCovarianceResult
from streamhalf.reductions.row_view import Sample, sampled
from streamhalf.results import Evidence, Outcome, Role, SlabSecondMoment, SlabShare, TestResult, replace
from streamhalf.testers.base import (
    ALONG,
    MOST_ROWS,
    CandidateTester,
    Context,
    TesterWords,
    judged,
    rows_until,
    thinning,
    upper_normal_quantile,
)

_SHOWN = 5
FARTHEST = 4.0  # Largest threshold that slabs reach for: beyond it all of the mass may be in one tail


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
class SlabMassTester(CandidateTester):
    """Sum over slabs of |observed mass - Gaussian mass|, for every scale eta = j eps."""

    name: ClassVar[str] = "slab mass"
    words: ClassVar[Mapping[str, TesterWords]] = {
        name: TesterWords("Is the histogram along the candidate a Gaussian bell?", *ALONG)
    }

    @classmethod
    def fields_of(cls, context: Context) -> dict[str, Any]:
        return {"eps": context.slab_width}

    def needs(self) -> CandidateSlabs:
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
        masses = masses_about(eta, self.half_count(eta, threshold), threshold)
        z = upper_normal_quantile(self.tau / count_scales(self.eps))
        skewed = 0.0 if threshold == 0 else float((masses**1.5).sum()) * max(0.0, z**2 - 1) / 6
        return mean_deviation(n_rows, masses) + 0.603 * (z + skewed) / math.sqrt(max(1, n_rows))

    def expected_slack(self, n_rows: int) -> float:
        """Statistic + null quantile at the finest scale, about, of N(0, I) rows."""
        masses = masses_about(self.eps, self.half_count(self.eps), 0.0)
        return mean_deviation(n_rows, masses) + self.quantile(n_rows, self.eps)

    def rows_needed(self) -> int:
        """Rows that make the finest scale conclusive; all coarser ones follow."""
        return self._rows_at(self.eps, self.threshold)

    def _rows_at(self, eta: float, threshold: float) -> int:
        limit = eta * thinning(threshold)
        return rows_until(lambda n: self.quantile(n, eta, threshold), limit)

    def judge(self, result: Counts, *, n_seen: int) -> tuple[TestResult, ...]:
        # histograms may come without their candidates, of planes through the origin
        thresholds = [plane.threshold for plane in self.candidates] or [0.0] * len(result.counts)
        return tuple(
            one
            for i, (counts, threshold) in enumerate(zip(result.counts, thresholds, strict=True))
            for one in self._judge_candidate(counts, threshold, self.first + i)
        )

    def _judge_candidate(self, counts: NDArray[np.int64], threshold: float, candidate: int) -> Iterator[TestResult]:
        """The scale that carries the verdict, then another that rejects.

        Passing the finest scale implies all others whose slabs reach no further, by the triangle inequality. Any other
        scale can still reject.
        """
        scales = range(1, count_scales(self.eps) + 1)
        carrying: int | None = 1
        if threshold != 0:  # the smallest j whose null quantile is within its tolerance, if there is one
            thin, n_rows = thinning(threshold), int(counts.sum())
            fits = (j for j in scales if self.quantile(n_rows, j * self.eps, threshold) <= j * self.eps * thin)
            carrying = next(fits, None)
        first = self._judge_scale(counts, carrying or 1, threshold, candidate)
        yield replace(first, role=Role.EXTRA if carrying is None else Role.REQUIRED)
        if first.outcome is Outcome.REJECTED:
            return
        others: Iterable[int] = (j for j in scales if j != (carrying or 1))
        if first.outcome is Outcome.PASSED and carrying == 1:
            reach = self.half_count(self.eps, threshold)
            others = (j for j in others if j * self.half_count(j * self.eps, threshold) > reach)
        found = (self._judge_scale(counts, j, threshold, candidate) for j in others)
        yield from itertools.islice((one for one in found if one.outcome is Outcome.REJECTED), 1)

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
            # at the finest scale; with a threshold, at the coarsest
            rows_needed=lambda: self._rows_at(self.eps * (count_scales(self.eps) if threshold else 1), threshold),
            evidence=tuple(
                Evidence(
                    slab_subject(i, eta, half_count), float(observed[i]), float(expected[i]), float(gaps[i]), limit
                )
                for i in largest
            ),
            candidate=candidate,
            scale=eta,
        )


def deviation_bound(n_rows: int, p: NDArray[np.float64]) -> NDArray[np.float64]:
    """At least the mean absolute deviation of binomial counts of n rows and shares p.

    It is at most 2 n p and 2 n (1 - p), and at most sqrt(2/pi) (1 + 1 / (15 v)) standard deviations, v the variance:
    the excess over a normal distribution is largest where n p is half-way between whole numbers, 1 / (24 v) for small p
    and up to 1 / (15.6 v) for p = 1/2.
    """
    variance = np.maximum(n_rows * p * (1 - p), np.finfo(np.float64).tiny)
    normal = np.sqrt(2 / math.pi * variance) * (1 + 1 / (15 * variance))
    return np.asarray(np.minimum(2 * n_rows * np.minimum(p, 1 - p), normal))


def mean_deviation(n_rows: int, masses: NDArray[np.float64]) -> float:
    """At least the mean L1 distance of the shares of n rows from these masses."""
    n = max(1, n_rows)
    return float(deviation_bound(n, masses).sum()) / n


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


COVARIANCE_LIMIT = 2.0
_CENTRAL_DENSITY = 0.35  # Mass of a slab per width, about one half standard deviation out
# Slabs that a pass should have rows for, and on the side of the plane that has fewer
_LEAST_SLABS, _LEAST_BESIDE = 20, 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlabCovarianceTester(CandidateTester):
    """Largest eigenvalue over all slabs that hold enough rows; thin slabs are merged outwards.

    Slab edges are multiples of `eps`; `tau` is shared over `n_slabs`. Second moments come from a sample of the `n_rows`
    rows: a few hundred rows per slab are enough.
    """

    dim: int
    n_slabs: int
    n_rows: int = 1
    seed: int = 0
    most_slabs: int = 1 << 20

    name: ClassVar[str] = "slab covariance"
    words: ClassVar[Mapping[str, TesterWords]] = {
        name: TesterWords("Is the spread bounded in every slice along the candidate?", *ALONG)
    }

    @classmethod
    def fields_of(cls, context: Context) -> dict[str, Any]:
        return {
            "dim": context.dim,
            "eps": context.slab_width,
            "n_slabs": 2 * finest_half_count(context.slab_width, context.threshold) + 2,
            "n_rows": max(1, context.n_rows),
            "seed": context.config.seed,
            "most_slabs": context.most_slabs,
        }

    def needs(self) -> Reduction[Any, Any]:
        sample = Sample(self.seed, Stream.SLAB_SAMPLE, 0.0, self.sample_rows() / self.n_rows)
        return sampled(SlabCovariance(self.candidates, self.edges()), sample)

    def sample_rows(self) -> int:
        """Rows from which second moments are taken."""
        density = _CENTRAL_DENSITY * thinning(self.threshold)
        wanted = math.ceil(2 * self.rows_per_slab() / (density * self.eps))
        return min(self.n_rows, max(wanted, 40 * self.rows_per_slab()))

    def edges(self) -> NDArray[np.float64]:
        """Slab edges of the second moments."""
        half_count, rows = finest_half_count(self.eps, self.threshold), self.sample_rows()
        edges = covariance_edges(self.eps, half_count, rows, self.rows_per_slab(), threshold=self.threshold)
        if len(edges) < self.most_slabs:
            return edges
        # covariance_edges gives every slab twice the rows asked for
        mass = _summed_density(np.full(1, np.inf), self.threshold)[0] - 0.5
        per_slab = math.ceil(2 * mass * rows / (2 * self.most_slabs))
        return covariance_edges(self.eps, half_count, rows, per_slab, threshold=self.threshold)

    def quantile(self, n_rows: int) -> float:
        """Null quantile of lambda_max in one slab of n rows (Gaussian matrices)."""
        return (1 + self._root() / math.sqrt(max(1, n_rows))) ** 2

    def rows_per_slab(self) -> int:
        """Rows that make a slab conclusive: 5.83 = (sqrt 2 - 1)^-2."""
        return math.ceil((self._root() / (math.sqrt(COVARIANCE_LIMIT) - 1)) ** 2)

    def _root(self) -> float:
        return math.sqrt(self.dim) + math.sqrt(2 * math.log(self.n_slabs / self.tau))

    def rows_needed(self) -> int:
        """Rows that fill a few slabs on each side."""
        beside = max(float(ndtr(-abs(self.threshold))), 1 / MOST_ROWS)
        times = max(_LEAST_SLABS, math.ceil(_LEAST_BESIDE / beside))
        return min(MOST_ROWS, times * self.rows_per_slab())

    def judge(self, result: SlabCovarianceResult, *, n_seen: int) -> tuple[TestResult, ...]:
        """Judge every candidate by its worst slab."""
        return tuple(self._judge_candidate(result, i) for i in range(len(result.counts)))

    def _judge_candidate(self, result: SlabCovarianceResult, candidate: int) -> TestResult:
        """Merge outwards, then judge the slab whose eigenvalue is worst against its quantile."""
        counts = result.counts[candidate]
        groups = sorted(merge_outwards(counts, result.edges, self.rows_per_slab()))
        if not groups:
            raise ValueError("no slab to judge")
        sums = result.second_moments(candidate) * counts[:, None, None]
        # neighbours without gaps, but for slabs without rows
        starts = [group[0] for group in groups]
        n_rows = np.add.reduceat(counts, starts).tolist()
        moments = np.add.reduceat(sums, starts) / np.maximum(1, n_rows)[:, None, None]
        found = [
            judged(
                self.name,
                statistic=value,
                limit=COVARIANCE_LIMIT,
                null_quantile=self.quantile(n),
                n_rows=n,
                rows_needed=self.rows_per_slab,
                evidence=(),
                candidate=self.first + candidate,
                scale=self.eps,
            )
            for value, n in zip(np.linalg.eigvalsh(moments)[:, -1].tolist(), n_rows, strict=True)
        ]
        worst = max(range(len(found)), key=lambda i: found[i].severity)
        evidence = _evidence(result.edges, groups[worst], moments[worst])
        return replace(found[worst], evidence=(evidence,))


def _evidence(edges: NDArray[np.float64], group: list[int], moment: NDArray[np.float64]) -> Evidence:
    values, vectors = np.linalg.eigh(moment)
    ends = [None, *edges.tolist(), None]
    direction, largest = tuple(vectors[:, -1].tolist()), float(values[-1])
    subject = SlabSecondMoment(ends[group[0]], ends[group[-1] + 1], direction)
    return Evidence(subject, largest, 1.0, largest, COVARIANCE_LIMIT)


def covariance_edges(
    width: float, half_count: int, n_rows: int, rows_per_slab: int, *, threshold: float = 0.0
) -> NDArray[np.float64]:
    """Return edges, multiples of `width`, whose slabs should hold twice the rows needed.

    Grown outwards from 0 on the right, and mirrored. They serve planes with any threshold up to that size: each slab
    has its rows about one of them, and `merge_outwards` does the rest.
    """
    positive = width * np.arange(half_count + 1)
    mass = _summed_density(positive, threshold)
    total = _summed_density(np.full(1, np.inf), threshold)[0]
    wanted = 2 * rows_per_slab / max(1, n_rows)
    edges, last = [0.0], mass[0]
    for i in range(1, half_count + 1):
        if mass[i] - last >= wanted and total - mass[i] >= wanted:
            edges.append(float(positive[i]))
            last = mass[i]
    inner = np.array(edges[1:])
    return np.concatenate([-inner[::-1], [0.0], inner])


def _summed_density(margin: NDArray[np.floating[Any]], threshold: float) -> NDArray[np.float64]:
    """Half, and the integral up to a margin of the largest density that a plane has there."""
    size = min(abs(threshold), FARTHEST)
    density = 1 / math.sqrt(2 * math.pi)
    return np.asarray(ndtr(np.maximum(0.0, margin - size)) + density * np.minimum(margin, size))


def merge_outwards(counts: NDArray[np.int64], edges: NDArray[np.float64], rows_per_slab: int) -> list[list[int]]:
    """Group slabs, from the boundary outwards on each side, until each group has enough rows.

    A last group that stays short joins its inner neighbour.
    """
    zero = int(np.searchsorted(edges, 0.0)) + 1  # first slab of non-negative margins
    groups: list[list[int]] = []
    for side in (range(zero - 1, -1, -1), range(zero, len(counts))):
        closed, held = list[list[int]]([[]]), 0
        for i in side:
            closed[-1].append(i)
            held += int(counts[i])
            if held >= rows_per_slab:
                closed.append([])
                held = 0
        last = closed.pop()
        closed = [*closed[:-1], closed[-1] + last] if closed else [last]
        groups += [sorted(group) for group in closed]
    return [group for group in groups if counts[group].sum() > 0]
