"""A live run as HTML without scripts: colours that suit light and dark pages, styles in place."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

import numpy as np

from streamhalf.events import SlabsMeasured
from streamhalf.names import plural
from streamhalf.records import Outcome
from streamhalf.report.live import PassView, RunView, TesterView, margin
from streamhalf.report.progress import human_count
from streamhalf.kernels.slabs import gaussian_masses

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

_TRACK = "rgba(128,128,128,.22)"
_CELL = "padding:2px 14px 2px 0;border:0;text-align:left;background:none"
_NUMBER = f"{_CELL};text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap"


def badge(status: str) -> str:
    """A status as a coloured label."""
    return (
        f'<span style="background:{COLOURS[status]};color:#fff;border-radius:3px;'
        f'padding:2px 8px;font-weight:600;letter-spacing:.04em">{escape(status.upper())}</span>'
    )


def headline(run: RunView) -> str:
    """Which run this is, and what became of it."""
    size = f"{plural(run.n_rows, 'row')} × {plural(run.dim, 'feature')} · " if run.n_rows else ""
    error = f" · {escape(run.error)}" if run.error else ""
    notices = "".join(f"<div>notice: {escape(notice)}</div>" for notice in run.notices)
    return (
        f'<div style="margin:4px 0 8px">{badge(run.status)} <b>{escape(run.command)}</b> '
        f"{escape(run.source)}<br>{size}{run.at - run.started:.1f} s{error}{notices}</div>"
    )


def pass_table(passes: Iterable[PassView]) -> str:
    """A bar per pass, with its rows, speed and scale."""
    return _table(("pass", "", "rows", "rows/s", "kept", "scale"), map(_pass_row, passes))


def _pass_row(one: PassView) -> str:
    kept = "" if one.rows_accepted in (None, one.n_rows) else f"{one.rows_accepted:,}"
    rows = f"{one.rows_done:,}" if one.done else f"{one.rows_done:,} / {one.n_rows:,}"
    colour = COLOURS["finished" if one.done else "running"]
    return _row(
        (escape(one.name), _bar(one.share, colour, 160)),
        (rows, human_count(one.rows_per_second), kept, escape(one.detail)),
    )


def tester_table(testers: Iterable[TesterView], *more: str) -> str:
    """How close each tester came to its limit at worst; `more` rows follow."""
    header = ("tester", "", "worst / limit", "judged", "in pass", "outcome")
    return _table(header, [*map(_tester_row, testers), *more])


def _tester_row(one: TesterView) -> str:
    worst = one.worst
    judged = worst.outcome is not Outcome.NOT_JUDGED
    share, near = (margin(worst), f"{margin(worst):.0%}") if judged else (0.0, "")
    outcome = f'<span style="color:{COLOURS[worst.outcome]};font-weight:600">{worst.outcome}</span>'
    return _row(
        (escape(worst.tester), _bar(share, COLOURS[worst.outcome], 160)),
        (near, str(one.n_judged), escape(worst.pass_name), outcome),
    )


def run_table(runs: Iterable[RunView]) -> str:
    """One line per run."""
    return _table(("run", "", "rows", "passes", "seconds", ""), map(_run_row, runs))


def _run_row(run: RunView) -> str:
    return _row(
        (f"{escape(run.command)} {escape(run.source)}", badge(run.status)),
        (f"{run.n_rows:,}", str(len(run.passes)), f"{run.at - run.started:.1f}", escape(run.error)),
    )


def slab_densities(slabs: SlabsMeasured) -> list[tuple[float, float, float, float]]:
    """Left edge, right edge, observed and Gaussian density of every slab between the tails."""
    half_count = (len(slabs.counts) - 2) // 2
    total = max(1, sum(slabs.counts))
    expected = gaussian_masses(slabs.width, half_count)[1:-1] / slabs.width
    return [
        ((i - half_count) * slabs.width, (i + 1 - half_count) * slabs.width, observed, wanted)
        for i, (observed, wanted) in enumerate(
            zip(
                (count / total / slabs.width for count in slabs.counts[1:-1]),
                expected.tolist(),
                strict=True,
            )
        )
    ]


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


def _mass_rows(run: RunView) -> list[str]:
    mass = mass_so_far(run)
    if mass is None:
        return []
    words = (SO_FAR, _bar(mass, COLOURS["running"], 160))
    return [_row(words, (f"{mass:.0%}", "", "final", slab_width(run)))]


def slab_width(run: RunView) -> str:
    """How thick the slabs are that are drawn: the tester's own may be thinner."""
    return "" if run.slabs is None else f"slabs of {run.slabs.width:.2g}"


def slab_title(run: RunView) -> str:
    """Of how many rows the histogram is."""
    rows = 0 if run.slabs is None else sum(run.slabs.counts)
    return f"{rows:,} rows so far" if run.slabs_so_far else f"{rows:,} rows"


def slab_picture(slabs: SlabsMeasured, rows: str, *, width: int = 420, height: int = 90) -> str:
    """Histogram of the margins along the halfspace, with the Gaussian as a line."""
    densities = slab_densities(slabs)
    top = 1.05 * max(max(one[2:]) for one in densities)
    step = width / len(densities)
    bars = "".join(
        f'<rect x="{i * step:.1f}" y="{height * (1 - observed / top):.1f}" '
        f'width="{step:.1f}" height="{height * observed / top:.1f}"/>'
        for i, (_, _, observed, _) in enumerate(densities)
    )
    points = " ".join(
        f"{(i + 0.5) * step:.1f},{height * (1 - wanted / top):.1f}"
        for i, (_, _, _, wanted) in enumerate(densities)
    )
    reach = densities[-1][1]
    return (
        f'<div style="margin-top:8px">margins of {rows} along the halfspace, from '
        f"{-reach:.2g} to {reach:.2g}; line: Gaussian</div>"
        f'<svg role="img" aria-label="histogram of margins" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}"><g fill="{COLOURS["running"]}" fill-opacity=".45">{bars}'
        f'</g><polyline points="{points}" fill="none" stroke="{COLOURS["rejected"]}" '
        f'stroke-width="1.5"/></svg>'
    )


def run_html(run: RunView) -> str:
    """Everything about one run."""
    parts = [headline(run)]
    if run.passes:
        parts.append(pass_table(run.passes))
    if run.testers:
        parts.append(tester_table(run.testers.values(), *_mass_rows(run)))
    if run.slabs is not None and len(run.slabs.counts) > 2:
        parts.append(slab_picture(run.slabs, slab_title(run)))
    return f'<div style="line-height:1.45">{"".join(parts)}</div>'


def _bar(share: float, colour: str, width: int) -> str:
    """A bar; what goes beyond the whole is cut off, the number beside it tells."""
    filled = 100 * min(1.0, max(0.0, share))
    return (
        f'<div style="width:{width}px;height:9px;border-radius:4px;background:{_TRACK};'
        f'overflow:hidden"><div style="width:{filled:.1f}%;height:100%;background:{colour}">'
        "</div></div>"
    )


def _table(header: tuple[str, ...], rows: Iterable[str]) -> str:
    """A table whose first two columns are words and a bar, the others numbers."""
    cells = "".join(
        f'<th style="{_CELL if i < 2 else _NUMBER};font-weight:normal;opacity:.65">{name}</th>'
        for i, name in enumerate(header)
    )
    return (
        f'<table style="border-collapse:collapse;margin:4px 0"><thead><tr>{cells}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _row(words: tuple[str, ...], numbers: tuple[str, ...]) -> str:
    cells = [f'<td style="{_CELL}">{word}</td>' for word in words]
    cells += [f'<td style="{_NUMBER}">{number}</td>' for number in numbers]
    return f'<tr style="background:none">{"".join(cells)}</tr>'
