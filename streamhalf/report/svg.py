"""Inline SVG to draw on: no script, no fonts, colours from the stylesheet.

A picture is drawn for a given width in CSS pixels, so that letters keep their size on a phone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement, tostring

from markupsafe import Markup

LETTER = 7.0
"""Average width of a letter, enough to keep labels apart."""

_LARGEST_DRAWN = 1e100
"""Beyond this, differences of coordinates could overflow."""

Place = Callable[[float], float]
"""The coordinate of a value."""


class Canvas:
    """An <svg> element to add to; coordinates to a tenth of a pixel, every word escaped."""

    def __init__(self, width: int, **attributes: str) -> None:
        self.width = width
        self._svg = Element("svg", _attributes({"role": "img", **attributes}))

    def finish(self, height: float) -> Markup:
        """The drawing, for a page that escapes."""
        box = f"0 0 {self.width} {short(height)}"
        size = _attributes({"viewBox": box, "width": self.width, "height": height})
        self._svg.attrib.update(size)
        return Markup(tostring(self._svg, encoding="unicode"))

    def add(self, tag: str, words: str = "", **attributes: float | str) -> Element:
        """An element; `kind` is its class."""
        element = SubElement(self._svg, tag, _attributes(attributes))
        element.text = words
        return element

    def text(self, x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> None:
        """Words that begin, end or have their middle here."""
        self.add("text", words, x=x, y=y, text_anchor=anchor, kind=kind)

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        """A straight line."""
        self.add("line", x1=x1, y1=y1, x2=x2, y2=y2, kind=f"stroke {kind}")

    def rect(self, x: float, y: float, width: float, height: float, kind: str) -> None:
        """A rectangle from its upper left corner."""
        self.add("rect", x=x, y=y, width=max(0.0, width), height=max(0.0, height), kind=kind)

    def axis(self, axis: Axis, ends: tuple[float, float], base: float, most: int) -> None:
        """A horizontal axis with its ticks, `most` of them or fewer, and its label below."""
        x = axis.along(*ends)
        shown = {value: axis.tick(value) for value in ticks(axis, most)}
        room = (ends[1] - ends[0]) / max(1, len(axis.names))
        if axis.names and LETTER * (1 + max(map(len, axis.names))) < room:
            shown = {i + 1.0: name for i, name in enumerate(axis.names)}
        for value, words in shown.items():
            self.line(x(value), base, x(value), base + 5, "axis")
            self.text(x(value), base + 19, words, "tick", "middle")
        self.line(ends[0], base, ends[1], base, "axis")
        self.text(sum(ends) / 2, base + 38, axis.label, "label", "middle")


def _attributes(given: Mapping[str, float | str]) -> dict[str, str]:
    written = {key: one if isinstance(one, str) else short(one) for key, one in given.items()}
    names = {key: "class" if key == "kind" else key.replace("_", "-") for key in given}
    return {names[key]: value for key, value in written.items() if value}


def short(value: float) -> str:
    """A coordinate to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")


@dataclass(frozen=True, slots=True)
class Axis:
    """A labelled range."""

    label: str
    low: float
    high: float
    log: bool = False
    unit: str = ""
    whole: bool = False
    names: tuple[str, ...] = ()
    """Of things numbered from 1; they take the place of the numbers where there is room."""

    def along(self, start: float, end: float) -> Place:
        """Where values lie if the axis goes from start to end; it is never left."""
        scale: Place = math.log10 if self.log else float
        low, high = scale(self.low), scale(self.high)

        def place(value: float) -> float:
            inside = scale(min(max(value, self.low), self.high))
            return start + (inside - low) / (high - low) * (end - start)

        return place

    def tick(self, value: float) -> str:
        """A value in the unit of the axis."""
        return f"{value:.4g}{self.unit}"


def drawable(value: float) -> bool:
    """Whether a value has a place on an axis."""
    return abs(value) < _LARGEST_DRAWN


def span(values: Iterable[float], *, low: float, high: float) -> tuple[float, float]:
    """The range that holds low, high and every drawable value, with a little room above."""
    found = [value for value in values if drawable(value)]
    least, most = min([low, *found]), max([high, *found])
    room = 0.06 * (most - least) or 1.0
    return (least if least == low else least - room), most + room


def ticks(axis: Axis, most: int) -> tuple[float, ...]:
    """Round values on an axis, `most` of them or fewer."""
    if axis.log:
        return _log_ticks(axis, most)
    width = axis.high - axis.low
    step = 10.0 ** math.floor(math.log10(width / most))
    step *= next(factor for factor in (1, 2, 5, 10, 20) if width / (step * factor) <= most)
    step = max(1.0, step) if axis.whole else step
    first, last = math.ceil(axis.low / step), math.floor(axis.high / step + 1e-9)
    return tuple(k * step for k in range(first, last + 1))


def _log_ticks(axis: Axis, most: int) -> tuple[float, ...]:
    decades = range(math.floor(math.log10(axis.low)), math.ceil(math.log10(axis.high)) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        found = [f * 10.0**k for k in decades for f in factors]
        inside = tuple(value for value in found if axis.low <= value <= axis.high)
        if len(inside) <= most:
            return inside
    return inside[:: math.ceil(len(inside) / most)]
