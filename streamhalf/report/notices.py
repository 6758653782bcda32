"""What a run noticed, in words: one phrase for each kind of notice."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from streamhalf import results
from streamhalf.redact import plural
from streamhalf.report.words import Names, nbytes, number, percent, sentence

NAMELESS = Names()
_SAID = (
    *("no-room", "one-class", "nearly-one-class", "no-better-than-guess", "errors-disagree"),
    *("eps-not-reached", "rows-in-order", "repeated-rows"),
)
"""Notices that promise and advice say."""


def notice_words(notice: results.Notice, names: Names = NAMELESS) -> str:
    """Return what a notice says, to go on a line of its own."""
    for write in (_of_data, _of_labels, _of_errors, _of_rows, _of_run):
        if (said := write(notice, names)) is not None:
            return said
    raise TypeError(f"{type(notice).__name__} has no words")


def _of_data(notice: results.Notice, names: Names) -> str | None:
    """Of what was read, and how."""
    match notice:
        case results.LabelsAbsent(array):
            return (
                f"no labels named {array}: features alone were looked at; if they have another "
                "name: label=... (--label NAME)"
            )
        case results.LabelsAreBits(array):
            return f"{array}: labels are 0/1; 0 is read as -1"
        case results.LabelsRead(array, low, high):
            return f"{array}: labels are {low} and {high}; {low} is read as -1, {high} as +1"
        case results.FeaturesConverted(array, stored, used):
            return f"{array}: features are {stored}; they are computed with as {used}"
        case results.Remark(text):
            return text
    return None


def _of_labels(notice: results.Notice, names: Names) -> str | None:
    """Of labels that are alike, and guesses."""
    match notice:
        case results.OneClass(label):
            said = f"all labels are {names.label(label)}"
            return f"{said}, so there is nothing to learn; check the labels"
        case results.NearlyOneClass(label, share):
            return (
                f"only {percent(share)} of the rows have label {names.label(label)}: always "
                f"guessing {names.label(-label)} is wrong on no more than these"
            )
        case results.NoBetterThanGuess(label, error):
            return (
                f"the halfspace is no better than always guessing {names.label(label)}, which is "
                f"wrong on {percent(error)}, as far as these rows tell"
            )
    return None


def _of_errors(notice: results.Notice, names: Names) -> str | None:
    """Of what was measured, asked for and not reached."""
    match notice:
        case results.NoRoom(needed, room):
            return (
                f"no certificate: of so many features it takes {nbytes(needed)} at least, and "
                f"certificate_memory is {nbytes(room)}; raise it for one"
            )
        case results.ErrorsDisagree(held_out, upper, all_rows):
            return (
                f"the errors disagree: held-out rows say {percent(held_out)}, {percent(upper)} at "
                f"most, but on all rows it is {percent(all_rows)}; do not rely on what is said of "
                "rows to come"
            )
        case results.EpsNotReached(asked, reached, noise):
            said = f"the eps that was asked for, {number(asked)}, was not reached"
            if reached is None:
                return f"{said}: no scale could be tested"
            why = ": label noise is larger than that scale, and more rows would not help"
            return f"{said} ({number(reached)} was){why if noise else ''}"
    return None


def _of_rows(notice: results.Notice, names: Names) -> str | None:
    """Of rows that repeat, cluster, come in an order or were drawn."""
    match notice:
        case results.RepeatedRows(share, times):
            return (
                f"about {percent(share)} of the rows are met more than once (a row {number(times)} "
                "times on average): bounds for rows to come count every row as independent, so "
                "they are too narrow; those on these rows hold"
            )
        case results.ErrorsCluster(segments, factor):
            follows = (
                "it is bounded for the rows of these data and not for new ones (shuffle rows that "
                "somebody sorted)"
                if segments == 1
                else f"the upper bound is computed from the means of {segments} segments"
            )
            return (
                "errors come in clusters: their share varies between segments of rows "
                f"{number(factor)} times as much as chance would have it, so {follows}"
            )
        case results.RowsInOrder(quantity, feature, factor):
            return (
                f"rows come in an order: the mean of {names.quantity(quantity, feature)} differs "
                f"between segments of rows ({number(factor)} times the variance that chance would "
                "give it); bounds speak of the rows of this store, and of rows to come only if "
                "those are like all of these together"
            )
        case results.RadiiDrawn(at_centre):
            ties = (
                f"; {at_centre:.1%} of the rows lie at the centre itself, where every halfspace "
                f"through it says {names.label(1)}"
            )
            return (
                "rows were tested with lengths and signs drawn anew: the tests "
                "say nothing about the lengths of rows or about moments of odd degree"
                f"{ties if at_centre > 0 else ''}"
            )
    return None


def _of_run(notice: results.Notice, names: Names) -> str | None:
    """Of where a run runs, and from where it goes on."""
    match notice:
        case results.RunsOn(place, why):
            return f"runs on {place}, {why}; scheduler='threads' keeps it on this machine"
        case results.FewerAtOnce(at_once, threads, size, room):
            return (
                f"memory has room for {plural(at_once, 'task')} of the largest kind at once in a "
                f"process of {plural(threads, 'thread')} (up to {nbytes(size)} each, "
                f"{nbytes(room)} in all): others wait, and the answer is the same"
            )
        case results.LazyRows(size, kept, place):
            where = {
                results.RowsKept.MEMORY: "computed once and kept in memory",
                results.RowsKept.CLUSTER: "computed once and kept by the cluster",
                results.RowsKept.FOLDER: f"computed once and kept in {place} until the run ends",
                results.RowsKept.NOWHERE: "computed again in every pass, for want of room (on this "
                "machine a larger memory_limit, or a folder given as cache, makes some)",
            }[kept]
            return f"rows are lazy Dask arrays of {nbytes(size)}: {where}"
        case results.Resumed(place, 0):
            return f"checkpoint: nothing to resume in {place}; starting anew"
        case results.Resumed(place, passes):
            return f"checkpoint: {place} holds {plural(passes, 'finished pass', 'es')}"
    return None


def notice_of(result: Any, code: str) -> results.Notice | None:
    """Return the notice of a result with this code, if it has one."""
    return next((one for one in result.notices if _code(one) == code), None)


def other_notices(notices: Iterable[results.Notice], names: Names) -> tuple[str, ...]:
    """Return sentences of the notices that neither promise nor advice says."""
    return tuple(sentence(notice_words(one, names)) for one in notices if _code(one) not in _SAID)


def _code(notice: results.Notice) -> str:
    return re.sub("(?<=[a-z])(?=[A-Z])", "-", type(notice).__name__).lower()
