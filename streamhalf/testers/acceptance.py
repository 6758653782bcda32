"""Is the acceptance rate of rejection sampling what N(0, I) gives? (Algorithm 4, line 2)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from streamhalf.records import Evidence, Judgement, Outcome
from streamhalf.testers.base import judge, rows_until, upper_normal_quantile

ACCEPTANCE_TOLERANCE = 0.5
"""The rate may lie in [delta / 2, 3 delta / 2]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceTester:
    """Compares accepted / rows / delta with 1."""

    delta: float
    tau: float

    name = "acceptance"

    def quantile(self, n_rows: int) -> float:
        """Null quantile of |accepted / (rows delta) - 1|: binomial, two-sided."""
        z = upper_normal_quantile(self.tau / 2)
        mean = max(1, n_rows) * self.delta
        # Bernstein's second term covers the skewness of small counts
        return z * math.sqrt((1 - self.delta) / mean) + z**2 / (3 * mean)

    def rows_needed(self) -> int:
        """Rows that make the test conclusive."""
        return rows_until(self.quantile, ACCEPTANCE_TOLERANCE)

    def judge(self, n_seen: int, n_accepted: int) -> Judgement:
        """Judge the counts of one localised pass."""
        rate = n_accepted / max(1, n_seen)
        statistic = abs(rate / self.delta - 1)
        quantile = self.quantile(n_seen)
        outcome = judge(statistic, limit=ACCEPTANCE_TOLERANCE, null_quantile=quantile)
        return Judgement(
            tester=self.name,
            outcome=outcome,
            statistic=statistic,
            limit=ACCEPTANCE_TOLERANCE,
            null_quantile=quantile,
            n_rows=n_seen,
            rows_needed=self.rows_needed() if outcome is Outcome.INCONCLUSIVE else None,
            evidence=(
                Evidence(
                    name=f"acceptance rate at delta {self.delta:.4g}",
                    observed=rate,
                    expected=self.delta,
                    deviation=statistic,
                    limit=ACCEPTANCE_TOLERANCE,
                ),
            ),
        )
