"""What a figure holds, free of any drawing: axes, marks, heat maps, tables.

Values are in the unit of their axis. A mark whose values are not finite is drawn where they are.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

_LARGEST_DRAWN = 1e100
"""Beyond this, differences of coordinates could overflow."""


class Role(enum.StrEnum):
    """What is measured, what it is held against, and what it should be about.

    The stylesheet gives each role a colour and a stroke of its own.
    """

    MAIN = "main"
    REFERENCE = "reference"
    CONTRAST = "contrast"


@dataclass(frozen=True, slots=True)
class Axis:
    """A labelled range."""

    label: str
    low: float
    high: float
    log: bool = False
    unit: str = ""
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Steps:
    """A value on each interval between edges: an outline, or a filled histogram."""

    edges: tuple[float, ...]
    heights: tuple[float, ...]
    label: str
    role: Role = Role.MAIN
    filled: bool = False


@dataclass(frozen=True, slots=True)
class Points:
    """Measured points joined by a line; the marked one is drawn larger."""

    xs: tuple[float, ...]
    ys: tuple[float, ...]
    label: str
    role: Role = Role.MAIN
    marked: int | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """A horizontal line at a value that matters, named above or below it."""

    at: float
    label: str
    role: Role = Role.CONTRAST
    below: bool = False


@dataclass(frozen=True, slots=True)
class Bars:
    """One bar from zero for each of a few numbered things."""

    heights: tuple[float, ...]
    role: Role = Role.MAIN


Mark = Steps | Points | Rule | Bars


@dataclass(frozen=True, slots=True)
class Plot:
    """Marks over two axes."""

    title: str
    description: str
    x: Axis
    y: Axis
    marks: tuple[Mark, ...]

    @property
    def key(self) -> list[tuple[str, str]]:
        """What lines and histograms look like, and what they stand for."""
        named = [mark for mark in self.marks if isinstance(mark, Steps | Points)]
        filled = [isinstance(mark, Steps) and mark.filled for mark in named]
        return [("filled" if f else m.role, m.label) for f, m in zip(filled, named, strict=True)]


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Signed values in a grid; full colour is reached at the limit."""

    title: str
    description: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    limit: float


@dataclass(frozen=True, slots=True)
class Interval:
    """The certified interval from `low` to `high` on a line that starts at 0, in per cent.

    The outer two are what holds for the source of the rows.
    """

    title: str
    description: str
    low: float
    high: float
    outer_low: float
    outer_high: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Quantities as bars against one limit and, perhaps, what chance alone reaches."""

    title: str
    description: str
    names: tuple[str, ...]
    remarks: tuple[str, ...]
    values: tuple[float, ...]
    limit: float
    limit_words: str
    chance: float = math.nan


Picture = Plot | HeatMap | Interval | Comparison


Cells: TypeAlias = Mapping[str, Callable[[Any], str]]
"""Columns of a table as data: a label, and how to write its cell for one record."""


@dataclass(frozen=True, slots=True)
class Table:
    """Formatted cells under a caption; the first cell of a row is its heading.

    Columns are numbers, aligned to the right, unless their label is among the words, which may
    break, or the names, which may not.
    """

    caption: str
    labels: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        caption: str,
        cells: Cells,
        records: Iterable[Any],
        *,
        words: tuple[str, ...] = (),
        names: tuple[str, ...] = (),
    ) -> Table:
        """A row for each record."""
        rows = tuple(tuple(write(one) for write in cells.values()) for one in records)
        return cls(caption, tuple(cells), rows, words, names)

    def kind(self, label: str) -> str | None:
        """What the stylesheet calls a column of numbers or of names."""
        if label in self.words:
            return None
        return "unbroken" if label in self.names else "number"


@dataclass(frozen=True, slots=True)
class Figure:
    """Pictures that belong together, what to see in them, and the numbers they were drawn from."""

    pictures: tuple[Picture, ...]
    caption: str
    tables: tuple[Table, ...]


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
