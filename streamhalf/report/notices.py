"""What a run noticed, in words: one phrase for each kind of notice."""

from __future__ import annotations

from collections.abc import Sequence

from streamhalf import results
from streamhalf.redact import plural
from streamhalf.report.codes import nbytes, number, percent, quantity_name
from streamhalf.report.features import label_name


def notice_words(notice: results.Notice) -> str:
    """What a notice says, to go on a line of its own."""
    for write in (_of_data, _of_labels, _of_errors, _of_rows, _of_run):
        if (said := write(notice)) is not None:
            return said
    raise TypeError(f"{type(notice).__name__} has no words")


def _of_data(notice: results.Notice) -> str | None:
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


def _of_labels(notice: results.Notice) -> str | None:
    """Of labels that are alike, and guesses."""
    match notice:
        case results.OneClass(label):
            said = f"all labels are {label_name(label)}"
            return f"{said}, so there is nothing to learn; check the labels"
        case results.NearlyOneClass(label, share):
            return (
                f"only {percent(share)} of the rows have label {label_name(label)}: always "
                f"guessing {label_name(-label)} is wrong on no more than these"
            )
        case results.NoBetterThanGuess(label, error):
            return (
                f"the halfspace is no better than always guessing {label_name(label)}, which is "
                f"wrong on {percent(error)}, as far as these rows tell"
            )
    return None


def _of_errors(notice: results.Notice) -> str | None:
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


def _of_rows(notice: results.Notice) -> str | None:
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
                f"rows come in an order: the mean of {quantity_name(quantity, feature)} differs "
                f"between segments of rows ({number(factor)} times the variance that chance would "
                "give it); bounds speak of the rows of this store, and of rows to come only if "
                "those are like all of these together"
            )
        case results.RadiiDrawn(at_centre):
            ties = (
                f"; {at_centre:.1%} of the rows lie at the centre itself, where every halfspace "
                f"through it says {label_name(1)}"
            )
            return (
                "rows were tested in radial transform, with lengths and signs drawn anew: the tests "
                "say nothing about the lengths of rows or about moments of odd degree"
                f"{ties if at_centre > 0 else ''}"
            )
    return None


def _of_run(notice: results.Notice) -> str | None:
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


def notice_sentence(notice: results.Notice) -> str:
    """A notice as a sentence."""
    words = notice_words(notice)
    return f"{words[:1].upper()}{words[1:]}."


def label_notices(result: results.FitResult) -> list[results.Notice]:
    """What comes before all else: labels are alike, or nearly, or a guess does as well."""
    alike = notice_of(result, "OneClass")
    kinds = results.NearlyOneClass | results.NoBetterThanGuess
    return [alike] if alike else [one for one in result.notices if isinstance(one, kinds)]


def notice_of(result: results.FitResult, kind: str) -> results.Notice | None:
    """The notice of a class of this name, if the result has one."""
    return next((one for one in result.notices if type(one).__name__ == kind), None)


def row_notices(result: results.FitResult | results.CertifyResult) -> list[results.Notice]:
    """What was noticed about the rows, which goes with every verdict."""
    kinds = results.RowsInOrder | results.ErrorsCluster | results.RepeatedRows | results.RadiiDrawn
    return [one for one in result.notices if isinstance(one, kinds)]


def other_notices(notices: Sequence[results.Notice]) -> tuple[str, ...]:
    """Notices that no sentence about the verdict says."""
    said = (
        results.NoRoom
        | results.OneClass
        | results.NearlyOneClass
        | results.NoBetterThanGuess
        | results.ErrorsDisagree
        | results.EpsNotReached
    )
    return tuple(notice_words(one) for one in notices if not isinstance(one, said))
