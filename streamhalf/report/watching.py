"""A watch in words: on a terminal, as a card, as a page of its own or a section of a report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from streamhalf.redact import plural
from streamhalf.report.figures import Figure
from streamhalf.report.html import macro
from streamhalf.report.svg import Axis, HeatMap, Plot, Rule, Steps, shorten
from streamhalf.report.tables import Cells, Table
from streamhalf.report.terminal import show_table
from streamhalf.report.words import about, count, degrees, number, percent
from streamhalf.results import IN_DEVIATIONS, Drift, DriftStatement, WatchResult

# What each kind of comparison is called, before its subject
_KINDS = {
    "means": "mean of",
    "spreads": "spread of",
    "moments": "moment of",
    "slabs": "margin",
    "acceptance": "accepted",
    "predictions": "predicted",
    "labels": "labelled",
    "errors": "error",
}
_SIGNS = {Drift.STEADY: ("✓", "bold green"), Drift.DRIFTED: ("✗", "bold red"), Drift.INCONCLUSIVE: ("?", "bold yellow")}
_MOST_LOOKS, _MOST_FEATURES = 60, 40
_HIGHEST = 1e6


def _name(one: DriftStatement) -> str:
    return f"{_KINDS[one.kind]} {one.subject}".rstrip()


def _apart(one: DriftStatement, value: float) -> str:
    if one.kind not in IN_DEVIATIONS:
        return percent(min(value, 1.0))
    return f"{value:.3f} sd" if value < _HIGHEST else "far"


def _value(one: DriftStatement, value: float) -> str:
    return number(value) if one.kind in IN_DEVIATIONS else percent(value)


_STATEMENT: Cells = {
    "compared": _name,
    "behind": lambda one: _value(one, one.behind),
    "new": lambda one: _value(one, one.new),
    "apart": lambda one: _apart(one, one.distance),
    "chance": lambda one: _apart(one, one.chance),
    "outcome": lambda one: str(one.outcome),
}


def statement_table(title: str, statements: Iterable[DriftStatement]) -> Table:
    """The comparison: both values, how far they are apart, what chance explains, and the outcome."""
    return Table.of(title, _STATEMENT, statements, words=("compared", "outcome"))


def headline(result: WatchResult) -> str:
    """The data compared, and at which look."""
    look = f", look {result.look}" if result.look > 1 else ""
    return f"{plural(result.data.rows, 'new row')} beside {count(result.rows_behind)} behind the result{look}"


def verdict(result: WatchResult) -> str:
    """The outcome in a sentence."""
    drifted = [_name(one) for one in result.statements if one.outcome is Drift.DRIFTED]
    if drifted:
        more = f" and {len(drifted) - 3} more" if len(drifted) > 3 else ""
        return f"Rows have drifted: {', '.join(drifted[:3])}{more}."
    if result.outcome is Drift.STEADY:
        return f"Rows are steady: nothing moved by more than the tolerance of {percent(result.tolerance)} of the rows."
    needed = [one.rows_needed for one in result.statements if one.outcome is Drift.INCONCLUSIVE]
    known = [one for one in needed if one is not None]
    if known and len(known) == len(needed):
        return f"Chance could hide drift, or be it: about {about(max(known))} new rows would tell."
    return "Chance could hide drift, or be it: a result of more rows, or a larger tolerance, would tell."


def details(result: WatchResult) -> list[str]:
    """Where labels went wrong, the neighbourhood, and what holds with which probability."""
    places = result.drifted_stretches
    if 2 * sum(one.n_rows for one in places) > result.data.rows:
        places = []  # all over: the error says it
    said = [
        f"Labels went wrong in rows {count(one.start)} to {count(one.stop - 1)}: error {percent(one.error)}."
        for one in places[:2]
    ]
    low, high = percent(result.beta_behind), percent(result.beta)
    said.append(
        f"Halfspaces within {degrees(2 * math.asin(result.eta / 2))} disagree with it on at most {high} of the new rows"
        f" ({low} behind the result)."
    )
    if not result.labelled:
        said.append("The new rows have no labels: the error was not compared.")
    looks = "" if result.look == 1 else f" over all looks (this one spends {number(result.tau_spent)})"
    said.append(f"A false alarm has probability {number(result.tau)} at most{looks}.")
    return said


def show_watch(console: Console, result: WatchResult) -> None:
    """Print the outcome, every kind of quantity, and what follows."""
    sign, style = _SIGNS[result.outcome]
    console.print(Text(f"watch: {headline(result)}"))
    console.print(Text.assemble((f"{sign} {result.outcome.upper()}", style), f" {verdict(result)}"))
    show_table(console, statement_table("Compared", result.statements))
    for text in details(result):
        console.print(Text(text, "dim"))


def _over(title: str, said: str, x: str, edges: Sequence[float], marks: Sequence[Steps | Rule]) -> Plot:
    """Return errors in percent over looks or rows."""
    top = max(one.at if isinstance(one, Rule) else max(one.heights) for one in marks)
    axes = Axis(x, edges[0], edges[-1], whole=True), Axis("error", 0.0, 1.1 * top or 1.0, unit="%")
    return Plot(title, said, *axes, tuple(marks))


def error_figure(result: WatchResult) -> Figure | None:
    """The error over looks, with bounds that hold for all of them."""
    looks = [one for one in result.history if one.error is not None][-_MOST_LOOKS:]
    behind = result.statement("errors")
    if not looks or behind is None:
        return None
    edges = (looks[0].look - 0.5, *(one.look + 0.5 for one in looks))
    errors, low, high = (
        tuple(100 * (value or 0.0) for value in values)
        for values in zip(*((one.error, one.error_low, one.error_high) for one in looks), strict=True)
    )
    marks = (
        Rule("behind the result", "contrast", 100 * behind.behind),
        Steps("error", "main", edges, errors),
        Steps("bounds of all looks", "reference", edges, low),
        Steps("", "reference", edges, high),
    )
    said = (
        f"Error at each look, and bounds that hold for all looks together with probability {1 - result.tau:g}. "
        "Named line: the error behind the result."
    )
    cells: Cells = {
        "look": lambda one: str(one.look),
        "finished": lambda one: one.finished,
        "rows": lambda one: count(one.n_rows),
        "error": lambda one: percent(one.error),
        "at least": lambda one: percent(one.error_low),
        "at most": lambda one: percent(one.error_high),
        "outcome": lambda one: str(one.outcome),
    }
    picture = _over("Error over looks", said, "look", edges, marks)
    return Figure((picture,), said, (Table.of("Looks", cells, looks, words=("finished", "outcome")),))


def drift_figure(result: WatchResult) -> Figure | None:
    """How far the means of features moved at each look: the features that ever moved most."""
    looks, names = result.history[-_MOST_LOOKS:], result.data.feature_names
    known = min((len(one.shifts) for one in looks), default=0)
    if len(looks) < 2 or known == 0:
        return None
    order = sorted(range(known), key=lambda j: -max(abs(one.shifts[j]) for one in looks))[:_MOST_FEATURES]
    tolerance = next(one.tolerance for one in result.statements if one.kind == "means")
    rows = tuple(tuple(one.shifts[j] for one in looks) for j in order)
    said = (
        f"Shift of the mean of each feature from that behind the result, in standard deviations, look by look; full "
        f"colour from {number(4 * tolerance)}, four times the tolerance."
    )
    short = tuple(shorten(names[j], 16) for j in order)
    numbers = tuple(str(one.look) for one in looks)
    picture = HeatMap("Drift by feature over looks", said, short, numbers, rows, 4 * tolerance)
    cells = tuple((names[j], *(f"{value:+.3f}" for value in row)) for j, row in zip(order, rows, strict=True))
    table = Table("Drift by feature", ("feature", *(f"look {one}" for one in numbers)), cells, words=("feature",))
    return Figure((picture,), said, (table,))


def stretch_figure(result: WatchResult) -> Figure | None:
    """The error along the new rows."""
    found, behind = result.stretches, result.statement("errors")
    if len(found) < 2 or behind is None:
        return None
    edges = (float(found[0].start), *(float(one.stop) for one in found))
    marks = (
        Steps("error", edges=edges, heights=tuple(100 * one.error for one in found), filled=True),
        Rule("behind the result", "contrast", 100 * behind.behind),
    )
    said = "Error along the new rows, in the order in which they come."
    cells: Cells = {
        "rows": lambda one: f"{count(one.start)} to {count(one.stop - 1)}",
        "error": lambda one: percent(one.error),
        "drifted": lambda one: "yes" if one.drifted else "no",
    }
    picture = _over("Error along the new rows", said, "row", edges, marks)
    return Figure((picture,), said, (Table.of("Errors along the rows", cells, found, words=("rows", "drifted")),))


_KNOWN = (error_figure, drift_figure, stretch_figure, headline, verdict, details, statement_table)
watch_section = macro("watch.html.j2", "section", **{one.__name__: one for one in _KNOWN})
_page = macro("watch.html.j2", "page", **{one.__name__: one for one in _KNOWN})


def render_watch(result: WatchResult) -> str:
    """The watch as one self-contained HTML document."""
    return _page(result).lstrip()
