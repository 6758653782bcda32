"""The tables as one picture."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

from scripts.evaluation import robustness, thresholds
from scripts.evaluation.soundness import TESTERS
from scripts.evaluation.tables import FACTOR, OURS, SLACK, Table

_OURS_COLOUR = "#0b6e4f"
_COLOURS = ("#d1495b", "#edae49", "#66a5ad", "#8d6a9f", "#7a7a7a")
_OUTCOMES = {"accepted": "#0b6e4f", "inconclusive": "#c9c9c9", "rejected": "#d1495b"}
_STYLE = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}


def draw_picture(tables: list[Table], path: Path) -> None:
    """Errors above, soundness and completeness below; lines without a table are left out."""
    by_name = {table.name: table for table in tables}
    lines = (
        (1.0, {"robustness": _draw_robustness}),
        (1.0, {"thresholds": _draw_thresholds}),
        (1.25, {"soundness": _draw_soundness, "completeness": _draw_completeness}),
    )
    kept = [line for line in lines if by_name.keys() & line[1]] or lines[-1:]
    heights = [height for height, _ in kept]
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(11, 4.5 * sum(heights)), layout="constrained")
        grid = figure.add_gridspec(len(kept), 2, height_ratios=heights, width_ratios=(2, 1))
        for i, (_, panels) in enumerate(kept):
            for place, (name, draw) in enumerate(panels.items()):
                axes = figure.add_subplot(grid[i, place] if len(panels) > 1 else grid[i, :])
                if name in by_name:
                    draw(axes, by_name[name])
                else:
                    axes.set_axis_off()
        figure.savefig(path, dpi=110)


def _draw_robustness(axes: Axes, table: Table) -> None:
    """Ratios of errors, one column for each noise and rate."""
    _draw_ratios(axes, table, (*robustness.LEARNERS, robustness.CHOW), share="rate")
    axes.set_title(f"Error / planted error on Gaussian rows, by label noise {_dims(table)}", loc="left")


def _draw_thresholds(axes: Axes, table: Table) -> None:
    """Ratios of errors, one column for each noise and positive share."""
    names = (thresholds.LOGISTIC, thresholds.RESCANNED, thresholds.SVM, thresholds.CONSTANT)
    _draw_ratios(axes, table, names, share="positive")
    axes.set_title(f"The same with thresholds, by noise and positive share {_dims(table)}", loc="left")


def _dims(table: Table) -> str:
    place = table.columns.index("d")
    return f"({' | '.join(f'd = {dim}' for dim in dict.fromkeys(row[place] for row in table.rows))})"


def _draw_ratios(axes: Axes, table: Table, names: tuple[str, ...], *, share: str) -> None:
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    places = list(range(len(rows)))
    for name, marker, colour in zip(names, "^sDvX", _COLOURS, strict=False):
        values = [_number(row[name]) for row in rows]
        axes.plot(places, values, marker, color=colour, label=name, markersize=5, alpha=0.85)
    ours = [_number(row[OURS]) for row in rows]
    axes.plot(places, ours, "o", color=_OURS_COLOUR, label=OURS, markersize=8)
    label = f"limit {FACTOR:g}, and {SLACK:g} of error more"
    axes.axhline(FACTOR, color=_OURS_COLOUR, linewidth=0.8, linestyle="--", label=label)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(FixedLocator([0.8, 1, 1.5, 2, 3, 4, 6, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xticks(places, [f"{row['noise']} {100 * _number(row[share]):g}%" for row in rows])
    axes.tick_params(axis="x", rotation=60, labelsize=8)
    for first in range(1, len(rows)):
        if rows[first]["d"] != rows[first - 1]["d"]:
            axes.axvline(first - 0.5, color="#999999", linewidth=0.8)
    axes.grid(axis="y", linewidth=0.4, alpha=0.6)
    axes.legend(ncols=4, fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, 1.0))
    axes.set_ylim(top=1.7 * axes.get_ylim()[1])


def _draw_soundness(axes: Axes, table: Table) -> None:
    """Verdicts of every law; the testers that rejected are named at the end of a bar."""
    rows = [dict(zip(table.columns, row, strict=True)) for row in reversed(table.rows)]
    places = list(range(len(rows)))
    left = [0.0] * len(rows)
    for outcome, colour in _OUTCOMES.items():
        shares = [_number(row[outcome]) / _number(row["runs"]) for row in rows]
        axes.barh(places, shares, left=left, color=colour, label=outcome, height=0.75)
        left = [a + b for a, b in zip(left, shares, strict=True)]
    for place, row in zip(places, rows, strict=True):
        names = [name for name in TESTERS if row[f"by {name}"]]
        axes.text(1.01, place, ", ".join(names), va="center", fontsize=7, color="#444444")
    axes.set_yticks(places, [str(row["law"]) for row in rows])
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, 1.9)
    axes.spines["bottom"].set_bounds(0, 1)
    axes.set_xticks([0, 0.5, 1], ["0", "50%", "100%"])
    axes.margins(y=0.01)
    axes.legend(ncols=3, fontsize=8, frameon=False, loc="lower left", bbox_to_anchor=(0, -0.1))
    wrong = len(table.details["wrong"])
    axes.set_title(f"Verdicts by law of the features, and who rejected; accepted wrongly: {wrong}", loc="left")


def _draw_completeness(axes: Axes, table: Table) -> None:
    """Accepted share in a grid of d and eps."""
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    dims = list(dict.fromkeys(row["d"] for row in rows))
    scales = list(dict.fromkeys(row["eps"] for row in rows))
    for row in rows:
        x, y = scales.index(row["eps"]), dims.index(row["d"])
        runs = sum(_number(row[kind]) for kind in _OUTCOMES)
        accepted = _number(row["accepted"])
        colour = _OUTCOMES["accepted" if accepted == runs else "rejected"]
        axes.add_patch(mpl.patches.Rectangle((x - 0.47, y - 0.47), 0.94, 0.94, color=colour))
        text = f"{accepted:.0f} / {runs:.0f}\n{_number(row['rows']) / 1e3:.0f}k rows"
        axes.text(x, y, text, ha="center", va="center", color="white", fontsize=8)
    axes.set_xticks(range(len(scales)), [f"eps {eps:g}" for eps in scales])
    axes.set_yticks(range(len(dims)), [f"d = {dim}" for dim in dims])
    axes.set_xlim(-0.5, len(scales) - 0.5)
    axes.set_ylim(-0.5, len(dims) - 0.5)
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_title("Gaussian runs accepted", loc="left")


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)
