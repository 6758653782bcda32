"""Notices in words: one phrase for each code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from streamhalf import results
from streamhalf.redact import plural
from streamhalf.report.codes import nbytes, number, percent, quantity_name
from streamhalf.report.features import label_name
from streamhalf.results import NoticeCode, RowsKept, SegmentQuantity

_LABELS = (NoticeCode.NEARLY_ONE_CLASS, NoticeCode.NO_BETTER_THAN_GUESS)
_ROWS = (
    NoticeCode.ROWS_IN_ORDER,
    NoticeCode.ERRORS_CLUSTER,
    NoticeCode.REPEATED_ROWS,
    NoticeCode.RADII_DRAWN,
)
_IN_VERDICT = (
    *(NoticeCode.NO_ROOM, NoticeCode.ONE_CLASS, *_LABELS),
    *(NoticeCode.ERRORS_DISAGREE, NoticeCode.EPS_NOT_REACHED),
)
"""Notices that the sentences about the verdict say."""


def notice_words(notice: results.Notice) -> str:
    """Return the phrase of a notice, to go on a line of its own."""
    return _WORDS[notice.code](**notice.fields)


def notice_sentence(notice: results.Notice) -> str:
    """Return a notice as a sentence."""
    words = notice_words(notice)
    return f"{words[:1].upper()}{words[1:]}."


def notice_of(result: Any, code: str) -> results.Notice | None:
    """Return the notice of a result with this code, if it has one."""
    return next((one for one in result.notices if one.code == code), None)


def label_notices(result: results.FitResult) -> list[results.Notice]:
    """Return what comes before all else: labels are alike, or nearly, or a guess does as well."""
    alike = notice_of(result, NoticeCode.ONE_CLASS)
    return [alike] if alike else [one for one in result.notices if one.code in _LABELS]


def row_notices(result: results.FitResult | results.CertifyResult) -> list[results.Notice]:
    """Return notices about the rows, which go with every verdict."""
    return [one for one in result.notices if one.code in _ROWS]


def other_notices(notices: Sequence[results.Notice]) -> tuple[str, ...]:
    """Return the phrases of notices that no sentence about the verdict says."""
    return tuple(notice_words(one) for one in notices if one.code not in _IN_VERDICT)


def _nearly_one_class(label: int, share: float) -> str:
    return (
        f"only {percent(share)} of the rows have label {label_name(label)}: always guessing "
        f"{label_name(-label)} is wrong on no more than these"
    )


def _eps_not_reached(asked: float, reached: float | None, noise: bool) -> str:
    said = f"the eps that was asked for, {number(asked)}, was not reached"
    if reached is None:
        return f"{said}: no scale could be tested"
    why = ": label noise is larger than that scale, and more rows would not help"
    return f"{said} ({number(reached)} was){why if noise else ''}"


def _errors_cluster(segments: int, factor: float) -> str:
    follows = (
        "it is bounded for the rows of these data and not for new ones (shuffle sorted rows)"
        if segments == 1
        else f"the upper bound is computed from the means of {segments} segments"
    )
    return (
        "errors come in clusters: their share varies between segments of rows "
        f"{number(factor)} times as much as chance would have it, so {follows}"
    )


def _rows_in_order(quantity: str, feature: int | None, factor: float) -> str:
    name = quantity_name(SegmentQuantity(quantity), feature)
    return (
        f"rows come in an order: the mean of {name} differs between segments of rows "
        f"({number(factor)} times the variance that chance would give it); bounds speak of the "
        "rows of this store, and of rows to come only if those are like all of these together"
    )


def _radii_drawn(at_centre: float) -> str:
    ties = (
        f"; {at_centre:.1%} of the rows lie at the centre itself, where every halfspace through "
        f"it says {label_name(1)}"
    )
    return (
        "rows were tested with the radial transform, which draws lengths and signs anew: the tests "
        "say nothing about the lengths of rows or about moments of odd degree"
        f"{ties if at_centre > 0 else ''}"
    )


def _lazy_rows(size: int, kept: str, place: str) -> str:
    where = {
        RowsKept.MEMORY: "computed once and kept in memory",
        RowsKept.CLUSTER: "computed once and kept by the cluster",
        RowsKept.FOLDER: f"computed once and kept in {place} until the run ends",
        RowsKept.NOWHERE: "computed again in every pass, for want of room (on this machine a "
        "larger memory_limit, or a folder given as cache, makes some)",
    }[RowsKept(kept)]
    return f"rows are lazy Dask arrays of {nbytes(size)}: {where}"


def _resumed(place: str, passes: int) -> str:
    if passes == 0:
        return f"checkpoint: nothing to resume in {place}; starting anew"
    return f"checkpoint: {place} holds {plural(passes, 'finished pass', 'es')}"


_WORDS: dict[NoticeCode, Callable[..., str]] = {
    NoticeCode.LABELS_ABSENT: lambda array: (
        f"no labels named {array}: features alone were looked at; if they have another name: "
        "label=... (--label NAME)"
    ),
    NoticeCode.LABELS_ARE_BITS: lambda array: f"{array}: labels are 0/1; 0 is read as -1",
    NoticeCode.LABELS_READ: lambda array, low, high: (
        f"{array}: labels are {low} and {high}; {low} is read as -1, {high} as +1"
    ),
    NoticeCode.FEATURES_CONVERTED: lambda array, stored, used: (
        f"{array}: features are {stored}; they are computed with as {used}"
    ),
    NoticeCode.ONE_CLASS: lambda label: (
        f"all labels are {label_name(label)}, so there is nothing to learn; check the labels"
    ),
    NoticeCode.NEARLY_ONE_CLASS: _nearly_one_class,
    NoticeCode.NO_BETTER_THAN_GUESS: lambda label, error: (
        f"the halfspace is no better than always guessing {label_name(label)}, which is wrong on "
        f"{percent(error)}, as far as these rows tell"
    ),
    NoticeCode.NO_ROOM: lambda size, room: (
        f"no certificate: of so many features it takes {nbytes(size)} at least, and "
        f"certificate_memory is {nbytes(room)}; raise it for one"
    ),
    NoticeCode.FEWER_AT_ONCE: lambda at_once, threads, size, room: (
        f"memory has room for {plural(at_once, 'task')} of the largest kind at once in a process "
        f"of {plural(threads, 'thread')} (up to {nbytes(size)} each, {nbytes(room)} in all): "
        "others wait, and the answer is the same"
    ),
    NoticeCode.EPS_NOT_REACHED: _eps_not_reached,
    NoticeCode.REPEATED_ROWS: lambda share, times: (
        f"about {percent(share)} of the rows are met more than once (a row {number(times)} times "
        "on average): bounds for rows to come count every row as independent, so they are too "
        "narrow; those on these rows hold"
    ),
    NoticeCode.ERRORS_DISAGREE: lambda held_out, upper, all_rows: (
        f"the errors disagree: held-out rows say {percent(held_out)}, {percent(upper)} at most, "
        f"but on all rows it is {percent(all_rows)}; do not rely on what is said of rows to come"
    ),
    NoticeCode.ERRORS_CLUSTER: _errors_cluster,
    NoticeCode.ROWS_IN_ORDER: _rows_in_order,
    NoticeCode.RADII_DRAWN: _radii_drawn,
    NoticeCode.RESUMED: _resumed,
    NoticeCode.RUNS_ON: lambda place, why: (
        f"runs on {place}, {why}; scheduler='threads' keeps it on this machine"
    ),
    NoticeCode.LAZY_ROWS: _lazy_rows,
}
