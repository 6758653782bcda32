"""Is the second moment orthogonal to a candidate at most 2 in every slab? (Algorithm 2, line 6).

Coarser slabs are unions of these; their second moment is an average, so nothing new to test.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from streamhalf.kernels.plane import Plane
from streamhalf.kernels.streams import Stream
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.plane_slabs import SlabCovariance, SlabCovarianceResult
from streamhalf.reductions.row_view import Sample, sampled
from streamhalf.results import Evidence, SlabSecondMoment, Stage, TestResult, replace
from streamhalf.testers.base import ALONG, MOST_ROWS, Context, TesterWords, judged, thinning
from streamhalf.testers.slab_mass import FARTHEST, finest_half_count

COVARIANCE_LIMIT = 2.0

_CENTRAL_DENSITY = 0.35
"""Mass of a slab per width, about one half standard deviation out."""

_LEAST_SLABS, _LEAST_BESIDE = 20, 2
"""Slabs that a pass should have rows for, and on the side of the plane that has fewer."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlabCovarianceTester:
    """Largest eigenvalue over all slabs that hold enough rows; thin slabs are merged outwards.

    Slab edges are multiples of `eps`; `tau` is that of one candidate and shared over `n_slabs`. Second moments come
    from a sample of the `n_rows` rows: a few hundred rows per slab are enough. Slabs and rows are planned for
    candidates with thresholds up to `threshold`.
    """

    dim: int
    eps: float
    tau: float
    n_slabs: int
    n_rows: int = 1
    seed: int = 0
    candidates: tuple[Plane, ...] = ()
    first: int = 0
    most_slabs: int = 1 << 20
    threshold: float = 0.0

    name: ClassVar[str] = "slab covariance"
    share: ClassVar[float] = 1 / 3
    words: ClassVar[Mapping[str, TesterWords]] = {
        name: TesterWords("Is the spread bounded in every slice along the candidate?", *ALONG)
    }

    @classmethod
    def of(cls, context: Context) -> Self | None:
        """Return the tester of the final pass, about every candidate."""
        if context.stage is not Stage.FINAL:
            return None
        return cls(
            dim=context.dim,
            eps=context.slab_width,
            tau=cls.share * context.tau / context.most_candidates,
            n_slabs=2 * finest_half_count(context.slab_width, context.threshold) + 2,
            n_rows=max(1, context.n_rows),
            seed=context.config.seed,
            candidates=context.candidates,
            first=context.first,
            most_slabs=context.most_slabs,
            threshold=context.threshold,
        )

    def needs(self) -> Reduction[Any, Any]:
        """Second moments in slabs, over a sample of the rows where that is enough."""
        moments, rows = SlabCovariance(self.candidates, self.edges()), self.sample_rows()
        if rows == self.n_rows:
            return moments
        return sampled(moments, Sample(self.seed, Stream.SLAB_SAMPLE, 0.0, rows / self.n_rows))

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
        closed: list[list[int]] = []
        group: list[int] = []
        held = 0
        for i in side:
            group.append(i)
            held += int(counts[i])
            if held >= rows_per_slab:
                closed.append(group)
                group, held = [], 0
        if group and closed:
            closed[-1] = closed[-1] + group
        elif group:
            closed.append(group)
        groups.extend(sorted(group) for group in closed)
    return [group for group in groups if counts[group].sum() > 0]
