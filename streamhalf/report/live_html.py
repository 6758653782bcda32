"""A live run as HTML without scripts, for notebooks and the dashboard."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from streamhalf.events import SlabsMeasured
from streamhalf.kernels.slabs import masses_about
from streamhalf.report.html import macro
from streamhalf.report.live import RunView
from streamhalf.report.watching import statement_cells

# white words on them, and they themselves on a white, black or dark grey page, can be told
COLOURS = {
    "accepted": "#2e7d32",
    "certified": "#00758f",
    "passed": "#2e7d32",
    "finished": "#2e7d32",
    "rejected": "#d32f2f",
    "failed": "#d32f2f",
    "steady": "#2e7d32",
    "drifted": "#d32f2f",
    "inconclusive": "#a56200",
    "interrupted": "#737373",
    "not judged": "#737373",
    "running": "#1976d2",
}
SO_FAR = "slab mass so far"
"""Placeholder of a tester while its pass is under way."""


def _masses(slabs: SlabsMeasured) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Observed and Gaussian share of every slab, the tails included."""
    observed = np.array(slabs.counts, dtype=np.float64) / max(1, sum(slabs.counts))
    return observed, masses_about(slabs.width, len(slabs.counts) // 2 - 1, slabs.threshold)


def slab_densities(slabs: SlabsMeasured) -> list[tuple[float, float, float, float]]:
    """Left edge, right edge, observed and Gaussian density of every slab between the tails."""
    half_count = len(slabs.counts) // 2 - 1
    edges = slabs.width * np.arange(-half_count, half_count + 1)
    densities = (mass[1:-1] / slabs.width for mass in _masses(slabs))
    columns = (edges[:-1], edges[1:], *densities)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def mass_so_far(run: RunView) -> float | None:
    """Distance of the slabs from the Gaussian over its limit, while the pass runs.

    Both at the width that is drawn: one of the scales that the tester itself looks at.
    """
    slabs = run.slabs
    if slabs is None or not run.slabs_so_far or len(slabs.counts) < 4:
        return None
    observed, expected = _masses(slabs)
    limit = slabs.width * math.exp(-(slabs.threshold**2) / 2)
    return float(np.abs(observed - expected).sum()) / limit


def clock(at: float) -> str:
    """A time of day, with its date unless that is today's."""
    then = time.localtime(at)
    today = time.localtime()[:3] == then[:3]
    return time.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S", then)


def _macro(name: str) -> Callable[..., str]:
    functions = {
        "mass_so_far": mass_so_far,
        "slab_densities": slab_densities,
        "clock": clock,
        "statement_cells": statement_cells,
    }
    return macro("live.html.j2", name, COLOURS=COLOURS, SO_FAR=SO_FAR, **functions)


badge = _macro("badge")
headline = _macro("headline")
pass_table = _macro("pass_table")
run_table = _macro("run_table")
run_html = _macro("run")
slab_title = _macro("slab_title")
slab_width = _macro("slab_width")
