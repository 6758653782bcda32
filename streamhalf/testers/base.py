"""Testers and the three outcomes that each of them has.

T is the statistic, tol what soundness needs, q the quantile of T for true N(0, I) at this number of rows. Only T >
max(tol, q) says "not Gaussian"; tol < T <= q says "too few rows".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from streamhalf.config import RunConfig
from streamhalf.kernels.plane import Frame, Plane
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.row_view import Bundle
from streamhalf.results import Evidence, Outcome, Stage, TestResult, finite

MOST_ROWS = 1 << 60  # More than any data set has: the answer where a test far out in the tails needs even more
_LARGEST_EXPONENT = 600.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Context:
    """A pass before it runs: its stage, the run's `config`, `eps` to judge, and the pass's share of `tau`.

    It has about `n_rows` rows of `dim` features, out of `total_rows`. In an update testers see the rows that `frame`
    accepts, in its coordinates. Of wide data the highest moments are tested on `directions`, orthonormal rows (m, d).
    An `early` pass leaves costly statistics to held-out rows, which will be tested likewise.

    In the final pass `candidates` are the planes of this batch, `first` the number of the first, `most_candidates` the
    most there may be in all. `most_slabs` bounds the second-moment matrices of one candidate; masses are those of slabs
    of width `slab_eps` (None: eps), which take 1/width³ rows. Neighbours of a candidate may have `any_threshold`, or
    turn about the point of its plane that is nearest to the origin. `threshold` is the largest size of the candidates'
    thresholds, known or expected, for all batches: rows grow like exp(t²/2).
    """

    stage: Stage
    config: RunConfig
    dim: int
    n_rows: int
    total_rows: int
    eps: float
    tau: float
    frame: Frame | None = None
    directions: NDArray[np.float64] | None = None
    early: bool = False
    candidates: tuple[Plane, ...] = ()
    first: int = 0
    most_candidates: int = 1
    most_slabs: int = 1 << 20
    slab_eps: float | None = None
    any_threshold: bool = False
    threshold: float = 0.0

    @property
    def slab_width(self) -> float:
        return self.eps if self.slab_eps is None else self.slab_eps


@dataclass(frozen=True, slots=True)
class TesterWords:
    """The question of a tester, what its failure means, and the remedy."""

    asks: str
    failure: str
    remedy: str


# Failure and remedy of the testers along a candidate
ALONG = (
    "Along the halfspace the features are not Gaussian.",
    "Look at the rows in the slab named above, that is at that distance from the boundary: a "
    "cluster, a gap or a rounded feature shows up there.",
)


class Tester(Protocol):
    """A test of the rows of one pass; frozen, made by `of`.

    `share` is the share of its pass's tau that its rejections may cost; `words` has an entry for every name that its
    results carry. It is told how many rows a pass looked at, accepted or not: `n_seen`.
    `streamhalf.testing.check_tester` checks the laws that all of them obey.
    """

    name: ClassVar[str]
    share: ClassVar[float]
    words: ClassVar[Mapping[str, TesterWords]]

    @classmethod
    def of(cls, context: Context) -> Self | None:
        """Return the tester of a pass, or None where it does not apply."""
        ...

    def needs(self) -> Reduction[Any, Any]: ...

    def rows_needed(self) -> int:
        """Return the rows that make it conclusive."""
        ...

    def judge(self, result: Any, *, n_seen: int) -> tuple[TestResult, ...]: ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CandidateTester:
    """Base of the testers of the final pass, about every candidate: each costs its own `tau`.

    `first` is the number of the first candidate; rows are planned for thresholds up to `threshold`.
    """

    eps: float
    tau: float
    candidates: tuple[Plane, ...] = ()
    first: int = 0
    threshold: float = 0.0

    share: ClassVar[float] = 1 / 3

    @classmethod
    def of(cls, context: Context) -> Self | None:
        """Return the tester of the final pass."""
        if context.stage is not Stage.FINAL:
            return None
        return cls(
            tau=cls.share * context.tau / context.most_candidates,
            candidates=context.candidates,
            first=context.first,
            threshold=context.threshold,
            **cls.fields_of(context),
        )

    @classmethod
    def fields_of(cls, context: Context) -> dict[str, Any]:
        """Fields of its own."""
        raise NotImplementedError


T = TypeVar("T", bound=Tester)


@dataclass(frozen=True, slots=True, eq=False)
class TesterSet:
    """The testers of one pass, which share one read of every block."""

    testers: tuple[Tester, ...]

    @classmethod
    def of(cls, registry: Iterable[type[Tester]], context: Context) -> TesterSet:
        """Return those of the registry that apply to a pass."""
        found = (kind.of(context) for kind in registry)
        return cls(tuple(tester for tester in found if tester is not None))

    def needs(self) -> Bundle:
        return Bundle(tuple(tester.needs() for tester in self.testers))

    def judge(self, results: tuple[Any, ...], *, n_seen: int) -> tuple[TestResult, ...]:
        pairs = zip(self.testers, results, strict=True)
        return tuple(one for tester, result in pairs for one in tester.judge(result, n_seen=n_seen))

    def stricter(self, share: float) -> TesterSet:
        """Return the testers with a share of their tau, for what they need as it is."""
        if share == 1:
            return self
        return TesterSet(tuple(replace(one, tau=share * one.tau) for one in self.testers))  # type: ignore[type-var,attr-defined]

    def find(self, kind: type[T]) -> T:
        """Return the tester of a kind."""
        return next(tester for tester in self.testers if isinstance(tester, kind))

    def result_of(self, kind: type[Tester], results: tuple[Any, ...]) -> Any:
        """Return the statistic of the tester of a kind."""
        pairs = zip(self.testers, results, strict=True)
        return next(result for tester, result in pairs if isinstance(tester, kind))

    def rows_needed(self) -> int:
        """Return the rows that make all of them conclusive."""
        return max((tester.rows_needed() for tester in self.testers), default=1)


def judged(
    tester: str,
    *,
    statistic: float,
    limit: float,
    null_quantile: float,
    n_rows: int,
    rows_needed: Callable[[], int],
    evidence: tuple[Evidence, ...],
    **fields: Any,
) -> TestResult:
    """Return a test result by comparison; `rows_needed` is called where it is inconclusive."""
    outcome = Outcome.INCONCLUSIVE
    if statistic <= limit:
        outcome = Outcome.PASSED
    elif statistic > max(limit, null_quantile) or math.isnan(statistic):
        outcome = Outcome.REJECTED
    return TestResult(
        tester=tester,
        outcome=outcome,
        statistic=finite(statistic),
        limit=limit,
        null_quantile=finite(null_quantile),
        n_rows=n_rows,
        rows_needed=rows_needed() if outcome is Outcome.INCONCLUSIVE else None,
        evidence=evidence,
        **fields,
    )


def upper_normal_quantile(tail: float) -> float:
    """Return z with P[N(0,1) > z] = tail."""
    return float(-ndtri(tail))


def thinning(threshold: float) -> float:
    """Return exp(-t²/2), the density of N(0, 1) at t over that at 0; never too small to divide."""
    return math.exp(-min(threshold * threshold / 2, _LARGEST_EXPONENT))


def rows_until(quantile: Callable[[int], float], limit: float) -> int:
    """Return the fewest rows whose null quantile (it falls with rows) is within the limit, `MOST_ROWS` at most."""
    high = 1
    while quantile(high) > limit:
        high *= 2
        if high > MOST_ROWS:
            return MOST_ROWS
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if quantile(middle) > limit else (low, middle)
    return high
