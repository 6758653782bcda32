"""Do segments of rows look alike? Only then a share of the chunks stands for all of them."""

from __future__ import annotations

from dataclasses import dataclass

from streamhalf.records import Evidence, Judgement, Outcome
from streamhalf.reductions.segment_scatter import SegmentScatterResult
from streamhalf.testers.base import upper_normal_quantile


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeabilityTester:
    """Largest distance of a segment's mean of y, |x|^2 or y x_j from the whole, in standard errors.

    It never rejects the marginal: a failure says that rows are sorted or drift, and that passes
    must sample rows instead of chunks.
    """

    tau: float

    name = "exchangeable chunks"

    def judge(self, result: SegmentScatterResult) -> Judgement:
        """Passed, or not judged with the segment and quantity that stand out."""
        worst, segment, quantity = result.worst
        limit = upper_normal_quantile(self.tau / (2 * max(1, result.z_scores.size)))
        # sums of squares have heavier tails than a Gaussian in short segments
        limit *= 1.25
        names = {0: "y", 1: "|x|^2"}
        what = names.get(quantity, f"y·x{quantity - 1}")
        mean = float(result.means[segment, quantity]) if result.means.size else 0.0
        number = int(result.segments[segment]) if result.segments.size else 0
        passed = worst <= limit
        return Judgement(
            tester=self.name,
            outcome=Outcome.PASSED if passed else Outcome.NOT_JUDGED,
            statistic=worst,
            limit=limit,
            null_quantile=limit,
            n_rows=int(result.counts.sum()),
            evidence=(
                Evidence(
                    name=f"mean of {what} in segment {number + 1}",
                    observed=mean,
                    expected=float(result.overall[quantity]),
                    deviation=worst,
                    limit=limit,
                ),
            ),
            remark="" if passed else "rows are not exchangeable across chunks",
        )
