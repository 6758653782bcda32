"""Figures as inline SVG: no script, no fonts, colours from the stylesheet.

A picture is drawn for a given width in CSS pixels, so that letters keep their size on a phone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from xml.etree.ElementTree import Element, SubElement, tostring

from markupsafe import Markup

from streamhalf.report.figures import (
    Axis,
    Bars,
    Comparison,
    HeatMap,
    Interval,
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


def draw(picture: Picture, width: int, kind: str) -> Markup:
    """The picture as an <svg> element of this width and class, with its name and description."""
    canvas = Canvas(width, kind=kind)
    canvas.add("title", picture.title)
    canvas.add("desc", picture.description)
    if isinstance(picture, Plot):
        height = _draw_plot(canvas, picture)
    elif isinstance(picture, HeatMap):
        height = _draw_heat_map(canvas, picture)
    elif isinstance(picture, Interval):
        height = _draw_interval(canvas, picture)
    else:
        height = _draw_comparison(canvas, picture)
    return canvas.finish(height)


class Canvas:
    """An <svg> element to add to; coordinates to a tenth of a pixel, every word escaped."""

    def __init__(self, width: int, **attributes: str) -> None:
        self.width = width
        self._svg = Element("svg", role="img", **_attributes(attributes))

    def finish(self, height: float) -> Markup:
        """The drawing, for a page that escapes."""
        size = {"width": self.width, "height": height}
        self._svg.attrib |= _attributes({"viewBox": f"0 0 {self.width} {_n(height)}", **size})
        return Markup(tostring(self._svg, encoding="unicode"))

    def add(self, tag: str, words: str = "", **attributes: float | str) -> Element:
        """An element; `kind` is its class."""
        element = SubElement(self._svg, tag, _attributes(attributes))
        element.text = words
        return element

    def text(self, x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> None:
        self.add("text", words, x=x, y=y, text_anchor=anchor, kind=kind)

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        self.add("line", x1=x1, y1=y1, x2=x2, y2=y2, kind=f"stroke {kind}")

    def rect(self, x: float, y: float, width: float, height: float, kind: str) -> None:
        self.add("rect", x=x, y=y, width=max(0.0, width), height=max(0.0, height), kind=kind)


def _attributes(given: dict[str, float | str] | dict[str, str]) -> dict[str, str]:
    names = {"kind": "class"}
    return {
        names.get(name, name.replace("_", "-")): value if isinstance(value, str) else _n(value)
        for name, value in given.items()
        if value != ""
    }


def _n(value: float) -> str:
    """A coordinate to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")


def _along(axis: Axis, start: float, end: float) -> Callable[[float], float]:
    """The coordinate of a value, where the axis goes from start to end; it is never left."""
    scale: Callable[[float], float] = math.log10 if axis.log else float
    low, high = scale(axis.low), scale(axis.high)

    def place(value: float) -> float:
        inside = scale(min(max(value, axis.low), axis.high))
        return start + (inside - low) / (high - low) * (end - start)

    return place


def _draw_plot(canvas: Canvas, plot: Plot) -> float:
    height = 250 if canvas.width < 500 else 290
    labels = {value: _tick(plot.y, value) for value in ticks(plot.y, _Y_TICKS)}
    left = max(52.0, 12 + _DIGIT * max(map(len, labels.values()), default=0))
    right, top, bottom = canvas.width - 18, 34, height - 44
    x, y = _along(plot.x, left, right), _along(plot.y, bottom, top)
    canvas.text(0, 16, plot.y.label, "label")
    for value, words in labels.items():
        canvas.line(left, y(value), right, y(value), "grid")
        canvas.text(left - 8, y(value) + 4, words, "tick", "end")
    _draw_axis(canvas, plot.x, (left, right), bottom, canvas.width // 70)
    for mark in plot.marks:
        if isinstance(mark, Steps):
            _draw_steps(canvas, mark, x, y, bottom)
        elif isinstance(mark, Points):
            _draw_points(canvas, mark, x, y)
        elif isinstance(mark, Bars):
            _draw_bars(canvas, mark, x, y)
            canvas.line(left, y(0.0), right, y(0.0), "axis")
        else:
            _draw_rule(canvas, mark, left, right, y(mark.at))
    return height


def _tick(axis: Axis, value: float) -> str:
    return f"{value:.4g}{axis.unit}"


def _draw_axis(
    canvas: Canvas, axis: Axis, ends: tuple[float, float], base: float, most: int
) -> None:
    """A horizontal axis with its ticks and its label below."""
    x = _along(axis, *ends)
    for value in ticks(axis, most):
        canvas.line(x(value), base, x(value), base + 5, "axis")
        canvas.text(x(value), base + 19, _tick(axis, value), "tick", "middle")
    canvas.line(ends[0], base, ends[1], base, "axis")
    canvas.text(sum(ends) / 2, base + 38, axis.label, "label", "middle")


_Place = Callable[[float], float]


def _draw_rule(canvas: Canvas, mark: Rule, left: float, right: float, y: float) -> None:
    canvas.line(left, y, right, y, mark.role)
    words = y + 15 if mark.below else y - 5
    canvas.text(right, words, mark.label, f"tick on-{mark.role}", "end")


def _draw_steps(canvas: Canvas, mark: Steps, x: _Place, y: _Place, bottom: float) -> None:
    intervals = zip(mark.edges[:-1], mark.edges[1:], mark.heights, strict=True)
    drawn = [
        f"{_n(x(low))} {_n(y(value))}H{_n(x(high))}"
        for low, high, value in intervals
        if drawable(value)
    ]
    close = f"V{_n(bottom)}H{_n(x(mark.edges[0]))}Z" if mark.filled else ""
    if drawn:
        kind = f"{'fill' if mark.filled else 'stroke'} {mark.role}"
        canvas.add("path", d=f"M{'L'.join(drawn)}{close}", kind=kind)


def _draw_points(canvas: Canvas, mark: Points, x: _Place, y: _Place) -> None:
    pairs = enumerate(zip(mark.xs, mark.ys, strict=True))
    places = {i: (x(a), y(b)) for i, (a, b) in pairs if drawable(b)}
    joined = " ".join(f"{_n(a)},{_n(b)}" for a, b in places.values())
    canvas.add("polyline", points=joined, kind=f"stroke {mark.role}")
    for i, (a, b) in places.items():
        size, ring = (6, " ring") if i == mark.marked else (3.2, "")
        canvas.add("circle", cx=a, cy=b, r=size, kind=f"dot {mark.role}{ring}")


def _draw_bars(canvas: Canvas, mark: Bars, x: _Place, y: _Place) -> None:
    zero, wide = y(0.0), 0.8 * (x(1.0) - x(0.0))
    for i, value in enumerate(mark.heights):
        if drawable(value):
            low, high = sorted((zero, y(value)))
            canvas.rect(x(i + 1.0) - wide / 2, low, wide, high - low, f"fill {mark.role}")


def _draw_heat_map(canvas: Canvas, picture: HeatMap) -> float:
    left = 12 + _LETTER * max(map(len, picture.rows))
    n_rows, n_columns = len(picture.rows), len(picture.columns)
    wide = (canvas.width - left - 4) / n_columns
    tall = min(wide, 30.0) if n_columns > n_rows or wide > 30 else wide
    tall = max(tall, 14.0) if n_rows <= 16 else tall
    canvas.rect(left, 22, wide * n_columns, tall * n_rows, "frame")
    longest = _LETTER * max(map(len, picture.columns))
    for i in range(0, n_columns, math.ceil((longest + _LETTER) / wide)):
        if (x := left + (i + 0.5) * wide) + longest / 2 <= canvas.width:
            canvas.text(x, 14, picture.columns[i], "tick", "middle")
    for i in range(0, n_rows, math.ceil(14 / tall)):
        canvas.text(left - 6, 26 + (i + 0.5) * tall, picture.rows[i], "tick", "end")
    _draw_cells(canvas, picture, left, wide, tall)
    return 26 + tall * n_rows


def _draw_cells(canvas: Canvas, picture: HeatMap, left: float, wide: float, tall: float) -> None:
    gap = 1.0 if min(wide, tall) > 8 else 0.0
    for i, row in enumerate(picture.values):
        for j, value in enumerate(row):
            if drawable(value):
                cell = canvas.add(
                    "rect",
                    x=f"{left + j * wide:.2f}",
                    y=f"{22 + i * tall:.2f}",
                    width=f"{wide - gap:.2f}",
                    height=f"{tall - gap:.2f}",
                    kind="plus" if value > 0 else "minus",
                    fill_opacity=f"{min(1.0, abs(value) / picture.limit):.2f}",
                )
                words = f"{picture.rows[i]}, {picture.columns[j]}: {value:.4g}"
                SubElement(cell, "title").text = words


def _draw_interval(canvas: Canvas, picture: Interval) -> float:
    """Names of the two ends are on two heights so that they never meet; short ones where cramped."""
    far = 1.2 * max(picture.high, picture.outer_high)
    axis = Axis("errors, % of rows", 0.0, far, unit="%")
    left, right, base = 10.0, canvas.width - 14.0, 84.0
    at = _along(axis, left, right)
    low, high = at(picture.low), at(picture.high)
    canvas.rect(left, base - 26, low - left, 26, "fill excluded")
    canvas.rect(low, base - 26, high - low, 26, "fill main")
    for outer, end in ((at(picture.outer_low), low), (at(picture.outer_high), high)):
        canvas.line(outer, base - 13, end, base - 13, "whisker")
        canvas.line(outer, base - 19, outer, base - 7, "whisker")
    inner = "the best halfspace is in here"
    if high - low > _LETTER * len(inner):
        canvas.text((low + high) / 2, base - 9, inner, "inside", "middle")
    short = f"L = {picture.low:.3f}%"
    words = f"no halfspace below {short}" if picture.low > 0 else "no bound above 0"
    words = words if max(low, high - low - 8) > _LETTER * len(words) else short
    fits_right = high - low - 8 > _LETTER * len(words) or low < _LETTER * len(words)
    canvas.line(low, base - 34, low, base, "end")
    canvas.text(low, base - 40, words, "value", "start" if fits_right else "end")
    canvas.line(high, base - 56, high, base, "end")
    canvas.text(high, base - 62, f"this one: U = {picture.high:.3f}%", "value", "end")
    _draw_axis(canvas, axis, (left, right), base, max(4, canvas.width // 90))
    return base + 46


def _draw_comparison(canvas: Canvas, picture: Comparison) -> float:
    drawn = [value for value in (*picture.values, picture.chance) if drawable(value)]
    left, right, tall = 2.0, canvas.width - 2.0, 46.0
    at = _along(Axis("", 0.0, 1.12 * max([picture.limit, *drawn])), left, right)
    limit = at(picture.limit)
    canvas.text(limit, 14, picture.limit_words, "tick", "start" if limit < right / 2 else "end")
    bars = zip(picture.names, picture.remarks, picture.values, strict=True)
    for i, (name, remark, value) in enumerate(bars):
        y = 28 + tall * i
        # cut where it would leave the picture; the table has it in full
        most = max(4, int((right - left) / _LETTER - len(remark) - 2))
        canvas.text(left, y + 14, name if len(name) <= most else f"{name[: most - 1]}…", "name")
        canvas.text(right, y + 14, remark, anchor="end")
        if drawable(value):
            kind = "contrast" if value > picture.limit else "main"
            canvas.rect(left, y + 20, at(value) - left, 16, f"fill {kind}")
        # below the words, which may reach as far as the line
        canvas.line(limit, y + 20, limit, y + 40, "end")
        if drawable(picture.chance):
            canvas.line(at(picture.chance), y + 20, at(picture.chance), y + 40, "chance")
    return 32 + tall * len(picture.values)
