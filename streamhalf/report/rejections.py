"""A rejection in words: which tester to show, what it saw, and what to do about it."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from streamhalf.report.features import numbered, quoted
from streamhalf.results import (
    DiagnosticsRecord,
    Evidence,
    FitResult,
    Moment,
    MomentTestResult,
    Outcome,
    TestResult,
    Transform,
    TransformTrial,
)
from streamhalf.testers.acceptance import AcceptanceTester
from streamhalf.testers.leading import (
    MOMENTS,
    is_localized,
    is_of_all_rows,
    simplest_evidence,
)
from streamhalf.testers.leading import (
    leading_doubt as leading_doubt,
)
from streamhalf.testers.leading import (
    leading_rejection as leading_rejection,
)
from streamhalf.testers.leading import (
    leading_warning as leading_warning,
)
from streamhalf.testers.leading import (
    telling_evidence as telling_evidence,
)
from streamhalf.testers.moments import MomentTester

_LEAST_RELATIVE_VARIANCE = 1e-9
"""Below this share of its mean square a feature's variance is rounding: it is constant."""

_MOST_RELATIVE_MEAN = 300.0
"""In units of the spread; beyond it the shape drowns in the rounding of fourth powers."""

_LARGEST = 1e30
"""Beyond it powers overflow, and nothing is known about the shape."""

_SHAPE = 0.15
"""Normalised Hermite moment of a standardised feature from which its shape is not Gaussian."""


class Remedy(enum.StrEnum):
    """What to do about a rejection."""

    AS_TESTER_SAYS = "as the tester says"
    LOOK_AT_SMALL_MARGINS = "look at small margins"
    REMOVE = "remove"
    REMOVE_ONE = "remove one of them"
    WHITEN = "another transform"
    TRANSFORM = "transform"
    TRANSFORM_WHITENED = "transform, whatever mean and covariance"


@dataclass(frozen=True, slots=True)
class Advice:
    """A remedy for what a tester saw, and the features that it is about or that need a look.

    `sampled` where no more than a sample speaks of them.
    """

    remedy: Remedy
    tester: str
    features: tuple[str, ...] = ()
    sampled: bool = False


class Shape(enum.Enum):
    """What four moments say about one feature, whatever its mean and scale."""

    CONSTANT = enum.auto()
    GAUSSIAN = enum.auto()
    STRANGE = enum.auto()


def is_told_by_one(test_result: TestResult) -> bool:
    """Whether this evidence alone tells what the tester saw."""
    first, statistic = telling_evidence(test_result), test_result.statistic
    if first is None:
        return False
    telling = test_result.tester == MOMENTS and first.deviation > test_result.null_quantile
    return telling or math.isclose(first.deviation, statistic, rel_tol=1e-3)


def advise(result: FitResult | MomentTestResult) -> Advice | None:
    """What to do about the leading rejection of a result; None where there is none."""
    leading = leading_rejection(result.testers)
    tester = "" if leading is None else leading.tester
    if (flawed := _flawed_transform(result)) is not None:
        remedy = Remedy.REMOVE if flawed.constant else Remedy.REMOVE_ONE
        return Advice(remedy, tester, _names(result.data.features, flawed.features), sampled=True)
    if leading is None:
        return None
    of_moments = tester in MomentTester.words
    if is_localized(leading) and (of_moments or tester == AcceptanceTester.name):
        return Advice(Remedy.LOOK_AT_SMALL_MARGINS, tester)
    if not of_moments:
        return Advice(Remedy.AS_TESTER_SAYS, tester)
    rejected = (one for one in result.testers if one.has_say and one.outcome is Outcome.REJECTED)
    telling = next(
        (one for one in rejected if one.tester == MOMENTS and is_of_all_rows(one)), leading
    )
    measured = result.measurements if isinstance(result, FitResult) else None
    shapes = _measured_shapes(measured) if measured is not None else _evident_shapes(telling)
    own = result.data.features
    if constant := _names(own, (j for j, shape in shapes.items() if shape is Shape.CONSTANT)):
        return Advice(Remedy.REMOVE, tester, constant)
    strange = _names(own, (j for j, shape in shapes.items() if shape is Shape.STRANGE))
    first = strange or _names(own, dict.fromkeys(_leading_moment(telling)))
    # another transform cures means and covariances, and nothing else; perhaps it was tried
    tried = result.transform.whitened or bool(result.transforms)
    if tried or (not strange and _highest_degree(telling) > 2):
        return Advice(Remedy.TRANSFORM_WHITENED, tester, first)
    return Advice(Remedy.TRANSFORM if strange else Remedy.WHITEN, tester, first)


def _flawed_transform(result: FitResult | MomentTestResult) -> TransformTrial | None:
    """The isotropic transform where features that stand still, or repeat others, leave none."""
    return next(
        (one for one in result.transforms if one.kind is Transform.ISOTROPIC and one.features), None
    )


def _names(names: Sequence[str], features: Iterable[int]) -> tuple[str, ...]:
    """Of features, such as age, or x₃ and x₇."""
    return tuple(quoted(names[j]) if j < len(names) else numbered(j) for j in features)


def _leading_moment(test_result: TestResult) -> tuple[int, ...]:
    """The variables of the moment that tells; empty where none does."""
    match simplest_evidence(test_result):
        case Evidence(Moment(variables, False)):
            return variables
    return ()


def _highest_degree(test_result: TestResult) -> int:
    """Degree of the leading moment; directions and everything else stand for degree 2."""
    if test_result.tester != MOMENTS or not test_result.evidence:
        return 2
    return len(_leading_moment(test_result))


def _measured_shapes(measured: DiagnosticsRecord) -> dict[int, Shape]:
    """From the Hermite moments of each feature: he_m / sqrt(m!), of degrees 1 to 4."""
    shapes = {}
    rows = (row for row in measured.feature_moments if len(row) > 1)
    for j, (one, two, *higher) in enumerate(rows):
        square = 1 + math.sqrt(2) * two
        three = math.sqrt(6) * higher[0] + 3 * one if higher else math.nan
        four = math.sqrt(24) * higher[1] + 6 * square - 3 if len(higher) > 1 else math.nan
        shapes[j] = _shape(one, square, three, four)
    return shapes


def _evident_shapes(test_result: TestResult) -> dict[int, Shape]:
    """From the moments that the evidence names, where they are of one centred feature."""
    degree = _highest_degree(test_result)
    if test_result.tester != MOMENTS or degree > 2:
        return {}
    means = _means_of_powers(test_result)
    if degree == 1:
        return {j: Shape.CONSTANT for j, powers in means.items() if _is_constant(powers)}
    return {
        # the leading evidence is of the lowest degree beyond its limit, so means are about 0
        j: _shape(0.0, powers[2], math.nan, powers.get(4, math.nan))
        for j, powers in sorted(means.items())
        if 2 in powers
    }


def _means_of_powers(test_result: TestResult) -> dict[int, dict[int, float]]:
    """For each feature, the means of its powers that the evidence holds."""
    found: dict[int, dict[int, float]] = {}
    for one in test_result.evidence:
        match one.subject:
            case Moment(variables, False) if len(set(variables)) == 1:
                found.setdefault(variables[0], {})[len(variables)] = one.observed
    return found


def _is_constant(powers: Mapping[int, float]) -> bool:
    """Whether a mean of powers is the power of the mean."""
    mean = powers.get(1)
    if mean is None or not abs(mean) < _LARGEST:
        return False
    even = ((k, found) for k, found in powers.items() if k % 2 == 0)
    return any(math.isclose(found, mean**k, rel_tol=1e-9) for k, found in even)


def _shape(mean: float, square: float, cube: float, fourth: float) -> Shape:
    """Standardise four raw moments and look at skew and tails; what is not known is fine."""
    if not max(abs(mean), abs(square)) < _LARGEST:
        return Shape.GAUSSIAN
    variance = square - mean**2
    if variance <= _LEAST_RELATIVE_VARIANCE * max(square, _LEAST_RELATIVE_VARIANCE):
        return Shape.CONSTANT
    spread = math.sqrt(variance)
    if abs(mean) > _MOST_RELATIVE_MEAN * spread:
        return Shape.GAUSSIAN
    skew = (cube - 3 * mean * square + 2 * mean**3) / spread**3
    tails = (fourth - 4 * mean * cube + 6 * mean**2 * square - 3 * mean**4) / variance**2
    if math.isnan(tails) and mean == 0:
        tails = fourth / variance**2
    off = (abs(skew) / math.sqrt(6), abs(tails - 3) / math.sqrt(24))
    return Shape.STRANGE if any(one > _SHAPE for one in off) else Shape.GAUSSIAN
