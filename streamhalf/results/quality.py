"""How good a halfspace is: calibrated probabilities, certificates, quality and promise."""

from __future__ import annotations

import enum
import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamhalf.results.codes import HalfspaceClass, Record, Verdict, replace
from streamhalf.results.parts import ErrorRecord, Evidence, LabelErrors, PromiseRecord, TestResult, TransformRecord

_RELIABILITY_BINS = 15
_SURE = 1e-4  # Probabilities nearer to 0 or 1 than this count as much when rows are ranked
# Part of a class's mean probability from which a row is an issue. Chosen on ten tables: there, more flipped labels
# are found than by confident learning with cross-validated regression, at a higher precision (docs/audit.md).
_STRICTNESS = 0.9
_MOST_STEPS = 100


class ReliabilityBin(Record, frozen=True):
    """Rows in one bin of predicted probability: its mean, and the share of label +1."""

    predicted: float
    observed: float
    n_rows: int


class CalibrationRecord(Record, frozen=True):
    """Isotonic probability of label +1 as a function of the margin.

    `margins` (rising; w·x - t with w of length 1, in the units of the stored features) and `probabilities` are the
    corners of the curve, which is linear between and constant beyond them. `slope` is that of a logistic curve without
    intercept, `mean_negative` and `mean_positive` the mean probability of their own label over rows labelled -1 and +1.
    """

    n_rows: int
    held_out: bool
    margins: tuple[float, ...]
    probabilities: tuple[float, ...]
    slope: float
    mean_negative: float
    mean_positive: float
    reliability: tuple[ReliabilityBin, ...] = ()

    @classmethod
    def of(cls, counts: NDArray[np.int64], centres: NDArray[np.float64], *, held_out: bool) -> Self | None:
        """Return the curve of counts (2, bins) by label, -1 first; None without rows of both."""
        totals = counts.sum(axis=0)
        taken = np.flatnonzero(totals)
        negatives, positives = counts[:, taken].astype(np.float64)
        if not (negatives.any() and positives.any()):
            return None
        weights, middle = negatives + positives, centres[taken]
        starts = _pooled(positives, weights)
        stops = np.append(starts[1:], len(weights))
        # an extreme block of n rows of one label says no more than 1/2 in n + 1
        blocks, hits = np.add.reduceat(weights, starts), np.add.reduceat(positives, starts)
        values = np.maximum.accumulate((hits + 0.5) / (blocks + 1))
        curve = np.repeat(values, stops - starts)
        ends = np.unique(np.concatenate([starts, stops - 1]))
        return cls(
            n_rows=int(weights.sum()),
            held_out=held_out,
            margins=tuple(middle[ends].tolist()),
            probabilities=tuple(curve[ends].tolist()),
            slope=_logistic_slope(middle, negatives, positives),
            mean_negative=float((1 - curve) @ negatives / negatives.sum()),
            mean_positive=float(curve @ positives / positives.sum()),
            reliability=_reliability(curve, weights, positives),
        )

    def at(self, margins: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Return the probability of label +1 at each margin."""
        return np.asarray(np.interp(margins, self.margins, self.probabilities))

    def of_sign(self, margins: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Return the same, above 1/2 where the halfspace predicts +1, and below where -1."""
        found, above = self.at(margins), math.nextafter(0.5, 1.0)
        return np.where(margins >= 0, np.maximum(found, above), np.minimum(found, 1 - above))

    def issue_scores(self) -> tuple[float, float]:
        """Return the largest score of an issue labelled -1, and of one labelled +1.

        Confident learning: the other label is the more probable one, and about as probable as it is on average over the
        rows that carry it.
        """
        others = (self.mean_positive, self.mean_negative)
        negative, positive = (1 - max(0.5, _STRICTNESS * mean) for mean in others)
        return negative, positive

    def label_scores(self, margins: NDArray[np.float64], positive: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the probability of the given label of each row."""
        found = self.at(margins)
        return np.where(positive, found, 1 - found)

    def suspicions(
        self, margins: NDArray[np.float64], positive: NDArray[np.bool_], scores: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the mean of two log-odds against the given labels, which ranks rows: the surest issue first.

        Calibrated ones know that classes differ; those of a logistic curve go on where the calibrated ones are flat.
        """
        scores = np.clip(scores, _SURE, 1 - _SURE)
        along = self.slope * np.where(positive, margins, -margins)
        return -0.5 * (np.log(scores / (1 - scores)) + along)


def _logistic_slope(
    margins: NDArray[np.float64], negatives: NDArray[np.float64], positives: NDArray[np.float64]
) -> float:
    """Return the slope of the likeliest logistic curve with an intercept, by Newton's method."""
    weights = negatives + positives
    scale = math.sqrt(float(weights @ margins**2 / weights.sum())) or 1.0
    Z = np.stack([margins / scale, np.ones_like(margins)])
    w, ridge = np.zeros(2), 1e-6 * float(weights.sum())
    for _ in range(_MOST_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(w @ Z, -500, 500)))
        gradient = Z @ (positives - weights * chance) - ridge * w
        hessian = (Z * (weights * chance * (1 - chance))) @ Z.T + ridge * np.eye(2)
        step = np.linalg.solve(hessian, gradient)
        size = float(np.abs(step).max())
        w += step / max(1.0, size)  # at most 1: far steps overshoot where labels separate
        if size < 1e-9:
            break
    return max(float(w[0]), 0.0) / scale


def _pooled(positives: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Where the blocks of the isotonic regression begin: neighbours whose shares do not rise are one.

    `scipy.optimize` has it, and takes a tenth of a second to import.
    """
    pooled: list[tuple[int, float, float]] = []
    for start, (hits, weight) in enumerate(zip(positives.tolist(), weights.tolist(), strict=True)):
        while pooled and pooled[-1][1] / pooled[-1][2] >= hits / weight:
            start, before, more = pooled.pop()
            hits, weight = hits + before, weight + more
        pooled.append((start, hits, weight))
    return np.array([start for start, _, _ in pooled], dtype=np.int64)


def _reliability(
    curve: NDArray[np.float64], weights: NDArray[np.float64], positives: NDArray[np.float64]
) -> tuple[ReliabilityBin, ...]:
    which = np.minimum((curve * _RELIABILITY_BINS).astype(np.int64), _RELIABILITY_BINS - 1)
    total, hits, sums = (
        np.bincount(which, weights=one, minlength=_RELIABILITY_BINS) for one in (weights, positives, curve * weights)
    )
    return tuple(
        ReliabilityBin(float(sums[i] / total[i]), float(hits[i] / total[i]), int(total[i]))
        for i in np.flatnonzero(total).tolist()
    )


class AdviceCode(enum.StrEnum):
    """Ways to tighten a certificate, or that U and L are not of one class."""

    TIGHT = "tight"
    MORE_ROWS = "more rows"
    HIGHER_DEGREE = "higher degree"
    OTHER_CLASS = "other class"
    NOTHING = "nothing known"


class CertificateMethod(enum.StrEnum):
    """How a bound was found: slab moments, or a count of sets of rows on which no halfspace is right everywhere."""

    MOMENTS = "moments"
    SETS = "sets"


class Advice(Record, frozen=True):
    """Rows or degree that tighten a certificate; `through` is the class of L where the halfspace is not of it."""

    code: AdviceCode
    rows: int | None = None
    degree: int | None = None
    through: HalfspaceClass | None = None


class OptRecord(Record, frozen=True):
    """No halfspace of the class `through` errs on less, on the rows at hand (`lower_empirical`) and on their source.

    `tau` is the probability with which `lower`, of the source, may fail (None: the document's).
    """

    lower_empirical: float
    lower: float
    through: HalfspaceClass = HalfspaceClass.ORIGIN
    tau: float | None = None


class AngleRecord(Record, frozen=True):
    """No halfspace at an angle between these (radians) from the direction errs on less."""

    angle_low: float
    angle_high: float
    bound: float
    family: str


class CertificateRecord(Record, frozen=True):
    """Result of the certificate pass; docs/result.md says what the fields mean.

    With the `method` "moments", slabs are about the plane with the unit normal `direction` and `threshold`, of rows in
    `transform`; the last of the `n_slabs` are boxes along a second direction `across` as well, unless that is empty.
    Angles and thresholds say where `opt` is weakest (None: beyond all rows, or of a class without thresholds), the
    profile is of `opt` whatever the threshold. With "sets" there are no slabs, angles and thresholds.
    """

    n_rows: int
    n_errors: int
    error: float
    opt: OptRecord
    ratio: float | None
    angle_low: float
    angle_high: float
    degree: int
    slab_error: float
    n_slabs: tuple[int, ...]
    digest: str
    profile: tuple[AngleRecord, ...]
    advice: Advice
    direction: tuple[float, ...] = ()
    across: tuple[float, ...] = ()
    share: float = 1.0
    seed: int = 0
    through: HalfspaceClass = HalfspaceClass.ORIGIN
    n_positive: int | None = None
    repeated: float = 0.0
    times: float = 1.0
    threshold: float = 0.0
    threshold_low: float | None = None
    threshold_high: float | None = None
    bounds: tuple[OptRecord, ...] = ()
    transform: TransformRecord | None = None
    effort: float = 1.0
    method: CertificateMethod = CertificateMethod.MOMENTS
    n_sets: int = 0
    searches: tuple[int, ...] = ()

    @property
    def comparable(self) -> bool:
        """True if U and L speak of one class of halfspaces."""
        return self.through.within(self.opt.through)

    def bound_of(self, through: HalfspaceClass) -> OptRecord | None:
        """The bound for one class of halfspaces, if there is one."""
        return next((one for one in self.bounds if one.through is through), None)


_CHANCE = 2.0  # In standard errors: beyond it, a held-out error exceeds that of all rows by more than chance


class Quality(Record, frozen=True, kw_only=True):
    """How good a halfspace is, how good any could be, and what guessing costs.

    `error`, `lower` and `guess` are shares of all `rows` of the data. `error` was counted on them, or on held-out rows
    where those show a larger one (`held_out`). `upper` bounds the error on fresh rows and fails with probability `tau`
    (None: errors drift along the rows). No halfspace of the class `through` errs on less than `lower` (None: no bound
    for a class that holds the halfspace), and `factor` is error / lower. Both hold with `confidence`: 1 where every row
    was counted, less from a random sample. `guess` is the error of always saying `guess_label` (-1 or +1). Of a stream,
    `error` and `guess` are of its held-out rows, `lower` and `factor` of the rows of its certificate.
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


def make_quality(
    rows: int, error: ErrorRecord, certificate: CertificateRecord | None, *, streamed: bool = False
) -> Quality:
    """Return the quality of a halfspace, from its error and certificate."""
    labels = error.by_label or LabelErrors(0, 0, 0, 0)
    found = Quality(
        rows=rows,
        error=error.empirical,
        held_out=streamed or error.n_rows < rows,
        upper=None if error.segments == 1 else error.upper,
        tau=error.tau or 0.0,
        guess=labels.guess_error,
        guess_label=labels.guess,
        through=error.through,
    )
    if certificate is None:
        return found
    sampled = certificate.share < 1 and not streamed
    if not streamed:
        counted = certificate.error
        drawn = 1 / max(1, error.n_rows) + (1 / max(1, certificate.n_rows) if sampled else 0)
        noise = _CHANCE * (counted * (1 - counted) * drawn) ** 0.5
        more = sampled and error.n_rows > certificate.n_rows  # held-out rows tell it better
        if not (found.held_out and (more or error.empirical > counted + noise)):
            found = replace(found, held_out=False, error=counted)
        if certificate.n_positive is not None:
            labels = LabelErrors(certificate.n_positive, rows - certificate.n_positive, 0, 0)
            found = replace(found, guess=labels.guess_error, guess_label=labels.guess)
    if not certificate.comparable:
        return found
    opt, wrong = certificate.opt, certificate.error if streamed else found.error
    lower = opt.lower if sampled else opt.lower_empirical
    return replace(
        found,
        lower=lower,
        factor=wrong / lower if lower > 0 else 1.0 if wrong == 0 else None,
        confidence=1 - 2 * (opt.tau or 0.0) if sampled else 1.0,
        through=opt.through,
    )


class PromiseCode(enum.StrEnum):
    """Codes of promises, and of reasons for none.

    HOLDS: the tests passed, and the bound that follows is below the error of guessing. FACTOR: the certificate proves a
    factor of the best on the rows of the data. All others promise nothing: VACUOUS, the tests passed but their bound is
    above the error of guessing; NO_CONSTANT, they passed but no constant is known here; FEATURES, a test rejected the
    features; NO_BETTER, the halfspace may be no better than guessing; NOISE, label noise stopped the tests, and more
    rows do not help; MORE_ROWS, the tests need more rows; NO_BOUND, no certificate bounds the best.
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

    However labels were flipped, the error on fresh rows is at most `constant` opt + `eps`, and so at most `at_most`
    (None: the tests did not pass, or no constant is known). On the rows of the data the error is within `factor` of the
    best (None: no bound), with `confidence` (1: every row was counted). `rows_needed` would settle the tests; `tester`
    and `evidence` say what speaks most against the features.
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


def _proved_factor(certificate: CertificateRecord | None) -> tuple[float | None, float]:
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
    return binomial_upper(certificate.n_errors, certificate.n_rows, tau) / opt.lower, 1 - 2 * tau


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

    `verdict` is None where no tests were made, as of `certify`; `supported` is the best bound that the tests support;
    `max_ratio` the largest factor that is worth a promise. `useful`: it beats the constant guess beyond doubt; `noisy`:
    label noise stopped the tests; `leading` is the test that speaks most against the features, with its evidence.
    """
    factor, confidence = _proved_factor(certificate)
    constant, eps = (None, None) if supported is None else (supported.constant, supported.eps)
    at_most = None
    if verdict is Verdict.ACCEPTED and quality and constant is not None and eps is not None:
        at_most = constant * (quality.error if quality.upper is None else quality.upper) + eps
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
        eps=eps,
        at_most=at_most,
        factor=factor,
        confidence=confidence,
        rows_needed=rows_needed,
        tester="" if leading is None else leading[0].tester,
        evidence=None if leading is None else leading[1],
    )
