"""Do the moments up to degree k match those of N(0, I)? (Algorithm 1, lines 3 and 4)."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, eval_hermitenorm

from streamhalf import results
from streamhalf.config import RunConfig
from streamhalf.kernels.monomials import (
    count_monomials,
    degree_offset,
    extreme_eigenpair,
    gaussian_monomial_mean,
    monomial_tuples,
)
from streamhalf.kernels.streams import Stream, generator_of
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.moments import Moments, MomentsResult
from streamhalf.reductions.row_view import Bundle
from streamhalf.results import (
    Evidence,
    Moment,
    Outcome,
    Quadratic,
    Role,
    SecondMoment,
    Stage,
    Subject,
    TestResult,
    finite,
)
from streamhalf.testers.base import Context, TesterWords, judged, rows_until, upper_normal_quantile
from streamhalf.testers.constants import LARGEST_DEVIATION

WIDE_DIM, SKETCH_DIRECTIONS = 64, 24  # Above this many features, degree k is tested on a sketch of so many directions
_SHOWN = 5
# Degree of moments whose quadratics have a null: 2 has no quadratics, and those of 6 and 8 (there polynomials of
# degree 3 and 4) are shown but not judged
_CALIBRATED = 4
_QUESTIONS = {
    "largest moment": "Do averages of products of features match those of a Gaussian?",
    "second moment": "Is the spread the same in every direction?",
    "quadratics": "Do squares and products of features vary as they should, in every direction? "
    "The constant of the promise rests on it; with few rows it can only reject.",
}
_FAILURE = "Mean, scale, correlation or shape of the features differs from a standard Gaussian."
_COSTLY = 256  # With more monomials of half the degree an early look takes degree 2 alone
_REMEDY = "Whitening cures means and covariances; transform the features, or use another method."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MomentTester:
    """Largest Hermite moment, second moment in every direction, and quadratics in every direction.

    `tau` is the probability that one of the three rejects N(0, I). With `directions`, orthonormal rows (m, d), degree 2
    is tested in full and degree k on their span only; the results say so.
    """

    dim: int
    degree: int
    moment_tolerance: float
    spectral_tolerance: float
    tau: float
    quadratics_tolerance: float = 0.2
    directions: NDArray[np.float64] | None = None

    name: ClassVar[str] = "moments"
    share: ClassVar[float] = 0.75
    words: ClassVar[Mapping[str, TesterWords]] = {
        name: TesterWords(asks, _FAILURE, _REMEDY) for name, asks in _QUESTIONS.items()
    }

    @classmethod
    def of(cls, context: Context) -> Self | None:
        """Return the tester of a pass that learns a vector."""
        if context.stage is Stage.FINAL:
            return None
        tester = cls.configured(context.config, context.dim, tau=cls.share * context.tau)
        if context.early and count_monomials(context.dim, tester.degree // 2) > _COSTLY:
            return replace(tester, degree=2)
        return replace(tester, directions=context.directions)

    @classmethod
    def configured(cls, config: RunConfig, dim: int, *, tau: float) -> Self:
        """Return the tester with the degree and the tolerances of a configuration."""
        names = ("degree", "moment_tolerance", "spectral_tolerance", "quadratics_tolerance")
        return cls(dim=dim, tau=tau, **{name: getattr(config, name) for name in names})

    @property
    def _share(self) -> float:
        """Tau of one of the two or three statistics."""
        return self.tau / (2 if self.degree == 2 else 3)

    def needs(self) -> Reduction[Any, Any]:
        if self.directions is None:
            return Moments(self.degree)
        return Bundle((Moments(2), Moments(self.degree, self.directions)))

    def moments(self, result: Any) -> MomentsResult:
        """Return the moments of the features themselves, given the statistic."""
        full: MomentsResult = result if self.directions is None else result[0]
        return full

    def rows_needed(self) -> int:
        """Rows that make the required tests conclusive: all but quadratics."""
        share = self._share
        return max(
            rows_until(self._largest_quantile, self.moment_tolerance),
            rows_until(lambda n: second_moment_quantile(n, self.dim, share), self.spectral_tolerance),
        )

    def rows_for(self, tolerance: float) -> int:
        """Rows that make quadratics conclusive, and support a constant wherever they pass.

        1 for a degree without a null.
        """
        if self.degree != _CALIBRATED:
            return 1
        dim = self.dim if self.directions is None else len(self.directions)
        quantile = functools.partial(quadratics_quantile, dim=dim, tau=self._share)
        return max(
            rows_until(quantile, tolerance),
            rows_until(lambda n: excluded_deviation(quantile(n), n, self.tau), LARGEST_DEVIATION),
        )

    def judge(self, result: Any, *, n_seen: int) -> tuple[TestResult, ...]:
        full, sketch = (result, result) if self.directions is None else result
        found = (self._judge_largest(full, sketch), self._judge_second_moment(full))
        return found if self.degree == 2 else (*found, self._judge_quadratics(sketch))

    def _largest_quantile(self, n_rows: int) -> float:
        """Of as many moments as are looked at."""
        count = count_monomials(self.dim, self.degree) - 1
        if self.directions is not None:
            count = count_monomials(self.dim, 2) + count_monomials(len(self.directions), self.degree) - 2
        return largest_quantile(n_rows, count, self._share, self.degree)

    def _judge_largest(self, full: MomentsResult, sketch: MomentsResult) -> TestResult:
        limit = self.moment_tolerance
        evidence = [*_moment_evidence(full, limit, sketched=False)]
        if self.directions is not None:
            evidence += _moment_evidence(sketch, limit, sketched=True)
        worst = max(item.deviation for item in evidence)
        return self._judged("largest moment", full, worst, limit, self._largest_quantile(full.n_rows), evidence)

    def _judge_second_moment(self, result: MomentsResult) -> TestResult:
        matrix = result.second_moment()
        value, vector = extreme_eigenpair(matrix - np.eye(len(matrix)))
        quantile = second_moment_quantile(result.n_rows, result.dim, self._share)
        subject = SecondMoment(_unit(vector[1:]))
        return self._judged_norm("second moment", result, subject, value, self.spectral_tolerance, quantile)

    def _judge_quadratics(self, result: MomentsResult) -> TestResult:
        """A rejection counts; an inconclusive result does not."""
        limit = self.quadratics_tolerance
        gram = result.hermite_gram()
        value, vector = extreme_eigenpair(gram - np.eye(len(gram)))
        direction = _quadratic_direction(vector, result.dim)
        if self.directions is not None:
            direction = self.directions.T @ direction
        quantile = quadratics_quantile(result.n_rows, result.dim, self._share)
        found = self._judged_norm("quadratics", result, Quadratic(_unit(direction)), value, limit, quantile)
        found = results.replace(found, role=Role.EXTRA)
        if self.degree != _CALIBRATED:
            return results.replace(found, outcome=Outcome.NOT_JUDGED, rows_needed=None)
        if found.outcome is Outcome.INCONCLUSIVE:
            return results.replace(found, rows_needed=self.rows_for(limit))
        return found

    def _judged_norm(
        self, tester: str, result: MomentsResult, subject: Subject, value: float, limit: float, quantile: float
    ) -> TestResult:
        """Judge the extreme eigenvalue of a matrix that should be the identity."""
        evidence = Evidence(subject, finite(1 + value), 1.0, finite(abs(value)), limit)
        return self._judged(tester, result, abs(value), limit, quantile, [evidence])

    def _judged(
        self,
        tester: str,
        result: MomentsResult,
        statistic: float,
        limit: float,
        quantile: float,
        evidence: list[Evidence],
    ) -> TestResult:
        return judged(
            tester,
            statistic=statistic,
            limit=limit,
            null_quantile=quantile,
            n_rows=result.n_rows,
            rows_needed=self.rows_needed,
            evidence=tuple(evidence),
            directions=None if self.directions is None else len(self.directions),
        )


def sketch_directions(
    dim: int, anchors: tuple[NDArray[np.float64], ...] = (), *, seed: int, number: int
) -> NDArray[np.float64]:
    """Return orthonormal rows (m, d): the span of the anchors first, then random directions.

    `number` tells the draws of a seed apart.
    """
    rng = generator_of(seed, Stream.SKETCHES + number)
    draws = rng.standard_normal((SKETCH_DIRECTIONS - len(anchors), dim))
    return np.linalg.qr(np.vstack([*anchors, draws]).T)[0].T


def with_sketch(
    context: Context, anchors: tuple[NDArray[np.float64], ...], *, number: int, seed: int | None = None
) -> Context:
    """Return the context, with directions where features are many: drawn with the run's seed, or another."""
    if context.dim <= WIDE_DIM:
        return context
    found = sketch_directions(context.dim, anchors, seed=context.config.seed if seed is None else seed, number=number)
    return replace(context, directions=found)


def _telling_order(hermite: NDArray[np.float64], dim: int, degree: int, limit: float) -> NDArray[np.int64]:
    """Ranks to show: largest first, led by the largest of the lowest degree beyond the limit.

    A wrong mean or covariance upsets all higher moments too; the lowest degree names the cause.
    """
    order = np.argsort(-hermite, kind="stable")
    for m in range(1, degree + 1):
        start, stop = degree_offset(dim, m), count_monomials(dim, m)
        first = start + int(np.argmax(hermite[start:stop]))
        if hermite[first] > limit:
            return np.concatenate([[first], order[order != first]])[:_SHOWN]
    return order[:_SHOWN]


def _moment_evidence(result: MomentsResult, limit: float, *, sketched: bool) -> Iterator[Evidence]:
    """The most telling moments, by name."""
    dim = result.dim
    hermite = np.abs(result.hermite())
    hermite[0] = 0
    for rank in _telling_order(hermite, dim, result.degree, limit):
        degree = next(m for m in range(9) if rank < count_monomials(dim, m))
        row = monomial_tuples(dim, degree)[rank - degree_offset(dim, degree)]
        variables = tuple(int(j) for j in row)
        yield Evidence(
            subject=Moment(variables, sketched),
            observed=finite(result.monomials[rank]),
            expected=gaussian_monomial_mean(variables),
            deviation=finite(hermite[rank]),
            limit=limit,
        )


def _quadratic_direction(vector: NDArray[np.float64], dim: int) -> NDArray[np.float64]:
    """Direction in which the quadratic part of a polynomial (Hermite basis) is largest."""
    form = np.zeros((dim, dim))
    quadratic = vector[dim + 1 : count_monomials(dim, 2)]
    for (i, j), value in zip(monomial_tuples(dim, 2), quadratic, strict=True):
        form[i, j] = form[j, i] = value if i == j else value / math.sqrt(2)
    values, vectors = np.linalg.eigh(form)
    if np.abs(values).max(initial=0) < np.linalg.norm(vector[1 : dim + 1]) / 10:
        return vector[1 : dim + 1]
    return vectors[:, int(np.argmax(np.abs(values)))]


def _unit(direction: NDArray[np.float64]) -> tuple[float, ...]:
    norm = float(np.linalg.norm(direction))
    return tuple((direction / norm if norm > 0 else direction).tolist())


def largest_quantile(n_rows: int, count: int, tau: float, degree: int = 4) -> float:
    """Null quantile of the largest of `count` Hermite moments: Gaussian with a union bound.

    Moments of degree 4 have heavier tails than a Gaussian until about 10,000 rows; the factors below were calibrated by
    simulation for d = 1 to 20 and 40 rows upwards. A single row can outweigh the rest, the largest he_k(x) among n
    rows: for a small tau with few rows, and in moments of a higher degree, where it comes on top.
    """
    n, share = max(1, n_rows), tau / (2 * max(1, count))
    z = upper_normal_quantile(share)
    small = 1.25 if n_rows < 10_000 else 1.0
    tiny = max(1.0, math.sqrt(math.sqrt(1_000 / n)))
    bulk = small * tiny * z / math.sqrt(n)
    largest = upper_normal_quantile(share / n)
    jump = float(eval_hermitenorm(degree, largest)) / math.sqrt(math.factorial(degree)) / n
    return bulk + jump if degree > 4 else max(bulk, jump)


def second_moment_quantile(n_rows: int, dim: int, tau: float) -> float:
    """Null quantile of the operator norm of mean [1,x][1,x]^T - I (Gaussian matrices).

    The edge 2 s + s^2, s = sqrt((d+1)/n), and the fluctuation of a quadratic form, sqrt(2/n).
    """
    n = max(1, n_rows)
    edge = math.sqrt((dim + 1) / n)
    z = upper_normal_quantile(tau)
    return 2 * edge + edge**2 + z * math.sqrt(2 / n) + z**2 / n


def quadratics_quantile(n_rows: int, dim: int, tau: float) -> float:
    """Null quantile of the operator norm of mean H H^T - I, H of degree <= 2.

    2.7 sqrt(p/n) is the edge seen for p polynomials; 14 is the variance of he_2(x)^2, the most
    volatile direction, which must exceed the edge by itself to add to it: squares add up. With few
    rows or a small tau a single row decides, the longest of n: |H|² depends on |x|² alone.
    Calibrated by simulation for d = 1 to 40 and 1 row upwards.
    """
    n = max(1, n_rows)
    p = count_monomials(dim, 2)
    z = upper_normal_quantile(tau / 2)
    square = float(chdtri(dim, tau / n))
    longest = 1 + square + (square**2 - 2 * square + dim) / 2
    return math.hypot(1.2 * 2.8 * math.sqrt(p / n), 1.2 * z * math.sqrt(14 / n), 1.1 * longest / n)


def expected_quadratics(n_rows: int, dim: int) -> float:
    """Operator norm of mean H H^T - I, H of degree <= 2, under N(0, I), about."""
    return 2.7 * math.sqrt(count_monomials(dim, 2) / max(1, n_rows))


def excluded_deviation(statistic: float, n_rows: int, tau: float) -> float:
    """Upper bound of the norm of E H H^T - I in the source of the rows, at confidence 1 - tau.

    Along the worst quadratic q of the source its mean square D + 1 is estimated without bias, and the statistic is at
    least as far from 0: D <= T + z sd. The variance of q² is 14 for a Gaussian, and Q D more where rows with q² about Q
    make the deviation; Q = 280 is five standard deviations out. A distribution that owes its deviation to still rarer
    and longer rows is not covered: no number of rows that misses them could. D is the root of (D - T)² = z² (14 + 280
    D) / n.
    """
    z = upper_normal_quantile(tau)
    scale = 14 * z**2 / max(1, n_rows)
    return statistic + 10 * scale + math.sqrt(scale * (100 * scale + 1 + 20 * statistic))
