"""Figures as inline SVG, drawn by hand: no script, no fonts, colours from the stylesheet.

A picture is drawn for a given width in CSS pixels, so that letters keep their size on a phone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape

from streamhalf.report.figures import (
    Axis,
    Bars,
    Comparison,
    HeatMap,
    Interval,
    Mark,
    Picture,
    Plot,
    Points,
    Rule,
    Steps,
    drawable,
    ticks,
)

_LETTER = 7.0
"""Average width of a letter, enough to keep labels apart."""

_DIGIT = 8.0
"""Width of a digit or a sign, enough for the ticks beside an axis."""

_Y_TICKS = 5


def draw(picture: Picture, width: int) -> str:
    """The picture as an <svg> element of this width, with its name and description."""
    if isinstance(picture, Plot):
        return _draw_plot(picture, width)
    if isinstance(picture, HeatMap):
        return _draw_heat_map(picture, width)
    if isinstance(picture, Interval):
        return _draw_interval(picture, width)
    return _draw_comparison(picture, width)


def _document(picture: Picture, width: float, height: float, parts: Iterable[str]) -> str:
    return (
        f'<svg role="img" viewBox="0 0 {_n(width)} {_n(height)}" width="{_n(width)}" '
        f'height="{_n(height)}">'
        f"<title>{escape(picture.title)}</title><desc>{escape(picture.description)}</desc>"
        f"{''.join(parts)}</svg>"
    )


def _n(value: float) -> str:
    """A coordinate to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")


def _text(x: float, y: float, words: str, *, anchor: str = "start", kind: str = "") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}"{style}>{escape(words)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}" class="stroke {kind}"/>'


def _rect(x: float, y: float, width: float, height: float, kind: str) -> str:
    return (
        f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(max(0.0, width))}" '
        f'height="{_n(max(0.0, height))}" class="{kind}"/>'
    )


def _fitted(words: str, room: float) -> str:
    """The words, cut where they would leave the picture; the table has them in full."""
    most = max(4, int(room / _LETTER))
    return words if len(words) <= most else words[: most - 1] + "…"


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where the axes of a plot lie, and how values become coordinates."""

    plot: Plot
    left: float
    right: float
    top: float
    bottom: float

    def x(self, value: float) -> float:
        return self.left + _share(self.plot.x, value) * (self.right - self.left)

    def y(self, value: float) -> float:
        return self.bottom - _share(self.plot.y, value) * (self.bottom - self.top)


def _share(axis: Axis, value: float) -> float:
    """How far along the axis a value lies; values outside are put at the ends."""
    scale: Callable[[float], float] = math.log10 if axis.log else float
    low, high = scale(axis.low), scale(axis.high)
    value = min(max(value, axis.low), axis.high)
    return (scale(value) - low) / (high - low)


def _draw_plot(plot: Plot, width: int) -> str:
    height = 250 if width < 500 else 290
    longest = max((len(_tick(plot.y, value)) for value in ticks(plot.y, _Y_TICKS)), default=0)
    left = max(52.0, 12 + _DIGIT * longest)
    frame = _Frame(plot, left=left, right=width - 18, top=34, bottom=height - 44)
    parts = [
        *_axes(frame, n_x=width // 70),
        *(part for mark in plot.marks for part in _draw_mark(frame, mark)),
    ]
    return _document(plot, width, height, parts)


def _axes(frame: _Frame, n_x: int) -> Iterable[str]:
    plot = frame.plot
    yield _text(0, 16, plot.y.label, kind="label")
    for value in ticks(plot.y, _Y_TICKS):
        y = frame.y(value)
        yield _line(frame.left, y, frame.right, y, "grid")
        words = _tick(plot.y, value)
        yield _text(frame.left - 8, y + 4, words, anchor="end", kind="tick")
    for value in ticks(plot.x, n_x):
        x = frame.x(value)
        yield _line(x, frame.bottom, x, frame.bottom + 5, "axis")
        words = _tick(plot.x, value)
        yield _text(x, frame.bottom + 19, words, anchor="middle", kind="tick")
    yield _line(frame.left, frame.bottom, frame.right, frame.bottom, "axis")
    middle = (frame.left + frame.right) / 2
    yield _text(middle, frame.bottom + 38, plot.x.label, anchor="middle", kind="label")


def _tick(axis: Axis, value: float) -> str:
    return f"{value:.4g}{axis.unit}"


def _draw_mark(frame: _Frame, mark: Mark) -> Iterable[str]:
    if isinstance(mark, Steps):
        yield from _draw_steps(frame, mark)
    elif isinstance(mark, Points):
        yield from _draw_points(frame, mark)
    elif isinstance(mark, Bars):
        yield from _draw_bars(frame, mark)
    else:
        yield from _draw_rule(frame, mark)


def _draw_rule(frame: _Frame, mark: Rule) -> Iterable[str]:
    y = frame.y(mark.at)
    yield _line(frame.left, y, frame.right, y, mark.role)
    words = y + 15 if mark.below else y - 5
    yield _text(frame.right, words, mark.label, anchor="end", kind=f"tick on-{mark.role}")


def _draw_steps(frame: _Frame, mark: Steps) -> Iterable[str]:
    corners: list[str] = []
    intervals = zip(mark.edges[:-1], mark.edges[1:], mark.heights, strict=True)
    for low, high, value in intervals:
        if drawable(value):
            y = _n(frame.y(value))
            start = "L" if corners else "M"
            corners.append(f"{start}{_n(frame.x(low))} {y}H{_n(frame.x(high))}")
    if not corners:
        return
    if mark.filled:
        base, first = _n(frame.bottom), _n(frame.x(mark.edges[0]))
        yield f'<path d="{"".join(corners)}V{base}H{first}Z" class="fill {mark.role}"/>'
    else:
        yield f'<path d="{"".join(corners)}" class="stroke {mark.role}"/>'


def _draw_points(frame: _Frame, mark: Points) -> Iterable[str]:
    places = [
        (i, frame.x(x), frame.y(y))
        for i, (x, y) in enumerate(zip(mark.xs, mark.ys, strict=True))
        if drawable(y)
    ]
    joined = " ".join(f"{_n(x)},{_n(y)}" for _, x, y in places)
    yield f'<polyline points="{joined}" class="stroke {mark.role}"/>'
    for i, x, y in places:
        size, ring = (6, " ring") if i == mark.marked else (3.2, "")
        yield f'<circle cx="{_n(x)}" cy="{_n(y)}" r="{size}" class="dot {mark.role}{ring}"/>'


def _draw_bars(frame: _Frame, mark: Bars) -> Iterable[str]:
    zero = frame.y(0.0)
    wide = 0.8 * (frame.x(1.0) - frame.x(0.0))
    for i, value in enumerate(mark.heights):
        if drawable(value):
            y = frame.y(value)
            x = frame.x(i + 1.0) - wide / 2
            yield _rect(x, min(y, zero), wide, abs(zero - y), f"fill {mark.role}")
    yield _line(frame.left, zero, frame.right, zero, "axis")


def _draw_heat_map(picture: HeatMap, width: int) -> str:
    left = 12 + _LETTER * max(len(name) for name in picture.rows)
    n_rows, n_columns = len(picture.rows), len(picture.columns)
    cell = (width - left - 4) / n_columns
    tall = min(cell, 30.0) if n_columns > n_rows or cell > 30 else cell
    tall = max(tall, 14.0) if n_rows <= 16 else tall
    height = 22 + tall * n_rows + 4
    parts = [
        _rect(left, 22, cell * n_columns, tall * n_rows, "frame"),
        *_column_names(picture, left, cell, width),
        *_row_names(picture, left, tall),
        *_cells(picture, left, cell, tall),
    ]
    return _document(picture, width, height, parts)


def _column_names(picture: HeatMap, left: float, cell: float, width: float) -> Iterable[str]:
    longest = max(len(name) for name in picture.columns)
    every = math.ceil(_LETTER * (longest + 1) / cell)
    for i in range(0, len(picture.columns), every):
        x = left + (i + 0.5) * cell
        if x + _LETTER * longest / 2 <= width:
            yield _text(x, 14, picture.columns[i], anchor="middle", kind="tick")


def _row_names(picture: HeatMap, left: float, tall: float) -> Iterable[str]:
    every = math.ceil(14 / tall)
    for i in range(0, len(picture.rows), every):
        y = 22 + (i + 0.5) * tall + 4
        yield _text(left - 6, y, picture.rows[i], anchor="end", kind="tick")


def _cells(picture: HeatMap, left: float, cell: float, tall: float) -> Iterable[str]:
    gap = 1.0 if min(cell, tall) > 8 else 0.0
    size = f'width="{cell - gap:.2f}" height="{tall - gap:.2f}"'
    for i, row in enumerate(picture.values):
        for j, value in enumerate(row):
            if not drawable(value):
                continue
            kind = "plus" if value > 0 else "minus"
            strength = min(1.0, abs(value) / picture.limit)
            words = escape(f"{picture.rows[i]}, {picture.columns[j]}: {value:.4g}")
            yield (
                f'<rect x="{left + j * cell:.2f}" y="{22 + i * tall:.2f}" {size} class="{kind}" '
                f'fill-opacity="{strength:.2f}"><title>{words}</title></rect>'
            )


def _draw_interval(picture: Interval, width: int) -> str:
    far = 1.2 * max(picture.high, picture.outer_high)
    axis = Axis("errors, % of rows", 0.0, far, unit="%")
    left, right, base = 10.0, width - 14.0, 84.0

    def at(value: float) -> float:
        return left + _share(axis, value) * (right - left)

    low, high = at(picture.low), at(picture.high)
    inner = "the best halfspace is in here"
    parts = [
        _rect(left, base - 26, low - left, 26, "fill excluded"),
        _rect(low, base - 26, high - low, 26, "fill main"),
        _line(at(picture.outer_low), base - 13, low, base - 13, "whisker"),
        _line(high, base - 13, at(picture.outer_high), base - 13, "whisker"),
        *(
            _line(at(value), base - 19, at(value), base - 7, "whisker")
            for value in (picture.outer_low, picture.outer_high)
        ),
        *_ends(picture, low, high, base),
        _line(left, base, right, base, "axis"),
    ]
    if high - low > _LETTER * len(inner):
        parts.append(_text((low + high) / 2, base - 9, inner, anchor="middle", kind="inside"))
    for value in ticks(axis, max(4, width // 90)):
        parts.append(_line(at(value), base, at(value), base + 5, "axis"))
        parts.append(_text(at(value), base + 19, f"{value:.4g}%", anchor="middle", kind="tick"))
    parts.append(_text((left + right) / 2, base + 38, axis.label, anchor="middle", kind="label"))
    return _document(picture, width, base + 46, parts)


def _ends(picture: Interval, low: float, high: float, base: float) -> Iterable[str]:
    """Names of the two ends, on two heights so that they never meet; short ones where cramped."""
    short = f"L = {picture.low:.3f}%"
    words = f"no halfspace below {short}" if picture.low > 0 else "no bound above 0"
    words = words if max(low, high - low - 8) > _LETTER * len(words) else short
    fits_right = high - low - 8 > _LETTER * len(words) or low < _LETTER * len(words)
    yield _line(low, base - 34, low, base, "end")
    yield _text(low, base - 40, words, anchor="start" if fits_right else "end", kind="value")
    yield _line(high, base - 56, high, base, "end")
    yield _text(high, base - 62, f"this one: U = {picture.high:.3f}%", anchor="end", kind="value")


def _draw_comparison(picture: Comparison, width: int) -> str:
    drawn = [value for value in (*picture.values, picture.chance) if drawable(value)]
    axis = Axis("", 0.0, 1.12 * max([picture.limit, *drawn]))
    left, right, top, tall = 2.0, width - 2.0, 28.0, 46.0
    height = top + tall * len(picture.values) + 4

    def at(value: float) -> float:
        return left + _share(axis, value) * (right - left)

    limit, chance = at(picture.limit), at(picture.chance) if drawable(picture.chance) else None
    side = "start" if limit < right / 2 else "end"
    parts = [_text(limit, 14, picture.limit_words, anchor=side, kind="tick")]
    for i, (name, remark, value) in enumerate(
        zip(picture.names, picture.remarks, picture.values, strict=True)
    ):
        y = top + tall * i
        room = right - left - _LETTER * (len(remark) + 2)
        parts.append(_text(left, y + 14, _fitted(name, room), kind="name"))
        parts.append(_text(right, y + 14, remark, anchor="end"))
        kind = "contrast" if value > picture.limit else "main"
        if drawable(value):
            parts.append(_rect(left, y + 20, at(value) - left, 16, f"fill {kind}"))
        # below the words, which may reach as far as the line
        parts.append(_line(limit, y + 20, limit, y + 40, "end"))
        if chance is not None:
            parts.append(_line(chance, y + 20, chance, y + 40, "chance"))
    return _document(picture, width, height, parts)
