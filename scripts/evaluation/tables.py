"""Tables of the evaluation, with a criterion each, as Markdown and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")

Cell = str | int | float | bool | None
Advance = Callable[[], None]
"""Called after every data set."""
OURS = "streamhalf"
FACTOR, SLACK = 1.10, 0.005
"""The error of a run on all rows is at most so many times the planted one, and so much more."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the evaluation: how many data sets it takes, by form, and its table."""

    count_runs: Callable[[str], int]
    run: Callable[[str, Advance], Table]


@dataclass(frozen=True, slots=True)
class Table:
    """One table: rows by column, and whether its criterion is met."""

    name: str
    criterion: str
    met: bool
    summary: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    details: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Rows as objects."""
        return {
            "criterion": self.criterion,
            "met": self.met,
            "summary": self.summary,
            "rows": [dict(zip(self.columns, row, strict=True)) for row in self.rows],
            **self.details,
        }

    def to_markdown(self) -> str:
        """A heading, the criterion, what was found, and the rows."""
        lines = [
            f"## {self.name.capitalize()}",
            "",
            f"Criterion: {self.criterion}",
            "",
            f"**{'Met' if self.met else 'Not met'}**: {self.summary}",
            "",
            _line(self.columns),
            _line(["---"] * len(self.columns)),
            *(_line([_show(cell) for cell in row]) for row in self.rows),
        ]
        return "\n".join(lines) + "\n"


def compare(
    cells: Iterable[T], measure: Callable[[T], tuple[tuple[Cell, ...], bool]], advance: Advance, **given: Any
) -> Table:
    """One row for each cell; `measure` tells it, and whether the criterion holds there."""
    rows, broken = [], []
    for cell in cells:
        row, holds = measure(cell)
        rows.append(row)
        if not holds:
            broken.append(", ".join(_show(one) for one in row[:3]))
        advance()
    worst = max(float(row[given["columns"].index(OURS)] or 0) for row in rows)
    said = f"largest ratio {worst:.3f} in {len(rows)} cells" + (f"; broken in {'; '.join(broken)}" if broken else "")
    return Table(met=not broken, summary=said, rows=tuple(rows), details={"broken": broken}, **given)


def _line(cells: tuple[str, ...] | list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _show(cell: Cell) -> str:
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if cell is None:
        return "–"
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)
