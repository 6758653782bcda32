"""A live run as HTML without scripts, for notebooks and the dashboard."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
from markupsafe import Markup

from streamhalf.events import SlabsMeasured
from streamhalf.kernels.slabs import gaussian_masses
from streamhalf.names import plural
from streamhalf.report.jinja import template
from streamhalf.report.live import PassView, RunView, TesterView, margin
from streamhalf.report.progress import human_count
from streamhalf.report.svg import Canvas

COLOURS = {
    "accepted": "#2e7d32",
    "passed": "#2e7d32",
    "finished": "#2e7d32",
    "rejected": "#c62828",
    "failed": "#c62828",
    "inconclusive": "#b26a00",
    "not judged": "#757575",
    "running": "#1565c0",
}
SO_FAR = "slab mass so far"
"""What a pass under way shows where its tester will stand."""

_WIDTH, _HEIGHT = 420, 90


@cache
def _macros() -> Any:
    known = {"colours": COLOURS, "so_far": SO_FAR, "human_count": human_count}
    return template("live.html.j2").make_module({**known, "plural": plural, "margin": margin})


def badge(status: str) -> str:
    """A status as a coloured label."""
    return str(_macros().badge(status))


def headline(run: RunView) -> str:
    """Which run this is, and what became of it."""
    return str(_macros().headline(run))


def pass_table(passes: Iterable[PassView]) -> str:
    """A bar per pass, with its rows, speed and scale."""
    return str(_macros().pass_table(passes))


def tester_table(testers: Iterable[TesterView]) -> str:
    """How close each tester came to its limit at worst."""
    return str(_macros().tester_table(testers))


def run_table(runs: Iterable[RunView]) -> str:
    """One line per run."""
    return str(_macros().run_table(runs))


def run_html(run: RunView) -> str:
    """Everything about one run."""
    drawn = run.slabs is not None and len(run.slabs.counts) > 2
    densities = slab_densities(run.slabs) if run.slabs is not None and drawn else []
    return str(
        _macros().run(
            run,
            mass=mass_so_far(run),
            slabs=slab_width(run),
            rows=slab_title(run),
            reach=densities[-1][1] if densities else 0.0,
            picture=_slab_picture(densities) if densities else "",
        )
    )


def slab_densities(slabs: SlabsMeasured) -> list[tuple[float, float, float, float]]:
    """Left edge, right edge, observed and Gaussian density of every slab between the tails."""
    half_count = (len(slabs.counts) - 2) // 2
    edges = slabs.width * np.arange(-half_count, half_count + 1)
    observed = np.array(slabs.counts[1:-1]) / max(1, sum(slabs.counts)) / slabs.width
    expected = gaussian_masses(slabs.width, half_count)[1:-1] / slabs.width
    columns = (edges[:-1], edges[1:], observed, expected)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def mass_so_far(run: RunView) -> float | None:
    """Distance of the slabs from the Gaussian over its limit, while the pass runs.

    Both at the width that is drawn: one of the scales that the tester itself looks at.
    """
    slabs = run.slabs
    if slabs is None or not run.slabs_so_far or len(slabs.counts) < 4:
        return None
    observed = np.array(slabs.counts, dtype=np.float64) / max(1, sum(slabs.counts))
    expected = gaussian_masses(slabs.width, (len(slabs.counts) - 2) // 2)
    return float(np.abs(observed - expected).sum()) / slabs.width


def slab_width(run: RunView) -> str:
    """How thick the slabs are that are drawn: the tester's own may be thinner."""
    return "" if run.slabs is None else f"slabs of {run.slabs.width:.2g}"


def slab_title(run: RunView) -> str:
    """Of how many rows the histogram is."""
    rows = 0 if run.slabs is None else sum(run.slabs.counts)
    return f"{rows:,} rows so far" if run.slabs_so_far else f"{rows:,} rows"


def _slab_picture(densities: list[tuple[float, float, float, float]]) -> Markup:
    """Histogram of the margins along the halfspace, with the Gaussian as a line."""
    canvas = Canvas(_WIDTH, aria_label="histogram of margins")
    step, scale = _WIDTH / len(densities), _HEIGHT / (1.05 * max(max(one[2:]) for one in densities))
    corners = [f"V{_HEIGHT - scale * one[2]:.1f}h{step:.1f}" for one in densities]
    bars, colour = f"M0 {_HEIGHT}{''.join(corners)}V{_HEIGHT}Z", COLOURS["running"]
    canvas.add("path", d=bars, fill=colour, fill_opacity=".45")
    points = (f"{(i + 0.5) * step:.1f},{_HEIGHT - scale * one[3]:.1f}" for i, one in enumerate(densities))
    line = {"fill": "none", "stroke": COLOURS["rejected"], "stroke_width": "1.5"}
    canvas.add("polyline", points=" ".join(points), **line)
    return canvas.finish(_HEIGHT)
