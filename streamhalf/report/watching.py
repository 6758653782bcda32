"""A watch in words: on a terminal, as a card, as a page of its own or a section of a report."""

from __future__ import annotations

import math
from collections.abc import Callable

from rich.console import Console
from rich.text import Text

from streamhalf.redact import plural
from streamhalf.report.html import macro
from streamhalf.report.tables import Cells, Table
from streamhalf.report.terminal import show_table
from streamhalf.report.words import about, count, degrees, number, percent
from streamhalf.results import Drift, DriftStatement, WatchResult

_SHARES = ("slabs", "acceptance", "predictions", "labels", "errors")

KINDS = {
    "means": "mean of",
    "spreads": "spread of",
    "moments": "moment of",
    "slabs": "margin",
    "acceptance": "accepted",
    "predictions": "predicted",
    "labels": "labelled",
    "errors": "error",
}
"""What each kind of comparison is called."""

SIGNS = {Drift.STEADY: ("✓", "bold green"), Drift.DRIFTED: ("✗", "bold red"), Drift.INCONCLUSIVE: ("?", "bold yellow")}


def _unit(one: DriftStatement, value: float) -> str:
    """A distance: a share of rows, or in standard deviations."""
    return percent(value) if one.kind in _SHARES else f"{value:.3f} sd" if value < 1e6 else "far"


def _value(one: DriftStatement, value: float) -> str:
    return percent(value) if one.kind in _SHARES else number(value)


STATEMENT: Cells = {
    "compared": lambda one: f"{KINDS[one.kind]}{f' {one.subject}' if one.subject else ''}",
    "behind": lambda one: _value(one, one.behind),
    "new": lambda one: _value(one, one.new),
    "apart": lambda one: _unit(one, one.distance),
    "chance": lambda one: _unit(one, one.chance),
    "outcome": lambda one: str(one.outcome),
}


def statement_table(result: WatchResult) -> Table:
    """Every kind of quantity, by the member that says most."""
    return Table.of("Compared", STATEMENT, result.statements, words=("compared", "outcome"))


def headline(result: WatchResult) -> str:
    """What was compared, and at which look."""
    look = f", look {result.look}" if len(result.history) > 1 or result.look > 1 else ""
    return f"{plural(result.data.rows, 'new row')} beside {count(result.rows_behind)} behind the result{look}"


def verdict(result: WatchResult) -> str:
    """The outcome in a sentence."""
    drifted = [one for one in result.statements if one.outcome is Drift.DRIFTED]
    if drifted:
        more = [f"{KINDS[one.kind]}{f' {one.subject}' if one.subject else ''}" for one in drifted]
        return f"Rows have drifted: {', '.join(more[:3])}{f' and {len(more) - 3} more' if len(more) > 3 else ''}."
    if result.outcome is Drift.STEADY:
        return f"Rows are steady: nothing moved by more than the tolerance of {percent(result.tolerance)} of the rows."
    needed = [one.rows_needed for one in result.statements if one.outcome is Drift.INCONCLUSIVE]
    known = [one for one in needed if one is not None]
    if known and len(known) == len(needed):
        return f"Chance could hide drift, or be it: about {about(max(known))} new rows would tell."
    return "Chance could hide drift, or be it: a result of more rows, or a larger tolerance, would tell."


def details(result: WatchResult) -> list[str]:
    """Where labels went wrong, the neighbourhood, and what holds with which probability."""
    from streamhalf.monitoring.watching import drifted_stretches

    places = drifted_stretches(result)
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
    looks = "" if result.look == 1 else f" over this and all other looks (this one spends {number(result.tau_spent)})"
    said.append(f"A false alarm has probability {number(result.tau)} at most{looks}.")
    return said


def show_watch(console: Console, result: WatchResult) -> None:
    """Print the outcome, every kind of quantity, and what follows."""
    sign, style = SIGNS[result.outcome]
    console.print(Text(f"watch: {headline(result)}"))
    console.print(Text.assemble((f"{sign} {result.outcome.upper()}", style), f" {verdict(result)}"))
    show_table(console, statement_table(result))
    for text in details(result):
        console.print(Text(text, "dim"))


def watch_section(result: WatchResult) -> str:
    """The watch as a <section> of a report."""
    return _html("section")(result)


def render_watch(result: WatchResult) -> str:
    """The watch as one self-contained HTML document."""
    return _html("page")(result).lstrip()


def _html(name: str) -> Callable[..., str]:
    return macro(
        "watch.html.j2", name, headline=headline, verdict=verdict, details=details, statement_table=statement_table
    )
