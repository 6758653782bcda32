"""Do segments of rows look alike? Only then a share of windows stands for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from streamhalf.kernels.segments import MOST_SEGMENTS, Segments, scatter_quantile
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.row_view import StoredSigns, in_space
from streamhalf.reductions.segment_means import SegmentScatter, SegmentScatterResult
from streamhalf.results import (
    Evidence,
    Notice,
    NoticeCode,
    Outcome,
    Role,
    SegmentMean,
    SegmentQuantity,
    Stage,
    TestResult,
    Transform,
    finite,
)
from streamhalf.testers.base import Context, TesterWords

_LEAST_SEGMENTS = 16
_MOST_NUMBERS = 1 << 17  # Sums of all quantities and segments: 1 MiB, unless features are very many


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeabilityTester:
    """Scatter of the means of y, |x|², x_j and y x_j between segments, beyond chance.

    The statistic is F of `kernels.segments`, of the quantity that is furthest beyond its own null quantile. It never
    rejects the marginal: a failure says that rows are sorted or drift, and that passes must take single rows instead of
    windows. `turned_by` is the seed of the signs that were drawn for rows in radial transform: they are taken back.
    """

    total_rows: int
    tau: float
    n_segments: int = MOST_SEGMENTS
    turned_by: int | None = None

    name: ClassVar[str] = "order of rows"
    share: ClassVar[float] = 0.0
    words: ClassVar[Mapping[str, TesterWords]] = {
        name: TesterWords(
            asks="Do all segments of rows look alike?",
            failure="The rows come in an order.",
            remedy="Shuffle them before they are stored.",
        )
    }

    @classmethod
    def of(cls, context: Context) -> Self | None:
        """Return the tester of the first pass, which sees a little of everything."""
        if context.stage is not Stage.INITIAL:
            return None
        most = max(_LEAST_SEGMENTS, _MOST_NUMBERS // (3 + 2 * context.dim))
        segments = Segments.for_rows(context.total_rows, context.n_rows, most=min(MOST_SEGMENTS, most))
        radial = context.config.feature_transform == Transform.RADIAL
        return cls(
            total_rows=context.total_rows,
            tau=context.tau,
            n_segments=segments.count,
            turned_by=context.config.seed if radial else None,
        )

    def needs(self) -> Reduction[Any, SegmentScatterResult]:
        scatter = SegmentScatter(self.total_rows, self.n_segments)
        return scatter if self.turned_by is None else in_space(scatter, StoredSigns(self.turned_by))

    def rows_needed(self) -> int:
        return 1

    def judge(self, result: SegmentScatterResult, *, n_seen: int) -> tuple[TestResult, ...]:
        """Passed, or not judged with the quantity and the segment that stand out."""
        limits = np.ones_like(result.ratios)
        if len(result.counts) >= 2:
            limits = scatter_quantile(
                result.counts,
                self.tau / len(result.ratios),
                squared_skewness=result.squared_skewness,
                kurtosis=result.kurtosis,
            )
        worst = int(np.argmax(result.ratios / limits))
        statistic, limit = finite(result.ratios[worst]), finite(limits[worst])
        found = TestResult(
            tester=self.name,
            outcome=Outcome.PASSED if statistic <= limit else Outcome.NOT_JUDGED,
            statistic=statistic,
            limit=limit,
            null_quantile=limit,
            n_rows=int(result.counts.sum()),
            evidence=self._evidence(result, worst, statistic, limit),
            role=Role.ADVISORY,
        )
        return (found,)

    def _evidence(
        self, result: SegmentScatterResult, worst: int, statistic: float, limit: float
    ) -> tuple[Evidence, ...]:
        """The segment mean furthest from that of all rows, in its standard errors."""
        if len(result.counts) == 0:
            return ()
        gaps = np.abs(result.means[:, worst] - result.overall[worst]) * np.sqrt(result.counts)
        place = int(np.argmax(gaps))
        quantity, feature = _quantity(worst, (len(result.ratios) - 2) // 2)
        subject = SegmentMean(int(result.segments[place]), quantity, feature, self.n_segments)
        mean, overall = finite(result.means[place, worst]), finite(result.overall[worst])
        return (Evidence(subject, mean, overall, statistic, limit),)


def order_notice(result: TestResult) -> Notice | None:
    """Return the notice about rows that come in an order, given the result of this tester."""
    subjects = (one.subject for one in result.evidence if result.outcome is not Outcome.PASSED)
    subject = next((one for one in subjects if isinstance(one, SegmentMean)), None)
    if subject is None:
        return None
    told = {"quantity": subject.quantity, "feature": subject.feature, "factor": result.statistic}
    return Notice.of(NoticeCode.ROWS_IN_ORDER, **told)


def _quantity(number: int, dim: int) -> tuple[SegmentQuantity, int | None]:
    """The quantity of this number, and its feature if it has one."""
    if number < 2:
        return (SegmentQuantity.LABEL, SegmentQuantity.NORM)[number], None
    kinds = (SegmentQuantity.FEATURE, SegmentQuantity.PRODUCT)
    return kinds[(number - 2) // dim], (number - 2) % dim
