"""Do the moments up to degree k match those of N(0, I)? (Algorithm 1, lines 3 and 4)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import eval_hermitenorm

from streamhalf.kernels.hermite import gaussian_monomial_mean
from streamhalf.kernels.monomials import (
    count_monomials,
    degree_offset,
    monomial_name,
    monomial_tuples,
)
from streamhalf.records import Evidence, Judgement, Outcome
from streamhalf.reductions.base import Bundle, Reduction
from streamhalf.reductions.moments import Moments, MomentsResult
from streamhalf.testers.base import judge, rows_until, upper_normal_quantile

_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MomentTester:
    """Largest Hermite moment, second moment in every direction, and quadratics in every direction.

    Parameters
    ----------
    degree
        Even degree k.
    moment_tolerance, spectral_tolerance
        What soundness allows.
    tau
        Probability that one of these tests rejects N(0, I).
    directions
        For wide data: orthonormal rows (m, d). Degree 2 is tested in full, degree k on their span
        only, and the judgements say so.
    """

    degree: int
    moment_tolerance: float
    spectral_tolerance: float
    tau: float
    directions: NDArray[np.float64] | None = None

    name = "moments"

    @property
    def n_tests(self) -> int:
        """How many statistics are judged."""
        return 2 if self.degree == 2 else 3

    @property
    def _share(self) -> float:
        return self.tau / self.n_tests

    def needs(self) -> Reduction[Any, Any]:
        """The statistic that is judged."""
        if self.directions is None:
            return Moments(self.degree)
        return Bundle((Moments(2), Moments(self.degree, self.directions)))

    def rows_needed(self, dim: int) -> int:
        """Rows that make the required tests conclusive."""
        count = self._count(dim)
        return max(
            rows_until(
                lambda n: largest_quantile(n, count, self._share, self.degree),
                self.moment_tolerance,
            ),
            rows_until(
                lambda n: second_moment_quantile(n, dim, self._share), self.spectral_tolerance
            ),
        )

    def judge(self, result: Any) -> tuple[Judgement, ...]:
        """One judgement per statistic."""
        full, sketch = (result, result) if self.directions is None else result
        judgements = [self._judge_largest(full, sketch), self._judge_second_moment(full)]
        if self.degree > 2:
            judgements.append(self._judge_quadratics(sketch))
        if self.directions is not None:
            said = f"degree {self.degree} sketched on {len(self.directions)} directions"
            judgements = [
                replace(judgement, remark=" · ".join(filter(None, (judgement.remark, said))))
                for judgement in judgements
            ]
        return tuple(judgements)

    def _count(self, dim: int) -> int:
        """How many moments are looked at."""
        if self.directions is None:
            return count_monomials(dim, self.degree) - 1
        return count_monomials(dim, 2) + count_monomials(len(self.directions), self.degree) - 2

    def _judge_largest(self, full: MomentsResult, sketch: MomentsResult) -> Judgement:
        evidence = list(_moment_evidence(full, "x", self.moment_tolerance))
        if self.directions is not None:
            evidence += _moment_evidence(sketch, "u", self.moment_tolerance)
        worst = max(evidence, key=lambda item: item.deviation)
        return self._judgement(
            "largest moment",
            full,
            worst.deviation,
            self.moment_tolerance,
            largest_quantile(full.n_rows, self._count(full.dim), self._share, self.degree),
            tuple(evidence),
        )

    def _judge_second_moment(self, result: MomentsResult) -> Judgement:
        value, vector = _extreme_eigenpair(result.second_moment())
        return self._judgement(
            "second moment",
            result,
            abs(value),
            self.spectral_tolerance,
            second_moment_quantile(result.n_rows, result.dim, self._share),
            (_spectral_evidence("second moment", value, vector[1:], self.spectral_tolerance),),
        )

    def _judge_quadratics(self, result: MomentsResult) -> Judgement:
        limit = self.spectral_tolerance
        value, vector = _extreme_eigenpair(result.hermite_gram())
        quantile = quadratics_quantile(result.n_rows, result.dim, self._share)
        direction = _quadratic_direction(vector, result.dim)
        if self.directions is not None:
            direction = self.directions.T @ direction
        evidence = (_spectral_evidence("squared quadratic", value, direction, limit),)
        if self.degree == 4 and quantile <= limit:
            return self._judgement("quadratics", result, abs(value), limit, quantile, evidence)
        needed = rows_until(lambda n: quadratics_quantile(n, result.dim, self._share), limit)
        return Judgement(
            tester="quadratics",
            outcome=Outcome.NOT_JUDGED,
            statistic=abs(value),
            limit=limit,
            null_quantile=quantile,
            n_rows=result.n_rows,
            evidence=evidence,
            remark=f"an extra test; it would need {needed:,} rows"
            if self.degree == 4
            else "an extra test; its null is calibrated for degree 4 only",
        )

    def _judgement(
        self,
        tester: str,
        result: MomentsResult,
        statistic: float,
        limit: float,
        quantile: float,
        evidence: tuple[Evidence, ...],
    ) -> Judgement:
        outcome = judge(statistic, limit=limit, null_quantile=quantile)
        return Judgement(
            tester=tester,
            outcome=outcome,
            statistic=statistic,
            limit=limit,
            null_quantile=quantile,
            n_rows=result.n_rows,
            rows_needed=self.rows_needed(result.dim) if outcome is Outcome.INCONCLUSIVE else None,
            evidence=evidence,
        )


def largest_quantile(n_rows: int, count: int, tau: float, degree: int = 4) -> float:
    """Null quantile of the largest of `count` Hermite moments: Gaussian with a union bound.

    Moments of degree 4 have heavier tails than a Gaussian until about 10,000 rows; the factors
    below were calibrated by simulation for d = 1 to 20 and 40 rows upwards. In moments of a higher
    degree a single row can outweigh the rest: what the largest he_k(x) among n rows adds.
    """
    share = tau / (2 * max(1, count))
    z = upper_normal_quantile(share)
    small = 1.25 if n_rows < 10_000 else 1.0
    tiny = max(1.0, math.sqrt(math.sqrt(1_000 / max(1, n_rows))))
    jump = 0.0
    if degree > 4:
        largest = upper_normal_quantile(share / max(1, n_rows))
        norm = math.sqrt(math.factorial(degree))
        jump = float(eval_hermitenorm(degree, largest)) / norm / max(1, n_rows)
    return small * tiny * z / math.sqrt(max(1, n_rows)) + jump


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
    volatile direction; calibrated by simulation.
    """
    n = max(1, n_rows)
    p = count_monomials(dim, 2)
    z = upper_normal_quantile(tau)
    return 1.1 * (2.7 * math.sqrt(p / n) + z * math.sqrt(14 / n))


def _telling_order(
    hermite: NDArray[np.float64], dim: int, degree: int, limit: float
) -> NDArray[np.int64]:
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


def _moment_evidence(result: MomentsResult, letter: str, limit: float) -> Iterator[Evidence]:
    """The most telling moments, by name."""
    dim = result.dim
    hermite = np.abs(result.hermite())
    hermite[0] = 0
    means = result.monomials
    for rank in _telling_order(hermite, dim, result.degree, limit):
        degree = next(m for m in range(9) if rank < count_monomials(dim, m))
        row = monomial_tuples(dim, degree)[rank - degree_offset(dim, degree)]
        variables = tuple(int(j) for j in row)
        yield Evidence(
            name=monomial_name(variables, letter),
            observed=float(means[rank]),
            expected=gaussian_monomial_mean(variables),
            deviation=float(hermite[rank]),
            limit=limit,
        )


def _extreme_eigenpair(matrix: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """Eigenvalue of matrix - I of largest size, and its vector."""
    values, vectors = np.linalg.eigh(matrix - np.eye(len(matrix)))
    i = int(np.argmax(np.abs(values)))
    return float(values[i]), vectors[:, i]


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


def _spectral_evidence(
    what: str, value: float, direction: NDArray[np.float64], limit: float
) -> Evidence:
    norm = float(np.linalg.norm(direction))
    unit = direction / norm if norm > 0 else direction
    return Evidence(
        name=f"{what} along {direction_name(unit)}",
        observed=1 + value,
        expected=1.0,
        deviation=abs(value),
        limit=limit,
        direction=tuple(float(a) for a in unit),
    )


def direction_name(unit: NDArray[np.float64], shown: int = 3) -> str:
    """The largest coordinates of a direction, in words."""
    order = np.argsort(-np.abs(unit), kind="stable")[:shown]
    kept = [int(j) for j in order if abs(unit[j]) > 0.05]
    text = " ".join(f"{unit[j]:+.2f}·x{j + 1}" for j in kept)
    return text + (" ..." if np.count_nonzero(np.abs(unit) > 0.05) > shown else "")
