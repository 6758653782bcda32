"""A rejection in words: which tester to show, what it saw, and what to do about it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streamhalf.records import (
    DiagnosticsRecord,
    FitResult,
    Judgement,
    MomentTestResult,
    Outcome,
    severity,
)
from streamhalf.report.codes import evidence_name

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

_ORDERED = "The rows come in an order. Shuffle them before they are stored."
_NEAR_THE_BOUNDARY = (
    "The features look Gaussian as a whole, but not near the boundary of the halfspace. More rows "
    "or whitening will not change that: look at the rows with a small margin |w·x|. Features of "
    "this pass are coordinates of the localised rows, not columns."
)
_ALONG_THE_HALFSPACE = (
    "Along the halfspace the features are not Gaussian. Look at the slab named above: a cluster, a "
    "gap or a rounded feature shows up there."
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
    return max(rejected, key=lambda one: (one.tester != _EXTRA, severity(one)), default=None)


def is_told_by_one(judgement: Judgement) -> bool:
    """Whether the first evidence alone tells what the tester saw."""
    first, statistic = judgement.evidence[0], judgement.statistic
    return judgement.tester == MOMENTS or math.isclose(first.deviation, statistic, rel_tol=1e-3)


def result_suggestions(result: FitResult | MomentTestResult) -> tuple[str, ...]:
    """What to do about the leading rejection of a result; nothing where there is none."""
    leading = leading_rejection(result.testers)
    if leading is None:
        return ()
    if leading.tester == "exchangeable chunks":
        return (_ORDERED,)
    if leading.pass_name.startswith("update"):
        return (_NEAR_THE_BOUNDARY,)
    if leading.tester in ("slab mass", "slab covariance", "acceptance"):
        return (_ALONG_THE_HALFSPACE,)
    rejected = (one for one in result.testers if one.outcome is Outcome.REJECTED)
    telling = next((one for one in rejected if one.tester == MOMENTS), leading)
    measured = result.measurements if isinstance(result, FitResult) else None
    shapes = _measured_shapes(measured) if measured is not None else _evident_shapes(telling)
    return _moment_suggestions(telling, result.whitened, shapes)


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
    return [x for one in judgement.evidence[:1] for x in re.findall(r"\bx\d+", evidence_name(one))]


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
    powers = re.findall(r"x\d+(?:\^(\d{1,3}))?", evidence_name(judgement.evidence[0]))
    return sum(int(power or 1) for power in powers)


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
    means = {evidence_name(one): one.observed for one in judgement.evidence}
    if judgement.tester != MOMENTS or _highest_degree(judgement) > 2:
        return []
    if _highest_degree(judgement) == 1:
        return [FeatureShape(name, True, False) for name in means if _is_power_of(name, means)]
    features = {name.partition("^")[0] for name in means if re.fullmatch(r"x\d+\^[24]", name)}
    return [
        # the leading evidence is of the lowest degree beyond its limit, so means are about 0
        _shape(name, 0.0, means[f"{name}^2"], math.nan, means.get(f"{name}^4", math.nan))
        for name in sorted(features, key=lambda name: int(name[1:]))
        if f"{name}^2" in means
    ]


def _is_power_of(name: str, means: Mapping[str, float]) -> bool:
    """Whether a mean of powers is the power of the mean: the feature is constant then."""
    if not abs(means[name]) < _LARGEST:
        return False
    powers = {k: means.get(f"{name}^{k}") for k in (2, 4, 6, 8)}
    return any(
        found is not None and math.isclose(found, means[name] ** k, rel_tol=1e-9)
        for k, found in powers.items()
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
