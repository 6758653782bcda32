"""What a figure shows: pictures that draw themselves, a caption, and the numbers behind them.

Values are in the unit of their axis. A mark whose values are not finite is drawn where they are.
"""

from __future__ import annotations

import enum
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from markupsafe import Markup

from streamhalf.report.svg import Axis, Canvas, Place, drawable, short, ticks
from streamhalf.report.tables import Table

_DIGIT = 8.0
"""Width of a digit or a sign, enough for the ticks beside an axis."""

_Y_TICKS = 5


class Role(enum.StrEnum):
    """What is measured, what it is held against, and what it should be about.

    The stylesheet gives each role a colour and a stroke of its own.
    """

    MAIN = "main"
    REFERENCE = "reference"
    CONTRAST = "contrast"


@dataclass(frozen=True, slots=True)
class Picture(ABC):
    """Something to see, with its name and its description."""

    title: str
    description: str

    @abstractmethod
    def paint(self, canvas: Canvas) -> float:
        """Draw on the canvas; returns the height that it took."""

    def draw(self, width: int, kind: str) -> Markup:
        """The picture as an <svg> element of this width and class."""
        canvas = Canvas(width, kind=kind)
        canvas.add("title", self.title)
        canvas.add("desc", self.description)
        return canvas.finish(self.paint(canvas))


@dataclass(frozen=True, slots=True)
class Figure:
    """Pictures that belong together, what to see in them, and the numbers they were drawn from."""

    pictures: tuple[Picture, ...]
    caption: str
    tables: tuple[Table, ...]
    stacked: bool = False
    """Whether pictures stand one below the other, over the same axis."""


@dataclass(frozen=True, slots=True)
class Plot(Picture):
    """Marks over two axes."""

    x: Axis
    y: Axis
    marks: tuple[Steps | Points | Rule | Cut | Bars, ...]

    @property
    def key(self) -> list[tuple[str, str]]:
        """What lines and histograms look like, and what they stand for."""
        named = [one for one in self.marks if isinstance(one, Steps | Points) and one.label]
        filled = [isinstance(mark, Steps) and mark.filled for mark in named]
        return [("filled" if f else m.role, m.label) for f, m in zip(filled, named, strict=True)]

    def paint(self, canvas: Canvas) -> float:
        """Axes first, then the marks in their order."""
        height = 250 if canvas.width < 500 else 290
        labels = {value: self.y.tick(value) for value in ticks(self.y, _Y_TICKS)}
        left = max(52.0, 12 + _DIGIT * max(map(len, labels.values()), default=0))
        right, bottom = canvas.width - 18, height - 44
        x, y = self.x.along(left, right), self.y.along(bottom, 34)
        canvas.text(0, 16, self.y.label, "label")
        for value, words in labels.items():
            canvas.line(left, y(value), right, y(value), "grid")
            canvas.text(left - 8, y(value) + 4, words, "tick", "end")
        canvas.axis(self.x, (left, right), bottom, canvas.width // 70)
        for mark in self.marks:
            mark.paint(canvas, x, y)
        return height


@dataclass(frozen=True, slots=True)
class Steps:
    """A value on each interval between edges: an outline, or a filled histogram."""

    edges: tuple[float, ...]
    heights: tuple[float, ...]
    label: str
    role: Role = Role.MAIN
    filled: bool = False

    def paint(self, canvas: Canvas, x: Place, y: Place) -> None:
        """One path."""
        intervals = zip(self.edges[:-1], self.edges[1:], self.heights, strict=True)
        drawn = [
            f"{short(x(low))} {short(y(value))}H{short(x(high))}"
            for low, high, value in intervals
            if drawable(value)
        ]
        close = f"V{short(y(-math.inf))}H{short(x(self.edges[0]))}Z" if self.filled else ""
        if drawn:
            kind = f"{'fill' if self.filled else 'stroke'} {self.role}"
            canvas.add("path", d=f"M{'L'.join(drawn)}{close}", kind=kind)


@dataclass(frozen=True, slots=True)
class Points:
    """Values of things numbered from 0, joined by a line; the marked one is drawn larger."""

    ys: tuple[float, ...]
    label: str
    role: Role = Role.MAIN
    marked: int | None = None

    def paint(self, canvas: Canvas, x: Place, y: Place) -> None:
        """The line, then the dots on it."""
        places = {i: (x(i), y(value)) for i, value in enumerate(self.ys) if drawable(value)}
        joined = " ".join(f"{short(a)},{short(b)}" for a, b in places.values())
        canvas.add("polyline", points=joined, kind=f"stroke {self.role}")
        for i, (a, b) in places.items():
            size, ring = (6, " ring") if i == self.marked else (3.2, "")
            canvas.add("circle", cx=a, cy=b, r=size, kind=f"dot {self.role}{ring}")


@dataclass(frozen=True, slots=True)
class Rule:
    """A horizontal line at a value that matters, named above or below it."""

    at: float
    label: str
    role: Role = Role.CONTRAST
    below: bool = False
    at_left: bool = False

    def paint(self, canvas: Canvas, x: Place, y: Place) -> None:
        """From end to end."""
        left, right, height = x(-math.inf), x(math.inf), y(self.at)
        canvas.line(left, height, right, height, self.role)
        words = height + 15 if self.below else height - 5
        place, anchor = (left + 4, "start") if self.at_left else (right, "end")
        canvas.text(place, words, self.label, f"tick on-{self.role}", anchor)


@dataclass(frozen=True, slots=True)
class Cut:
    """A vertical line at a place that matters, named above its upper end."""

    at: float
    label: str

    def paint(self, canvas: Canvas, x: Place, y: Place) -> None:
        """From bottom to top."""
        across, top = x(self.at), y(math.inf)
        canvas.line(across, y(-math.inf), across, top, Role.REFERENCE)
        canvas.text(across, top - 4, self.label, f"tick on-{Role.REFERENCE}", "middle")


@dataclass(frozen=True, slots=True)
class Bars:
    """One bar from zero for each of a few numbered things."""

    heights: tuple[float, ...]

    def paint(self, canvas: Canvas, x: Place, y: Place) -> None:
        """The bars, then the line that they stand on."""
        zero, wide = y(0.0), 0.8 * (x(1.0) - x(0.0))
        for i, value in enumerate(self.heights):
            if drawable(value):
                low, high = sorted((zero, y(value)))
                canvas.rect(x(i + 1.0) - wide / 2, low, wide, high - low, "fill main")
        canvas.line(x(-math.inf), zero, x(math.inf), zero, "axis")
