"""A rejection in words: which tester to show, what it saw, and what to do about it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streamhalf.records import (
    DiagnosticsRecord,
    Evidence,
    FitResult,
    Judgement,
    Moment,
    MomentTestResult,
    Outcome,
)
from streamhalf.testers import WORDS
from streamhalf.testers.moments import MomentTester

MOMENTS, _EXTRA = "largest moment", "quadratics"
"""The tester that names moments of features, and the one that no guarantee rests on."""

_MOST_FEATURES_NAMED = 4

_LEAST_RELATIVE_VARIANCE = 1e-9
"""Below this share of its mean square a feature's variance is rounding: it is constant."""

_MOST_RELATIVE_MEAN = 300.0
"""In units of the spread; beyond it the shape drowns in the rounding of fourth powers."""

_LARGEST = 1e30
"""Beyond it powers overflow, and nothing is known about the shape."""

_SHAPE = 0.15
"""Normalised Hermite moment of a standardised feature from which its shape is not Gaussian."""

_NEAR_THE_BOUNDARY = (
    "The features look Gaussian as a whole, but not near the boundary of the halfspace. More rows "
    "or whitening will not change that: look at the rows with a small margin |w·x|. Features of "
    "this pass are coordinates of the localised rows, not columns."
)
_WHITEN = (
    "Mean, scale or correlation of the features is off. Run again with `--whiten` (in Python "
    "`whiten=True`), which estimates and removes them."
)
_SHAPE_IS_OFF = (
    "Whatever mean and scale are, the shape of the features differs from a Gaussian (skew or "
    "tails), so another mean and scale will not help. Transform them (a logarithm, ranks), or use "
    "another method."
)
_ONLY_SHAPE_IS_OFF = (
    "Mean and covariance are not the cause: the shape of the features differs from a Gaussian. "
    "Transform them, or use another method."
)


@dataclass(frozen=True, slots=True)
class FeatureShape:
    """What four moments say about one feature, whatever its mean and scale."""

    name: str
    constant: bool
    gaussian: bool


def leading_rejection(judgements: Sequence[Judgement]) -> Judgement | None:
    """The strongest rejection by a tester that the guarantee rests on, else by an extra one."""
    rejected = [one for one in judgements if one.outcome is Outcome.REJECTED]
    return max(rejected, key=lambda one: (one.tester != _EXTRA, one.severity), default=None)


def is_told_by_one(judgement: Judgement) -> bool:
    """Whether the first evidence alone tells what the tester saw."""
    first, statistic = judgement.evidence[0], judgement.statistic
    return judgement.tester == MOMENTS or math.isclose(first.deviation, statistic, rel_tol=1e-3)


def result_suggestions(result: FitResult | MomentTestResult) -> tuple[str, ...]:
    """What to do about the leading rejection of a result; nothing where there is none."""
    leading = leading_rejection(result.testers)
    if leading is None:
        return ()
    if leading.pass_name.startswith("update"):
        return (_NEAR_THE_BOUNDARY,)
    if leading.tester in WORDS and leading.tester not in MomentTester.words:
        words = WORDS[leading.tester]
        return (f"{words.failure} {words.remedy}",)
    rejected = (one for one in result.testers if one.outcome is Outcome.REJECTED)
    telling = next((one for one in rejected if one.tester == MOMENTS), leading)
    measured = result.measurements if isinstance(result, FitResult) else None
    shapes = _measured_shapes(measured) if measured is not None else _evident_shapes(telling)
    return _moment_suggestions(telling, result.position.whitened, shapes)


def _moment_suggestions(
    judgement: Judgement, whitened: bool, shapes: Sequence[FeatureShape]
) -> tuple[str, ...]:
    """Whitening cures means and covariances, and nothing else."""
    if constant := [shape.name for shape in shapes if shape.constant]:
        verb, them = ("is", "it") if len(constant) == 1 else ("are", "them")
        said = f"{_names(constant)} {verb} constant: remove {them}; a constant cannot be whitened."
        return (said,)
    strange = [shape.name for shape in shapes if not shape.gaussian]
    columns = _names(strange or _named_features(judgement))
    columns = f"the features behind whitened {columns}" if whitened and columns else columns
    inspect = f"Inspect {columns}: outliers, clipping, rounding, duplicates."
    first = _SHAPE_IS_OFF if strange else _WHITEN
    if whitened or not (strange or _highest_degree(judgement) <= 2):
        first = _ONLY_SHAPE_IS_OFF
    return (first, inspect) if columns else (first,)


def _named_features(judgement: Judgement) -> list[str]:
    """The features that the leading evidence names, such as x3 and x7."""
    return [f"x{j + 1}" for j in dict.fromkeys(_leading_moment(judgement))]


def _leading_moment(judgement: Judgement) -> tuple[int, ...]:
    """The variables of the moment that the evidence names first; empty where it names none."""
    match judgement.evidence:
        case (Evidence(Moment(variables, False)), *_):
            return variables
    return ()


def _names(found: Sequence[str]) -> str:
    names = list(dict.fromkeys(found))
    if len(names) > _MOST_FEATURES_NAMED:
        more = len(names) - _MOST_FEATURES_NAMED + 1
        names = [*names[: _MOST_FEATURES_NAMED - 1], f"{more} more"]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _highest_degree(judgement: Judgement) -> int:
    """Degree of the leading moment; directions and everything else stand for degree 2."""
    if judgement.tester != MOMENTS or not judgement.evidence:
        return 2
    return len(_leading_moment(judgement))


def _measured_shapes(measured: DiagnosticsRecord) -> list[FeatureShape]:
    """From the Hermite moments of each feature: he_m / sqrt(m!), of degrees 1 to 4."""
    shapes = []
    for i, (one, two, *higher) in enumerate(
        row for row in measured.feature_moments if len(row) > 1
    ):
        square = 1 + math.sqrt(2) * two
        three = math.sqrt(6) * higher[0] + 3 * one if higher else math.nan
        four = math.sqrt(24) * higher[1] + 6 * square - 3 if len(higher) > 1 else math.nan
        shapes.append(_shape(f"x{i + 1}", one, square, three, four))
    return shapes


def _evident_shapes(judgement: Judgement) -> list[FeatureShape]:
    """From the moments that the evidence names, where they are of one centred feature."""
    degree = _highest_degree(judgement)
    if judgement.tester != MOMENTS or degree > 2:
        return []
    means = _means_of_powers(judgement)
    if degree == 1:
        return [
            FeatureShape(f"x{j + 1}", True, False)
            for j, powers in means.items()
            if _is_constant(powers)
        ]
    return [
        # the leading evidence is of the lowest degree beyond its limit, so means are about 0
        _shape(f"x{j + 1}", 0.0, powers[2], math.nan, powers.get(4, math.nan))
        for j, powers in sorted(means.items())
        if 2 in powers
    ]


def _means_of_powers(judgement: Judgement) -> dict[int, dict[int, float]]:
    """For each feature, the means of its powers that the evidence holds."""
    found: dict[int, dict[int, float]] = {}
    for one in judgement.evidence:
        match one.subject:
            case Moment(variables, False) if len(set(variables)) == 1:
                found.setdefault(variables[0], {})[len(variables)] = one.observed
    return found


def _is_constant(powers: Mapping[int, float]) -> bool:
    """Whether a mean of powers is the power of the mean."""
    mean = powers.get(1)
    if mean is None or not abs(mean) < _LARGEST:
        return False
    return any(
        math.isclose(found, mean**k, rel_tol=1e-9) for k, found in powers.items() if k % 2 == 0
    )


def _shape(name: str, mean: float, square: float, cube: float, fourth: float) -> FeatureShape:
    """Standardise four raw moments and look at skew and tails; what is not known is fine."""
    if not max(abs(mean), abs(square)) < _LARGEST:
        return FeatureShape(name, constant=False, gaussian=True)
    variance = square - mean**2
    if variance <= _LEAST_RELATIVE_VARIANCE * max(square, _LEAST_RELATIVE_VARIANCE):
        return FeatureShape(name, constant=True, gaussian=False)
    spread = math.sqrt(variance)
    if abs(mean) > _MOST_RELATIVE_MEAN * spread:
        return FeatureShape(name, constant=False, gaussian=True)
    skew = (cube - 3 * mean * square + 2 * mean**3) / spread**3
    tails = (fourth - 4 * mean * cube + 6 * mean**2 * square - 3 * mean**4) / variance**2
    if math.isnan(tails) and mean == 0:
        tails = fourth / variance**2
    off = (abs(skew) / math.sqrt(6), abs(tails - 3) / math.sqrt(24))
    return FeatureShape(name, constant=False, gaussian=not any(one > _SHAPE for one in off))
