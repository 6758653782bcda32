"""Tables of the evaluation, with a criterion each, as Markdown and as JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Cell = str | int | float | bool | None
Advance = Callable[[], None]
"""Called after every data set."""


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


def _line(cells: tuple[str, ...] | list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _show(cell: Cell) -> str:
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if cell is None:
        return "–"
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)
