from __future__ import annotations

import pytest

from streamhalf.report.codes import evidence_name
from streamhalf.report.notices import notice_words
from streamhalf.report.test_results import remark_words
from streamhalf.results import (
    Evidence,
    Notice,
    NoticeCode,
    Outcome,
    Role,
    SegmentMean,
    SegmentQuantity,
    TestResult,
)


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        (SegmentMean(0, SegmentQuantity.LABEL), "mean of y in segment 1"),
        (SegmentMean(4, SegmentQuantity.NORM, None, 256), "mean of |x|^2 in segment 5 of 256"),
        (SegmentMean(4, SegmentQuantity.FEATURE, 2, 9), "mean of x₃ in segment 5 of 9"),
        (SegmentMean(4, SegmentQuantity.PRODUCT, 2, 9), "mean of y·x₃ in segment 5 of 9"),
    ],
)
def test_evidence_name__of_stretches_of_rows(subject: SegmentMean, name: str) -> None:
    evidence = Evidence(subject, observed=0.1, expected=0.0, deviation=9.0, limit=2.0)
    assert evidence_name(evidence) == name


@pytest.mark.parametrize(
    ("notice", "words"),
    [
        (
            Notice.of(
                NoticeCode.ROWS_IN_ORDER,
                quantity=SegmentQuantity.FEATURE,
                feature=2,
                factor=31.44159,
            ),
            "rows come in an order: the mean of x₃ differs between segments of rows (31.44 times "
            "the variance that chance would give it); bounds speak of the rows of this store, and "
            "of rows to come only if those are like all of these together",
        ),
        (
            Notice.of(NoticeCode.ERRORS_CLUSTER, segments=64, factor=14.2),
            "errors come in clusters: their share varies between segments of rows 14.2 times as "
            "much as chance would have it, so the upper bound is computed from the means of 64 "
            "segments",
        ),
    ],
)
def test_notice_words__of_the_order_of_rows(notice: Notice, words: str) -> None:
    assert notice_words(notice) == words


def test_notice_words__of_fewer_tasks_at_once() -> None:
    assert notice_words(
        Notice.of(
            NoticeCode.FEWER_AT_ONCE, at_once=3, threads=96, size=500_000_000, room=1_600_000_000
        )
    ) == (
        "memory has room for 3 tasks of the largest kind at once in a process of 96 threads (up to "
        "500.0 MB each, 1.6 GB in all): others wait, and the answer is the same"
    )


def test_notice_words__of_rows_in_radial_position() -> None:
    words = notice_words(Notice.of(NoticeCode.RADII_DRAWN, at_centre=0.0))
    assert "lengths and signs drawn anew" in words
    assert words.endswith("about moments of odd degree")
    assert notice_words(Notice.of(NoticeCode.RADII_DRAWN, at_centre=0.125)).endswith(
        "12.5% of the rows lie at the centre itself, where every halfspace through it says +1"
    )


@pytest.mark.parametrize(
    ("role", "words"),
    [
        (Role.ADVISORY, "rows are not exchangeable between segments of rows"),
        (Role.FALLBACK, "rows are not exchangeable between segments of rows: sampling rows"),
    ],
)
def test_remark_words__of_the_order_of_rows(role: Role, words: str) -> None:
    judged = TestResult("order of rows", Outcome.NOT_JUDGED, 9.0, 2.0, 2.0, 100, role=role)
    assert remark_words(judged) == words
