"""A live run as HTML without scripts, for notebooks and the dashboard."""

from __future__ import annotations

from functools import partial

import numpy as np
from markupsafe import Markup

from streamhalf.events import SlabsMeasured
from streamhalf.kernels.slabs import gaussian_masses
from streamhalf.report.jinja import macro
from streamhalf.report.live import RunView, margin
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

_macro = partial(
    macro, "live.html.j2", COLOURS=COLOURS, SO_FAR=SO_FAR, human_count=human_count, margin=margin
)
badge, headline = _macro("badge"), _macro("headline")
pass_table, tester_table, run_table = map(_macro, ("pass_table", "tester_table", "run_table"))


def run_html(run: RunView) -> str:
    """Everything about one run."""
    drawn = run.slabs is not None and len(run.slabs.counts) > 2
    densities = slab_densities(run.slabs) if run.slabs is not None and drawn else []
    reach, picture = (densities[-1][1], _slab_picture(densities)) if densities else (0.0, "")
    words = (slab_width(run), slab_title(run))
    return _macro("run")(run, mass_so_far(run), *words, reach, picture)


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
    middles = ((i + 0.5) * step for i in range(len(densities)))
    heights = (_HEIGHT - scale * one[3] for one in densities)
    points = (f"{x:.1f},{y:.1f}" for x, y in zip(middles, heights, strict=True))
    line = {"fill": "none", "stroke": COLOURS["rejected"], "stroke_width": "1.5"}
    canvas.add("polyline", points=" ".join(points), **line)
    return canvas.finish(_HEIGHT)
