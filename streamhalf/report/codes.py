"""Numbers and codes in words: one format for each kind of quantity, one phrase for each code."""

from __future__ import annotations

import math
from collections.abc import Sequence

from streamhalf import records
from streamhalf.config import LARGEST_EPS
from streamhalf.names import plural
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


def promise(one: records.PromiseRecord) -> str:
    """What the error is at most, if the tests pass that it rests on."""
    return f"{constant(one.constant or math.nan)} opt + {number(one.eps)}"


def main_promises(found: Sequence[records.PromiseRecord]) -> str:
    """The finest with a constant up to 5, or the smallest constant, and the finest of all."""
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


def evidence_name(evidence: records.Evidence) -> str:
    """The quantity that was measured."""
    match evidence.subject:
        case records.Moment(variables, sketched):
            return product_name(variables, sketch_name if sketched else feature_name)
        case records.SecondMoment(direction):
            return f"second moment along {direction_name(direction)}"
        case records.Quadratic(direction):
            return f"squared quadratic along {direction_name(direction)}"
        case records.AcceptanceRate(delta):
            return f"acceptance rate at delta {number(delta)}"
        case records.SlabShare(low, high):
            return _slab_name(low, high)
        case records.SlabSecondMoment(low, high, direction):
            return f"second moment along {direction_name(direction)} in {_slab_name(low, high)}"
        case records.WedgeShare(eta):
            return f"disagreement with halfspaces within {number(eta)}, at most"
        case records.SegmentMean(segment, quantity, feature, segments):
            of_all = "" if segments is None else f" of {segments}"
            return f"mean of {_quantity_name(quantity, feature)} in segment {segment + 1}{of_all}"
        case records.Named(name):
            return name


def _quantity_name(quantity: records.SegmentQuantity, feature: int | None) -> str:
    if feature is None:
        return quantity
    name = feature_name(feature)
    return name if quantity is records.SegmentQuantity.FEATURE else f"y·{name}"


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


def stop_words(stop: records.Stop) -> str:
    """Why the search ended."""
    at = "" if stop.delta is None else f" at delta {number(stop.delta)}"
    return {
        records.StopReason.REACHED_EPS: "it reached the finest scale that it was to",
        records.StopReason.NOISE_DOMINATES: "noise dominates",
        records.StopReason.NO_PROGRESS: "there was no further progress",
        records.StopReason.MOST_UPDATES: "it made the largest number of updates",
        records.StopReason.ROWS_USED_UP: "rows for updates are used up",
        records.StopReason.TESTER_REJECTED: "a tester rejected",
        records.StopReason.TOO_FEW_ROWS: "there are too few rows",
    }[stop.reason] + at


_RECIPES = {
    records.Recipe.PATH: "localised updates",
    records.Recipe.REGRESSION: "logistic regression",
    records.Recipe.CHOW: "localised updates of a sample",
    records.Recipe.SQUARES: "local least squares",
    records.Recipe.REGRESSION_CHOW: "logistic regression, then localised updates",
    records.Recipe.REGRESSION_SQUARES: "logistic regression, then local least squares",
    records.Recipe.RADIAL_CHOW: "localised updates of a sample in radial position",
    records.Recipe.RADIAL_SQUARES: "local least squares in radial position",
    records.Recipe.RADIAL_REGRESSION_CHOW: (
        "logistic regression, then localised updates in radial position"
    ),
    records.Recipe.RADIAL_REGRESSION_SQUARES: (
        "logistic regression, then local least squares in radial position"
    ),
}


def recipe_words(recipe: records.Recipe) -> str:
    """How a candidate was found."""
    return _RECIPES[recipe]


def position_words(kind: str) -> str:
    """How rows were laid, to go after a verb."""
    return "as stored" if kind == records.Position.STORED else f"in {kind} position"


def factor(value: float) -> str:
    """A ratio with two decimals, never below what it is."""
    return f"{math.ceil(100 * value - 1e-9) / 100:g}"


def advice_words(advice: records.Advice) -> str:
    """What would tighten a certificate."""
    match advice.code:
        case records.AdviceCode.TIGHT:
            return "the bound is tight"
        case records.AdviceCode.MORE_ROWS:
            rows = count(advice.rows)
            return f"about {rows} rows would leave little sampling noise in the moments"
        case records.AdviceCode.HIGHER_DEGREE:
            return f"`--certificate-degree {advice.degree}` would tighten it"
        case records.AdviceCode.OTHER_CLASS:
            point = class_words(advice.through or records.Through.ORIGIN)
            return (
                f"the halfspace does not go {point}, L is for halfspaces that do: the two cannot "
                "be compared"
            )
        case records.AdviceCode.NOTHING:
            return "label noise of this shape hides better halfspaces from moments of this degree"


def notice_words(notice: records.Notice) -> str:
    """What a notice says, to go on a line of its own."""
    match notice:
        case records.LabelsAbsent(array):
            return f"no labels ({array}): features alone were looked at"
        case records.LabelsAreBits(array):
            return f"{array}: labels are 0/1; 0 is read as -1"
        case records.LabelsRead(array, low, high):
            return f"{array}: labels are {low} and {high}; {low} is read as -1, {high} as +1"
        case records.FeaturesConverted(array, stored, used):
            return f"{array}: features are {stored}; they are computed with as {used}"
        case records.ReuseSuffices(rows, eps):
            return (
                "with `--rows reuse` (in Python rows='reuse') these "
                f"{plural(rows, 'row')} can judge eps = {number(eps)}: passes that learn then "
                "share their rows, those that decide stay apart"
            )
        case records.OneClass(label):
            return f"all labels are {label:+d}, so there is nothing to learn; check the labels"
        case records.NearlyOneClass(label, share):
            return (
                f"only {percent(share)} of the rows have label {label:+d}: always guessing "
                f"{-label:+d} is wrong on no more than these"
            )
        case records.NoBetterThanGuess(label, error):
            return (
                f"the halfspace is no better than always guessing {label:+d}, which is wrong on "
                f"{percent(error)}, as far as these rows tell"
            )
        case records.RatioNotReached(demanded, ratio):
            reached = "no bound above 0" if ratio is None else f"ratio {number(ratio)}"
            return f"max_ratio {demanded:g} was demanded, the certificate has {reached}"
        case records.RepeatedRows(share, times):
            return (
                f"about {percent(share)} of the rows are met more than once (a row {number(times)} "
                "times on average): bounds for rows to come count every row as independent, so "
                "they are too narrow; those on these rows hold"
            )
        case records.ErrorsDisagree(held_out, upper, all_rows):
            return (
                f"the errors disagree: held-out rows say {percent(held_out)}, {percent(upper)} at "
                f"most, but on all rows it is {percent(all_rows)}; do not rely on what is said of "
                "rows to come"
            )
        case records.EpsNotReached(asked, reached, noise):
            said = f"the eps that was asked for, {number(asked)}, was not reached"
            if reached is None:
                return f"{said}: no scale could be tested"
            why = ": label noise is larger than that scale, and more rows would not help"
            return f"{said} ({number(reached)} was){why if noise else ''}"
        case records.Unverified():
            return "too few rows for any tester: the Chow direction of all rows, without a promise"
        case records.ErrorsCluster(segments, factor):
            return (
                "errors come in clusters: their share varies between stretches of rows "
                f"{number(factor)} times as much as chance would have it, so the upper bound is "
                f"computed from the means of {segments} stretches"
            )
        case records.RowsInOrder(quantity, feature, factor):
            return (
                f"rows come in an order: the mean of {_quantity_name(quantity, feature)} differs "
                f"between stretches of rows ({number(factor)} times the variance that chance would "
                "give it); bounds speak of the rows of this store, and of rows to come only if "
                "those are like all of these together"
            )
        case records.RadiiDrawn(at_centre):
            ties = (
                f"; {at_centre:.1%} of the rows lie at the centre itself, where every halfspace "
                "through it says +1"
            )
            return (
                "rows were tested in radial position, with lengths and signs drawn anew: the tests "
                "say nothing about the lengths of rows or about moments of odd degree"
                f"{ties if at_centre > 0 else ''}"
            )
        case records.RunsOn(place, why):
            return f"runs on {place}, {why}; scheduler='threads' keeps it on this machine"
        case records.Resumed(place, 0):
            return f"checkpoint: nothing to resume in {place}; starting anew"
        case records.Resumed(place, passes):
            return f"checkpoint: {place} holds {plural(passes, 'finished pass', 'es')}"
        case records.Remark(text):
            return text


def notice_sentence(notice: records.Notice) -> str:
    """A notice as a sentence."""
    words = notice_words(notice)
    return f"{words[:1].upper()}{words[1:]}."


def label_notices(result: records.FitResult) -> list[records.Notice]:
    """What comes before all else: labels are alike, or nearly, or a guess does as well."""
    alike = notice_of(result, "OneClass")
    kinds = records.NearlyOneClass | records.NoBetterThanGuess
    return [alike] if alike else [one for one in result.notices if isinstance(one, kinds)]


def notice_of(result: records.FitResult, kind: str) -> records.Notice | None:
    """The notice of a class of this name, if the result has one."""
    return next((one for one in result.notices if type(one).__name__ == kind), None)


def row_notices(result: records.FitResult | records.CertifyResult) -> list[records.Notice]:
    """What was noticed about the rows, which goes with every verdict."""
    kinds = records.RowsInOrder | records.ErrorsCluster | records.RepeatedRows | records.RadiiDrawn
    return [one for one in result.notices if isinstance(one, kinds)]


def other_notices(notices: Sequence[records.Notice]) -> tuple[str, ...]:
    """Notices that no sentence about the verdict says."""
    said = (
        records.ReuseSuffices
        | records.OneClass
        | records.NearlyOneClass
        | records.NoBetterThanGuess
        | records.ErrorsDisagree
        | records.EpsNotReached
    )
    return tuple(notice_words(one) for one in notices if not isinstance(one, said))


def passed_tests(result: records.FitResult) -> bool:
    """Whether the tests vouch: the run is accepted, or lacks a certificate alone."""
    lacks_ratio = notice_of(result, "RatioNotReached") is not None
    beats_guess = notice_of(result, "NoBetterThanGuess") is None
    return result.verdict is records.Verdict.ACCEPTED or (lacks_ratio and beats_guess)


def can_ask_for_less(result: records.FitResult) -> bool:
    """Whether there is a coarser question, which fewer rows settle."""
    return result.eps < LARGEST_EPS
