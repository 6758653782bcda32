"""Numbers, names, codes and notices in words: one format for each quantity, one phrase for each code."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamhalf import results
from streamhalf.redact import plural
from streamhalf.results import HalfspaceClass

ABSENT = "–"
"""Stands where a document has no number."""

TAU = "probability of a wrong statement"

_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_MOST_NAMED = 5


# numbers


def number(value: float | None) -> str:
    """Return four significant digits: 0.01235, 25,960,000, 3.775e+11."""
    if value is None or not math.isfinite(value):
        return ABSENT
    short = f"{value:.4g}"
    return f"{float(short):,.0f}" if "e+" in short and abs(value) < 1e9 else short


def percent(share: float | None) -> str:
    """Return a share with three significant digits, and at most three decimals."""
    return _percent(share, round)


def at_most(share: float | None) -> str:
    """Return an upper bound as a percentage, rounded up."""
    return _percent(None if share is None else min(share, 1.0), lambda x: math.ceil(x - 1e-9))


def at_least(share: float | None) -> str:
    """Return a lower bound as a percentage, rounded down."""
    return _percent(share, lambda x: math.floor(x + 1e-9))


def _percent(share: float | None, rounded: Any) -> str:
    if share is None or not math.isfinite(share):
        return ABSENT
    if share == 0:
        return "0%"
    value = 100 * share
    digits = 3 if abs(value) < 1 else 2 if abs(value) < 10 else 1
    return f"{rounded(value * 10**digits) / 10**digits:.{digits}f}%"


def degrees(angle: float) -> str:
    """Return an angle in radians as degrees."""
    return f"{math.degrees(angle):.2f}°" if math.isfinite(angle) else ABSENT


def count(value: int | None) -> str:
    """Return a whole number with separators."""
    return ABSENT if value is None else f"{value:,}"


def about(value: int) -> str:
    """Return a number of rows to two significant digits, rounded up."""
    step = 10 ** max(0, len(str(value)) - 2)
    return f"{-(-value // step) * step:,}"


def factor(value: float) -> str:
    """Return a ratio with two decimals, rounded up."""
    return f"{math.ceil(100 * value - 1e-9) / 100:g}" if math.isfinite(value) else ABSENT


def constant(value: float | None) -> str:
    """Return a constant with one decimal, rounded up."""
    up = math.nan if value is None else 10 * value - 1e-9
    return f"{math.ceil(up) / 10:g}" if math.isfinite(up) else ABSENT


def confidence(tau: float) -> str:
    """Return 1 - tau as a percentage, rounded down."""
    return f"{math.floor(1e3 * (1 - tau) + 1e-9) / 10:g}%"


def human_count(value: float) -> str:
    """Return 12,345,678 as 12.3 M."""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):.3g} {unit}"
    return f"{value:,.0f}"


def nbytes(value: int) -> str:
    """Return a size in decimal units."""
    for size, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= size:
            return f"{value / size:,.1f} {unit}"
    return f"{value} B"


def seconds(value: float) -> str:
    """Return a measured time."""
    return f"{value:,.2f} s" if math.isfinite(value) else ABSENT


def duration(value: float) -> str:
    """Return a time to wait, in the unit that people would use."""
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if value >= 2 * size:
            shown = value / size
            return f"{shown:.2g} {unit}" if shown < 10 else f"{shown:,.0f} {unit}"
    return f"{value:.0f} s" if value >= 10 else f"{value:.2g} s"


def of_limit(share: float) -> str:
    """Return a statistic in units of its limit: 37%, or 2.3 × beyond it."""
    return f"{share:.0%}" if share <= 1 else f"{share:.3g} ×"


def pass_words(name: str, rows: int, seconds: float) -> str:
    """Return a finished pass and its speed."""
    rate = human_count(rows / max(seconds, 1e-9))
    return f"pass {name}: {plural(rows, 'row')} in {seconds:.2f} s ({rate} rows/s)"


def listed(names: Sequence[str]) -> str:
    """Return a few names: x1, x2 and x3, or x1, x2, x3 and 5 more."""
    kept = list(names)
    if len(kept) > _MOST_NAMED:
        kept[_MOST_NAMED - 1 :] = [f"{len(kept) - _MOST_NAMED + 1} more"]
    return " and ".join(filter(None, (", ".join(kept[:-1]), *kept[-1:])))


def sentence(words: str) -> str:
    """Return words as a sentence."""
    return f"{words[:1].upper()}{words[1:]}" + ("" if words.endswith((".", "!", "?")) else ".")


# names


def numbered(j: int, letter: str = "x") -> str:
    """Return the name of a feature without a name, counted from 1: x₄."""
    return f"{letter}{str(j + 1).translate(_SUBSCRIPTS)}"


def quoted(name: str) -> str:
    """Return a name in quotation marks, unless it is one plain word."""
    return name if name.isidentifier() else f"“{name}”"


@dataclass(frozen=True, slots=True)
class Names:
    """Names of features, labels and classes of halfspaces, as one result has them."""

    features: tuple[str, ...] = ()
    labels: tuple[str, str] = ("-1", "+1")
    transform: results.TransformRecord | None = None

    @classmethod
    def of(cls, result: Any) -> Names:
        """Return the names of a result; features that its transform mixes have no name."""
        data, transform = result.data, result.transform
        return cls(_names_in(data.features, transform), data.label_names, transform)

    def stored(self, result: Any) -> Names:
        """Return these with the names of stored features, whatever the transform."""
        return Names(result.data.features, self.labels, self.transform)

    def feature(self, j: int) -> str:
        """Return the name of a feature, or its number where it has none."""
        known = j < len(self.features) and self.features[j]
        return quoted(self.features[j]) if known else numbered(j)

    def label(self, label: int) -> str:
        """Return the name of label -1 or +1."""
        return self.labels[label > 0]

    def product(self, variables: Sequence[int], sketched: bool = False) -> str:
        """Return a product of features: (2, 2, 6) is x₃²·x₇."""
        parts = []
        for j in sorted(set(variables)):
            power = variables.count(j)
            name = numbered(j, "u") if sketched else self.feature(j)
            parts.append(name + (str(power).translate(_SUPERSCRIPTS) if power > 1 else ""))
        return "·".join(parts) or "1"

    def direction(self, direction: Sequence[float], most: int = 3) -> str:
        """Return the largest coordinates of a unit vector."""
        order = sorted(range(len(direction)), key=lambda j: -abs(direction[j]))
        large = [j for j in order if abs(direction[j]) > 0.05]
        text = " ".join(f"{direction[j]:+.2f}·{self.feature(j)}" for j in large[:most])
        return text + (" ..." if len(large) > most else "")

    def quantity(self, quantity: results.SegmentQuantity, feature: int | None) -> str:
        """Return what is averaged over a segment of rows."""
        if feature is None:
            return str(quantity)
        name = self.feature(feature)
        return name if quantity is results.SegmentQuantity.FEATURE else f"y·{name}"

    def evidence(self, evidence: results.Evidence) -> str:
        """Return the quantity that a tester measured."""
        match evidence.subject:
            case results.Moment(variables, sketched):
                return self.product(variables, sketched)
            case results.SecondMoment(direction):
                return f"second moment along {self.direction(direction)}"
            case results.Quadratic(direction):
                return f"squared quadratic along {self.direction(direction)}"
            case results.AcceptanceRate(delta):
                return f"acceptance rate at delta {number(delta)}"
            case results.SlabShare(low, high):
                return _slab(low, high)
            case results.SlabSecondMoment(low, high, direction):
                return f"second moment along {self.direction(direction)} in {_slab(low, high)}"
            case results.WedgeShare(eta):
                return f"disagreement with halfspaces within {number(eta)}, at most"
            case results.SegmentMean(segment, quantity, feature, segments):
                of_all = "" if segments is None else f" of {segments}"
                name = self.quantity(quantity, feature)
                return f"mean of {name} in segment {segment + 1}{of_all}"
            case results.Named(name):
                return name

    def halfspaces(self, through: HalfspaceClass, certificate: results.CertificateRecord | None = None) -> str:
        """Return the class of halfspaces that a number speaks of, to follow "halfspace"."""
        if through is not HalfspaceClass.CENTRE:
            return "with any threshold" if through is HalfspaceClass.ANY else "through the origin"
        own = getattr(certificate, "transform", None) or self.transform
        if own is None:
            return "through the centre"
        # where all halfspaces are certified, a radial run's certificate has an affine transform
        same = self.transform is not None and self.transform.centre == own.centre
        kind = self.transform.kind if self.transform is not None and same else own.kind
        radial = kind == results.Transform.RADIAL
        return "through the estimated centre" if radial else "through the mean of the features"


def _names_in(names: tuple[str, ...], transform: results.TransformRecord) -> tuple[str, ...]:
    """Return names of transformed features: that of the column with most weight, if its own.

    Columns that tell nearly the same get no name. Where the matrix is not on record (a transform
    that only a sample was tried in), every feature keeps its name.
    """
    if not names or not transform.whitened or not transform.matrix:
        return names
    matrix = np.abs(np.array(transform.matrix))
    if matrix.shape != (len(names), len(names)):
        return ()
    # in units of the columns: their scales are in the matrix
    weights = matrix / np.maximum(np.linalg.norm(matrix, axis=0), np.finfo(np.float64).tiny)
    own = weights.argmax(axis=1) == np.arange(len(names))
    return tuple(name if mine else "" for name, mine in zip(names, own, strict=True))


def _slab(low: float | None, high: float | None) -> str:
    if low is None:
        return f"slab margin < {number(high)}"
    if high is None:
        return f"slab margin >= {number(low)}"
    return f"slab {number(low)} <= margin < {number(high)}"


# codes

DISTRIBUTIONS = {"isotropic": "Gaussian", "radial": "elliptical", "stored": "standard Gaussian"}
"""Tested distribution of the features, by transform."""

_TRANSFORMS = {
    "stored": "features as stored",
    "isotropic": "features centred and scaled to covariance I",
    "radial": "features centred and scaled, lengths of rows drawn anew",
}


def transform_words(kind: str) -> str:
    """Return what a transform makes of the features; one of a plug-in goes by its name."""
    return _TRANSFORMS.get(kind, f"features after the transform “{kind}”")


_METHODS = {
    "path": "localised updates",
    "regression": "logistic regression",
    "chow": "localised updates of a sample",
    "least squares": "local least squares",
}


def method_words(method: results.Method) -> str:
    """Return how a candidate was found."""
    name = str(method)
    where = " in radial transform" if name.startswith("radial, ") else ""
    parts = name.removeprefix("radial, ").split(", then ")
    return ", then ".join(_METHODS[one] for one in parts).replace(" of a sample", "") + where


def stop_words(stop: results.Stop) -> str:
    """Return why the search ended."""
    reasons = results.StopReason
    at = "" if stop.delta is None else f" at delta {number(stop.delta)}"
    return {
        reasons.REACHED_EPS: "it reached the finest scale that was asked for",
        reasons.NOISE_DOMINATES: "noise dominates",
        reasons.NO_PROGRESS: "there was no further progress",
        reasons.MOST_UPDATES: "it made the largest number of updates",
        reasons.ROWS_USED_UP: "rows for updates are used up",
        reasons.TESTER_REJECTED: "a tester rejected",
        reasons.TOO_FEW_ROWS: "there are too few rows for localised updates",
    }[stop.reason] + at


def tightening_words(advice: results.Advice) -> str:
    """Return what would tighten a lower bound; empty where nothing is known to."""
    match advice.code:
        case results.AdviceCode.MORE_ROWS if advice.rows:
            return f"about {about(advice.rows)} rows would tighten the bound of the best possible"
        case results.AdviceCode.HIGHER_DEGREE:
            return f"`--certificate-degree {advice.degree}` would tighten the bound of the best possible"
    return ""


# notices

_NAMELESS = Names()
_SAID = (
    *(results.NoticeCode.NO_ROOM, results.NoticeCode.ONE_CLASS, results.NoticeCode.NEARLY_ONE_CLASS),
    *(results.NoticeCode.NO_BETTER_THAN_GUESS, results.NoticeCode.ERRORS_DISAGREE, results.NoticeCode.EPS_NOT_REACHED),
)
"""Notices that promise and advice say."""

_PHRASES = {
    results.NoticeCode.LABELS_ABSENT: (
        "no labels named {array}: features alone were tested. If they have another name: label=... (--label NAME)."
    ),
    results.NoticeCode.LABELS_ARE_BITS: "labels {array} are 0/1; 0 is read as -1.",
    results.NoticeCode.LABELS_READ: ("labels {array} are {low} and {high}; {low} is read as -1, {high} as +1."),
    results.NoticeCode.FEATURES_CONVERTED: ("features {array} are {stored}; they are computed with as {used}."),
    results.NoticeCode.ROWS_DROPPED: "{dropped} of {stored} have gaps and were left out.",
    results.NoticeCode.GAPS_FILLED: "{gaps} in {features} filled with the median, an indicator beside it.",
    results.NoticeCode.SLOW_TABLE: (
        "every pass parses {size} of CSV. Parquet is faster, and a Zarr store (streamhalf convert) fastest."
    ),
    results.NoticeCode.ONE_CLASS: (
        "every label is {label}, so no classifier was learned. Did you choose the right column of labels?"
    ),
    results.NoticeCode.NEARLY_ONE_CLASS: (
        "only {share} of the rows have label {label}: always guessing {other} is wrong on no more than these."
    ),
    results.NoticeCode.NO_BETTER_THAN_GUESS: (
        "it is not shown to be better than always guessing {label}, which is wrong on {error}. "
        "Look for features that separate the labels, or gather more rows."
    ),
    results.NoticeCode.NO_ROOM: (
        "no certificate: it takes {size} for so many features, and certificate_memory is {room}. Raise it for one."
    ),
    results.NoticeCode.FEWER_AT_ONCE: (
        "memory has room for {tasks} of the largest kind at once ({size} each, {room} in all), "
        "fewer than the {threads} of a process. The answer is the same."
    ),
    results.NoticeCode.REPEATED_ROWS: (
        "about {share} of the rows have an equal row, label included. If these are copies, the bound for "
        "fresh rows is too low."
    ),
    results.NoticeCode.ERRORS_DISAGREE: (
        "the errors disagree: {held_out} on held-out rows, {upper} at most, but {all_rows} on all "
        "rows. Do not rely on bounds for new rows."
    ),
    results.NoticeCode.ROWS_IN_ORDER: (
        "the rows look sorted: the mean of {name} changes along the file far more than chance allows. "
        "The bound is for new rows with the same mix as this file, not for its next part."
    ),
    results.NoticeCode.RADII_DRAWN: (
        "the radial transform draws lengths and signs of rows anew. The tests say nothing about "
        "lengths or about moments of odd degree."
    ),
    results.NoticeCode.RUNS_ON: "runs on {place}, {why}; scheduler='threads' keeps it on this machine.",
}
_KEPT = {
    results.RowsKept.MEMORY: "computed once and kept in memory",
    results.RowsKept.CLUSTER: "computed once and kept by the cluster",
    results.RowsKept.FOLDER: "computed once and kept in {place} until the run ends",
    results.RowsKept.NOWHERE: (
        "computed again in every pass, for want of room. On this machine a larger memory_limit, or "
        "a folder given as cache, makes some"
    ),
}


def notice_words(notice: results.Notice, names: Names = _NAMELESS) -> str:
    """Return a notice as words that go on a line of their own, and end with a full stop."""
    fields = notice.fields
    match notice.code:
        case results.NoticeCode.EPS_NOT_REACHED:
            return _eps_not_reached(**fields)
        case results.NoticeCode.ERRORS_CLUSTER:
            return _errors_cluster(notice["segments"])
        case results.NoticeCode.LAZY_ROWS:
            where = _KEPT[results.RowsKept(notice["kept"])].format(place=fields["place"])
            return f"rows are lazy Dask arrays of {nbytes(notice['size'])}: {where}."
        case results.NoticeCode.TABLE_ENCODED:
            return _table_encoded(**fields)
        case results.NoticeCode.RESUMED if not fields["passes"]:
            return f"checkpoint: nothing to resume in {fields['place']}; starting anew."
        case results.NoticeCode.RESUMED:
            passes = plural(notice["passes"], "finished pass", "es")
            return f"checkpoint: {fields['place']} holds {passes}."
    return _PHRASES[notice.code].format_map(_written(notice, names)) + _ties(notice, names)


def notice_sentence(notice: results.Notice, names: Names = _NAMELESS) -> str:
    """Return a notice that begins with a capital."""
    words = notice_words(notice, names)
    return f"{words[:1].upper()}{words[1:]}"


def notice_of(result: Any, *codes: results.NoticeCode) -> results.Notice | None:
    """Return the first notice of a result with one of these codes, in their order."""
    found = (one for code in codes for one in result.notices if one.code is code)
    return next(found, None)


def other_notices(notices: Iterable[results.Notice], names: Names) -> tuple[str, ...]:
    """Return the sentences of notices that neither promise nor advice says."""
    return tuple(notice_sentence(one, names) for one in notices if one.code not in _SAID)


def _written(notice: results.Notice, names: Names) -> dict[str, str]:
    """Return the fields of a notice in words."""
    fields: dict[str, Any] = dict(notice.fields)
    found = {name: str(value) for name, value in fields.items()}
    for name in ("share", "error", "held_out", "upper", "all_rows"):
        if name in fields:
            found[name] = percent(fields[name])
    for name in ("size", "room"):
        if name in fields:
            found[name] = nbytes(fields[name])
    for name in ("times", "factor"):
        if name in fields:
            found[name] = number(fields[name])
    if "label" in fields:
        found |= {"label": names.label(fields["label"]), "other": names.label(-fields["label"])}
    if "quantity" in fields:
        found["name"] = names.quantity(results.SegmentQuantity(fields["quantity"]), fields["feature"])
    for name, noun in (("gaps", "gap"), ("features", "feature"), ("stored", "row")):
        if isinstance(fields.get(name), int):  # of converted features `stored` is a dtype
            found[name] = plural(fields[name], noun)
    if "at_once" in fields:
        found["tasks"] = plural(fields["at_once"], "task")
        found["threads"] = plural(fields["threads"], "thread")
    return found


def _ties(notice: results.Notice, names: Names) -> str:
    share = notice.fields.get("at_centre")
    if not isinstance(share, float) or share <= 0:
        return ""
    every = f"every halfspace through it says {names.label(1)}"
    return f" {share:.1%} of the rows lie at the centre itself, where {every}."


def _table_encoded(columns: Any, features: Any, dropped: Any, gaps: Any) -> str:
    said = f"{plural(columns, 'column')} became {plural(features, 'feature')}"
    said += f", {plural(gaps, 'gap')} filled" if gaps else ""
    return said + (f"; left out: {dropped}." if dropped else ".")


def _eps_not_reached(asked: Any, reached: Any, noise: Any) -> str:
    said = f"the eps that was asked for, {number(asked)}, was not reached"
    if reached is None:
        return f"{said}: no scale could be tested."
    why = " Label noise is larger than that scale; more rows would not help." if noise else ""
    return f"{said} ({number(reached)} was).{why}"


def _errors_cluster(segments: int) -> str:
    follows = f"is wide: it counts {segments} parts instead of rows" if segments > 1 else "is missing"
    return (
        f"errors bunch together in parts of the file, so the bound for fresh rows {follows}. "
        "Shuffle the rows if their order means nothing."
    )
