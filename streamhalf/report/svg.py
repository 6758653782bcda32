"""Inline SVG: a canvas, axes, marks, and the kinds of pictures that a report has.

No script and no fonts; colours come from svg.css by class. A picture is drawn for a width in CSS pixels, so letters
keep their size on a phone. Values that are not finite are left out.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from markupsafe import Markup, escape

from streamhalf.report.words import number

# Widths that keep labels apart: of an average letter, of a bold one, of a digit on an axis
LETTER, BOLD, DIGIT = 7.0, 8.0, 8.0
_LARGEST_DRAWN = 1e100  # Beyond this, differences of coordinates could overflow
FARTHEST = 25.0  # Times a limit at which bars end: beyond, the limit itself would vanish
_BESIDE = 2.0  # In widths of the bars of a ladder: a value farther away than this is beyond its axis
_STEEP = 0.94  # Sine of 70 degrees, by which names of columns are turned that have no room side by side
_SHADES = 20
Place = Callable[[float], float]


def drawable(value: float) -> bool:
    """Return whether a value has a place on an axis."""
    return abs(value) < _LARGEST_DRAWN


def shorten(text: str, most: int) -> str:
    """Return a text of at most so many letters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _short(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")


class Canvas:
    """An <svg> element under construction; every word is escaped."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._parts: list[str] = []

    def add(self, tag: str, words: str = "", hint: str = "", **attributes: float | str) -> None:
        """Add an element; `kind` is its class, `hint` its tooltip."""
        pairs = (
            ("class" if key == "kind" else key.replace("_", "-"), _short(value)) for key, value in attributes.items()
        )
        written = "".join(f' {key}="{escape(value)}"' for key, value in pairs if value)
        title = f"<title>{escape(hint)}</title>" if hint else ""
        self._parts.append(f"<{tag}{written}>{title}{escape(words)}</{tag}>")

    def text(self, x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> None:
        self.add("text", words, x=x, y=y, text_anchor=anchor, kind=kind)

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        self.add("line", x1=x1, y1=y1, x2=x2, y2=y2, kind=f"stroke {kind}")

    def rect(self, x: float, y: float, width: float, height: float, kind: str) -> None:
        self.add("rect", x=x, y=y, width=max(0.0, width), height=max(0.0, height), kind=kind)

    def axis(self, axis: Axis, ends: tuple[float, float], base: float) -> None:
        """Add a horizontal axis, its ticks as far apart as their words need, and its label."""
        place, width = axis.along(*ends), ends[1] - ends[0]
        for value in axis.ticks(max(3, int(width // 65))):
            self.line(place(value), base, place(value), base + 5, "axis")
            self.text(place(value), base + 19, axis.tick(value), "tick", "middle")
        self.line(ends[0], base, ends[1], base, "axis")
        self.text(sum(ends) / 2, base + 38, axis.label, "label", "middle")

    def finish(self, height: float, kind: str) -> Markup:
        size = f'viewBox="0 0 {self.width} {_short(height)}" width="{self.width}" height="{_short(height)}"'
        return Markup(f'<svg role="img" class="{kind}" {size}>{"".join(self._parts)}</svg>')


@dataclass(frozen=True, slots=True)
class Axis:
    """A labelled range."""

    label: str
    low: float
    high: float
    unit: str = ""
    whole: bool = False

    def along(self, start: float, end: float) -> Place:
        """Return the map from values to coordinates; values beyond the ends stay at the ends."""
        per_unit = (end - start) / (self.high - self.low)
        return lambda value: start + (min(max(value, self.low), self.high) - self.low) * per_unit

    def tick(self, value: float) -> str:
        """Return a value in the unit of the axis."""
        return number(value) + self.unit

    def ticks(self, most: int) -> tuple[float, ...]:
        """Return at most `most` round values of the range."""
        width = self.high - self.low
        step = 10.0 ** math.floor(math.log10(width / most))
        step *= next(factor for factor in (1, 2, 5, 10, 20) if width / (step * factor) <= most)
        step = max(1.0, step) if self.whole else step
        first, last = math.ceil(self.low / step), math.floor(self.high / step + 1e-9)
        return tuple(k * step for k in range(first, last + 1))


def span(values: Iterable[float], *, low: float, high: float) -> tuple[float, float]:
    """Return the range that holds low, high and every drawable value, with some room above."""
    found = [value for value in values if drawable(value)]
    least, most = min([low, *found]), max([high, *found])
    room = 0.06 * (most - least) or 1.0
    return (least if least == low else least - room), most + room


@dataclass(frozen=True, slots=True)
class Picture(ABC):
    """A drawing with a title and a description."""

    title: str
    description: str

    @abstractmethod
    def paint(self, canvas: Canvas) -> float:
        """Draw on the canvas and return the height that was used."""

    def draw(self, width: int, kind: str) -> Markup:
        """Return the picture as an <svg> element of this width and class."""
        canvas = Canvas(width)
        canvas.add("title", self.title)
        canvas.add("desc", self.description)
        return canvas.finish(self.paint(canvas), kind)


@dataclass(frozen=True, slots=True)
class _Mark:
    """Something drawn over two axes; `role` (main, contrast, reference) is its colour."""

    label: str = ""
    role: str = "main"


@dataclass(frozen=True, slots=True)
class Steps(_Mark):
    """A value on each interval between edges: an outline, or a filled histogram."""

    edges: tuple[float, ...] = ()
    heights: tuple[float, ...] = ()
    filled: bool = False

    def paint(self, canvas: Canvas, x: Place, y: Place) -> None:
        intervals = zip(self.edges[:-1], self.edges[1:], self.heights, strict=True)
        drawn = [
            f"{_short(x(low))} {_short(y(value))}H{_short(x(high))}"
            for low, high, value in intervals
            if drawable(value)
        ]
        close = f"V{_short(y(-math.inf))}H{_short(x(self.edges[0]))}Z" if self.filled else ""
        if drawn:
            kind = f"{'fill' if self.filled else 'stroke'} {self.role}"
            canvas.add("path", d=f"M{'L'.join(drawn)}{close}", kind=kind)


@dataclass(frozen=True, slots=True)
class Dots(_Mark):
    """Values of things numbered from 0; the chosen one has a ring."""

    values: tuple[float, ...] = ()
    chosen: int | None = None

    def paint(self, canvas: Canvas, x: Place, y: Place) -> None:
        for i, value in enumerate(self.values):
            if drawable(value):
                size, ring = (7, " ring") if i == self.chosen else (4, "")
                canvas.add("circle", cx=x(i), cy=y(value), r=size, kind=f"dot {self.role}{ring}")


@dataclass(frozen=True, slots=True)
class Rule(_Mark):
    """A horizontal line at a value, named above its left or right end; or a vertical one."""

    at: float = 0.0
    left: bool = False
    vertical: bool = False

    def paint(self, canvas: Canvas, x: Place, y: Place) -> None:
        if self.vertical:
            canvas.line(x(self.at), y(-math.inf), x(self.at), y(math.inf), self.role)
        else:
            canvas.line(x(-math.inf), y(self.at), x(math.inf), y(self.at), self.role)

    def name(self, canvas: Canvas, x: Place, y: Place, height: float) -> None:
        """Write the label above this height, over all lines."""
        left, right = x(-math.inf), x(math.inf)
        kind = f"tick on-{self.role}"
        if self.vertical:
            half = LETTER * len(self.label) / 2
            canvas.text(min(max(x(self.at), left + half), right - half), y(math.inf) - 4, self.label, kind, "middle")
            return
        place, anchor = (left + 4, "start") if self.left else (right, "end")
        room = height > y(math.inf) + 11.9  # below the name of a vertical line
        canvas.text(place, height - 5 if room else y(self.at) + 14, self.label, kind, anchor)


@dataclass(frozen=True, slots=True)
class Plot(Picture):
    """Marks over two axes."""

    x: Axis
    y: Axis
    marks: tuple[Steps | Dots | Rule, ...]

    @property
    def key(self) -> list[tuple[str, str]]:
        """The look of lines and histograms, and what they stand for."""
        named = [one for one in self.marks if isinstance(one, Steps | Dots) and one.label]
        return [("filled" if isinstance(one, Steps) and one.filled else one.role, one.label) for one in named]

    def paint(self, canvas: Canvas) -> float:
        """Draw the axes, then the marks in their order."""
        height = 250 if canvas.width < 500 else 290
        labels = {value: self.y.tick(value) for value in self.y.ticks(5)}
        left = max(52.0, 12 + DIGIT * max(map(len, labels.values()), default=0))
        right, bottom = canvas.width - 18.0, height - 44.0
        x, y = self.x.along(left, right), self.y.along(bottom, 34)
        canvas.text(0, 16, self.y.label, "label")
        for value, words in labels.items():
            canvas.line(left, y(value), right, y(value), "grid")
            canvas.text(left - 8, y(value) + 4, words, "tick", "end")
        canvas.axis(self.x, (left, right), bottom)
        rules = [one for one in self.marks if isinstance(one, Rule)]
        for mark in sorted(self.marks, key=lambda one: isinstance(one, Rule)):
            mark.paint(canvas, x, y)
        level = [y(one.at) for one in rules if not one.vertical]
        for rule in rules:  # of two lines close together, both names are above the upper one
            own = y(rule.at)
            rule.name(canvas, x, y, min((one for one in level if 0 < own - one < 20), default=own))
        return height


@dataclass(frozen=True, slots=True)
class Ladder(Picture):
    """Shares of rows on one axis, one below the other: (name, words, low, value, high).

    A rung is a bar from `low` to `high`, and a dot at its value, if it has one. The axis is that of the
    bars: a value far beyond them is an arrow at its end. Each rung has its words in a line of its own
    above, so no two labels ever meet.
    """

    rungs: tuple[tuple[str, str, float, float | None, float], ...]

    @property
    def _range(self) -> tuple[float, float]:
        ends = [100 * end for _, _, low, _, high in self.rungs for end in (low, high)]
        near = [100 * end for _, _, low, _, high in self.rungs[:-1] for end in (low, high)] or ends
        low, high = min(near), max(near)
        wide = max(high - low, 0.05 * high)
        if max(ends) <= high + _BESIDE * wide:
            low, high = min(ends), max(ends)
        room = 0.15 * max(high - low, 0.05 * high) or 0.5
        return (0.0 if low < 0.5 * high else low - room), high + room

    def paint(self, canvas: Canvas) -> float:
        """Draw the rungs, then the axis below all of them."""
        axis = Axis("share of rows that are wrong", *self._range, unit="%")
        left, right, tall = 16.0, canvas.width - 20.0, 50.0
        place = axis.along(left, right)
        for i, (name, words, low, value, high) in enumerate(self.rungs):
            top = tall * i
            beyond = 100 * low > axis.high
            canvas.text(left - 8, top + 16, name, "name")
            canvas.text(right, top + 16, f"{words}, beyond this axis" if beyond else words, "tick", "end")
            canvas.line(left, top + 34, right, top + 34, "grid")
            start, end = place(100 * low), place(100 * high)
            kind = ("main", "good", "reference")[min(i, 2)]
            if beyond:
                canvas.add("path", d=f"M{_short(right)} {_short(top + 34)}l-12 -7v14Z", kind=f"dot {kind}")
                continue
            if high > low or value is None:
                canvas.rect(
                    start, top + 27, max(end - start, 3.0), 14, f"fill {'good' if value is None else 'excluded'}"
                )
            if value is not None:
                canvas.add("circle", cx=place(100 * value), cy=top + 34, r=5, kind=f"dot {kind}")
        canvas.axis(axis, (left, right), tall * len(self.rungs) + 4)
        return tall * len(self.rungs) + 50


@dataclass(frozen=True, slots=True)
class Bars(Picture):
    """Quantities as bars below their (name, remark, value): against a limit, or to either side of zero."""

    bars: tuple[tuple[str, str, float], ...]
    limit: float | None = None
    limit_words: str = ""

    def paint(self, canvas: Canvas) -> float:
        left, right, tall = 2.0, canvas.width - 2.0, 42.0
        size = max((abs(value) for _, _, value in self.bars if drawable(value)), default=0.0) or 1.0
        if self.limit is None:
            top, at = 0.0, Axis("", -size, size).along(left, right)
            base = start = at(0.0)
        else:
            top, at = 28.0, Axis("", 0.0, min(1.12 * max(size, self.limit), FARTHEST * self.limit)).along(left, right)
            base, start = at(self.limit), left
            canvas.text(base, 14, self.limit_words, "tick", "start" if base < right / 2 else "end")
        for i, (name, remark, value) in enumerate(self.bars):
            y = top + tall * i
            room = max(4, int((right - left) / BOLD - len(remark) - 2))
            canvas.text(left, y + 14, shorten(name, room), "name")  # the table has it all
            canvas.text(right, y + 14, remark, "tick", "end")
            if drawable(value):
                contrast = value < 0 if self.limit is None else value > self.limit
                low, high = sorted((start, at(value)))
                canvas.rect(low, y + 20, high - low, 14, f"fill {'contrast' if contrast else 'main'}")
            canvas.line(base, y + 19, base, y + 36, "axis" if self.limit is None else "end")
        return top + tall * len(self.bars) + 4


@dataclass(frozen=True, slots=True)
class HeatMap(Picture):
    """Signed values in a grid; full colour is reached at the limit."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    limit: float

    def paint(self, canvas: Canvas) -> float:
        """Draw the cells, as many names as there is room for, and the scale."""
        left = 12 + LETTER * max(map(len, self.rows))
        n_rows, n_columns = len(self.rows), len(self.columns)
        wide = (canvas.width - left - 4) / n_columns
        tall = min(wide, 30.0) if n_columns > n_rows or wide > 30 else wide
        tall = max(tall, 14.0) if n_rows <= 16 else tall
        longest = LETTER * max(map(len, self.columns))
        turned = longest + LETTER > wide
        top = 12 + _STEEP * longest if turned else 22.0
        for j in range(0, n_columns, math.ceil(14 / wide) if turned else 1):
            x = left + (j + 0.5) * wide
            if turned:
                turn = f"translate({_short(x + 4)} {_short(top - 6)}) rotate(-70)"
                canvas.add("text", self.columns[j], transform=turn, kind="tick")
            else:
                canvas.text(x, 14, self.columns[j], "tick", "middle")
        for i in range(0, n_rows, math.ceil(14 / tall)):
            canvas.text(left - 6, top + 4 + (i + 0.5) * tall, self.rows[i], "tick", "end")
        for i, row in enumerate(self.values):
            for j, value in enumerate(row):
                if drawable(value):
                    hint = f"{self.rows[i]}, {self.columns[j]}: {value:.4g}"
                    _cell(canvas, left + j * wide, top + i * tall, (wide, tall), value / self.limit, hint)
        canvas.rect(left, top, wide * n_columns, tall * n_rows, "frame")
        return self._paint_scale(canvas, left, top + 14 + tall * n_rows)

    def _paint_scale(self, canvas: Canvas, left: float, top: float) -> float:
        """Draw the colours from minus to plus the limit, with their values."""
        width = min(220.0, canvas.width - left - 30)
        wide = width / _SHADES
        for i in range(_SHADES):
            _cell(canvas, left + i * wide, top, (wide, 10.0), 2 * (i + 0.5) / _SHADES - 1)
        canvas.rect(left, top, width, 10, "frame")
        canvas.text(left, top + 24, f"-{self.limit:.4g} or less", "tick")
        canvas.text(left + width, top + 24, f"{self.limit:.4g} or more", "tick", "end")
        return top + 30


def _cell(canvas: Canvas, x: float, y: float, size: tuple[float, float], shade: float, hint: str = "") -> None:
    """Add a rectangle, in hundredths of a pixel: cells of one row must meet."""
    place = {"x": f"{x:.2f}", "y": f"{y:.2f}", "width": f"{size[0]:.2f}", "height": f"{size[1]:.2f}"}
    opacity = f"{min(1.0, abs(shade)):.2f}"
    canvas.add("rect", hint=hint, **place, kind="plus" if shade > 0 else "minus", fill_opacity=opacity)
