"""Rows drawn for a review: so many of each stratum, and how many rows each stratum has."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.kernels.uniforms import uniforms_at
from streamhalf.reductions.base import Summed
from streamhalf.reductions.suspects import ROW, Listed, Suspects


class Stratum(enum.StrEnum):
    """Parts of the rows, from the surest label issues to the rows that no model contradicts."""

    TOP = "top of the list"
    LIST = "rest of the list"
    CONTRADICTED = "contradicted, not listed"
    UNSUSPECTED = "unsuspected"


DRAWN = np.dtype([("uniform", np.float64), ("measured", ROW)])


@dataclass(frozen=True, slots=True, eq=False)
class ReviewSamplePartial:
    """Rows of each stratum (4,) int64, and room for those drawn of each, with uniform numbers."""

    n_rows: int
    sizes: NDArray[np.int64]
    drawn: tuple[NDArray[np.void], ...]


@dataclass(frozen=True, slots=True, eq=False)
class ReviewSampleResult:
    """Rows of each stratum, and those drawn of it in the order in which they were drawn."""

    sizes: tuple[int, ...]
    drawn: tuple[Listed, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ReviewSample(Summed):
    """The rows with the smallest uniform numbers of each stratum, `numbers` of them.

    The top of the list are the issues that rank at `cut` or above.
    """

    suspects: Suspects
    cut: float
    numbers: tuple[int, ...]
    seed: int
    stream: int

    name = "review-sample"

    def empty(self, dim: int) -> ReviewSamplePartial:
        room = tuple(_unused(number) for number in self.numbers)
        return ReviewSamplePartial(0, np.zeros(len(Stratum), dtype=np.int64), room)

    def map(self, block: Block) -> ReviewSamplePartial:
        places, margins, _ = self.suspects.find_contradicted(block)
        rows = self.suspects.measure(block.take(places), margins)
        issues, top = rows["is_label_issue"], rows["suspicion"] >= self.cut
        others = np.setdiff1d(np.arange(block.n_rows), places, assume_unique=True)
        uniforms = uniforms_at(self.seed, self.stream, block.rows)
        parts = (places[issues & top], places[issues & ~top], places[~issues], others)
        drawn = []
        for part, number in zip(parts, self.numbers, strict=True):
            chosen = np.sort(part[np.argsort(uniforms[part], kind="stable")[:number]])
            some = block.take(chosen)
            found = np.empty(some.n_rows, dtype=DRAWN)
            found["uniform"] = uniforms[chosen]
            margins = self.suspects.turns.plane.margins(some.X)
            found["measured"] = self.suspects.measure(some, margins)
            drawn.append(_first(found, number))
        sizes = np.array([len(part) for part in parts], dtype=np.int64)
        return ReviewSamplePartial(block.n_rows, sizes, tuple(drawn))

    def combine(self, left: ReviewSamplePartial, right: ReviewSamplePartial) -> ReviewSamplePartial:
        pairs = zip(left.drawn, right.drawn, self.numbers, strict=True)
        drawn = tuple(_first(np.concatenate([a, b]), number) for a, b, number in pairs)
        return ReviewSamplePartial(left.n_rows + right.n_rows, left.sizes + right.sizes, drawn)

    def finalize(self, partial: ReviewSamplePartial) -> ReviewSampleResult:
        taken = (one[np.isfinite(one["uniform"])] for one in partial.drawn)
        return ReviewSampleResult(tuple(partial.sizes.tolist()), tuple(one["measured"] for one in taken))

    def partial_nbytes(self, dim: int) -> int:
        return DRAWN.itemsize * sum(self.numbers) + 8 * (len(Stratum) + 1)


def _unused(number: int) -> NDArray[Any]:
    room = np.zeros(number, dtype=DRAWN)
    room["uniform"] = np.inf
    return room


def _first(rows: NDArray[np.void], number: int) -> NDArray[np.void]:
    """Return `number` places, those with the smallest uniforms first."""
    kept = rows[np.argsort(rows["uniform"], kind="stable")[:number]]
    if len(kept) == number:
        return kept
    return np.concatenate([kept, _unused(number - len(kept))])


def share_out(number: int, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return how many rows are drawn of each stratum: half of them from the list.

    What a small stratum has no rows for goes to the others.
    """
    shares, left = [0] * len(sizes), number
    weights = (0.3, 0.2, 0.15, 0.35)
    while left > 0 and any(share < size for share, size in zip(shares, sizes, strict=True)):
        open_ones = [i for i, size in enumerate(sizes) if shares[i] < size]
        total = sum(weights[i] for i in open_ones)
        for i in open_ones:
            more = max(1, round(left * weights[i] / total))
            more = min(more, sizes[i] - shares[i], number - sum(shares))
            shares[i] += more
        left = number - sum(shares)
    return tuple(shares)
