"""Numbers, names, codes and notices in words: one format for each quantity, one phrase for each code."""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamhalf import results
from streamhalf.redact import plural
from streamhalf.results import HalfspaceClass, NoticeCode

ABSENT = "–"  # Stands where a document has no number
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
    return f"{math.degrees(angle):.2f}°" if math.isfinite(angle) else ABSENT


def count(value: int | None) -> str:
    return ABSENT if value is None else f"{value:,}"


def about(value: int) -> str:
    """Return a number of rows to two significant digits, rounded up."""
    step = 10 ** max(0, len(str(value)) - 2)
    return f"{-(-value // step) * step:,}"


def factor(value: float) -> str:
    """Return a ratio with two decimals, rounded up."""
    return _rounded_up(value, 100)


def constant(value: float | None) -> str:
    """Return a constant with one decimal, rounded up."""
    return _rounded_up(value, 10)


def _rounded_up(value: float | None, parts: int) -> str:
    up = math.nan if value is None else parts * value - 1e-9
    return f"{math.ceil(up) / parts:g}" if math.isfinite(up) else ABSENT


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
    rate = human_count(rows / max(seconds, 1e-9))
    return f"pass {name}: {plural(rows, 'row')} in {seconds:.2f} s ({rate} rows/s)"


def listed(names: Sequence[str]) -> str:
    """Return a few names: x1, x2 and x3, or x1, x2, x3 and 5 more."""
    kept = list(names)
    if len(kept) > _MOST_NAMED:
        kept[_MOST_NAMED - 1 :] = [f"{len(kept) - _MOST_NAMED + 1} more"]
    return " and ".join(filter(None, (", ".join(kept[:-1]), *kept[-1:])))


def sentence(words: str) -> str:
    """Return words with a capital and a full stop."""
    return capital(words) + ("" if words.endswith((".", "!", "?")) else ".")


def capital(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}"


def clause(words: str) -> str:
    """Return a sentence without its capital."""
    return f"{words[:1].lower()}{words[1:]}"


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
        known = j < len(self.features) and self.features[j]
        return quoted(self.features[j]) if known else numbered(j)

    def label(self, label: int) -> str:
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
        order = sorted(range(len(direction)), key=lambda j: -abs(direction[j]))
        large = [j for j in order if abs(direction[j]) > 0.05]
        text = " ".join(f"{direction[j]:+.2f}·{self.feature(j)}" for j in large[:most])
        return text + (" ..." if len(large) > most else "")

    def quantity(self, quantity: str, feature: int | None) -> str:
        if feature is None:
            return str(quantity)
        name = self.feature(feature)
        return name if quantity == results.SegmentQuantity.FEATURE else f"y·{name}"

    def evidence(self, evidence: results.Evidence) -> str:
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
                return f"mean of {self.quantity(quantity, feature)} in segment {segment + 1}{of_all}"
            case results.Named(name):
                return name

    def halfspaces(self, through: HalfspaceClass, certificate: results.CertificateRecord | None = None) -> str:
        """Return the class of halfspaces that a number speaks of, to follow "halfspace"."""
        if through is not HalfspaceClass.CENTRE:
            return "with any threshold" if through is HalfspaceClass.ANY else "through the origin"
        run = self.transform
        own = certificate.transform if certificate is not None and certificate.transform is not None else run
        if own is None:
            return "through the centre"
        # where all halfspaces are certified, a radial run's certificate has an affine transform
        shown = run if run is not None and run.centre == own.centre else own
        radial = shown.kind == results.Transform.RADIAL
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

# Tested distribution of the features, by transform
DISTRIBUTIONS = {"isotropic": "Gaussian", "radial": "elliptical", "stored": "standard Gaussian"}
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
    name = str(method)
    where = " in radial transform" if name.startswith("radial, ") else ""
    parts = name.removeprefix("radial, ").split(", then ")
    return ", then ".join(_METHODS[one] for one in parts).replace(" of a sample", "") + where


_STOPS = {
    results.StopReason.REACHED_EPS: "it reached the finest scale that was asked for",
    results.StopReason.NOISE_DOMINATES: "noise dominates",
    results.StopReason.NO_PROGRESS: "there was no further progress",
    results.StopReason.MOST_UPDATES: "it made the largest number of updates",
    results.StopReason.ROWS_USED_UP: "rows for updates are used up",
    results.StopReason.TESTER_REJECTED: "a tester rejected",
    results.StopReason.TOO_FEW_ROWS: "there are too few rows for localised updates",
}


def stop_words(stop: results.Stop) -> str:
    return _STOPS[stop.reason] + ("" if stop.delta is None else f" at delta {number(stop.delta)}")


def tightening_words(advice: results.Advice) -> str:
    """Return what would tighten a lower bound; empty where nothing is known to."""
    match advice.code:
        case results.AdviceCode.MORE_ROWS if advice.rows:
            return f"about {about(advice.rows)} rows would tighten the bound of the best possible"
        case results.AdviceCode.HIGHER_DEGREE:
            return f"`--certificate-degree {advice.degree}` may tighten the bound of the best possible"
    return ""


# notices

_NAMELESS = Names()
# Notices that promise and advice say
_SAID = (
    *(NoticeCode.NO_ROOM, NoticeCode.ONE_CLASS, NoticeCode.NEARLY_ONE_CLASS),
    *(NoticeCode.NO_BETTER_THAN_GUESS, NoticeCode.ERRORS_DISAGREE, NoticeCode.EPS_NOT_REACHED),
)
_PHRASES = {
    NoticeCode.LABELS_ABSENT: (
        "no labels named {array}: features alone were tested. If they have another name: label=... (--label NAME)."
    ),
    NoticeCode.LABELS_ARE_BITS: "labels {array} are 0/1; 0 is read as -1.",
    NoticeCode.LABELS_READ: "labels {array} are {low} and {high}; {low} is read as -1, {high} as +1.",
    NoticeCode.FEATURES_CONVERTED: "features {array} are {stored}; they are computed with as {used}.",
    NoticeCode.ROWS_DROPPED: "{dropped} of {stored:row} have gaps and were left out.",
    NoticeCode.GAPS_FILLED: "{gaps:gap} in {features:feature} filled with the median, an indicator beside it.",
    NoticeCode.SLOW_TABLE: (
        "every pass parses {size:nbytes} of CSV. Parquet is faster, and a Zarr store (streamhalf convert) fastest."
    ),
    NoticeCode.ONE_CLASS: (
        "every label is {label:label}, so no classifier was learned. Did you choose the right column of labels?"
    ),
    NoticeCode.NEARLY_ONE_CLASS: (
        "only {share:percent} of the rows have label {label:label}: always guessing {label:other} is wrong on no more "
        "than these."
    ),
    NoticeCode.NO_BETTER_THAN_GUESS: (
        "it is not shown to be better than always guessing {label:label}, which is wrong on {error:percent}. "
        "Look for features that separate the labels, or gather more rows."
    ),
    NoticeCode.NO_ROOM: (
        "no certificate: it takes {size:nbytes} for so many features, and certificate_memory is {room:nbytes}. "
        "Raise it for one."
    ),
    NoticeCode.FEWER_AT_ONCE: (
        "memory has room for {at_once:task} of the largest kind at once ({size:nbytes} each, {room:nbytes} in all), "
        "fewer than the {threads:thread} of a process. The answer is the same."
    ),
    NoticeCode.REPEATED_ROWS: (
        "about {share:percent} of the rows have an equal row, label included. If these are copies, the bound for "
        "fresh rows is too low."
    ),
    NoticeCode.ERRORS_DISAGREE: (
        "the errors disagree: {held_out:percent} on held-out rows, {upper:percent} at most, but {all_rows:percent} on "
        "all rows. Do not rely on bounds for new rows."
    ),
    NoticeCode.ROWS_IN_ORDER: (
        "the rows look sorted: the mean of {name} changes along the file far more than chance allows. "
        "The bound is for new rows with the same mix as this file, not for its next part."
    ),
    NoticeCode.RADII_DRAWN: (
        "the radial transform draws lengths and signs of rows anew. The tests say nothing about "
        "lengths or about moments of odd degree."
    ),
    NoticeCode.RESUMED: "checkpoint: {place} holds {passes:finished pass/es}.",
    NoticeCode.RUNS_ON: "runs on {place}, {why}; scheduler='threads' keeps it on this machine.",
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
    fields: dict[str, Any] = {**notice.fields, "positive": 1}
    if "quantity" in fields:
        fields["name"] = names.quantity(fields["quantity"], fields["feature"])
    return _Phrase(names).vformat(_phrase(notice.code, fields), (), fields)


def notice_sentence(notice: results.Notice, names: Names = _NAMELESS) -> str:
    return capital(notice_words(notice, names))


def other_notices(notices: Iterable[results.Notice], names: Names) -> tuple[str, ...]:
    """Return the sentences of notices that neither promise nor advice says."""
    return tuple(notice_sentence(one, names) for one in notices if one.code not in _SAID)


_FORMATS: dict[str, Callable[[Any], str]] = {"": str, "number": number, "percent": percent, "nbytes": nbytes}


class _Phrase(string.Formatter):
    """Formats fields by the name of their quantity, as a label or the other one, or as a count with a noun."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def format_field(self, value: Any, spec: str) -> str:
        if spec in ("label", "other"):
            return self.names.label(value if spec == "label" else -value)
        return _FORMATS[spec](value) if spec in _FORMATS else plural(value, *spec.split("/"))


def _phrase(code: NoticeCode, fields: Mapping[str, Any]) -> str:
    match code:
        case NoticeCode.TABLE_ENCODED:
            filled = ", {gaps:gap} filled" if fields["gaps"] else ""
            left_out = "; left out: {dropped}" if fields["dropped"] else ""
            return f"{{columns:column}} became {{features:feature}}{filled}{left_out}."
        case NoticeCode.EPS_NOT_REACHED:
            said = "the eps that was asked for, {asked:number}, was not reached"
            if fields["reached"] is None:
                return f"{said}: no scale could be tested."
            why = " Label noise is larger than that scale; more rows would not help." if fields["noise"] else ""
            return f"{said} ({{reached:number}} was).{why}"
        case NoticeCode.ERRORS_CLUSTER:
            wide = "is wide: it counts {segments} parts instead of rows"
            return (
                "errors bunch together in parts of the file, so the bound for fresh rows "
                f"{wide if fields['segments'] > 1 else 'is missing'}. Shuffle the rows if their order means nothing."
            )
        case NoticeCode.LAZY_ROWS:
            return f"rows are lazy Dask arrays of {{size:nbytes}}: {_KEPT[fields['kept']]}."
        case NoticeCode.RESUMED if not fields["passes"]:
            return "checkpoint: nothing to resume in {place}; starting anew."
        case NoticeCode.RADII_DRAWN if fields["at_centre"] > 0:
            ties = " {at_centre:percent} of the rows lie at the centre itself, where every halfspace through it says "
            return f"{_PHRASES[code]}{ties}{{positive:label}}."
    return _PHRASES[code]
