"""Do halfspaces near a candidate agree with it on nearly all rows? (what Algorithm 2 is for).

beta(eta) bounds the share of rows on which any halfspace within eta of the candidate disagrees with it, whatever the
distribution of the rows; soundness needs it to be O(eta), about a plane with a threshold t O(eta exp(-t²/2)).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtr, wofz

from streamhalf.kernels.streams import Stream
from streamhalf.reductions.candidates import WedgeSums, WedgeSumsResult
from streamhalf.reductions.row_view import Bundle, Sample, sampled
from streamhalf.results import Evidence, TestResult, WedgeShare
from streamhalf.testers.base import (
    ALONG,
    CandidateTester,
    Context,
    TesterWords,
    judged,
    rows_until,
    thinning,
    upper_normal_quantile,
)

# Of beta(eta) / (eta exp(-t²/2)), which for many rows of N(0, I) and small eta is sqrt(pi/2), and sqrt(pi/2) +
# sqrt(2/pi) where neighbours may also move by eta: they may have any threshold
WEDGE_LIMIT, ANY_WEDGE_LIMIT = 2.5, 3.5
_TURNING, _MOVING = math.sqrt(math.pi / 2), math.sqrt(2 / math.pi)
# A scale at which N(0, I) alone takes up more of the limit is too coarse for the threshold: within eta of the plane
# the density changes by too much. At t = 1.5 all are fine, at 1.9 those below 0.16.
_ROOM = 0.7
_REACH = 9.0  # Beyond it lies less than 1e-18 of N(0, 1)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_AMPLE = 2  # Times (100 + 10 d) exp(t²/2) / eta rows are looked at, which are plenty


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WedgeTester(CandidateTester):
    """Largest beta(eta) / (eta exp(-t²/2)) over eta = eps, 2 eps, 4 eps, ... below 1/2.

    Sums are taken of a sample where `n_rows` are more than enough. With `any_threshold` neighbours within eta may move
    as well (kappa = eta), else they turn only.
    """

    dim: int
    n_rows: int = 1
    seed: int = 0
    any_threshold: bool = False

    name: ClassVar[str] = "wedge"
    words: ClassVar[Mapping[str, TesterWords]] = {
        name: TesterWords("Do halfspaces near the candidate agree with it on most rows?", *ALONG)
    }

    @classmethod
    def fields_of(cls, context: Context) -> dict[str, Any]:
        return {
            "dim": context.dim,
            "eps": min(context.eps, coarsest_eta(context.threshold, context.any_threshold)),
            "n_rows": max(1, context.n_rows),
            "seed": context.config.seed,
            "any_threshold": context.any_threshold,
        }

    @property
    def limit(self) -> float:
        """Largest statistic that soundness allows."""
        return wedge_limit(self.any_threshold)

    @property
    def etas(self) -> tuple[float, ...]:
        """The scales, finest first."""
        doubled = (self.eps * 2**k for k in itertools.count())
        return tuple(itertools.takewhile(lambda eta: eta < 0.5, doubled))

    def needs(self) -> Bundle:
        sums = (WedgeSums(self.candidates, eta, eta if self.any_threshold else 0.0) for eta in self.etas)
        shares = (self.sample_rows(eta) / self.n_rows for eta in self.etas)
        samples = (Sample(self.seed, Stream.WEDGE_SAMPLE, 0.0, share) for share in shares)
        return Bundle(tuple(map(sampled, sums, samples)))

    def sample_rows(self, eta: float) -> int:
        """Rows that are looked at for a scale: plenty for every candidate that has enough."""
        sizes = {abs(plane.threshold) for plane in self.candidates}
        enough = (t for t in sizes if self._rows_at(eta, t) <= self.n_rows)
        plenty = (100 + 10 * self.dim) / (eta * thinning(max(enough, default=0.0)))
        return min(self.n_rows, math.ceil(_AMPLE * plenty))

    def quantile(self, n_rows: int, eta: float, threshold: float = 0.0) -> float:
        """Null quantile of beta(eta) / (eta exp(-t²/2)), a union bound over the scales.

        About n eta exp(-t²/2) rows are near enough to count. The law of large numbers, then the edge of a weighted
        Gaussian matrix and the length of a weighted mean, then the fluctuation, with the second term of Bernstein's;
        0.0784 eta is the mean of (a t)² and of (a t²)² at threshold 0, so that the second is 4 sqrt(0.0784) = 1.12.
        Rows within kappa add their number's variance, 0.95² + 0.8 = 1.3². All variances grow at most like the mean does
        where eta is coarse for the threshold. Calibrated by simulation for d = 1 to 100, thresholds 0 to 3 and n eta
        exp(-t²/2) from 1.
        """
        mean = gaussian_ratio(eta, threshold, self.any_threshold)
        near = max(1, n_rows) * eta * thinning(threshold)
        growth = math.sqrt(max(1.0, mean / _small_ratio(self.any_threshold)))
        width = math.sqrt((self.dim - 1) / near)
        z = upper_normal_quantile(self.tau / len(self.etas))
        noise = z / math.sqrt(near)
        spread = 1.3 if self.any_threshold else 0.95
        return mean + 1.12 * growth * width + 0.4 * width**2 + spread * growth * noise + noise**2 / 3

    def rows_needed(self) -> int:
        """Rows that make the finest scale conclusive; all coarser ones follow."""
        return self._rows_at(self.eps, self.threshold)

    def _rows_at(self, eta: float, threshold: float) -> int:
        """Rows for a candidate; where eta is too coarse for it, at the coarsest that is not."""
        eta = min(eta, coarsest_eta(threshold, self.any_threshold))
        return rows_until(lambda n: self.quantile(n, eta, threshold), self.limit)

    def betas(self, result: tuple[WedgeSumsResult, ...]) -> tuple[float, ...]:
        """The bound at eps on the rows looked at, candidate by candidate."""
        return tuple(result[0].betas.tolist())

    def judge(self, result: tuple[WedgeSumsResult, ...], *, n_seen: int) -> tuple[TestResult, ...]:
        """Judge every candidate by its worst scale; the finest, and all that are not too coarse."""
        betas = [one.betas.tolist() for one in result]
        return tuple(
            max(
                (
                    self._judge_scale(found[i], one, self.first + i, plane.threshold)
                    for found, one in zip(betas, result, strict=True)
                    if one.eta <= max(self.eps, coarsest_eta(plane.threshold, self.any_threshold))
                ),
                key=lambda one: one.severity,
            )
            for i, plane in enumerate(self.candidates)
        )

    def _judge_scale(self, beta: float, sums: WedgeSumsResult, candidate: int, threshold: float) -> TestResult:
        eta = sums.eta
        unit = eta * thinning(threshold)
        expected = gaussian_beta(eta, threshold, sums.kappa)
        evidence = Evidence(WedgeShare(eta), beta, expected, beta / unit, self.limit)
        return judged(
            self.name,
            statistic=beta / unit,
            limit=self.limit,
            null_quantile=self.quantile(sums.n_rows, eta, threshold),
            n_rows=sums.n_rows,
            rows_needed=lambda: self._rows_at(self.eps, threshold),
            evidence=(evidence,),
            candidate=candidate,
            # the finest: passing means that every coarser one passed too
            scale=self.eps,
        )


def wedge_limit(any_threshold: bool) -> float:
    """Return the limit of beta(eta) / (eta exp(-t²/2))."""
    return ANY_WEDGE_LIMIT if any_threshold else WEDGE_LIMIT


def _small_ratio(any_threshold: bool) -> float:
    """Limit of `gaussian_ratio` as eta goes to 0."""
    return _TURNING + _MOVING if any_threshold else _TURNING


def gaussian_ratio(eta: float, threshold: float, any_threshold: bool) -> float:
    """Return beta(eta) / (eta exp(-t²/2)) for infinitely many rows of N(0, I)."""
    beta = gaussian_beta(eta, threshold, eta if any_threshold else 0.0)
    return beta / (eta * thinning(threshold))


@lru_cache(maxsize=1024)
def coarsest_eta(threshold: float, any_threshold: bool) -> float:
    """Return the coarsest eta that leaves N(0, I) rows room below the limit, 1/2 at most."""
    low, high = 1e-15, 0.5
    room = _ROOM * wedge_limit(any_threshold)
    if gaussian_ratio(high, threshold, any_threshold) <= room:
        return high
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        fits = gaussian_ratio(middle, threshold, any_threshold) <= room
        low, high = (middle, high) if fits else (low, middle)
    return low


@lru_cache(maxsize=4096)
def gaussian_beta(eta: float, threshold: float = 0.0, kappa: float = 0.0) -> float:
    """Return beta(eta) for infinitely many rows of N(0, I): the mean of 1 / (1 + t²).

    Without kappa it is a Voigt profile, at most 1.26 eta at threshold 0. With kappa it is the mass within kappa of the
    plane and an integral on either side of that.
    """
    gamma = math.tan(2 * math.asin(eta / 2))
    size = abs(threshold)
    if kappa == 0:
        voigt = wofz(complex(size, gamma) / math.sqrt(2)).real
        return gamma * math.sqrt(math.pi / 2) * float(voigt)
    within = float(ndtr(kappa - size) - ndtr(-kappa - size))
    return within + _beyond(kappa + size, gamma) + _beyond(kappa - size, gamma)


def _beyond(start: float, gamma: float) -> float:
    """Integral over r > 0 of phi(start + r) / (1 + (r / gamma)²), to 1e-12 of itself or 1e-18.

    Gauss and Legendre's rule on pieces that are no longer than 1, and than their distance from 0 where they are beyond
    gamma.
    """
    low, high = max(0.0, -_REACH - start), _REACH - start
    if high <= low:
        return 0.0
    pieces = (np.linspace(low, high, 1 + math.ceil(high - low)), gamma * 2.0 ** np.arange(64))
    edges = np.unique(np.clip(np.concatenate(pieces), low, high))
    half = np.diff(edges)[:, None] / 2
    r = edges[:-1, None] + half * (1 + _NODES)
    density = np.exp(-((start + r) ** 2) / 2) / math.sqrt(2 * math.pi)
    return float((half * _WEIGHTS * density / (1 + (r / gamma) ** 2)).sum())
