"""Quality and promise: the two voices of a result, computed once and read by every view."""

from __future__ import annotations

import enum

from streamhalf.results.base import Record, replace
from streamhalf.results.certificate import CertificateRecord
from streamhalf.results.codes import HalfspaceClass, Verdict
from streamhalf.results.parts import ErrorRecord, Evidence, LabelErrors, PromiseRecord, TestResult

_CHANCE = 2.0
"""In standard errors: what a held-out error exceeds that of all rows by, but for chance."""


class Quality(Record, frozen=True, kw_only=True):
    """How good a halfspace is, how good any could be, and what guessing costs.

    `error`, `lower` and `guess` are shares of all `rows` of the data. `error` was counted on them,
    or on held-out rows where those show a larger one (`held_out`). `upper` bounds the error on
    fresh rows and fails with probability `tau` (None: errors drift along the rows).
    No halfspace of the class `through` errs on less than `lower` (None: no bound for a class that
    holds the halfspace), and `factor` is error / lower. Both hold with `confidence`: 1
    where every row was counted, less from a random sample. `guess` is the error of always saying
    `guess_label` (-1 or +1).
    """

    rows: int
    error: float
    held_out: bool
    upper: float | None
    tau: float
    guess: float
    guess_label: int
    through: HalfspaceClass
    lower: float | None = None
    factor: float | None = None
    confidence: float = 1.0

    @property
    def beats_guess(self) -> bool:
        """True if the error is below that of the constant guess."""
        return self.error < self.guess


def make_quality(rows: int, error: ErrorRecord, certificate: CertificateRecord | None) -> Quality:
    """Return the quality of a halfspace, from its error and certificate."""
    labels = error.by_label or LabelErrors(0, 0, 0, 0)
    found = Quality(
        rows=rows,
        error=error.empirical,
        held_out=error.n_rows < rows,
        upper=None if error.segments == 1 else error.upper,
        tau=error.tau or 0.0,
        guess=labels.guess_error,
        guess_label=labels.guess,
        through=error.through,
    )
    if certificate is None:
        return found
    counted = certificate.error
    drawn = 1 / max(1, error.n_rows) + (1 / max(1, certificate.n_rows) if certificate.share < 1 else 0)
    noise = _CHANCE * (counted * (1 - counted) * drawn) ** 0.5
    found = replace(found, held_out=found.held_out and error.empirical > counted + noise)
    if not found.held_out:
        found = replace(found, error=counted)
    if (n_positive := certificate.n_positive) is not None:
        all_labels = LabelErrors.of(rows, 0, n_positive, 0)
        found = replace(found, guess=all_labels.guess_error, guess_label=all_labels.guess)
    if not certificate.comparable:
        return found
    lower, confidence = certificate.opt.lower_empirical, 1.0
    if certificate.share < 1:
        lower, confidence = certificate.opt.lower, 1 - 2 * (certificate.opt.tau or 0.0)
    factor = found.error / lower if lower > 0 else 1.0 if found.error == 0 else None
    through = certificate.opt.through
    return replace(found, lower=lower, factor=factor, confidence=confidence, through=through)


class PromiseCode(enum.StrEnum):
    """Codes of promises, and of reasons for none.

    HOLDS: the tests passed, and the bound that follows is below the error of guessing. FACTOR: the
    certificate proves a factor of the best on the rows of the data. All others promise nothing:
    VACUOUS, the tests passed but their bound is above the error of guessing; NO_CONSTANT, they
    passed but no constant is known here; FEATURES, a test rejected the features; NO_BETTER, the
    halfspace may be no better than guessing; NOISE, label noise stopped the tests, and more rows
    do not help; MORE_ROWS, the tests need more rows; NO_BOUND, no certificate bounds the best.
    """

    HOLDS = "holds"
    FACTOR = "factor"
    VACUOUS = "vacuous"
    NO_CONSTANT = "no constant"
    FEATURES = "features"
    NO_BETTER = "no better than guessing"
    NOISE = "noise"
    MORE_ROWS = "more rows"
    NO_BOUND = "no bound"


class Promise(Record, frozen=True, kw_only=True):
    """Promise about a halfspace, by code.

    However labels were flipped, the error on fresh rows is at most `constant` opt + `eps`, and so
    at most `at_most` (None: the tests did not pass, or no constant is known). On the rows of the
    data the error is within `factor` of the best (None: no bound), with `confidence` (1: every row
    was counted). `rows_needed` would settle the tests; `tester` and `evidence` say what speaks
    most against the features.
    """

    code: PromiseCode
    constant: float | None = None
    eps: float | None = None
    at_most: float | None = None
    factor: float | None = None
    confidence: float = 1.0
    rows_needed: int | None = None
    tester: str = ""
    evidence: Evidence | None = None

    @property
    def holds(self) -> bool:
        """True if anything is promised."""
        return self.code in (PromiseCode.HOLDS, PromiseCode.FACTOR)


def proved_factor(certificate: CertificateRecord | None) -> tuple[float | None, float]:
    """Return the factor of the best that is proved on all rows of the data, and its confidence."""
    if certificate is None or certificate.ratio is None:
        return None, 1.0
    if certificate.share >= 1:
        return certificate.ratio, 1.0
    opt = certificate.opt
    if opt.lower <= 0:
        return None, 1.0
    from streamhalf.kernels.binomial import binomial_upper  # imports SciPy

    tau = opt.tau or 0.0
    upper = binomial_upper(certificate.n_errors, certificate.n_rows, tau)
    return upper / opt.lower, 1 - 2 * tau


def make_promise(
    verdict: Verdict | None,
    quality: Quality | None,
    certificate: CertificateRecord | None,
    *,
    supported: PromiseRecord | None = None,
    max_ratio: float,
    useful: bool = True,
    noisy: bool = False,
    rows_needed: int | None = None,
    leading: tuple[TestResult, Evidence | None] | None = None,
) -> Promise:
    """Return what is promised of a halfspace.

    Parameters
    ----------
    verdict
        Of the tests; None where none were made, as of `certify`.
    quality, certificate
        Of the halfspace.
    supported
        The best bound that the tests support.
    max_ratio
        Largest factor that is worth a promise.
    useful
        Whether the halfspace beats the constant guess beyond doubt.
    noisy
        Whether label noise stopped the tests.
    rows_needed
        Rows that would settle them.
    leading
        The test that speaks most against the features, with its evidence.
    """
    factor, confidence = proved_factor(certificate)
    constant = None if supported is None else supported.constant
    at_most = None
    if verdict is Verdict.ACCEPTED and supported and quality and constant is not None:
        at_most = constant * (quality.error if quality.upper is None else quality.upper) + supported.eps
    proved = (factor is not None and factor <= max_ratio) or verdict is Verdict.CERTIFIED
    if verdict is None:
        code = PromiseCode.NO_BOUND if factor is None else PromiseCode.FACTOR
        if quality is not None and not quality.beats_guess:
            code = PromiseCode.NO_BETTER
    elif quality is not None and at_most is not None and at_most < quality.guess:
        code = PromiseCode.HOLDS
    elif proved and verdict in (Verdict.ACCEPTED, Verdict.CERTIFIED):
        code = PromiseCode.FACTOR
    elif verdict is Verdict.ACCEPTED:
        code = PromiseCode.NO_CONSTANT if constant is None else PromiseCode.VACUOUS
    elif verdict is Verdict.REJECTED:
        code = PromiseCode.FEATURES
    elif not useful:
        code = PromiseCode.NO_BETTER
    else:
        code = PromiseCode.NOISE if noisy and rows_needed is None else PromiseCode.MORE_ROWS
    return Promise(
        code=code,
        constant=constant,
        eps=None if supported is None else supported.eps,
        at_most=at_most,
        factor=factor,
        confidence=confidence,
        rows_needed=rows_needed,
        tester="" if leading is None else leading[0].tester,
        evidence=None if leading is None else leading[1],
    )
