"""The bound of an error on fresh rows, and notices of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streamhalf.certificate.error_bound import claim_notices, cluster_notice, measure_error, repeated_rows
from streamhalf.kernels.binomial import binomial_upper, segment_upper
from streamhalf.kernels.segments import error_segments
from streamhalf.results import Advice, AdviceCode, CertificateRecord, ErrorRecord, Notice, NoticeCode, OptRecord

N_ROWS, RATE = 300_000, 0.05
SEGMENTS = error_segments(N_ROWS)


def count(wrong: np.ndarray, held: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Errors and rows of each segment among the rows that are held out."""
    starts = -(-np.arange(SEGMENTS.count) * N_ROWS // SEGMENTS.count)
    errors, rows = (np.add.reduceat(some.astype(np.int64), starts) for some in (wrong & held, held))
    return errors, rows


def draw(rng: np.random.Generator, segment: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Errors at a rate of 5%: of single rows, or of 10% in every other segment, by a coin."""
    rate = np.full(N_ROWS, RATE)
    if segment is not None:
        rate = np.repeat(np.where(rng.random(N_ROWS // segment) < 0.5, 2 * RATE, 0.0), segment)
    uniforms = rng.random((2, N_ROWS), dtype=np.float32)
    return count(uniforms[0] < rate, uniforms[1] < 0.5)


@pytest.mark.parametrize("segment", [300, 3_000])
def test_measure_error__bound_holds_for_noise_in_stretches(segment: int) -> None:
    """It fails in at most 5% of the cases: 11 of 60 or more has probability 3e-4."""
    rng = np.random.default_rng(segment)
    found, binomial = [], []
    for _ in range(60):
        errors, rows = draw(rng, segment)
        found.append(measure_error(errors, rows, tau=0.05))
        binomial.append(binomial_upper(int(errors.sum()), int(rows.sum()), 0.05))
    assert all(one.segments is not None for one in found)
    assert sum(one.upper < RATE for one in found) < 11
    # as independent rows would have it, it fails again and again
    assert sum(upper < RATE for upper in binomial) >= 11


def test_measure_error__independent_errors_have_the_binomial_bound() -> None:
    """One in a thousand is taken for clusters: 4 of 100 or more has probability 4e-6."""
    rng = np.random.default_rng(3)
    found = [draw(rng, None) for _ in range(100)]
    records = [measure_error(*one, tau=0.01) for one in found]
    assert sum(record.segments is not None for record in records) < 4
    for (errors, rows), record in zip(found, records, strict=True):
        wrong, n_rows = int(errors.sum()), int(rows.sum())
        if record.segments is None:
            upper = binomial_upper(wrong, n_rows, 0.01)
            assert record == ErrorRecord(wrong / n_rows, upper, n_rows)
            assert cluster_notice(record, errors, rows) is None


def test_measure_error__long_clusters_are_bounded_by_longer_segments() -> None:
    rng = np.random.default_rng(5)
    short, long = (measure_error(*draw(rng, segment), tau=0.01) for segment in (300, 15_000))
    assert long.segments is not None
    assert long.segments <= 64
    assert long.upper - long.empirical > 3 * (short.upper - short.empirical)


def test_cluster_notice__says_how_many_segments_and_how_much_they_vary() -> None:
    # every other segment is right, the others err on every tenth row
    rows = np.full(256, 500)
    errors = np.where(np.arange(256) % 2 == 0, 100, 0)
    record = measure_error(errors, rows, tau=0.01)
    assert record.segments == 256  # neighbours together are all alike
    # variance of the means 0.01, of a mean of 500 independent rows 0.09 / 500
    notice = cluster_notice(record, errors, rows)
    assert notice == Notice.of(
        NoticeCode.ERRORS_CLUSTER, segments=256, factor=pytest.approx(0.01 / (0.09 / 500), rel=0.01)
    )
    assert record.upper == segment_upper(errors, rows, 0.005)
    assert 0.1 + 2.34 * 0.1 / 16 < record.upper < 0.1 + 4.7 * 0.1 / 16


@pytest.mark.parametrize(
    ("errors", "rows"),
    [([], []), ([0], [0]), ([0, 0], [5, 0]), ([3], [3]), ([0] * 40, [50] * 40), ([9] * 40, [9] * 40)],
)
def test_measure_error__extremes_are_binomial(errors: list[int], rows: list[int]) -> None:
    wrong, held = np.array(errors, dtype=np.int64), np.array(rows, dtype=np.int64)
    record = measure_error(wrong, held, tau=0.01)
    n_rows = sum(rows)
    assert record.upper == binomial_upper(sum(errors), n_rows, 0.01)
    assert record.empirical == sum(errors) / max(1, n_rows)
    assert record.segments is None


def test_measure_error__a_bound_is_never_above_1() -> None:
    errors = np.where(np.arange(16) < 14, 100, 0)
    record = measure_error(errors, np.full(16, 100), tau=1e-6)
    assert (record.upper, record.segments) == (1.0, 16)


@pytest.mark.parametrize(
    ("n_stretches", "size", "share", "bad", "rate"),
    [
        (256, 200, 0.015, 0.5, 0.0),
        (256, 200, 0.015, 1.0, 0.05),
        (300, 170, 0.02, 0.5, 0.01),  # not those that errors are counted by
        (100, 512, 0.04, 0.5, 0.0),  # several segments each
        (40, 1_500, 0.5, 0.1, 0.0),
    ],
)
def test_measure_error__bound_holds_however_few_stretches_are_bad(
    n_stretches: int, size: int, share: float, bad: float, rate: float
) -> None:
    """Of 200 bounds that fail with probability 0.005 each, 6 or more fail with probability 6e-4.

    As if means were normal, 2 to 10% of them fail. Where no bad segment is among the rows, nothing
    tells that there are any: there the claim is about independent rows, and is not counted.
    """
    rng, n_rows, truth = (np.random.default_rng(7), n_stretches * size, share * bad + (1 - share) * rate)
    count = error_segments(n_rows).count
    starts = -(-np.arange(count) * n_rows // count)
    rows, missed, seen = np.diff(np.append(starts, n_rows)), 0, 0
    for _ in range(200):
        rates = np.where(rng.random(n_stretches) < share, bad, rate)
        wrong = rng.random(n_rows) < np.repeat(rates, size)
        record = measure_error(np.add.reduceat(wrong.astype(np.int64), starts), rows, tau=0.005)
        seen += record.segments is not None
        missed += record.segments is not None and record.upper < truth
    assert seen > 180
    assert missed < 6


def certificate(n_errors: int, n_rows: int = 100_000, **changes: Any) -> CertificateRecord:
    return CertificateRecord(
        n_rows=n_rows,
        n_errors=n_errors,
        error=n_errors / n_rows,
        opt=OptRecord(0.0, 0.0),
        ratio=None,
        angle_low=0.0,
        angle_high=0.1,
        degree=2,
        slab_error=0.05,
        n_slabs=(9,),
        digest="",
        profile=(),
        advice=Advice(AdviceCode.TIGHT),
        **changes,
    )


def disagree(all_rows: float) -> Notice:
    return Notice.of(NoticeCode.ERRORS_DISAGREE, held_out=0.001, upper=0.0014, all_rows=all_rows)


ERROR = ErrorRecord(0.001, 0.0014, 30_000)


@pytest.mark.parametrize(
    ("n_errors", "share", "said"), [(140, 1.0, False), (141, 1.0, True), (170, 0.5, False), (5_000, 0.5, True)]
)
def test_claim_notices__some_rows_must_leave_no_doubt(n_errors, share, said) -> None:
    expected = (disagree(n_errors / 100_000),) if said else ()
    assert claim_notices(ERROR, certificate(n_errors, share=share)) == expected


def test_claim_notices__sampling_alone_makes_none() -> None:
    # 2,000 certificates from rows whose error is the upper bound itself: chance 2e-3 in all
    counts = np.random.default_rng(3).binomial(100_000, ERROR.upper, 2_000)
    assert counts.max() > 170
    assert not any(claim_notices(ERROR, certificate(int(n), share=0.5)) for n in counts)


@pytest.mark.parametrize(("share", "said"), [(0.0, False), (0.01, False), (0.02, True)])
def test_repeats__are_worth_a_word_from_one_in_a_hundred(share: float, said: bool) -> None:
    found = repeated_rows(share, 1.01)
    assert found == (Notice.of(NoticeCode.REPEATED_ROWS, share=share, times=1.01) if said else None)


def test_claim_notices__the_contradiction_comes_first() -> None:
    both = certificate(5_000, repeated=1.0, times=2.0)
    assert claim_notices(ERROR, both) == (disagree(0.05), Notice.of(NoticeCode.REPEATED_ROWS, share=1.0, times=2.0))
    assert claim_notices(None, both) == (Notice.of(NoticeCode.REPEATED_ROWS, share=1.0, times=2.0),)
    assert claim_notices(ERROR, certificate(100)) == claim_notices(ERROR, None) == ()
