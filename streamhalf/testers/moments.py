"""Do the moments up to degree k match those of N(0, I)? (Algorithm 1, lines 3 and 4)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from streamhalf.config import RunConfig
from streamhalf.kernels.eigen import extreme_eigenpair
from streamhalf.kernels.hermite import gaussian_monomial_mean
from streamhalf.kernels.monomials import (
    count_monomials,
    degree_offset,
    monomial_tuples,
)
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
from streamhalf.results import replace as replace_record
from streamhalf.testers.base import Context, TesterWords, judged, rows_until
from streamhalf.testers.constants import LARGEST_DEVIATION
from streamhalf.testers.moment_nulls import (
    excluded_deviation,
    largest_quantile,
    quadratics_quantile,
    second_moment_quantile,
)

WIDE_DIM, SKETCH_DIRECTIONS = 64, 24
"""Above this many features, degree k is tested on a sketch of so many directions."""

_SHOWN = 5
_CALIBRATED = 4
"""Degree of moments whose quadratics have a null: 2 has no quadratics, and those of 6 and 8 (there
polynomials of degree 3 and 4) are shown but not judged."""

_QUESTIONS = {
    "largest moment": "Do averages of products of features match those of a Gaussian?",
    "second moment": "Is the spread the same in every direction?",
    "quadratics": "Do squares and products of features vary as they should, in every direction? "
    "The constant of the promise rests on it; with few rows it can only reject.",
}
_FAILURE = "Mean, scale, correlation or shape of the features differs from a standard Gaussian."
_DEAR = 256
"""With more monomials of half the degree an early look takes degree 2 alone."""

_REMEDY = "Whitening cures means and covariances; transform the features, or use another method."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MomentTester:
    """Largest Hermite moment, second moment in every direction, and quadratics in every direction.

    Parameters
    ----------
    dim
        Features.
    degree
        Even degree k.
    moment_tolerance, spectral_tolerance, quadratics_tolerance
        What soundness allows.
    tau
        Probability that one of these tests rejects N(0, I).
    directions
        For wide data: orthonormal rows (m, d). Degree 2 is tested in full, degree k on their span
        only, and the test_results say so.
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
        """Wherever a vector is learned."""
        if context.stage is Stage.FINAL:
            return None
        tester = cls.configured(context.config, context.dim, tau=cls.share * context.tau)
        if context.early and count_monomials(context.dim, tester.degree // 2) > _DEAR:
            return replace(tester, degree=2)
        return replace(tester, directions=context.directions)

    @classmethod
    def configured(cls, config: RunConfig, dim: int, *, tau: float) -> Self:
        """With the degree and the tolerances of a configuration."""
        return cls(
            dim=dim,
            degree=config.degree,
            moment_tolerance=config.moment_tolerance,
            spectral_tolerance=config.spectral_tolerance,
            quadratics_tolerance=config.quadratics_tolerance,
            tau=tau,
        )

    @property
    def _share(self) -> float:
        """Of one of the two or three statistics."""
        return self.tau / (2 if self.degree == 2 else 3)

    def needs(self) -> Reduction[Any, Any]:
        """The statistic that is judged."""
        if self.directions is None:
            return Moments(self.degree)
        return Bundle((Moments(2), Moments(self.degree, self.directions)))

    def moments(self, result: Any) -> MomentsResult:
        """The moments of the features themselves, in what the pass found."""
        full: MomentsResult = result if self.directions is None else result[0]
        return full

    def rows_needed(self) -> int:
        """Rows that make the required tests conclusive: all but quadratics."""
        count = self._count()
        return max(
            rows_until(
                lambda n: largest_quantile(n, count, self._share, self.degree),
                self.moment_tolerance,
            ),
            rows_until(
                lambda n: second_moment_quantile(n, self.dim, self._share),
                self.spectral_tolerance,
            ),
        )

    def rows_for(self, tolerance: float) -> int:
        """Rows that make quadratics conclusive, and support a constant wherever they pass.

        1 for a degree without a null.
        """
        if self.degree != _CALIBRATED:
            return 1
        dim = self.dim if self.directions is None else len(self.directions)

        def quantile(n_rows: int) -> float:
            return quadratics_quantile(n_rows, dim, self._share)

        return max(
            rows_until(quantile, tolerance),
            rows_until(lambda n: excluded_deviation(quantile(n), n, self.tau), LARGEST_DEVIATION),
        )

    def judge(self, result: Any, *, n_seen: int) -> tuple[TestResult, ...]:
        """One test_result per statistic."""
        full, sketch = (result, result) if self.directions is None else result
        test_results = [self._judge_largest(full, sketch), self._judge_second_moment(full)]
        if self.degree > 2:
            test_results.append(self._judge_quadratics(sketch))
        return tuple(test_results)

    def _count(self) -> int:
        """How many moments are looked at."""
        if self.directions is None:
            return count_monomials(self.dim, self.degree) - 1
        sketched = count_monomials(len(self.directions), self.degree)
        return count_monomials(self.dim, 2) + sketched - 2

    def _judge_largest(self, full: MomentsResult, sketch: MomentsResult) -> TestResult:
        limit = self.moment_tolerance
        evidence = list(_moment_evidence(full, limit, sketched=False))
        if self.directions is not None:
            evidence += _moment_evidence(sketch, limit, sketched=True)
        worst = max(evidence, key=lambda item: item.deviation)
        return self._test_result(
            "largest moment",
            full,
            worst.deviation,
            limit,
            largest_quantile(full.n_rows, self._count(), self._share, self.degree),
            tuple(evidence),
        )

    def _judge_second_moment(self, result: MomentsResult) -> TestResult:
        matrix = result.second_moment()
        value, vector = extreme_eigenpair(matrix - np.eye(len(matrix)))
        subject = SecondMoment(_unit(vector[1:]))
        return self._test_result(
            "second moment",
            result,
            abs(value),
            self.spectral_tolerance,
            second_moment_quantile(result.n_rows, result.dim, self._share),
            (_spectral_evidence(subject, value, self.spectral_tolerance),),
        )

    def _judge_quadratics(self, result: MomentsResult) -> TestResult:
        """A word that rejects counts; one that cannot tell stands in nobody's way."""
        limit = self.quadratics_tolerance
        gram = result.hermite_gram()
        value, vector = extreme_eigenpair(gram - np.eye(len(gram)))
        direction = _quadratic_direction(vector, result.dim)
        if self.directions is not None:
            direction = self.directions.T @ direction
        evidence = (_spectral_evidence(Quadratic(_unit(direction)), value, limit),)
        quantile = quadratics_quantile(result.n_rows, result.dim, self._share)
        judged = self._test_result("quadratics", result, abs(value), limit, quantile, evidence)
        judged = replace_record(judged, role=Role.EXTRA)
        if self.degree != _CALIBRATED:
            return replace_record(judged, outcome=Outcome.NOT_JUDGED, rows_needed=None)
        if judged.outcome is Outcome.INCONCLUSIVE:
            return replace_record(judged, rows_needed=self.rows_for(limit))
        return judged

    @property
    def _sketched_on(self) -> int | None:
        return None if self.directions is None else len(self.directions)

    def _test_result(
        self,
        tester: str,
        result: MomentsResult,
        statistic: float,
        limit: float,
        quantile: float,
        evidence: tuple[Evidence, ...],
    ) -> TestResult:
        return judged(
            tester,
            statistic=statistic,
            limit=limit,
            null_quantile=quantile,
            n_rows=result.n_rows,
            rows_needed=self.rows_needed,
            evidence=evidence,
            directions=self._sketched_on,
        )


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


def _moment_evidence(result: MomentsResult, limit: float, *, sketched: bool) -> Iterator[Evidence]:
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
            subject=Moment(variables, sketched),
            observed=finite(means[rank]),
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


def _spectral_evidence(subject: Subject, value: float, limit: float) -> Evidence:
    return Evidence(
        subject=subject,
        observed=finite(1 + value),
        expected=1.0,
        deviation=finite(abs(value)),
        limit=limit,
    )


def _unit(direction: NDArray[np.float64]) -> tuple[float, ...]:
    norm = float(np.linalg.norm(direction))
    return tuple((direction / norm if norm > 0 else direction).tolist())
