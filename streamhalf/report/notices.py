"""Notices in words: a sentence or two for each code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from streamhalf.redact import plural
from streamhalf.report.words import Names, nbytes, number, percent
from streamhalf.results import Notice, NoticeCode, RowsKept, SegmentQuantity

_NAMELESS = Names()
_SAID = (
    *(NoticeCode.NO_ROOM, NoticeCode.ONE_CLASS, NoticeCode.NEARLY_ONE_CLASS),
    *(NoticeCode.NO_BETTER_THAN_GUESS, NoticeCode.ERRORS_DISAGREE, NoticeCode.EPS_NOT_REACHED),
)
"""Notices that promise and advice say."""

_PHRASES = {
    NoticeCode.LABELS_ABSENT: (
        "no labels named {array}: features alone were tested. If they have another name: label=... (--label NAME)."
    ),
    NoticeCode.LABELS_ARE_BITS: "labels {array} are 0/1; 0 is read as -1.",
    NoticeCode.LABELS_READ: ("labels {array} are {low} and {high}; {low} is read as -1, {high} as +1."),
    NoticeCode.FEATURES_CONVERTED: ("features {array} are {stored}; they are computed with as {used}."),
    NoticeCode.ROWS_DROPPED: "{dropped} of {stored} have gaps and were left out.",
    NoticeCode.GAPS_FILLED: "{gaps} in {features} filled with the median, an indicator beside it.",
    NoticeCode.SLOW_TABLE: (
        "every pass parses {size} of CSV. Parquet is faster, and a Zarr store (streamhalf convert) fastest."
    ),
    NoticeCode.ONE_CLASS: ("all labels are {label}, so there is nothing to learn. Check the labels."),
    NoticeCode.NEARLY_ONE_CLASS: (
        "only {share} of the rows have label {label}: always guessing {other} is wrong on no more than these."
    ),
    NoticeCode.NO_BETTER_THAN_GUESS: (
        "the halfspace is no better than always guessing {label}, which is wrong on {error}. "
        "Look for features that separate the labels, or gather more rows."
    ),
    NoticeCode.NO_ROOM: (
        "no certificate: it takes {size} for so many features, and certificate_memory is {room}. Raise it for one."
    ),
    NoticeCode.FEWER_AT_ONCE: (
        "memory has room for {tasks} of the largest kind at once ({size} each, {room} in all), "
        "fewer than the {threads} of a process. The answer is the same."
    ),
    NoticeCode.REPEATED_ROWS: (
        "about {share} of the rows repeat (a row is met {times} times on average). Bounds for new "
        "rows count them as independent, so they are too narrow; those on these rows hold."
    ),
    NoticeCode.ERRORS_DISAGREE: (
        "the errors disagree: {held_out} on held-out rows, {upper} at most, but {all_rows} on all "
        "rows. Do not rely on bounds for new rows."
    ),
    NoticeCode.ROWS_IN_ORDER: (
        "rows come in an order: the mean of {name} differs between segments of rows ({factor} "
        "times the variance of chance). Bounds hold for new rows if those are like all of these."
    ),
    NoticeCode.RADII_DRAWN: (
        "the radial transform draws lengths and signs of rows anew. The tests say nothing about "
        "lengths or about moments of odd degree."
    ),
    NoticeCode.RUNS_ON: "runs on {place}, {why}; scheduler='threads' keeps it on this machine.",
}
_KEPT = {
    RowsKept.MEMORY: "computed once and kept in memory",
    RowsKept.CLUSTER: "computed once and kept by the cluster",
    RowsKept.FOLDER: "computed once and kept in {place} until the run ends",
    RowsKept.NOWHERE: (
        "computed again in every pass, for want of room. On this machine a larger memory_limit, or "
        "a folder given as cache, makes some"
    ),
}


def notice_words(notice: Notice, names: Names = _NAMELESS) -> str:
    """Return a notice as words that go on a line of their own, and end with a full stop."""
    fields = notice.fields
    match notice.code:
        case NoticeCode.EPS_NOT_REACHED:
            return _eps_not_reached(**fields)
        case NoticeCode.ERRORS_CLUSTER:
            return _errors_cluster(**fields)
        case NoticeCode.LAZY_ROWS:
            where = _KEPT[RowsKept(notice["kept"])].format(place=fields["place"])
            return f"rows are lazy Dask arrays of {nbytes(notice['size'])}: {where}."
        case NoticeCode.TABLE_ENCODED:
            return _table_encoded(**fields)
        case NoticeCode.RESUMED if not fields["passes"]:
            return f"checkpoint: nothing to resume in {fields['place']}; starting anew."
        case NoticeCode.RESUMED:
            passes = plural(notice["passes"], "finished pass", "es")
            return f"checkpoint: {fields['place']} holds {passes}."
    return _PHRASES[notice.code].format_map(_written(notice, names)) + _ties(notice, names)


def notice_sentence(notice: Notice, names: Names = _NAMELESS) -> str:
    """Return a notice that begins with a capital."""
    words = notice_words(notice, names)
    return f"{words[:1].upper()}{words[1:]}"


def notice_of(result: Any, *codes: NoticeCode) -> Notice | None:
    """Return the first notice of a result with one of these codes, in their order."""
    found = (one for code in codes for one in result.notices if one.code is code)
    return next(found, None)


def other_notices(notices: Iterable[Notice], names: Names) -> tuple[str, ...]:
    """Return the sentences of notices that neither promise nor advice says."""
    return tuple(notice_sentence(one, names) for one in notices if one.code not in _SAID)


def _written(notice: Notice, names: Names) -> dict[str, str]:
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
        found["name"] = names.quantity(SegmentQuantity(fields["quantity"]), fields["feature"])
    for name, noun in (("gaps", "gap"), ("features", "feature"), ("stored", "row")):
        if isinstance(fields.get(name), int):  # of converted features `stored` is a dtype
            found[name] = plural(fields[name], noun)
    if "at_once" in fields:
        found["tasks"] = plural(fields["at_once"], "task")
        found["threads"] = plural(fields["threads"], "thread")
    return found


def _ties(notice: Notice, names: Names) -> str:
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


def _errors_cluster(segments: Any, factor: Any) -> str:
    follows = f"The upper bound is computed from the means of {segments} segments."
    if segments == 1:
        follows = "They are bounded for these rows and not for new ones; shuffle sorted rows."
    return (
        f"errors come in clusters: their share varies {number(factor)} times as much between "
        f"segments of rows as by chance. {follows}"
    )
