"""Times of several things, taken in turns so that a busy moment hits all of them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ratio:
    """Median of the ratios of all rounds, with the smallest and the largest."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, numerators: list[float], denominators: list[float]) -> Ratio:
        """Ratios round by round."""
        ratios = [a / b for a, b in zip(numerators, denominators, strict=True)]
        return cls(statistics.median(ratios), min(ratios), max(ratios))

    def __str__(self) -> str:
        return f"{self.median:.3g} ({self.low:.3g} to {self.high:.3g})"


def take_turns(work: Mapping[str, Callable[[], float | None]], *, rounds: int) -> dict[str, list[float]]:
    """Seconds of each piece of work in each round, after one round that is not counted.

    Work that returns a number has taken its own time: that of another process, say.
    """
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for turn in range(rounds + 1):
        for name, call in work.items():
            started = time.perf_counter()
            own = call()
            taken = time.perf_counter() - started if own is None else own
            if turn:
                seconds[name].append(taken)
    return seconds
