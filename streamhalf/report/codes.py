"""Numbers and codes in words: one format for each kind of quantity, one phrase for each code."""

from __future__ import annotations

import math
from collections.abc import Sequence

from streamhalf import results
from streamhalf.config import LARGEST_EPS
from streamhalf.redact import plural
from streamhalf.report.features import class_words, feature_name, product_name, sketch_name

ABSENT = "–"
"""Stands where the document has no number."""

COIN = 0.4
"""Error from which a halfspace is hardly better than a coin toss."""

GOOD = 5
"""The constant from which on it is worth a word what a better one takes."""

_MOST_FEATURES_NAMED = 4


def number(value: float | None) -> str:
    """Four significant digits."""
    return ABSENT if value is None or not math.isfinite(value) else f"{value:.4g}"


def percent(share: float | None) -> str:
    """A share as a percentage with three decimals."""
    return ABSENT if share is None or not math.isfinite(share) else f"{100 * share:.3f}%"


def degrees(angle: float) -> str:
    """An angle in radians as degrees."""
    return f"{math.degrees(angle):.2f}°" if math.isfinite(angle) else ABSENT


def count(value: int | None) -> str:
    """A whole number with separators."""
    return ABSENT if value is None else f"{value:,}"


def constant(value: float) -> str:
    """A constant with one decimal, never below what it is."""
    up = 10 * value - 1e-9
    return f"{math.ceil(up) / 10:g}" if math.isfinite(up) else ABSENT


def promise(one: results.PromiseRecord) -> str:
    """What the error is at most, if the tests pass that it rests on; empty without a constant."""
    if one.constant is None:
        return ""
    return f"{constant(one.constant)} opt + {number(one.eps)}"


def main_promises(found: Sequence[results.PromiseRecord]) -> str:
    """The finest with a constant up to 5, or the smallest constant, and the finest that has one."""
    found = [one for one in found if one.constant is not None]
    good = [one for one in found if (one.constant or math.inf) <= GOOD]
    return " or ".join(dict.fromkeys(map(promise, (*(good[-1:] or found[:1]), *found[-1:]))))


def human_count(value: float) -> str:
    """12,345,678 as 12.3 M."""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):.3g} {unit}"
    return f"{value:,.0f}"


def nbytes(value: int) -> str:
    """A size in decimal units."""
    for size, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= size:
            return f"{value / size:,.1f} {unit}"
    return f"{value} B"


def seconds(value: float) -> str:
    """A duration."""
    return f"{value:,.2f} s" if math.isfinite(value) else ABSENT


def duration(value: float) -> str:
    """A time to wait, in the unit that people would use."""
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if value >= 2 * size:
            shown = value / size
            return f"{shown:.2g} {unit}" if shown < 10 else f"{shown:,.0f} {unit}"
    return f"{value:.0f} s" if value >= 10 else f"{value:.2g} s"


def pass_words(name: str, rows: int, seconds: float) -> str:
    """A pass that is over, and how fast it was."""
    rate = human_count(rows / max(seconds, 1e-9))
    return f"pass {name}: {plural(rows, 'row')} in {seconds:.2f} s ({rate} rows/s)"


def confidence(tau: float) -> str:
    """1 - tau as a percentage."""
    return f"{100 * (1 - tau):g}%"


def named(features: Sequence[str]) -> str:
    """A few names: x1, x2 and x3, or x1, x2, x3 and 5 more."""
    names = list(features)
    if len(names) > _MOST_FEATURES_NAMED:
        names[_MOST_FEATURES_NAMED - 1 :] = [f"{len(names) - _MOST_FEATURES_NAMED + 1} more"]
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def evidence_name(evidence: results.Evidence) -> str:
    """The quantity that was measured."""
    match evidence.subject:
        case results.Moment(variables, sketched):
            return product_name(variables, sketch_name if sketched else feature_name)
        case results.SecondMoment(direction):
            return f"second moment along {direction_name(direction)}"
        case results.Quadratic(direction):
            return f"squared quadratic along {direction_name(direction)}"
        case results.AcceptanceRate(delta):
            return f"acceptance rate at delta {number(delta)}"
        case results.SlabShare(low, high):
            return _slab_name(low, high)
        case results.SlabSecondMoment(low, high, direction):
            return f"second moment along {direction_name(direction)} in {_slab_name(low, high)}"
        case results.WedgeShare(eta):
            return f"disagreement with halfspaces within {number(eta)}, at most"
        case results.SegmentMean(segment, quantity, feature, segments):
            of_all = "" if segments is None else f" of {segments}"
            return f"mean of {quantity_name(quantity, feature)} in segment {segment + 1}{of_all}"
        case results.Named(name):
            return name


def quantity_name(quantity: results.SegmentQuantity, feature: int | None) -> str:
    """What is averaged over a segment of rows."""
    if feature is None:
        return quantity
    name = feature_name(feature)
    return name if quantity is results.SegmentQuantity.FEATURE else f"y·{name}"


def direction_name(direction: Sequence[float], shown: int = 3) -> str:
    """The largest coordinates of a unit vector."""
    order = sorted(range(len(direction)), key=lambda j: -abs(direction[j]))
    large = [j for j in order if abs(direction[j]) > 0.05]
    text = " ".join(f"{direction[j]:+.2f}·{feature_name(j)}" for j in large[:shown])
    return text + (" ..." if len(large) > shown else "")


def _slab_name(low: float | None, high: float | None) -> str:
    if low is None:
        return f"slab margin < {number(high)}"
    if high is None:
        return f"slab margin >= {number(low)}"
    return f"slab {number(low)} <= margin < {number(high)}"


def stop_words(stop: results.Stop) -> str:
    """Why the search ended."""
    at = "" if stop.delta is None else f" at delta {number(stop.delta)}"
    return {
        results.StopReason.REACHED_EPS: "it reached the finest scale that was asked for",
        results.StopReason.NOISE_DOMINATES: "noise dominates",
        results.StopReason.NO_PROGRESS: "there was no further progress",
        results.StopReason.MOST_UPDATES: "it made the largest number of updates",
        results.StopReason.ROWS_USED_UP: "rows for updates are used up",
        results.StopReason.TESTER_REJECTED: "a tester rejected",
        results.StopReason.TOO_FEW_ROWS: "there are too few rows for localised updates",
    }[stop.reason] + at


_METHODS = {
    results.Method.PATH: "localised updates",
    results.Method.REGRESSION: "logistic regression",
    results.Method.CHOW: "localised updates of a sample",
    results.Method.SQUARES: "local least squares",
    results.Method.REGRESSION_CHOW: "logistic regression, then localised updates",
    results.Method.REGRESSION_SQUARES: "logistic regression, then local least squares",
    results.Method.RADIAL_CHOW: "localised updates of a sample in radial transform",
    results.Method.RADIAL_SQUARES: "local least squares in radial transform",
    results.Method.RADIAL_REGRESSION_CHOW: (
        "logistic regression, then localised updates in radial transform"
    ),
    results.Method.RADIAL_REGRESSION_SQUARES: (
        "logistic regression, then local least squares in radial transform"
    ),
}


def method_words(method: results.Method) -> str:
    """How a candidate was found."""
    return _METHODS[method]


def transform_words(kind: str) -> str:
    """How rows were laid, to go after a verb."""
    return "as stored" if kind == results.Transform.STORED else f"in {kind} transform"


def factor(value: float) -> str:
    """A ratio with two decimals, never below what it is."""
    return f"{math.ceil(100 * value - 1e-9) / 100:g}"


def advice_words(advice: results.Advice) -> str:
    """What would tighten a certificate."""
    match advice.code:
        case results.AdviceCode.TIGHT:
            return "the bound is tight"
        case results.AdviceCode.MORE_ROWS:
            rows = count(advice.rows)
            return f"about {rows} rows would leave little sampling noise in the moments"
        case results.AdviceCode.HIGHER_DEGREE:
            return f"`--certificate-degree {advice.degree}` would tighten it"
        case results.AdviceCode.OTHER_CLASS:
            point = class_words(advice.through or results.HalfspaceClass.ORIGIN)
            return (
                f"the halfspace does not go {point}, L is for halfspaces that do: the two cannot "
                "be compared"
            )
        case results.AdviceCode.NOTHING:
            return "label noise of this shape hides better halfspaces from moments of this degree"


def can_ask_for_less(result: results.FitResult) -> bool:
    """Whether there is a coarser question, which fewer rows settle."""
    return result.eps < LARGEST_EPS
