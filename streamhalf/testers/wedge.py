"""Do halfspaces near a candidate agree with it on nearly all rows? (what Algorithm 2 is for).

beta(eta) bounds the share of rows on which any halfspace within eta of the candidate disagrees with
it, whatever the law of the rows; soundness needs it to be O(eta).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from scipy.special import erfcx

from streamhalf.kernels.plane import Plane
from streamhalf.kernels.streams import Stream
from streamhalf.records import Evidence, Judgement, Stage, WedgeShare
from streamhalf.reductions.base import Bundle, Reduction
from streamhalf.reductions.sampled import Sampled
from streamhalf.reductions.wedge_sums import WedgeSums, WedgeSumsResult
from streamhalf.testers.base import (
    ALONG,
    Context,
    TesterWords,
    judgement,
    rows_until,
    upper_normal_quantile,
)

WEDGE_LIMIT = 2.5
"""Of beta(eta) / eta, which is at most 1.26 for many rows of N(0, I)."""

_AMPLE = 2
"""So many times the rows that are plenty, (100 + 10 d) / eta, are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WedgeTester:
    """Largest beta(eta) / eta over eta = eps, 2 eps, 4 eps, ... below 1/2.

    Parameters
    ----------
    dim
        Features.
    eps
        Finest eta.
    tau
        Of one candidate.
    n_rows, seed
        Rows of the pass, about, and the seed of the sample that is taken of many.
    candidates, first
        Planes, and the number of the first.
    """

    dim: int
    eps: float
    tau: float
    n_rows: int = 1
    seed: int = 0
    candidates: tuple[Plane, ...] = ()
    first: int = 0

    name: ClassVar[str] = "wedge"
    share: ClassVar[float] = 1 / 3
    words: ClassVar[Mapping[str, TesterWords]] = {
        name: TesterWords("Do halfspaces near the candidate agree with it on most rows?", *ALONG)
    }

    @classmethod
    def of(cls, context: Context) -> Self | None:
        """In the final pass, about every candidate."""
        if context.stage is not Stage.FINAL:
            return None
        return cls(
            dim=context.dim,
            eps=context.eps,
            tau=cls.share * context.tau / context.most_candidates,
            n_rows=max(1, context.n_rows),
            seed=context.config.seed,
            candidates=context.candidates,
            first=context.first,
        )

    @property
    def etas(self) -> tuple[float, ...]:
        """The scales, finest first."""
        doubled = (self.eps * 2**k for k in itertools.count())
        return tuple(itertools.takewhile(lambda eta: eta < 0.5, doubled))

    def needs(self) -> Bundle:
        """Sums at each scale, over single rows drawn at random where not all are needed."""
        return Bundle(tuple(self._sums(eta) for eta in self.etas))

    def _sums(self, eta: float) -> Reduction[Any, Any]:
        sums, share = WedgeSums(self.candidates, eta), self.sample_rows(eta) / self.n_rows
        return sums if share >= 1 else Sampled(sums, 0.0, share, self.seed, Stream.WEDGE_SAMPLE)

    def sample_rows(self, eta: float) -> int:
        """Rows that are looked at for a scale."""
        return min(self.n_rows, math.ceil(_AMPLE * (100 + 10 * self.dim) / eta))

    def quantile(self, n_rows: int, eta: float) -> float:
        """Null quantile of beta(eta) / eta, a union bound over the scales.

        About n eta rows are near enough to count. The law of large numbers, then the edge of a
        weighted Gaussian matrix and the length of a weighted mean, then the fluctuation, with the
        second term of Bernstein's; 0.0784 eta is the mean of (a t)² and of (a t²)², so that the
        second is 4 sqrt(0.0784) = 1.12. Calibrated by simulation for d = 1 to 100 and n eta from 1.
        """
        near = max(1, n_rows) * eta
        width = math.sqrt((self.dim - 1) / near)
        z = upper_normal_quantile(self.tau / len(self.etas))
        noise = z / math.sqrt(near)
        return (
            gaussian_beta(eta) / eta + 1.12 * width + 0.4 * width**2 + 0.95 * noise + noise**2 / 3
        )

    def rows_needed(self) -> int:
        """Rows that make the finest scale conclusive; all coarser ones follow."""
        return rows_until(lambda n: self.quantile(n, self.eps), WEDGE_LIMIT)

    def betas(self, result: tuple[WedgeSumsResult, ...]) -> tuple[float, ...]:
        """The bound at eps on the rows looked at, candidate by candidate."""
        return tuple(result[0].betas().tolist())

    def judge(self, result: tuple[WedgeSumsResult, ...], *, n_seen: int) -> tuple[Judgement, ...]:
        """Judge every candidate by its worst scale."""
        betas = [one.betas().tolist() for one in result]
        return tuple(
            max(
                (
                    self._judge_scale(found[i], one.eta, one.n_rows, self.first + i)
                    for found, one in zip(betas, result, strict=True)
                ),
                key=lambda one: one.severity,
            )
            for i in range(len(self.candidates))
        )

    def _judge_scale(self, beta: float, eta: float, n_rows: int, candidate: int) -> Judgement:
        evidence = Evidence(
            subject=WedgeShare(eta),
            observed=beta,
            expected=gaussian_beta(eta),
            deviation=beta / eta,
            limit=WEDGE_LIMIT,
        )
        return judgement(
            self.name,
            statistic=beta / eta,
            limit=WEDGE_LIMIT,
            null_quantile=self.quantile(n_rows, eta),
            n_rows=n_rows,
            rows_needed=self.rows_needed,
            evidence=(evidence,),
            candidate=candidate,
            # the finest: passing means that every coarser one passed too
            scale=self.eps,
        )


def gaussian_beta(eta: float) -> float:
    """beta(eta) for infinitely many rows of N(0, I): the mean of 1 / (1 + t²), at most 1.26 eta."""
    gamma = math.tan(2 * math.asin(eta / 2))
    return gamma * math.sqrt(math.pi / 2) * float(erfcx(gamma / math.sqrt(2)))
