"""Do segments of rows look alike? Only then a share of the chunks stands for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from streamhalf.records import (
    Evidence,
    Judgement,
    Outcome,
    Role,
    SegmentMean,
    SegmentQuantity,
    Stage,
    finite,
)
from streamhalf.reductions.segment_scatter import SegmentScatter, SegmentScatterResult
from streamhalf.testers.base import Context, TesterWords, upper_normal_quantile

_FIRST = (SegmentQuantity.LABEL, SegmentQuantity.NORM)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeabilityTester:
    """Largest distance of a segment's mean of y, |x|^2 or y x_j from the whole, in standard errors.

    It never rejects the marginal: a failure says that rows are sorted or drift, and that passes
    must sample rows instead of chunks.
    """

    total_rows: int
    tau: float

    name: ClassVar[str] = "exchangeable chunks"
    share: ClassVar[float] = 0.0
    words: ClassVar[Mapping[str, TesterWords]] = {
        name: TesterWords(
            asks="Do all stretches of rows look alike?",
            failure="The rows come in an order.",
            remedy="Shuffle them before they are stored.",
        )
    }

    @classmethod
    def of(cls, context: Context) -> Self | None:
        """In the first pass, which sees a little of everything."""
        if context.stage is not Stage.INITIAL:
            return None
        return cls(total_rows=context.total_rows, tau=context.tau)

    def needs(self) -> SegmentScatter:
        """Means over segments."""
        return SegmentScatter(self.total_rows)

    def rows_needed(self) -> int:
        """Any number of rows will do."""
        return 1

    def judge(self, result: SegmentScatterResult, *, n_seen: int) -> tuple[Judgement, ...]:
        """Passed, or not judged with the segment and quantity that stand out."""
        worst, segment, quantity = result.worst
        # sums of squares have heavier tails than a Gaussian in short segments
        limit = 1.25 * upper_normal_quantile(self.tau / (2 * max(1, result.z_scores.size)))
        what = _FIRST[quantity] if quantity < len(_FIRST) else SegmentQuantity.PRODUCT
        feature = quantity - len(_FIRST) if quantity >= len(_FIRST) else None
        number = int(result.segments[segment]) if result.segments.size else 0
        evidence = Evidence(
            subject=SegmentMean(number, what, feature),
            observed=finite(result.means[segment, quantity]) if result.means.size else 0.0,
            expected=finite(result.overall[quantity]),
            deviation=worst,
            limit=limit,
        )
        return (
            Judgement(
                tester=self.name,
                outcome=Outcome.PASSED if worst <= limit else Outcome.NOT_JUDGED,
                statistic=worst,
                limit=limit,
                null_quantile=limit,
                n_rows=int(result.counts.sum()),
                evidence=(evidence,),
                role=Role.ADVISORY,
            ),
        )
