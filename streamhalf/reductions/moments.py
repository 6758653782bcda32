"""Moments up to an even degree k: the sum of every monomial."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.errors import DataError
from streamhalf.kernels.monomials import (
    count_monomials,
    hermite_gram,
    hermite_moments,
    monomial_ranks,
    monomial_tuples,
    spread_gram,
    sum_monomials,
)
from streamhalf.reductions.base import Dims, Reduction


@dataclass(frozen=True, slots=True, eq=False)
class MonomialSums:
    """Rows (int64) and the sum of every monomial (float64), in rank order."""

    n_rows: int
    sums: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class MomentsResult:
    """Mean of every monomial of degree <= k over all rows, in rank order, and what follows."""

    n_rows: int
    dim: int
    degree: int
    monomials: NDArray[np.float64]

    dims: ClassVar[Dims] = {
        "monomials": ("monomial",),
        "feature_moment": ("feature", "degree"),
        "pair_moment": ("feature", "other_feature"),
    }

    def hermite(self) -> NDArray[np.float64]:
        """Mean of every normalised Hermite polynomial of degree <= k; under N(0, I) 1, 0, 0, ..."""
        return hermite_moments(self.monomials, self.dim, self.degree)

    def hermite_gram(self) -> NDArray[np.float64]:
        """Mean of H H^T, H all normalised Hermite polynomials of degree <= k/2; I under N(0, I)."""
        half = self.degree // 2
        return hermite_gram(spread_gram(self.monomials, self.dim, half), self.dim, half)

    @property
    def feature_moment(self) -> NDArray[np.float64]:
        """Means of he_1, ..., he_k of each feature (d, k)."""
        hermite, features = self.hermite(), np.arange(self.dim)[:, None]
        powers = (np.tile(features, (1, m)) for m in range(1, self.degree + 1))
        return np.column_stack([hermite[monomial_ranks(power, self.dim)] for power in powers])

    @property
    def pair_moment(self) -> NDArray[np.float64]:
        """Normalised Hermite moments of degree 2 (d, d): he_2 on the diagonal, x_i x_j off it."""
        hermite = self.hermite()
        pairs = monomial_tuples(self.dim, 2)
        matrix = np.zeros((self.dim, self.dim))
        matrix[pairs[:, 0], pairs[:, 1]] = hermite[monomial_ranks(pairs, self.dim)]
        return matrix + np.triu(matrix, 1).T

    def second_moment(self) -> NDArray[np.float64]:
        """Mean of [1, x][1, x]^T."""
        return spread_gram(self.monomials, self.dim, 1)


@dataclass(frozen=True, slots=True, eq=False)
class Moments(Reduction[MonomialSums, MomentsResult]):
    """The monomial sketch of an even `degree`, which determines all moments up to it.

    With `directions` (m, d), for wide data, of these m projections instead of the d features.
    """

    degree: int = 4
    directions: NDArray[np.float64] | None = None

    reads_labels = False

    @property
    def name(self) -> str:
        suffix = "" if self.directions is None else f"-on-{len(self.directions)}-directions"
        return f"moments-{self.degree}{suffix}"

    def _count(self, dim: int) -> int:
        return count_monomials(dim if self.directions is None else len(self.directions), self.degree)

    def empty(self, dim: int) -> MonomialSums:
        return MonomialSums(0, np.zeros(self._count(dim)))

    def map(self, block: Block) -> MonomialSums:
        X: NDArray[np.floating[Any]] = block.X
        if self.directions is not None:
            X = X @ self.directions.T.astype(X.dtype)
        sums = sum_monomials(X, self.degree)
        if not np.isfinite(sums).all():
            raise DataError(
                f"features: products of degree {self.degree} overflow (largest value "
                f"{np.abs(X).max():.3g}); rescale the features or use whitening"
            )
        return MonomialSums(block.n_rows, sums)

    def finalize(self, partial: MonomialSums) -> MomentsResult:
        p = len(partial.sums)
        dim = next(d for d in range(p) if count_monomials(d, self.degree) == p)
        return MomentsResult(partial.n_rows, dim, self.degree, partial.sums / max(partial.n_rows, 1))

    def partial_nbytes(self, dim: int) -> int:
        return 8 * self._count(dim)
