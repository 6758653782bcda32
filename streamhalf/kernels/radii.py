"""Lengths of rows, and those of N(0, I) rows from uniform numbers."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainccinv, gammaincinv, ndtr, ndtri

# The table: a normal variable is beyond 8.5 with probability 1e-17, less than one step of uniforms. Between 4,096
# nodes a straight line is off by less than 1e-6.
_FARTHEST, _STEPS = 8.5, 4096
_SMALLEST, _LARGEST = 1e-140, 1e140  # lengths whose squares neither vanish nor overflow
_LEAST = 1e-290  # the inverses of shorter lengths overflow


def chi_radii(uniforms: NDArray[np.float64], dim: int) -> NDArray[np.float64]:
    """The quantiles of the length of an N(0, I) row of `dim` features, all above 0."""
    normal = np.clip(ndtri(uniforms), -_FARTHEST, _FARTHEST)
    place = (normal + _FARTHEST) * (_STEPS / (2 * _FARTHEST))
    node = np.minimum(place.astype(np.int64), _STEPS - 1)
    table = _chi_table(dim)
    low = table[node]
    return np.asarray(low + (place - node) * (table[node + 1] - low))


@functools.lru_cache(maxsize=8)
def _chi_table(dim: int) -> NDArray[np.float64]:
    """Quantiles of chi at the levels of evenly spaced normal quantiles."""
    normal = np.linspace(-_FARTHEST, _FARTHEST, _STEPS + 1)
    lower, upper = gammaincinv(dim / 2, ndtr(normal)), gammainccinv(dim / 2, ndtr(-normal))
    table: NDArray[np.float64] = np.sqrt(2 * np.where(normal < 0, lower, upper))
    table.setflags(write=False)
    return table


def row_lengths(Z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Lengths of rows, however long; what is so short that it has no inverse counts as 0.

    Each row by itself: the bits do not depend on the others.
    """
    with np.errstate(over="ignore", under="ignore"):
        lengths: NDArray[np.float64] = np.sqrt(np.einsum("ij,ij->i", Z, Z))
    odd = np.flatnonzero(~((lengths > _SMALLEST) & (lengths < _LARGEST)))
    if len(odd):
        largest = np.abs(Z[odd]).max(axis=1)
        largest[largest < _LEAST] = 0.0
        scaled = Z[odd] / np.where(largest > 0, largest, 1.0)[:, None]
        lengths[odd] = largest * np.linalg.norm(scaled, axis=1)
    return lengths
