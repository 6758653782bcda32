"""Repeated rows and errors that disagree: said where they are, and only there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streamhalf.certificate.notices import claim_notices, contradiction, repeated_rows
from streamhalf.results import (
    Advice,
    AdviceCode,
    CertificateRecord,
    ErrorRecord,
    Notice,
    NoticeCode,
    OptRecord,
)


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


ERROR = ErrorRecord(0.001, 0.0014, 30_000)


def test_contradiction__all_rows_are_compared_as_they_are() -> None:
    assert contradiction(ERROR, certificate(140)) is None
    assert contradiction(ERROR, certificate(141)) == Notice.of(
        NoticeCode.ERRORS_DISAGREE, held_out=0.001, upper=0.0014, all_rows=0.00141
    )


def test_contradiction__some_rows_must_leave_no_doubt() -> None:
    assert contradiction(ERROR, certificate(170, share=0.5)) is None
    found = contradiction(ERROR, certificate(5_000, share=0.5))
    assert found == Notice.of(
        NoticeCode.ERRORS_DISAGREE, held_out=0.001, upper=0.0014, all_rows=0.05
    )


def test_contradiction__sampling_alone_makes_none() -> None:
    # 2,000 certificates from rows whose error is the upper bound itself: chance 2e-3 in all
    counts = np.random.default_rng(3).binomial(100_000, ERROR.upper, 2_000)
    assert counts.max() > 170
    assert all(contradiction(ERROR, certificate(int(n), share=0.5)) is None for n in counts)


@pytest.mark.parametrize(("share", "said"), [(0.0, False), (0.01, False), (0.02, True)])
def test_repeats__are_worth_a_word_from_one_in_a_hundred(share: float, said: bool) -> None:
    found = repeated_rows(share, 1.01)
    assert found == (Notice.of(NoticeCode.REPEATED_ROWS, share=share, times=1.01) if said else None)


def test_claim_notices__the_contradiction_comes_first() -> None:
    both = certificate(5_000, repeated=1.0, times=2.0)
    assert claim_notices(ERROR, both) == (
        Notice.of(NoticeCode.ERRORS_DISAGREE, held_out=0.001, upper=0.0014, all_rows=0.05),
        Notice.of(NoticeCode.REPEATED_ROWS, share=1.0, times=2.0),
    )
    assert claim_notices(None, both) == (Notice.of(NoticeCode.REPEATED_ROWS, share=1.0, times=2.0),)
    assert claim_notices(ERROR, certificate(100)) == claim_notices(ERROR, None) == ()
