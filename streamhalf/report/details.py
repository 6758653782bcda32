"""Sentences behind the headlines: the cause of a rejection, what a promise rests on, how a bound was found."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from streamhalf.redact import plural
from streamhalf.report import words as say
from streamhalf.report.words import Names, at_least, at_most, count, number
from streamhalf.results import (
    CertificateMethod,
    CertificateRecord,
    DiagnosticsRecord,
    Evidence,
    FitResult,
    HalfspaceClass,
    Method,
    Moment,
    MomentTestResult,
    Outcome,
    Part,
    PromiseCode,
    Result,
    TestResult,
    Transform,
    Verdict,
)
from streamhalf.testers import WORDS, leading
from streamhalf.testers.acceptance import AcceptanceTester
from streamhalf.testers.constants import FINEST_SCALE
from streamhalf.testers.moments import MomentTester


def test_details(result: MomentTestResult | FitResult) -> Iterator[str]:
    """Yield what the telling tester saw, the transform, and what was not tested."""
    if (rejection := leading.leading_rejection(result.testers)) is not None:
        yield from _seen(rejection, Names.of(result))
    elif (doubt := leading.leading_doubt(result.testers)) is not None and doubt.statistic > doubt.limit:
        yield (
            f"Too few rows to tell: tester “{doubt.tester}” saw {number(doubt.statistic)}, beyond its limit "
            f"{number(doubt.limit)}, but so much can be chance."
        )
    elif (warning := leading.leading_warning(result.testers)) is not None:
        yield (
            f"Tester “{warning.tester}” warned in pass {warning.pass_name}; the deciding tests on "
            "held-out rows did not confirm it."
        )
    if result.transform.kind != Transform.STORED:
        counted = " Errors are counted on stored features." if isinstance(result, FitResult) else ""
        yield f"Tested: {say.transform_words(result.transform.kind)}.{counted}"
    sketched = next((one.directions for one in result.testers if one.directions is not None), None)
    if sketched is not None:
        yield (
            f"Moments above degree 2 were tested along {sketched} directions only; means and "
            "covariances in every direction."
        )


def _seen(one: TestResult, names: Names) -> Iterator[str]:
    if one.tester in WORDS:
        yield f"Tester “{one.tester}” rejects. It asks: {WORDS[one.tester].asks}"
    where = ", of rows near the boundary," if leading.is_localized(one) else ""
    if (first := leading.telling_evidence(one)) is not None:
        yield (
            f"Seen: {names.evidence(first)}{where} comes to {number(first.observed)}; a standard "
            f"Gaussian has {number(first.expected)}."
        )
    yield (
        f"The statistic is {number(one.statistic)}, the limit {number(one.limit)}; chance alone "
        f"stays below {number(one.null_quantile)}."
    )


def promise_details(result: FitResult) -> Iterator[str]:
    kind = say.DISTRIBUTIONS.get(result.transform.kind, "Gaussian")
    if result.verdict is Verdict.REJECTED:
        yield f"The theorem speaks of {kind} features only. The error and the lower bound hold for any."
    elif result.verdict is Verdict.CERTIFIED:
        yield "The proof counts errors on these rows: it takes no assumption about the features."
    yield from test_details(result)
    if result.verdict is Verdict.ACCEPTED and result.error is not None:
        yield from _constants(result)
        if not result.seed_drawn and result.constant is not None:
            yield "The seed was given: an adversary who knew it voids the promise."


def _constants(result: FitResult) -> Iterator[str]:
    eps, error = result.eps, result.error
    if result.constant is None or error is None:
        yield f"The tests passed at eps = {number(eps)}. {_no_constant(result)}"
        return
    class_, found = Names.of(result).halfspaces(result.transform.through), say.constant(result.constant)
    yield (
        f"These tests support: error at most {found} opt + {number(eps)}, "
        f"whichever labels were flipped. Here opt is the least error of a halfspace {class_}."
    )
    yield (
        f"{found} is an empirical worst case: a program found none worse among "
        "distributions that pass. It is not a theorem."
    )
    if result.promise is not None and result.promise.code is PromiseCode.VACUOUS:
        allowed = at_most(result.constant * error.empirical + eps)
        yield f"With opt as large as the error that allows {allowed}, no better than guessing."
    if error.through == HalfspaceClass.ANY:
        yield "For halfspaces with a threshold no constant is known here."
    if result.rows_for_five is not None and result.constant > 5:
        yield f"About {count(result.rows_for_five)} rows would support a constant of 5."


def _no_constant(result: FitResult) -> str:
    tested = [one for one in result.testers if one.tester == "quadratics"]
    if any(one.threshold for one in result.candidates if one.method is Method.PATH):
        return "For halfspaces with a threshold no constant is known here."
    if any(one.constant is None and one.deviation is not None for one in result.promises):
        return f"Constants are known down to eps = {number(FINEST_SCALE / 2)} only."
    if not tested or any(one.outcome is Outcome.NOT_JUDGED for one in tested):
        return "No constant is known: quadratics were not tested in every direction and scale."
    return "No constant is known here."


def bound_details(result: Result, certificate: CertificateRecord) -> Iterator[str]:
    """Yield the certified interval, how it was found, and where it is weakest."""
    opt, rows = certificate.opt, plural(certificate.n_rows, "row")
    class_ = Names.of(result).halfspaces(opt.through, certificate)
    yield f"U, the error of this classifier on {rows}, is {say.percent(certificate.error)}."
    if certificate.n_errors == 0:
        yield "So the best possible is 0: these labels can be separated."
        return
    if opt.lower_empirical <= 0:
        yield f"No bound above 0 was found for linear classifiers {class_}."
        return
    yield (
        f"L, below which no linear classifier {class_} gets on the same rows, is {at_least(opt.lower_empirical)}. "
        "It takes no assumption about the features."
    )
    if not certificate.comparable:
        yield "U and L concern different classes of classifiers, so there is no factor."
    if certificate.share < 1:
        whose, condition = "all rows of the data, as for new ones,", "; for new rows, if rows are independent"
    else:
        whose, condition = "new rows from the same source", ", if rows are independent"
    yield f"For {whose} L is {at_least(opt.lower)}, with confidence {say.confidence(result.tau)}{condition}."
    if certificate.method is CertificateMethod.SETS:
        found = plural(certificate.n_sets, "separate group")
        yield f"L was counted: {found} of rows each force at least one error."
    else:
        low, high = say.degrees(certificate.angle_low), say.degrees(certificate.angle_high)
        yield (
            f"L is weakest for classifiers {low} to {high} from the direction of the certificate. Where the "
            "curve dips, the bound is loosest."
        )


def candidate_details(result: FitResult) -> Iterator[str]:
    candidates = result.candidates
    if result.chosen is not None and candidates[result.chosen :]:
        choice = (
            f", and chosen on held-out rows among {count(len(candidates))} candidates; the bound allows for it"
            if len(candidates) > 1
            else ""
        )
        yield f"Found by {say.method_words(candidates[result.chosen].method)}{choice}."
    yield f"The search ended because {say.stop_words(result.stop)}."


def feature_details(result: FitResult) -> Iterator[str]:
    """Yield which rows and which halfspace the figures of the features are of."""
    yield f"Figures show {say.transform_words(result.transform.kind)}. Gaussian features follow the lines."
    if shown_candidate(result) != result.chosen:
        yield (
            f"Distances are from the boundary of candidate {shown_candidate(result)}, the last update: the tests "
            "look at features around updates. The returned classifier is another candidate."
        )


def shown_candidate(result: FitResult) -> int | None:
    """Return the candidate that slabs are of: the returned one, or the last one of the path."""
    path = [i for i, one in enumerate(result.candidates) if one.method is Method.PATH]
    return result.chosen if result.chosen in path or not path else path[-1]


_LEAST_RELATIVE_VARIANCE = 1e-9  # Below this share of its mean square a feature's variance is rounding: it is constant
_MOST_RELATIVE_MEAN = 300.0  # In units of the spread; beyond it the shape drowns in the rounding of fourth powers
_LARGEST = 1e30  # Beyond it powers overflow, and nothing is known about the shape
_SHAPE = 0.15  # Normalised Hermite moment of a standardised feature from which its shape is not Gaussian
_FEW_VALUES = 0.05  # Excess of tails over skew² + 1 below which a feature has two values, or nearly so
_REPLACE = "Transform {} by QuantileTransformer or PowerTransformer (Yeo-Johnson); other tests may still reject them."


class Cause(enum.Enum):
    """Causes of a rejection: what they say of the features, and the remedy."""

    CONSTANT = ("{} {is} constant", "Remove {}: the other tests can then run.")
    COPIES = ("{} repeat each other", "Remove one of {}: each follows from the others.")
    HEAVY = ("tails of {} are too heavy", _REPLACE)
    LIGHT = (
        "tails of {} are too light",
        "Check {} for clipping or rounding, or use normal scores. This may not be enough.",
    )
    SKEW = ("{} {is} skewed", _REPLACE)
    FEW_VALUES = (
        "{} {has} few values",
        "Use the classifier as it is: features of few values hardly ever pass the tests.",
    )
    SCALE = (
        "mean, scale or correlation of {} is off",
        'Fit again with `--feature-transform auto`, which removes these (Python: `feature_transform="auto"`).',
    )
    JOINT = (
        "the {shape} of {} is not {distribution}",
        "Inspect {} for outliers, clipping and duplicates, or use normal scores.",
    )
    BOUNDARY = (
        "rows near the boundary are not {distribution}",
        "Look at the rows with a small margin; more rows will not change this.",
    )
    TESTER = ("{failure}", "{remedy}")


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The cause of the leading rejection, and the features that it names."""

    cause: Cause
    features: tuple[str, ...] = ()
    tester: str = ""
    distribution: str = "Gaussian"

    def clause(self) -> str:
        return self._filled(self.cause.value[0])

    def remedy(self) -> str:
        return self._filled(self.cause.value[1])

    def _filled(self, words: str) -> str:
        known, one = WORDS.get(self.tester), len(self.features) == 1
        failure = known.failure.rstrip(".") if known else f"tester {self.tester} rejects the rows"
        return words.format(
            say.listed(self.features) or "the features",
            **{"is": "is" if one else "are", "has": "has" if one else "have"},
            shape="shape" if one else "joint shape",
            distribution=self.distribution,
            failure=say.clause(failure),
            remedy=known.remedy if known else "Ask the author of this tester.",
        )


def diagnose(result: Result | MomentTestResult) -> Diagnosis | None:
    """Return the cause of the leading rejection of a result; None where there is none."""

    def named(features: Iterable[int]) -> tuple[str, ...]:
        names = result.data.features
        return tuple(say.quoted(names[j]) if j < len(names) else say.numbered(j) for j in features)

    flawed = next((one for one in result.transforms if one.kind is Transform.ISOTROPIC and one.features), None)
    if flawed is not None:
        return Diagnosis(Cause.CONSTANT if flawed.constant else Cause.COPIES, named(flawed.features))
    first = leading.leading_rejection(result.testers)
    if first is None:
        return None
    distribution = "elliptical" if result.transform.kind == Transform.RADIAL else "Gaussian"
    of_moments = first.tester in MomentTester.words
    if leading.is_localized(first) and (of_moments or first.tester == AcceptanceTester.name):
        return Diagnosis(Cause.BOUNDARY, (), first.tester, distribution)
    if not of_moments:
        return Diagnosis(Cause.TESTER, (), first.tester, distribution)
    if indicators := _indicators(result):
        return Diagnosis(Cause.FEW_VALUES, indicators, first.tester, distribution)
    rejected = (one for one in result.testers if one.has_say and one.outcome is Outcome.REJECTED)
    telling = next((one for one in rejected if one.tester == leading.MOMENTS and leading.is_of_all_rows(one)), first)
    measured = result.measurements
    if shapes := _evident_shapes(telling) if measured is None else _measured_shapes(measured):
        # the strongest cause, and every feature of which it is true: those that the evidence shows come first
        worst = max(shapes.values(), key=lambda one: (one[0] is Cause.CONSTANT, one[1]))[0]
        shown = {j for evidence in telling.evidence for j in _variables(evidence)}
        found = (j for j in shapes if shapes[j][0] is worst)
        ordered = sorted(found, key=lambda j: (j not in shown, -shapes[j][1]))
        return Diagnosis(worst, named(ordered), first.tester, distribution)
    # another transform cures means and covariances, and nothing else; perhaps it was tried
    tried = result.transform.whitened or bool(result.transforms)
    cause = Cause.JOINT if tried or _degree(telling) > 2 else Cause.SCALE
    return Diagnosis(cause, named(dict.fromkeys(_leading_moment(telling))), first.tester, distribution)


def _indicators(result: Result | MomentTestResult) -> tuple[str, ...]:
    """Return the names of features that stand for a value of a category, or for a gap."""
    columns = () if result.data.encoding is None else result.data.encoding.columns
    named = (Part.IS, Part.OTHER, Part.MISSING)
    return tuple(say.quoted(one.name) for column in columns for one in column.features if one.part in named)


def _variables(evidence: Evidence) -> tuple[int, ...]:
    """Return the features of a moment; none of other subjects and of sketched moments."""
    match evidence.subject:
        case Moment(variables, False):
            return variables
    return ()


def _leading_moment(one: TestResult) -> tuple[int, ...]:
    evidence = leading.simplest_evidence(one)
    return () if evidence is None else _variables(evidence)


def _degree(one: TestResult) -> int:
    """Return the degree of the leading moment; directions and everything else stand for 2."""
    return len(_leading_moment(one)) if one.tester == leading.MOMENTS and one.evidence else 2


# By feature, what is wrong with its shape and how much; features without a fault are absent
Shapes: TypeAlias = dict[int, tuple[Cause, float]]


def _measured_shapes(measured: DiagnosticsRecord) -> Shapes:
    """Return shapes from the moments he_m / sqrt(m!) of each feature, of degrees 1 to 4."""
    found = {}
    for j, row in enumerate(measured.feature_moments):
        one, two, three, four = (*row, *4 * [math.nan])[:4]
        square = 1 + math.sqrt(2) * two
        cube, fourth = math.sqrt(6) * three + 3 * one, math.sqrt(24) * four + 6 * square - 3
        found[j] = _shape(one, square, cube, fourth)
    return {j: shape for j, shape in found.items() if shape is not None}


def _evident_shapes(one: TestResult) -> Shapes:
    """Return shapes from the moments that the evidence names, where they are of one feature."""
    degree = _degree(one)
    if one.tester != leading.MOMENTS or degree > 2:
        return {}
    means: dict[int, dict[int, float]] = {}
    for evidence in one.evidence:
        variables = _variables(evidence)
        if len(set(variables)) == 1:
            means.setdefault(variables[0], {})[len(variables)] = evidence.observed
    if degree == 1:
        return {j: (Cause.CONSTANT, 1.0) for j, powers in means.items() if _is_constant(powers)}
    # the leading evidence is of the lowest degree beyond its limit, so means are about 0
    nan = math.nan
    found = {j: _shape(0.0, powers.get(2, nan), nan, powers.get(4, nan)) for j, powers in sorted(means.items())}
    return {j: shape for j, shape in found.items() if shape is not None}


def _is_constant(powers: dict[int, float]) -> bool:
    mean = powers.get(1, math.nan)
    even = ((k, found) for k, found in powers.items() if k % 2 == 0)
    return abs(mean) < _LARGEST and any(math.isclose(found, mean**k, rel_tol=1e-9) for k, found in even)


def _shape(mean: float, square: float, cube: float, fourth: float) -> tuple[Cause, float] | None:
    """Return what skew and tails of four raw moments say; what is not known (NaN) is fine."""
    if not max(abs(mean), abs(square)) < _LARGEST:
        return None
    variance = square - mean**2
    if variance <= _LEAST_RELATIVE_VARIANCE * max(square, _LEAST_RELATIVE_VARIANCE):
        return Cause.CONSTANT, math.inf
    spread = math.sqrt(variance)
    if abs(mean) > _MOST_RELATIVE_MEAN * spread:
        return None
    skew = (cube - 3 * mean * square + 2 * mean**3) / spread**3
    tails = (fourth - 4 * mean * cube + 6 * mean**2 * square - 3 * mean**4) / variance**2
    if math.isnan(tails) and mean == 0:
        tails = fourth / variance**2
    if tails - skew**2 - 1 < _FEW_VALUES:
        return Cause.FEW_VALUES, math.inf
    skew, tails = skew / math.sqrt(6), (tails - 3) / math.sqrt(24)
    size = max((abs(one) for one in (skew, tails) if not math.isnan(one)), default=0.0)
    if size <= _SHAPE:
        return None
    if abs(tails) == size:
        return (Cause.HEAVY if tails > 0 else Cause.LIGHT), size
    return Cause.SKEW, size
