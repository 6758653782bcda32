"""The worst law of the plane that the tests of a run let pass, by linear program.

The run has come to rest at v: at every scale the Chow vector of the accepted rows lies along v. The
program looks for the law, among those that pass all tests at all scales, on which v does worst
beside another halfspace w at angle theta: the largest (error of v - eps) / (error of w). The first
coordinate is normal, or its slab masses are off by what a slab test could not exclude.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from scripts.attacking.plane import (
    Array,
    Fineness,
    Grid,
    Step,
    accepted,
    chow_vector,
    grams,
    inside_slabs,
    make_grid,
    slab_rows,
    wedge_rows,
)
from streamhalf.testers.acceptance import ACCEPTANCE_TOLERANCE

CLOSE = 1e-3
"""How far quadratics may be beyond the tolerance when cuts end."""
UNIT = 0.05
"""The error of w in the homogeneous program; any number serves."""
LEAST_OPT = 1 / 32
"""The error of w is at least so large a part of eps. (Below that part the error of v is at most
(1 + C/32) eps: it grows with the error of w.)"""
_ACCEPTANCE = 0.05
"""How far the accepted share is from the scale, at vectors along which rows may not be normal."""
_ROUNDS = 60
_FAR = 0.01
"""A cut is dropped where quadratics are so far within it."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A quadratic whose mean square was off: scale, block, direction and side."""

    scale: int
    block: int
    vector: tuple[float, ...]
    side: float


@dataclass(frozen=True, slots=True, eq=False)
class Law:
    """The worst law found: masses of the points of a grid, and both errors."""

    grid: Grid
    theta: float
    masses: Array
    constant: float
    error: float
    opt: float


class Program:
    """One angle and one finest scale; cuts are kept from one tolerance to the next.

    Parameters
    ----------
    theta
        Angle between v and the better halfspace.
    last
        Finest scale; eps is half of it.
    fineness
        Of the grid.
    """

    def __init__(self, theta: float, *, last: float, fineness: Fineness) -> None:
        self.theta, self.eps = theta, last / 2
        self.grid = make_grid(theta=theta, eps=self.eps, fineness=fineness)
        self.steps = [Step(delta) for delta in list_scales(last)]
        self.cuts: list[Cut] = []
        self._accepted = [accepted(self.grid, step) for step in self.steps]
        self._grams = [grams(self.grid, step) for step in self.steps]
        self._error = (self.grid.sign < 0).astype(np.float64)
        self._upper = [*slab_rows(self.grid), *wedge_rows(self.grid)]
        seen = [chow_vector(self.grid, step) for step in self.steps]
        self._equal = [np.append(across / step.delta, 0.0) for step, (_, across) in zip(self.steps, seen, strict=True)]
        self._upper += [-along for along, _ in seen[:-1]]  # pointing backwards would have ended the loop there

    def accept_at(self, step: Step) -> None:
        """Rows along another vector must be accepted as often as normal ones are, nearly."""
        off = accepted(self.grid, step) / step.delta - 1
        self._upper += [sign * off - _ACCEPTANCE for sign in (1, -1)]

    def require(self, rows: Sequence[Array]) -> None:
        """More rows that must not be positive."""
        self._upper += rows

    def solve(self, tolerances: Sequence[float], *, masses_off: float | None = None) -> Law:
        """The worst law, given the tolerance of the quadratics at each scale, coarsest first.

        `masses_off` is what the sum of |mass of a slab - normal mass| may be (2 is anything); None
        makes the first coordinate exactly normal.
        """
        for _ in range(_ROUNDS):
            law = self._solve_once(tolerances, masses_off)
            fresh = self._violated(law, tolerances)
            if not fresh:
                break
            self.cuts += fresh
        self.cuts = [cut for cut in self.cuts if self._binds(cut, law, tolerances)]
        return law

    def _solve_once(self, tolerances: Sequence[float], masses_off: float | None) -> Law:
        """Masses times a free scale, so that the error of w is `UNIT`: the ratio is then linear."""
        n_points = len(self.grid.cell)
        cuts = (self._row(cut, tolerances[cut.scale]) for cut in self.cuts)
        upper = np.array([*self._upper, *cuts])
        upper /= np.abs(upper).max(axis=1, keepdims=True)
        upper = np.hstack([upper, np.zeros((len(upper), 1))])
        normal, near = self._first_coordinate(masses_off)
        n_slabs = near.shape[1] - n_points - 1
        equal = np.vstack([*self._equal, normal, np.append(self.grid.wrong, 0.0)])
        found = linprog(
            np.concatenate([-self._error, [self.eps], np.zeros(n_slabs)]),
            A_ub=np.vstack([np.pad(upper, ((0, 0), (0, n_slabs))), near]),
            b_ub=np.zeros(len(upper) + len(near)),
            A_eq=np.pad(equal, ((0, 0), (0, n_slabs))),
            b_eq=np.append(np.zeros(len(equal) - 1), UNIT),
            bounds=[(0, None)] * n_points + [(0, UNIT / (LEAST_OPT * self.eps))] + [(0, None)] * n_slabs,
            method="highs-ipm",
        )
        if found.status != 0:
            raise RuntimeError(f"theta = {self.theta:g}: {found.message}")
        masses = np.maximum(found.x[:n_points], 0) / found.x[n_points]
        error, opt = float(self._error @ masses), float(self.grid.wrong @ masses)
        return Law(self.grid, self.theta, masses, -found.fun / UNIT, error, opt)

    def _first_coordinate(self, masses_off: float | None) -> tuple[Array, Array]:
        """Rows that must be 0 and rows that must not be positive, for what x1 may be.

        With slack there is one more variable for each slab: how far its mass is off. The test of
        acceptance then speaks too; for a normal x1 it has nothing to say.
        """
        if masses_off is None:
            inside = np.arange(len(self.grid.masses))[:, None] == self.grid.cell
            shares = inside / self.grid.masses[:, None]
            return np.hstack([shares, -np.ones((len(inside), 1))]), np.empty((0, shares.shape[1] + 1))
        inside, normal = inside_slabs(self.grid)
        off = np.hstack([inside, -normal[:, None]])
        each = np.eye(len(off))
        total = np.concatenate([np.zeros(inside.shape[1]), [-masses_off], np.ones(len(off))])
        rates = [
            sign * (mass / step.delta - 1) - ACCEPTANCE_TOLERANCE
            for step, mass in zip(self.steps, self._accepted, strict=True)
            for sign in (1, -1)
        ]
        near = np.vstack([np.hstack([off, -each]), np.hstack([-off, -each]), total])
        near = np.vstack([np.pad(np.array(rates), ((0, 0), (0, 1 + len(off)))), near])
        return np.append(np.ones(inside.shape[1]), -1.0)[None], near

    def _row(self, cut: Cut, tolerance: float) -> Array:
        vector = np.array(cut.vector)
        gram = self._grams[cut.scale][cut.block]
        off: Array = cut.side * np.einsum("nab,a,b->n", gram, vector, vector)
        return off - tolerance * self._accepted[cut.scale]

    def _binds(self, cut: Cut, law: Law, tolerances: Sequence[float]) -> bool:
        """True if a cut is worth keeping for the next tolerance."""
        off = self._row(cut, tolerances[cut.scale]) @ law.masses
        return bool(off > -_FAR * (law.masses @ self._accepted[cut.scale]))

    def _violated(self, law: Law, tolerances: Sequence[float]) -> list[Cut]:
        """For every quadratic whose mean square is off at some scale, the cut that says so."""
        cuts = []
        for scale, blocks in enumerate(self._grams):
            for block, gram in enumerate(blocks):
                share = law.masses @ self._accepted[scale]
                values, vectors = np.linalg.eigh(np.tensordot(law.masses, gram, 1) / share)
                cuts += [
                    Cut(scale, block, tuple(vector.tolist()), float(np.sign(value)))
                    for value, vector in zip(values, vectors.T, strict=True)
                    if abs(value) > tolerances[scale] + CLOSE
                ]
        return cuts


def list_scales(last: float) -> list[float]:
    """1, 1/2, ... down to the last."""
    return [2.0**-k for k in range(round(-np.log2(last)) + 1)]
