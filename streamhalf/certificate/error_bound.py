"""The error of a halfspace on rows that did not choose it, with an upper bound, and notices."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamhalf.kernels.binomial import binomial_lower, binomial_upper, segment_upper
from streamhalf.kernels.segments import scatter_quantile, scatter_ratio
from streamhalf.results import CertificateRecord, ErrorRecord, Notice, NoticeCode, replace

_LEVEL = 1e-3  # how often independent errors are taken for clusters
_LEAST_SEGMENTS = 16  # of fewer nothing is known of how far clusters reach
_NEIGHBOURS = 2.33  # in standard errors, what the correlation of neighbouring segments stays below by chance
_NOTICEABLE = 0.01  # share of repeated rows that is worth a word
_BY_CHANCE = 1e-6  # probability with which the rows of a certificate alone make two errors disagree


def measure_error(segment_errors: NDArray[np.int64], segment_rows: NDArray[np.int64], *, tau: float) -> ErrorRecord:
    """Error, and an upper bound that fails with probability tau.

    Exactly binomial while errors come as those of independent rows do. Where they cluster, segments take the place of
    rows: the bound holds for independent segments, whatever happens inside one and however few of them are bad.
    Clusters may reach over several segments, so neighbours are joined until they are no longer correlated; tau is
    shared over all that could be chosen. Where they always are, as those of sorted rows, all are one segment: nothing
    is claimed of other rows.
    """
    n_rows, n_errors = int(segment_rows.sum()), int(segment_errors.sum())
    here = binomial_upper(n_errors, n_rows, tau)
    record = ErrorRecord(n_errors / max(1, n_rows), here, n_rows)
    levels = list(_levels(segment_errors, segment_rows))
    if not any(level.ratio > level.limit(_LEVEL / len(levels)) for level in levels):
        return record
    chosen = 1 + max((i for i, level in enumerate(levels) if level.reaches_over), default=-1)
    if chosen == len(levels):
        return replace(record, segments=1, upper_here=here)
    level = levels[chosen]
    upper = max(here, segment_upper(level.errors, level.rows, tau / 2 ** (chosen + 1)))
    return replace(record, upper=upper, segments=len(level.rows), upper_here=here)


def cluster_notice(
    error: ErrorRecord, segment_errors: NDArray[np.int64], segment_rows: NDArray[np.int64]
) -> Notice | None:
    """Return the notice for a bound that is not of independent rows."""
    if error.segments is None:
        return None
    levels = list(_levels(segment_errors, segment_rows))
    level = next((one for one in levels if len(one.rows) == error.segments), levels[-1])
    return Notice.of(NoticeCode.ERRORS_CLUSTER, segments=error.segments, factor=level.ratio)


def claim_notices(
    error: ErrorRecord | None, certificate: CertificateRecord | None, *, streamed: bool = False
) -> tuple[Notice, ...]:
    """Notices of repeated rows, and of an error on all rows above the bound from some of them.

    The certificate of a stream is of a part of the rows of its error.
    """
    if certificate is None:
        return ()
    least, disagree = certificate.error, None
    if certificate.share < 1:
        least = binomial_lower(certificate.n_errors, certificate.n_rows, _BY_CHANCE)
    if error is not None and least > error.upper and not streamed:
        disagree = Notice.of(
            NoticeCode.ERRORS_DISAGREE, held_out=error.empirical, upper=error.upper, all_rows=certificate.error
        )
    found = (disagree, repeated_rows(certificate.repeated, certificate.times))
    return tuple(one for one in found if one is not None)


def repeated_rows(share: float, times: float) -> Notice | None:
    """That rows repeat, where they do."""
    if share <= _NOTICEABLE:
        return None
    return Notice.of(NoticeCode.REPEATED_ROWS, share=share, times=times)


@dataclass(frozen=True, slots=True, eq=False)
class _Level:
    """Rows and errors of contiguous segments, none of which is empty."""

    errors: NDArray[np.int64]
    rows: NDArray[np.int64]

    @property
    def rate(self) -> float:
        return float(self.errors.sum() / self.rows.sum())

    @property
    def variance(self) -> float:
        return self.rate * (1 - self.rate)

    @property
    def ratio(self) -> float:
        """How much more the errors vary between segments than those of independent rows."""
        return float(scatter_ratio(self.rows, self.errors / self.rows, self.variance))

    def limit(self, tail: float) -> float:
        """Return the value that independent rows exceed with probability `tail`."""
        if self.variance == 0:
            return math.inf
        odds = 1 / self.variance
        return float(scatter_quantile(self.rows, tail, squared_skewness=odds - 4, kurtosis=odds - 3))

    @property
    def reaches_over(self) -> bool:
        """True if errors of neighbouring segments are correlated beyond chance."""
        away = self.errors - self.rate * self.rows
        together = float(away[1:] @ away[:-1]) * math.sqrt(len(away))
        return together > _NEIGHBOURS * float(away @ away)


def _levels(errors: NDArray[np.int64], rows: NDArray[np.int64]) -> Iterator[_Level]:
    """The segments, then two of them joined, four, and so on while there are enough."""
    while np.count_nonzero(rows) >= _LEAST_SEGMENTS:
        held = rows > 0
        yield _Level(errors[held], rows[held])
        starts = np.arange(0, len(rows), 2)
        errors, rows = np.add.reduceat(errors, starts), np.add.reduceat(rows, starts)
