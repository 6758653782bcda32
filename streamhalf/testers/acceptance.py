"""Is the acceptance rate of rejection sampling what N(0, I) gives? (Algorithm 4, line 2)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from streamhalf.kernels.plane import Frame
from streamhalf.reductions.labels import LabelCounts, LabelledRows
from streamhalf.results import AcceptanceRate, Evidence, TestResult
from streamhalf.testers.base import ALONG, Context, TesterWords, judged, rows_until, upper_normal_quantile

ACCEPTANCE_TOLERANCE = 0.5  # The rate may lie within [1/2, 3/2] of its Gaussian value
_LEAST_RATE = 1e-300  # a divisor where a threshold lies so far out that the rate is 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AcceptanceTester:
    """Compares accepted / rows with the frame's rate."""

    frame: Frame
    tau: float

    name: ClassVar[str] = "acceptance"
    share: ClassVar[float] = 0.25
    words: ClassVar[Mapping[str, TesterWords]] = {
        name: TesterWords("Are as many rows near the boundary as there should be?", *ALONG)
    }

    @classmethod
    def of(cls, context: Context) -> Self | None:
        """Return the tester of a localised pass."""
        if context.frame is None:
            return None
        return cls(frame=context.frame, tau=cls.share * context.tau)

    def needs(self) -> LabelCounts:
        return LabelCounts()

    @property
    def rate(self) -> float:
        """Share of N(0, I) rows that is accepted."""
        return max(self.frame.rate, _LEAST_RATE)

    def quantile(self, n_rows: int) -> float:
        """Null quantile of |accepted / (rows rate) - 1|: binomial, two-sided."""
        z = upper_normal_quantile(self.tau / 2)
        mean = max(1, n_rows) * self.rate
        # Bernstein's second term covers the skewness of small counts
        return z * math.sqrt((1 - self.rate) / mean) + z**2 / (3 * mean)

    def rows_needed(self) -> int:
        """Accepted rows that make the test conclusive."""
        return math.ceil(self.rows_to_see() * self.rate)

    def rows_to_see(self) -> int:
        """Rows, accepted or not, that make the test conclusive."""
        return rows_until(self.quantile, ACCEPTANCE_TOLERANCE)

    def judge(self, result: LabelledRows, *, n_seen: int) -> tuple[TestResult, ...]:
        rate = result.n_rows / max(1, n_seen)
        statistic, limit = abs(rate / self.rate - 1), ACCEPTANCE_TOLERANCE
        subject = AcceptanceRate(self.frame.delta)
        return (
            judged(
                self.name,
                statistic=statistic,
                limit=limit,
                null_quantile=self.quantile(n_seen),
                n_rows=n_seen,
                rows_needed=self.rows_to_see,
                evidence=(Evidence(subject, rate, self.rate, statistic, limit),),
            ),
        )
