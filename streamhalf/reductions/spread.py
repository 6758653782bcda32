"""Where rows lie and how they are spread: mean and covariance, and a step of Tyler's shape matrix.

Means and covariances are stable however far the mean lies from zero: pairwise updates of sums about
it (Chan, Golub and LeVeque). The fixed point of `Tyler.step` puts directions of rows from a centre in
radially isotropic position (Forster): their mean is 0 and the mean of d theta theta^T is the identity
(Tyler; with the centre, Hettmansperger and Randles).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.kernels.margins import row_lengths
from streamhalf.reductions.base import Dims, Reduction

_SUB_BATCH_NBYTES = 1 << 20
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, slots=True, eq=False)
class CentredSums:
    """Rows (int64), mean (d,), and centred products (d, d) or squares (d,) summed, all float64."""

    n_rows: int
    mean: NDArray[np.float64]
    scatter: NDArray[np.float64]

    @property
    def dims(self) -> Dims:
        if self.scatter.ndim == 1:
            return {"mean": ("feature",), "deviation": ("feature",)}
        return {"mean": ("feature",), "covariance": ("feature", "other_feature")}

    @property
    def covariance(self) -> NDArray[np.float64]:
        """Mean of (x - mean)(x - mean)^T."""
        return self.scatter / max(self.n_rows, 1)

    @property
    def deviation(self) -> NDArray[np.float64]:
        """Standard deviation of every feature, from squares."""
        return np.sqrt(self.scatter / max(self.n_rows, 1))


@dataclass(frozen=True, slots=True)
class Covariance(Reduction[CentredSums, CentredSums]):
    """Mean and covariance."""

    name = "covariance"
    reads_labels = False

    def empty(self, dim: int) -> CentredSums:
        return CentredSums(0, np.zeros(dim), np.zeros((dim, dim)))

    def scatter(self, centred: NDArray[np.float64]) -> NDArray[np.float64]:
        """Products of rows about their mean."""
        return centred.T @ centred

    def map(self, block: Block) -> CentredSums:
        """Centre each sub-batch on its own mean before multiplying."""
        sums = self.empty(block.dim)
        step = max(256, _SUB_BATCH_NBYTES // (8 * block.dim))
        for start in range(0, block.n_rows, step):
            piece = block.X[start : start + step].astype(np.float64)
            mean = np.ones(len(piece)) @ piece / len(piece)
            piece -= mean
            sums = self._merge(sums, CentredSums(len(piece), mean, self.scatter(piece)))
        return sums

    def combine(self, *parts: CentredSums) -> CentredSums:
        return functools.reduce(self._merge, parts)

    def _merge(self, left: CentredSums, right: CentredSums) -> CentredSums:
        """The shift between the means adds to the scatter."""
        n_rows = left.n_rows + right.n_rows
        if n_rows == 0:
            return left
        share, shift = right.n_rows / n_rows, right.mean - left.mean
        scatter = left.scatter + right.scatter + left.n_rows * share * self.scatter(shift[None])
        return CentredSums(n_rows, left.mean + share * shift, scatter)


@dataclass(frozen=True, slots=True)
class FeatureMoments(Covariance):
    """Mean and variance of every feature."""

    name = "feature-moments"

    def empty(self, dim: int) -> CentredSums:
        return CentredSums(0, np.zeros(dim), np.zeros(dim))

    def scatter(self, centred: NDArray[np.float64]) -> NDArray[np.float64]:
        """Squares of rows about their mean."""
        return np.asarray(np.ones(len(centred)) @ (centred * centred))


@dataclass(frozen=True, slots=True, eq=False)
class TylerSums:
    """Sums over rows x of directions theta = W (x - c) / r, where r = |W (x - c)| is their length.

    All rows and those at the centre (int64), which are in no sum; theta (d,), theta theta^T (d, d),
    1 / r, and W (x - c) (d,), all float64.
    """

    n_rows: int
    n_central: int
    directions: NDArray[np.float64]
    products: NDArray[np.float64]
    inverse: float
    offsets: NDArray[np.float64]

    @property
    def spread(self) -> NDArray[np.float64]:
        """Mean of d theta theta^T; the identity where directions are spread evenly."""
        n_rows = max(1, self.n_rows - self.n_central)
        return np.asarray(len(self.directions) / n_rows * self.products)

    @property
    def unevenness(self) -> float:
        """Largest entry of what the spread is off by."""
        return float(np.abs(self.spread - np.eye(len(self.directions))).max())

    @property
    def lean(self) -> float:
        """Length of the mean direction, beyond what rows at the centre hold back."""
        pull = float(np.linalg.norm(self.directions)) - self.n_central
        return max(0.0, pull) / max(1, self.n_rows)


@dataclass(frozen=True, slots=True, eq=False)
class Tyler(Reduction[TylerSums, TylerSums]):
    """Sums of directions W (x - c) for centre c (d,) and matrix W (d, d), both float64."""

    centre: NDArray[np.float64]
    matrix: NDArray[np.float64]

    name = "tyler"
    reads_labels = False

    def empty(self, dim: int) -> TylerSums:
        return TylerSums(0, 0, np.zeros(dim), np.zeros((dim, dim)), 0.0, np.zeros(dim))

    def map(self, block: Block) -> TylerSums:
        sums = self.empty(block.dim)
        step = max(256, _SUB_BATCH_NBYTES // (8 * block.dim))
        for start in range(0, block.n_rows, step):
            centred = block.X[start : start + step] - self.centre  # in float64
            turned = centred @ self.matrix.T
            lengths = row_lengths(turned)
            away = lengths > 0
            inverses = np.where(away, 1.0, 0.0) / np.where(away, lengths, 1.0)
            units = turned * inverses[:, None]
            found = TylerSums(
                n_rows=len(units),
                n_central=int(np.count_nonzero(~away)),
                directions=units.sum(axis=0),
                products=units.T @ units,
                inverse=float(inverses.sum()),
                offsets=turned.sum(axis=0),
            )
            sums = self.combine(sums, found)
        return sums

    def step(self, sums: TylerSums, *, centre: str) -> Tyler:
        """A better centre (unless it is to stay the origin) and a better matrix."""
        values, vectors = np.linalg.eigh(sums.spread)
        root = (vectors / np.sqrt(values)) @ vectors.T
        if centre == "mean":
            move = sums.offsets / max(1, sums.n_rows)
        elif centre == "auto" and sums.inverse > 0:
            # rows at the centre hold it back (Vardi and Zhang)
            pull = float(np.linalg.norm(sums.directions)) / max(1, sums.n_rows)
            move = sums.lean / max(pull, _TINY) * sums.directions / sums.inverse
        else:
            return Tyler(self.centre, root @ self.matrix)
        return Tyler(self.centre + np.linalg.solve(self.matrix, move), root @ self.matrix)
