"""Pictures that are no plots: a grid of moments, the certified interval, bars against a limit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from xml.etree.ElementTree import SubElement

from streamhalf.report.figures import Picture
from streamhalf.report.svg import LETTER, Axis, Canvas, drawable

_VANISHES = 1000.0
"""How many times a limit a bar may be before both are drawn on a logarithmic scale."""

_BOLD = 8.0
"""Average width of a letter in bold."""

_SHADES = 20
"""Steps of a colour scale."""


@dataclass(frozen=True, slots=True)
class HeatMap(Picture):
    """Signed values in a grid; full colour is reached at the limit."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    limit: float

    def paint(self, canvas: Canvas) -> float:
        """Names as far as there is room for them."""
        left = 12 + LETTER * max(map(len, self.rows))
        n_rows, n_columns = len(self.rows), len(self.columns)
        wide = (canvas.width - left - 4) / n_columns
        tall = min(wide, 30.0) if n_columns > n_rows or wide > 30 else wide
        tall = max(tall, 14.0) if n_rows <= 16 else tall
        canvas.rect(left, 22, wide * n_columns, tall * n_rows, "frame")
        longest = LETTER * max(map(len, self.columns))
        for i in range(0, n_columns, math.ceil((longest + LETTER) / wide)):
            if (x := left + (i + 0.5) * wide) + longest / 2 <= canvas.width:
                canvas.text(x, 14, self.columns[i], "tick", "middle")
        for i in range(0, n_rows, math.ceil(14 / tall)):
            canvas.text(left - 6, 26 + (i + 0.5) * tall, self.rows[i], "tick", "end")
        self._paint_cells(canvas, left, wide, tall)
        return self._paint_scale(canvas, left, 26 + tall * n_rows)

    def _paint_scale(self, canvas: Canvas, left: float, top: float) -> float:
        """The colours from minus to plus the limit, with their values."""
        wide = min(220.0, canvas.width - left - 30) / _SHADES
        for i in range(_SHADES):
            value = 2 * (i + 0.5) / _SHADES - 1
            canvas.add(
                "rect",
                x=left + i * wide,
                y=top + 10,
                width=wide,
                height=10.0,
                kind="plus" if value > 0 else "minus",
                fill_opacity=f"{abs(value):.2f}",
            )
        canvas.rect(left, top + 10, wide * _SHADES, 10, "frame")
        for place, words, anchor in (
            (0.0, f"-{self.limit:.4g} or less", "start"),
            (0.5, "0", "middle"),
            (1.0, f"{self.limit:.4g} or more", "end"),
        ):
            canvas.text(left + place * wide * _SHADES, top + 34, words, "tick", anchor)
        return top + 40

    def _paint_cells(self, canvas: Canvas, left: float, wide: float, tall: float) -> None:
        gap = 1.0 if min(wide, tall) > 8 else 0.0
        for i, row in enumerate(self.values):
            for j, value in enumerate(row):
                if drawable(value):
                    cell = canvas.add(
                        "rect",
                        x=f"{left + j * wide:.2f}",
                        y=f"{22 + i * tall:.2f}",
                        width=f"{wide - gap:.2f}",
                        height=f"{tall - gap:.2f}",
                        kind="plus" if value > 0 else "minus",
                        fill_opacity=f"{min(1.0, abs(value) / self.limit):.2f}",
                    )
                    words = f"{self.rows[i]}, {self.columns[j]}: {value:.4g}"
                    SubElement(cell, "title").text = words


@dataclass(frozen=True, slots=True)
class Interval(Picture):
    """The certified interval from `low` to `high` on a line that starts at 0, in per cent.

    The outer two are what holds for the source of the rows.
    """

    low: float
    high: float
    outer_low: float
    outer_high: float

    def paint(self, canvas: Canvas) -> float:
        """Names of the ends are on two heights, so that they never meet; short where cramped."""
        far = 1.2 * max(self.high, self.outer_high)
        axis = Axis("errors, % of rows", 0.0, far, unit="%")
        left, right, base = 10.0, canvas.width - 14.0, 84.0
        at = axis.along(left, right)
        low, high = at(self.low), at(self.high)
        canvas.rect(left, base - 26, low - left, 26, "fill excluded")
        canvas.rect(low, base - 26, high - low, 26, "fill main")
        for outer, end in ((at(self.outer_low), low), (at(self.outer_high), high)):
            canvas.line(outer, base - 13, end, base - 13, "whisker")
            canvas.line(outer, base - 19, outer, base - 7, "whisker")
        inner = "the best halfspace is in here"
        if high - low > LETTER * len(inner):
            canvas.text((low + high) / 2, base - 9, inner, "inside", "middle")
        short = f"L = {self.low:.3f}%"
        words = f"no halfspace below {short}" if self.low > 0 else "no bound above 0"
        words = words if max(low, high - low - 8) > _BOLD * len(words) else short
        fits_right = high - low - 8 > _BOLD * len(words) or low < _BOLD * len(words)
        canvas.line(low, base - 34, low, base, "end")
        canvas.text(low, base - 40, words, "value", "start" if fits_right else "end")
        canvas.line(high, base - 56, high, base, "end")
        words = f"this one: U = {self.high:.3f}%"
        side = "end" if high > _BOLD * len(words) else "start"
        canvas.text(high, base - 62, words, "value", side)
        canvas.axis(axis, (left, right), base, max(4, canvas.width // 90))
        return base + 46


@dataclass(frozen=True, slots=True)
class Comparison(Picture):
    """Quantities as bars against one limit and, perhaps, what chance alone reaches.

    Each has its name, a remark and its value.
    """

    bars: tuple[tuple[str, str, float], ...]
    limit: float
    limit_words: str
    chance: float = math.nan

    @property
    def is_log(self) -> bool:
        """Whether the limit would vanish beside the largest bar on a linear scale."""
        return max(self._drawn) > _VANISHES * self.limit > 0

    @property
    def _drawn(self) -> list[float]:
        values = (*(value for _, _, value in self.bars), self.chance, self.limit)
        return [value for value in values if drawable(value)]

    def _axis(self) -> Axis:
        most = max(self._drawn)
        if not self.is_log:
            return Axis("", 0.0, 1.12 * most)
        least = min(value for value in self._drawn if value > 0)
        return Axis("", least / 2, most * (most / least) ** 0.05, log=True)

    def paint(self, canvas: Canvas) -> float:
        """Words above each bar; the lines below the words, which may reach as far."""
        left, right, tall = 2.0, canvas.width - 2.0, 46.0
        at = self._axis().along(left, right)
        limit = at(self.limit)
        canvas.text(limit, 14, self.limit_words, "tick", "start" if limit < right / 2 else "end")
        for i, (name, remark, value) in enumerate(self.bars):
            y = 28 + tall * i
            # cut where it would leave the picture; the table has it in full
            most = max(4, int((right - left) / LETTER - len(remark) - 2))
            canvas.text(left, y + 14, name if len(name) <= most else f"{name[: most - 1]}…", "name")
            canvas.text(right, y + 14, remark, anchor="end")
            if drawable(value):
                kind = "contrast" if value > self.limit else "main"
                canvas.rect(left, y + 20, at(value) - left, 16, f"fill {kind}")
            # below the words, which may reach as far as the line
            canvas.line(limit, y + 20, limit, y + 40, "end")
            if drawable(self.chance):
                canvas.line(at(self.chance), y + 20, at(self.chance), y + 40, "chance")
        return 32 + tall * len(self.bars)
