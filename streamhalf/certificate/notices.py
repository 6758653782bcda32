"""What a certificate pass tells about the rows: that they repeat, or that two errors disagree."""

from __future__ import annotations

from streamhalf.kernels.binomial import binomial_lower
from streamhalf.results import (
    CertificateRecord,
    ErrorRecord,
    Notice,
    NoticeCode,
)

_NOTICEABLE = 0.01
"""Share of repeated rows that is worth a word."""

_BY_CHANCE = 1e-6
"""Probability with which the rows of a certificate alone make two errors disagree."""


def repeated_rows(share: float, times: float) -> Notice | None:
    """That rows repeat, where they do."""
    if share <= _NOTICEABLE:
        return None
    return Notice.of(NoticeCode.REPEATED_ROWS, share=share, times=times)


def contradiction(error: ErrorRecord, certificate: CertificateRecord) -> Notice | None:
    """That the error on all rows is above the upper bound from some of them, where it is."""
    least = certificate.error
    if certificate.share < 1:
        least = binomial_lower(certificate.n_errors, certificate.n_rows, _BY_CHANCE)
    if least <= error.upper:
        return None
    return Notice.of(
        NoticeCode.ERRORS_DISAGREE,
        held_out=error.empirical,
        upper=error.upper,
        all_rows=certificate.error,
    )


def claim_notices(
    error: ErrorRecord | None, certificate: CertificateRecord | None
) -> tuple[Notice, ...]:
    """What a result tells of both; a contradiction only where other rows measured the error."""
    if certificate is None:
        return ()
    found = (
        None if error is None else contradiction(error, certificate),
        repeated_rows(certificate.repeated, certificate.times),
    )
    return tuple(one for one in found if one is not None)
