"""Results of a part of the benchmark: a table for people, figures for programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Criterion:
    """A figure that is held against a limit."""

    name: str
    value: float
    limit: float
    at_most: bool = True

    @property
    def met(self) -> bool:
        """True if the figure is on the right side of the limit."""
        return self.value <= self.limit if self.at_most else self.value >= self.limit

    def __str__(self) -> str:
        word = "at most" if self.at_most else "at least"
        said = "met" if self.met else "NOT MET"
        return f"{self.name}: {self.value:.3g}, {word} {self.limit:g}: {said}"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of words and numbers, and the criteria they settle."""

    name: str
    title: str
    header: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    criteria: list[Criterion] = field(default_factory=list)
    remark: str = ""

    def to_json(self) -> dict[str, Any]:
        """The table for programs, and for `to_markdown`."""
        return {
            "title": self.title,
            "header": list(self.header),
            "rows": [[cell if _plain(cell) else str(cell) for cell in row] for row in self.rows],
            "remark": self.remark,
            "criteria": [
                {"name": c.name, "value": c.value, "limit": c.limit, "met": c.met, "text": str(c)}
                for c in self.criteria
            ],
        }


def to_markdown(table: dict[str, Any]) -> str:
    """A table, its remark and its criteria for people."""
    lines = [f"## {table['title']}", ""]
    lines.append("| " + " | ".join(table["header"]) + " |")
    lines.append("|" + "---|" * len(table["header"]))
    lines += ["| " + " | ".join(_show(cell) for cell in row) + " |" for row in table["rows"]]
    lines.append("")
    if table["remark"]:
        lines += [table["remark"], ""]
    if table["criteria"]:
        lines += [*(f"- {criterion['text']}" for criterion in table["criteria"]), ""]
    return "\n".join(lines)


def _plain(cell: Any) -> bool:
    return cell is None or isinstance(cell, int | float | str)


def _show(cell: Any) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, float):
        return f"{cell:,.3g}" if abs(cell) < 1000 else f"{cell:,.0f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)
