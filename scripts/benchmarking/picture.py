"""One picture of the benchmark: what the passes and the learners cost, in bare reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_BLUE, _GREY = "#2f6db3", "#9aa4ae"


def draw_picture(tables: dict[str, Any], file: Path) -> None:
    """Bars for passes (throughput of a bare read) and for learners (time in bare reads)."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = [name for name in ("passes", "peers") if name in tables]
    if not shown:
        return
    figure, axes = pyplot.subplots(1, len(shown), figsize=(6.2 * len(shown), 4.6), layout="constrained", squeeze=False)
    for name, axis in zip(shown, axes[0], strict=True):
        (_draw_passes if name == "passes" else _draw_peers)(axis, tables[name])
        axis.invert_yaxis()
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, dpi=150)
    pyplot.close(figure)


def _draw_passes(axis: Any, table: dict[str, Any]) -> None:
    rows = [row for row in table["rows"] if row[0] == 16]
    values = [float(row[2].split()[0]) for row in rows]
    axis.barh([row[1] for row in rows], values, color=_BLUE)
    plain = {"facecolor": "white", "edgecolor": "none", "pad": 1}  # the line stays behind it
    axis.bar_label(axis.containers[0], fmt="%.2f", padding=3, bbox=plain)
    axis.axvline(1, color=_GREY, linestyle="--", linewidth=1)
    axis.set_xlim(0, 1.15 * max(1.0, *values))
    axis.set_xlabel("throughput, a bare read of the same chunks = 1")
    axis.set_title("Passes over all rows, d = 16, two threads", loc="left", fontsize=11)


def _draw_peers(axis: Any, table: dict[str, Any]) -> None:
    largest = table["rows"][-1][0]
    rows = [row for row in table["rows"] if row[0] == largest]
    colours = [_BLUE if row[1].startswith("streamhalf") else _GREY for row in rows]
    axis.barh([row[1].replace(", ", ",\n", 1) for row in rows], [row[2] for row in rows], color=colours)
    labels = [f"{row[2]:.3g} s" + (f", error {row[5]:.3f}" if row[5] else "") for row in rows]
    axis.bar_label(axis.containers[0], labels=labels, padding=3)
    axis.set_xlim(0, 1.5 * max(row[2] for row in rows))
    axis.set_xlabel(f"seconds of the whole command, {largest:,} rows")
    axis.set_title("Learners, 5% of labels flipped by an adversary", loc="left", fontsize=11)
