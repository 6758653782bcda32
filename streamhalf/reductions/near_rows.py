"""A reduction over the rows next to a plane."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from streamhalf.data.block import Block
from streamhalf.kernels.margins import margins
from streamhalf.kernels.plane import Plane
from streamhalf.reductions.wrapping import Wrapping


@dataclass(frozen=True, slots=True, eq=False)
class NearRows(Wrapping):
    """An inner reduction over the rows within `reach` of a plane, its normal of length 1."""

    plane: Plane
    reach: float

    @property
    def name(self) -> str:
        """The inner name, marked."""
        return f"near-{self.inner.name}"

    def map(self, block: Block) -> Any:
        """Reduce the rows next to the plane; which those are does not depend on the chunk."""
        away = margins(block.X, self.plane.normal).astype(np.float64) - self.plane.threshold
        return self.inner.map(block.take(np.flatnonzero(np.abs(away) < self.reach)))
