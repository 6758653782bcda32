"""The dashboard page in Bokeh: redrawn only when the board has changed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from bokeh.layouts import column, row
from bokeh.models import ColumnDataSource, DataRange1d, FactorRange, Range1d
from bokeh.models.annotations.geometry import Span
from bokeh.models.tickers import FixedTicker
from bokeh.models.widgets.inputs import Select
from bokeh.models.widgets.markups import Div
from bokeh.plotting import figure

from streamhalf.report import live
from streamhalf.report.live import COLOURS, SO_FAR, Board, RunView
from streamhalf.report.words import number, of_limit
from streamhalf.results import Outcome

_LATEST = "latest"
_WIDE: dict[str, Any] = {"sizing_mode": "stretch_width"}
_WIDEST_MARGIN = 2.0
_LABEL_ROOM = 1.6
"""Beside the bars, in their unit: labels stand there, off the bars and the line of the limit."""

_HIGHEST_BOUND = 2.0
"""Upper end of the bound by angle, in errors of this halfspace; larger bounds are cut there."""

_NARROW = 300
_NO_RUN = RunView("", 0.0)
_NO_RUN_WORDS = "<h3>No run yet</h3>Runs of streamhalf on this cluster appear here while they run."


class Page:
    """One viewer's page."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._drawn = (-1, "")
        self._choice = Select(title="run", value=_LATEST, options=_choices([]), width=_NARROW)
        scrolling: Any = {"overflow-x": "auto"}
        self._head = Div(text=_NO_RUN_WORDS, **_WIDE)
        self._passes = Div(text="", styles=scrolling, **_WIDE)
        self._others = Div(text="", styles=scrolling, **_WIDE)
        self._names = FactorRange()
        self._sources = {name: ColumnDataSource(columns(_NO_RUN)) for name, columns in _COLUMNS}
        self._lines = {"U": _line("dashed"), "L": _line("dotted")}
        self._figures = {
            "testers": _draw_testers(self._sources["testers"], self._names),
            "slabs": _draw_slabs(self._sources["slabs"]),
            "path": _draw_path(self._sources["path"]),
            "bound": _draw_bound(self._sources["bound"], self._lines),
        }
        for name, drawn in self._figures.items():
            drawn.name = name
        shown = list(self._figures.values())
        rows = (row(*two, styles={"flex-wrap": "wrap"}, **_WIDE) for two in (shown[:2], shown[2:]))
        parts = (self._choice, self._head, *rows, self._passes, self._others)
        style = {"padding": "8px", "font-family": "sans-serif", "max-width": "100vw"}
        self.root = column(*parts, styles={**style, "box-sizing": "border-box"}, **_WIDE)

    def update(self) -> None:
        """Draw the chosen run, unless nothing has happened since the last time."""
        state = (self._board.version, self._choice.value)
        runs = list(self._board.runs.values())
        if state == self._drawn or not runs:
            return
        self._drawn = state
        self._choice.options = _choices(runs)
        self._draw(self._board.runs.get(self._choice.value, runs[-1]))
        self._others.text = f"<h3>Runs</h3>{live.run_table(reversed(runs))}"

    def _draw(self, run: RunView) -> None:
        self._head.text = live.headline(run)
        self._passes.text = f"<h3>Passes</h3>{live.pass_table(run.passes)}"
        for name, columns in _COLUMNS:
            found = columns(run)
            self._sources[name].data = found
            self._figures[name].visible = any(map(len, found.values()))
            if name == "testers":
                self._names.factors = found["tester"][::-1]
        answer = run.answer
        for name, value in (("U", answer and answer.upper), ("L", answer and answer.lower)):
            self._lines[name].visible = value is not None
            self._lines[name].location = 100 * (value or 0.0)
        threshold = run.slabs.threshold if run.slabs else 0.0
        place = f", t = {number(threshold)}" if threshold else ""
        of_rows = f"margin v·x - t of {live.slab_title(run)}{place} (line: Gaussian)"
        self._figures["slabs"].xaxis.axis_label = of_rows


def _choices(runs: list[RunView]) -> list[str | tuple[Any, str]]:
    """Values and labels to choose a run by, the latest first."""
    return [_LATEST, *((run.run, _label(run)) for run in reversed(runs))]


def _label(run: RunView) -> str:
    """Return a label for a run: time, command and user."""
    by = f", {run.who}" if run.who else ""
    return f"{live.clock(run.started)} {run.command} {run.source} ({run.short}{by})"


def _slab_columns(run: RunView) -> dict[str, Any]:
    densities = [] if run.slabs is None else live.slab_densities(run.slabs)
    left, right, observed, expected = np.reshape(densities, (-1, 4)).T.tolist()
    middle = [sum(edges) / 2 for edges in zip(left, right, strict=True)]
    heights = {"observed": observed, "expected": expected}
    return {"left": left, "right": right, "middle": middle, **heights}


def _tester_columns(run: RunView) -> dict[str, Any]:
    worst = [one.worst for one in run.testers.values()]
    judged = [one for one in worst if one.outcome is not Outcome.NOT_JUDGED]
    bars = [(one.tester, one.share, COLOURS[one.outcome], one.pass_name) for one in judged]
    if (mass := live.mass_so_far(run)) is not None:
        bars.append((SO_FAR, mass, COLOURS["running"], f"final, {live.slab_width(run)}"))
    return {
        "tester": [name for name, *_ in bars],
        "margin": [min(_WIDEST_MARGIN, share) for _, share, _, _ in bars],
        "label": [_WIDEST_MARGIN] * len(bars),
        "colour": [colour for _, _, colour, _ in bars],
        "words": [f"{of_limit(share)} {name}" for _, share, _, name in bars],
    }


def _path_columns(run: RunView) -> dict[str, Any]:
    """Candidates and their errors; the one that was chosen is larger."""
    answer = run.answer
    errors = () if answer is None else answer.path
    chosen = None if answer is None else answer.chosen
    known = [(i, 100 * error) for i, error in enumerate(errors) if error is not None]
    return {
        "candidate": [i for i, _ in known],
        "error": [error for _, error in known],
        "size": [14 if i == chosen else 6 for i, _ in known],
    }


def _bound_columns(run: RunView) -> dict[str, Any]:
    """Both ends of every piece of the bound."""
    answer = run.answer
    pieces = () if answer is None else answer.profile
    most = 100 * _HIGHEST_BOUND * (answer.upper or math.inf) if answer is not None else math.inf
    return {
        "angle": [end for low, high, _ in pieces for end in (low, high)],
        "bound": [min(most, 100 * bound) for _, _, bound in pieces for _ in range(2)],
    }


_COLUMNS = (("testers", _tester_columns), ("slabs", _slab_columns), ("path", _path_columns), ("bound", _bound_columns))


def _figure(title: str, **options: Any) -> figure:
    """A figure to look at; hidden until there is something to see."""
    common: dict[str, Any] = {"height": 260, "min_width": _NARROW, "tools": "", "visible": False}
    return figure(title=title, **common, **_WIDE, **options)


def _line(dash: str, *, dimension: Any = "width", location: float = 0.0) -> Span:
    return Span(location=location, dimension=dimension, line_dash=dash, line_color="#555")


def _draw_slabs(source: ColumnDataSource) -> figure:
    plot = _figure("Margins along the halfspace", y_range=DataRange1d(start=0), y_axis_label="density")
    place: dict[str, Any] = {"left": "left", "right": "right", "top": "observed", "bottom": 0}
    fill: dict[str, Any] = {"fill_color": COLOURS["running"], "fill_alpha": 0.45, "line_color": None}
    plot.quad(source=source, **place, **fill)
    plot.line("middle", "expected", source=source, line_color=COLOURS["rejected"], line_width=2)
    plot.add_layout(_line("dotted", dimension="height"))
    return plot


def _draw_testers(source: ColumnDataSource, names: FactorRange) -> figure:
    plot = _figure(
        "Testers: worst so far",
        x_axis_label="statistic / limit (dashed: the limit)",
        x_range=Range1d(start=0, end=_WIDEST_MARGIN + _LABEL_ROOM),
        y_range=names,
    )
    plot.hbar(y="tester", right="margin", height=0.55, source=source, color="colour", fill_alpha=0.7)
    look: dict[str, Any] = {"x_offset": 6, "text_baseline": "middle", "text_font_size": "11px"}
    plot.text(x="label", y="tester", text="words", source=source, **look)
    plot.add_layout(_line("dashed", dimension="height", location=1.0))
    ticks = FixedTicker(ticks=[0, 0.5, 1, 1.5, _WIDEST_MARGIN])
    plot.xaxis.ticker = ticks
    plot.xgrid.ticker = ticks
    plot.ygrid.visible = False
    return plot


def _draw_path(source: ColumnDataSource) -> figure:
    plot = _figure(
        "Path of candidates (large: returned)",
        x_axis_label="candidate",
        y_axis_label="error on held-out rows, %",
        y_range=DataRange1d(start=0),
    )
    plot.line("candidate", "error", source=source, line_color=COLOURS["running"], line_alpha=0.4)
    plot.scatter("candidate", "error", size="size", source=source, color=COLOURS["running"])
    return plot


def _draw_bound(source: ColumnDataSource, lines: dict[str, Span]) -> figure:
    plot = _figure(
        "Bound by angle (dashed: U, dotted: L)",
        x_axis_label="angle to the certificate's direction, degrees",
        y_axis_label="any such errs on at least, %",
        x_range=Range1d(start=0, end=180),
        y_range=DataRange1d(start=0),
    )
    plot.line("angle", "bound", source=source, line_color=COLOURS["certified"], line_width=2)
    plot.xaxis.ticker = FixedTicker(ticks=[0, 45, 90, 135, 180])
    for line in lines.values():
        plot.add_layout(line)
    return plot
