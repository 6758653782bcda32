"""The dashboard page in Bokeh: redrawn only when the board has changed."""

from __future__ import annotations

from typing import Any

import numpy as np
from bokeh.layouts import column, row
from bokeh.models import ColumnDataSource, DataRange1d, FactorRange, Range1d
from bokeh.models.annotations.geometry import Span
from bokeh.models.annotations.labels import Title
from bokeh.models.widgets.inputs import Select
from bokeh.models.widgets.markups import Div
from bokeh.plotting import figure

from streamhalf.records import Outcome
from streamhalf.report import live_html
from streamhalf.report.codes import number
from streamhalf.report.live import Board, RunView
from streamhalf.report.live_html import COLOURS, SO_FAR

_LATEST = "latest"
_WIDE: dict[str, Any] = {"sizing_mode": "stretch_width"}
_WIDEST_MARGIN = 2.0
_SLABS = "Margins along the halfspace (line: Gaussian)"
_NO_RUN = RunView("", 0.0)
_NO_RUN_WORDS = "<h3>No run yet</h3>Runs of streamhalf on this cluster appear here while they run."


class Page:
    """One viewer's page."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._drawn = (-1, "")
        self._choice = Select(title="run", value=_LATEST, options=_choices([]), width=320)
        self._head = Div(text=_NO_RUN_WORDS, **_WIDE)
        self._passes = Div(text="", **_WIDE)
        self._others = Div(text="", **_WIDE)
        self._slabs = ColumnDataSource(_slab_columns(_NO_RUN))
        self._testers = ColumnDataSource(_tester_columns(_NO_RUN))
        self._names = FactorRange()
        self._slab_title = Title(text=_SLABS)
        self._slab_figure = _draw_slabs(self._slabs, self._slab_title)
        self._tester_figure = _draw_testers(self._testers, self._names)
        figures = (self._tester_figure, self._slab_figure)
        wrapped = row(*figures, styles={"flex-wrap": "wrap"}, **_WIDE)
        parts = (self._choice, self._head, wrapped, self._passes, self._others)
        style = {"padding": "8px 16px", "font-family": "sans-serif"}
        self.root = column(*parts, styles=style, **_WIDE)

    def update(self) -> None:
        """Draw the chosen run, unless nothing has happened since the last time."""
        state = (self._board.version, self._choice.value)
        runs = list(self._board.runs.values())
        if state == self._drawn or not runs:
            return
        self._drawn = state
        self._choice.options = _choices(runs)
        self._draw(self._board.runs.get(self._choice.value, runs[-1]))
        self._others.text = f"<h3>Runs</h3>{live_html.run_table(reversed(runs))}"

    def _draw(self, run: RunView) -> None:
        self._head.text = live_html.headline(run)
        self._passes.text = f"<h3>Passes</h3>{live_html.pass_table(run.passes)}"
        self._slabs.data = _slab_columns(run)
        testers = _tester_columns(run)
        self._testers.data = testers
        self._names.factors = testers["tester"][::-1]
        self._tester_figure.visible = bool(testers["tester"])
        self._slab_figure.visible = run.slabs is not None
        threshold = run.slabs.threshold if run.slabs else 0.0
        place = f", t = {number(threshold)}" if threshold else ""
        self._slab_title.text = f"{_SLABS}, {live_html.slab_title(run)}{place}"


def _choices(runs: list[RunView]) -> list[str | tuple[Any, str]]:
    """Values and labels to choose a run by, the latest first."""
    return [_LATEST, *((run.run, f"{run.command} {run.source}") for run in reversed(runs))]


def _slab_columns(run: RunView) -> dict[str, Any]:
    densities = [] if run.slabs is None else live_html.slab_densities(run.slabs)
    left, right, observed, expected = np.reshape(densities, (-1, 4)).T.tolist()
    middle = [sum(edges) / 2 for edges in zip(left, right, strict=True)]
    heights = {"observed": observed, "expected": expected}
    return {"left": left, "right": right, "middle": middle, **heights}


def _tester_columns(run: RunView) -> dict[str, Any]:
    worst = [one.worst for one in run.testers.values()]
    judged = [one for one in worst if one.outcome is not Outcome.NOT_JUDGED]
    bars = [(one.tester, one.share, COLOURS[one.outcome], one.pass_name) for one in judged]
    if (mass := live_html.mass_so_far(run)) is not None:
        bars.append((SO_FAR, mass, COLOURS["running"], f"final, {live_html.slab_width(run)}"))
    return {
        "tester": [name for name, *_ in bars],
        "margin": [min(_WIDEST_MARGIN, share) for _, share, _, _ in bars],
        "colour": [colour for _, _, colour, _ in bars],
        "words": [f"{share:.0%} {name}" for _, share, _, name in bars],
    }


def _figure(title: str | Title, **options: Any) -> figure:
    """A figure to look at; hidden until there is something to see."""
    common: dict[str, Any] = {"height": 260, "min_width": 380, "tools": "", "visible": False}
    return figure(title=title, **common, **_WIDE, **options)


def _draw_slabs(source: ColumnDataSource, title: Title) -> figure:
    labels = {"x_axis_label": "margin v·x - t", "y_axis_label": "density"}
    plot = _figure(title, y_range=DataRange1d(start=0), **labels)
    place: dict[str, Any] = {"left": "left", "right": "right", "top": "observed", "bottom": 0}
    fill: dict[str, Any] = {
        "fill_color": COLOURS["running"],
        "fill_alpha": 0.45,
        "line_color": None,
    }
    plot.quad(source=source, **place, **fill)
    plot.line("middle", "expected", source=source, line_color=COLOURS["rejected"], line_width=2)
    plot.add_layout(Span(location=0, dimension="height", line_dash="dotted", line_color="#555"))
    return plot


def _draw_testers(source: ColumnDataSource, names: FactorRange) -> figure:
    plot = _figure(
        "Testers: worst statistic so far over its limit",
        x_axis_label="statistic / limit (dashed: the limit)",
        x_range=Range1d(start=0, end=_WIDEST_MARGIN),
        y_range=names,
    )
    plot.hbar(
        y="tester", right="margin", height=0.55, source=source, color="colour", fill_alpha=0.7
    )
    look: dict[str, Any] = {"x_offset": 6, "text_baseline": "middle", "text_font_size": "12px"}
    plot.text(x="margin", y="tester", text="words", source=source, **look)
    plot.add_layout(Span(location=1, dimension="height", line_dash="dashed", line_color="#555"))
    plot.ygrid.visible = False
    return plot
