"""Laws in a plane on a grid: what the tests of a run see of them, linear in the masses.

Every constraint and both errors are the same for a law and for the law of (-x, -y), and the mean of
two laws that pass passes: the worst law may be taken symmetric. It is then one of r = y x alone. A
point of the grid is a cell of |x1| (normal within it), the sign of r1 (negative: v errs) and a
height r2; odd moments of x vanish.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from streamhalf.testers.slabs import COVARIANCE_LIMIT
from streamhalf.testers.wedge import ANY_WEDGE_LIMIT

Array = NDArray[np.float64]

SECOND_MOMENT = COVARIANCE_LIMIT
WEDGE = ANY_WEDGE_LIMIT
"""The looser of the two limits of the wedge tester."""
_REACH = 9.0
_NODES, _NODE_SHARES = np.polynomial.legendre.leggauss(8)
EVEN = ((0, 0), (2, 0), (1, 1), (0, 2))
ODD = ((1, 0), (0, 1))
BLOCKS = (EVEN, ODD)
"""Hermite polynomials of degree <= 2 by their degrees in x1 and x2; even and odd ones are
uncorrelated under a symmetric law."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fineness:
    """Of the grid: cells up to eps, the ratio of those beyond, heights on each side."""

    inner: int = 4
    ratio: float = 1.25
    heights: int = 24
    highest: float = 7.0


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Points (cell, sign, height), flattened, and the cells of |x1|.

    Parameters
    ----------
    edges
        Of the cells.
    eps
        Cells within it are one slab.
    cell, sign
        Of each point.
    x1, heights, weights
        Eight places across each point's cell: |x1|, r2, and the share of the cell's normal mass. A
        point has one height, but for those that follow the border of w.
    wrong
        Share of each point on which w errs.
    """

    edges: Array
    eps: float
    cell: NDArray[np.int64]
    sign: Array
    x1: Array
    heights: Array
    weights: Array
    wrong: Array

    @property
    def masses(self) -> Array:
        """Normal mass of each cell, both signs together."""
        masses: Array = 2 * np.diff(ndtr(self.edges))
        return masses

    def average(self, values: Array) -> Array:
        """Mean of each point."""
        means: Array = np.sum(values * self.weights, axis=1)
        return means


def make_grid(*, theta: float, eps: float, fineness: Fineness) -> Grid:
    """Cells fine up to eps and geometric beyond; heights dense at 0, and the border of w."""
    count = math.ceil(math.log(5.0 / eps) / math.log(fineness.ratio))
    beyond = eps * np.geomspace(1, 5.0 / eps, count + 1)[1:]
    edges = np.concatenate([np.linspace(0, eps, fineness.inner + 1), beyond, [_REACH]])
    nodes = (edges[1:, None] + edges[:-1, None] + np.diff(edges)[:, None] * _NODES) / 2
    side = fineness.highest * np.sinh(np.linspace(0, 4.0, fineness.heights + 1)) / math.sinh(4.0)
    common = np.concatenate([-side[:0:-1], side])
    cells, signs, heights, wrong = [], [], [], []
    for i, places in enumerate(nodes):
        low, high = edges[i : i + 2]
        for sign in (1.0, -1.0):
            border = -sign * places / math.tan(theta)
            below = _share_below(-math.tan(theta) * sign * common, low, high)
            rows = [np.broadcast_to(common[:, None], (len(common), len(places)))]
            errs = [below if sign > 0 else 1 - below]
            if np.abs(border).max() <= fineness.highest:
                rows.append(border[None])
                errs.append(np.zeros(1))
            heights.append(np.vstack(rows))
            wrong.append(np.concatenate(errs))
            cells.append(np.full(len(wrong[-1]), i))
            signs.append(np.full(len(wrong[-1]), sign))
    cell = np.concatenate(cells)
    x1 = nodes[cell]
    weights = _NODE_SHARES * np.exp((x1[:, :1] ** 2 - x1**2) / 2)
    weights /= weights.sum(axis=1, keepdims=True)
    sign, height = np.concatenate(signs), np.vstack(heights)
    return Grid(edges, eps, cell, sign, x1, height, weights, np.concatenate(wrong))


def _share_below(borders: Array, low: float, high: float) -> Array:
    """Share of a cell's normal mass below each border."""
    share: Array = (ndtr(np.clip(borders, low, high)) - ndtr(low)) / (ndtr(high) - ndtr(low))
    return share


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the path: its scale, and the angle from v to its vector, towards w."""

    delta: float
    angle: float = 0.0

    def seen(self, grid: Grid) -> tuple[Array, Array, Array]:
        """At every place: probability of acceptance, and y z along the vector and across it."""
        r1, r2 = grid.sign[:, None] * grid.x1, grid.heights
        along = math.cos(self.angle) * r1 + math.sin(self.angle) * r2
        across = math.cos(self.angle) * r2 - math.sin(self.angle) * r1
        chance: Array = np.exp(-(along**2) * (self.delta**-2 - 1) / 2)
        return chance, along / self.delta, across


def accepted(grid: Grid, step: Step) -> Array:
    """Accepted share of each point."""
    return grid.average(step.seen(grid)[0])


def chow_vector(grid: Grid, step: Step) -> tuple[Array, Array]:
    """Accepted y z along the step's vector and across it."""
    chance, along, across = step.seen(grid)
    return grid.average(chance * along), grid.average(chance * across)


def grams(grid: Grid, step: Step) -> list[Array]:
    """For each block, the accepted H H^T - I of every point (points, p, p)."""
    chance, z1, z2 = step.seen(grid)
    along = (np.ones_like(z1), z1, (z1**2 - 1) / math.sqrt(2))
    across = (np.ones_like(z2), z2, (z2**2 - 1) / math.sqrt(2))
    found = []
    for block in BLOCKS:
        H = np.stack([along[i] * across[j] for i, j in block], axis=2)
        gram = np.einsum("nq,nqa,nqb->nab", grid.weights * chance, H, H)
        found.append(gram - grid.average(chance)[:, None, None] * np.eye(len(block)))
    return found


def slab_rows(grid: Grid) -> Array:
    """Second moment across v at most 2 in each slab: rows that must not be positive."""
    rows: Array = inside_slabs(grid)[0] * (grid.average(grid.heights**2) - SECOND_MOMENT)
    return rows


def inside_slabs(grid: Grid) -> tuple[Array, Array]:
    """Which points lie in which slab, and the normal mass of each: [0, eps), then cell by cell."""
    first = int(np.searchsorted(grid.edges, grid.eps * 0.999))
    slab = np.maximum(np.arange(len(grid.masses)) - first + 1, 0)
    of_slab = np.arange(slab.max() + 1)[:, None] == slab
    return of_slab[:, grid.cell].astype(np.float64), of_slab @ grid.masses


def wedge_rows(grid: Grid) -> Array:
    """beta(eta) <= 3.5 eta for eta = eps, 2 eps, ... < 1/2, for either sign of the mixed mean."""
    rows = []
    eta = grid.eps
    while eta < 0.5:
        t = grid.x1 / math.tan(eta)
        a = (1 + t**2) ** -2
        plain = grid.average(a + a * t**2 * grid.heights**2)
        mixed = 2 * grid.sign * grid.average(a * t * grid.heights)
        rows += [plain + mixed - WEDGE * eta, plain - mixed - WEDGE * eta]
        eta *= 2
    return np.array(rows)
