"""Refine: finer scales than are tested, with every row for learning that lies next to the plane.

Disjoint shares are what tests need, not what an estimate needs. One pass gathers the rows next to
the last candidate; updates by least squares at ever finer scales follow in memory. What they find
are candidates like others: held-out rows choose.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streamhalf.algorithms.baselines import least_squares
from streamhalf.algorithms.plan import REFINED, sample_room
from streamhalf.algorithms.proper_learner import resolution
from streamhalf.algorithms.state import Candidate, LocalizationState
from streamhalf.config import RunConfig
from streamhalf.data.block import Block
from streamhalf.kernels.frame import Frame
from streamhalf.kernels.plane import Plane
from streamhalf.kernels.streams import Stream
from streamhalf.reductions.row_view import MarginBand, RowView, Viewed
from streamhalf.reductions.rows import RowSample

_REACH = 3.0
"""Scales within which rows matter: exp(-3²/2) is a hundredth."""

_LEAST_REACH = 1.5
_WIDE, _COARSEST = 0.03, 0.5
"""Finest and coarsest scale to begin with, if memory allows: adversarial noise makes steps
small, and updates go on to finer scales than they stand at."""

_LEAST, _LEAST_PER_FEATURE = 200, 25
"""Rows, as weights count them, that an update takes: a twentieth of the squared error of the frame
is left to chance then, and held-out rows decide whether that was too much."""

_FINEST = 1e-6
"""Rows on the plane itself are next to it at any scale."""

_NO_WEIGHT = 2.0**-63

_REPEATS = 3
"""Updates at a scale: adversarial noise leaves a part of its turn in each."""


@dataclass(frozen=True, slots=True, eq=False)
class Refine:
    """The refine of a candidate, from `n_rows` rows; `centred` for planes through the origin."""

    start: Candidate
    n_rows: int
    size: int
    seed: int
    centred: bool

    @classmethod
    def of(cls, state: LocalizationState, config: RunConfig, n_rows: int, *, centred: bool) -> Refine:
        """The refine of the last candidate."""
        start = state.candidates[-1]
        return cls(start, n_rows, sample_room(config, state.plan.dim), config.seed, centred)

    @property
    def reach(self) -> float:
        """Distance of the plane within which rows are kept: so many as fit in memory."""
        density = math.exp(-(self.start.plane.threshold**2) / 2) * math.sqrt(2 / math.pi)
        room = self.size / (self.n_rows * density)
        scale = min(max(self.start.delta, _WIDE), _COARSEST)
        return min(_REACH * scale, max(_LEAST_REACH * self.start.delta, room))

    def needs(self) -> Viewed:
        """The rows next to the plane."""
        sample = RowSample(self.size, self.seed, Stream.REFINE_SAMPLE)
        return Viewed(sample, RowView(accept=MarginBand(self.start.plane, self.reach)))

    def conclude(self, result: Any) -> tuple[Candidate, ...]:
        """The planes of the finest scales that the rows allow."""
        found: list[Candidate] = []
        last, delta = self.start, self.reach / _REACH
        while delta > _FINEST:
            for _ in range(_REPEATS):
                update = self._update(result.block, last.plane, delta)
                if update is None:
                    return tuple(found[-REFINED:])
                last = replace(update, n_seen=self.n_rows)
            found.append(last)
            delta /= 2
        return tuple(found[-REFINED:])

    def _update(self, block: Block, plane: Plane, delta: float) -> Candidate | None:
        """Least squares in the frame, rows weighted by the chance with which it accepts them."""
        frame = Frame(plane, delta)
        along = frame.coordinates(block.X)
        weights = frame.acceptance(along)
        near = np.flatnonzero(weights > _NO_WEIGHT)
        weights = weights[near]
        weight = float(weights.sum())
        if weight < _LEAST + _LEAST_PER_FEATURE * block.dim:
            return None
        local = frame.to_frame(block.X[near], along[near]).astype(np.float64)
        w, offset = least_squares(local, block.y[near].astype(np.float64), weights)
        overlap = float(w @ plane.normal)
        if overlap <= 0:
            return None
        # a plane through the origin stays there for chance
        by_chance = plane.threshold == 0 and abs(offset) < resolution(weight)
        moved = frame.from_frame(Plane(w, 0.0 if self.centred or by_chance else -offset))
        step = float(np.linalg.norm(moved.normal - plane.normal))
        aside = math.hypot(step, moved.threshold - plane.threshold)
        return Candidate(moved, delta, aside, overlap, 0, round(weight), frame.rate)
