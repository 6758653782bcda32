"""Adversarial inputs: rows in a chosen order, labels that know the code, worst distributions."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from scripts.attacking.moments import flat_plane, solve_within
from scripts.attacking.plane import Fineness, Step
from scripts.attacking.program import Law, Program, list_scales
from scripts.evaluation.drawing import orthogonal_to, with_noise
from scripts.evaluation.search import Features, Labels, Vector
from streamhalf.api import fit, plan
from streamhalf.data.block import Block
from streamhalf.reductions.labels import Chow
from streamhalf.synthetic.noise import Noise

Rng = np.random.Generator

ROWS = 300_000
KNOWN_SEED = 0
"""The seed that the adversary knows."""
LAST, ANGLE = 1 / 8, 0.45
"""Of the program's law: finest scale and angle; a run of `ROWS` rows tests about so finely."""
MOMENT_LIMIT, ROOM, NEAR = 0.1, 0.75, 0.08
"""Limit of the largest moment; what the law makes of a limit; how near v slabs look normal too."""
_INSIDE = 1e-3
"""Rows at the border of the better halfspace are so far inside it, whatever rounding does."""


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """One data set: rows, a good halfspace, and how the run is asked.

    Parameters
    ----------
    law_error
        Where the law is known: the error of a halfspace under it.
    offset
        Of a classifier to certify, sgn(best·x - offset); None asks for a fit.
    """

    X: Features
    y: Labels
    best: Vector
    parameters: Mapping[str, Any] = field(default_factory=dict)
    law_error: Callable[[Vector], float] | None = None
    offset: float | None = None


def _gaussian(rng: Rng, n: int, dim: int) -> Features:
    return rng.standard_normal((n, dim), dtype=np.float32)


def _noisy(rng: Rng, n: int, dim: int, rate: float) -> tuple[Features, Labels, Vector]:
    """Gaussian rows, labels by the first feature, random noise."""
    X, v = _gaussian(rng, n, dim), np.eye(dim)[0]
    return X, with_noise(X, v, Noise.RANDOM, rate, rng), v


def first_half(rng: Rng, n: int = ROWS) -> Trial:
    """10% random noise in the first half of the rows, none in the second."""
    X, v = _gaussian(rng, n, 5), np.eye(5)[0]
    y = np.where(X[:, 0] >= 0, 1, -1).astype(np.int8)
    y[: n // 2] = with_noise(X[: n // 2], v, Noise.RANDOM, 0.1, rng)
    return Trial(X, y, v)


def sorted_by_label(rng: Rng, n: int = ROWS, *, pieces: int) -> Trial:
    """Gaussian rows, sorted by label within equal pieces."""
    X, y, v = _noisy(rng, n, 5, 0.05)
    piece = np.arange(n) * pieces // n
    order = np.lexsort((y, piece))
    return Trial(X[order], y[order], v)


def sorted_by_feature(rng: Rng, n: int = ROWS) -> Trial:
    """Gaussian rows, sorted by the sign of a feature that has no part in the labels."""
    X, y, v = _noisy(rng, n, 5, 0.05)
    order = np.argsort(X[:, 1] >= 0, kind="stable")
    return Trial(X[order], y[order], v)


def sorted_by_product(rng: Rng, n: int = ROWS) -> Trial:
    """Gaussian rows, sorted by the sign of a product of two features: every mean is even."""
    X, y, v = _noisy(rng, n, 5, 0.05)
    order = np.argsort(X[:, 0] * X[:, 1] >= 0, kind="stable")
    return Trial(X[order], y[order], v)


def knows_seed(rng: Rng, n: int = ROWS, *, is_used: bool) -> Trial:
    """Labels follow a wrong halfspace on the rows that teach a run with the known seed, only there.

    Which rows those are is found by running it: on labels that follow the wrong halfspace
    everywhere, every pass chooses its rows as it will on the final labels.
    """
    X, v = _gaussian(rng, n, 5), np.eye(5)[0]
    wrong = math.cos(0.8) * v + math.sin(0.8) * orthogonal_to(v, rng)
    bad, y = (with_noise(X, one, Noise.NONE, 0.0, rng) for one in (wrong, v))
    with _recorded() as taught:
        fit((X, bad), scheduler="serial", certificate_degree=0, seed=KNOWN_SEED)
    for rows in taught:
        y[rows] = bad[rows]
    return Trial(X, y, v, {"seed": KNOWN_SEED} if is_used else {})


@contextmanager
def _recorded() -> Iterator[list[NDArray[np.int64]]]:
    """The numbers of the rows that enter Chow vectors."""
    seen: list[NDArray[np.int64]] = []
    real = Chow.map

    def spy(self: Chow, block: Block) -> Any:
        seen.append(np.array(block.rows))
        return real(self, block)

    Chow.map = spy  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        Chow.map = real  # type: ignore[method-assign]


@functools.cache
def worst_law(dim: int, tolerance: float, masses_off: float | None = None) -> Law:
    """The program's law against quadratics at this tolerance and moments in d coordinates.

    It leaves chance some room, and vectors near v see normal slabs too: no run is at v exactly.
    Slab masses along v may be off by `masses_off` in sum.
    """
    fineness = Fineness(inner=2, ratio=1.5, heights=12, highest=3.5)
    program = Program(ANGLE, last=LAST, fineness=fineness)
    for angle, delta in itertools.product((-NEAR, NEAR), list_scales(LAST)):
        program.accept_at(Step(delta, angle))
    tolerances = [ROOM * tolerance] * len(program.steps)
    return solve_within(program, tolerances, plane=flat_plane(dim), limit=ROOM * MOMENT_LIMIT, masses_off=masses_off)


def law_of_program(rng: Rng, n: int = ROWS, *, dim: int, tolerance: float, masses_off: float | None = None) -> Trial:
    """The program's law in a plane turned against the coordinates, normal features beside it."""
    law = worst_law(dim, tolerance, masses_off)
    grid = law.grid
    i = rng.choice(len(law.masses), n, p=law.masses / law.masses.sum())
    low, high = (ndtr(grid.edges[grid.cell[i] + k]) for k in (0, 1))
    x1 = ndtri(low + (high - low) * rng.random(n))
    follows = grid.heights[:, 0] != grid.heights[:, -1]
    border = -grid.sign[i] * x1 / math.tan(law.theta) + _INSIDE
    r = np.stack([grid.sign[i] * x1, np.where(follows[i], border, grid.heights[i, 0])], axis=1)
    y = rng.choice(np.array([-1, 1], dtype=np.int8), n)
    plane = flat_plane(dim)
    rest = rng.standard_normal((n, dim))
    rest -= rest @ plane.T @ plane
    X = (rest + (r * y[:, None]) @ plane).astype(np.float32)
    return Trial(X, y, np.array([math.cos(law.theta), math.sin(law.theta)]) @ plane)


def reused_coins(rng: Rng, n: int = ROWS) -> Trial:
    """Coin tosses for labels, all rows in every pass: no halfspace errs on other than one half."""
    return _reused(rng, n, dim=5, rate=0.5)


def reused_wide(rng: Rng, n: int = ROWS) -> Trial:
    """The same with twenty features."""
    return _reused(rng, n, dim=20, rate=0.5)


def _reused(rng: Rng, n: int, *, dim: int, rate: float) -> Trial:
    """As many rows as eps = 0.25 takes, at most n."""
    n = min(n, plan(dim=dim, eps=0.25, sampling="reuse").rows_needed)
    X, v = _gaussian(rng, n, dim), np.eye(dim)[0]
    y = np.where((X[:, 0] >= 0) != (rng.random(n) < rate), 1, -1).astype(np.int8)

    def law_error(w: Vector) -> float:
        angle = math.acos(max(-1.0, min(1.0, float(w[0] / np.linalg.norm(w)))))
        return rate + (1 - 2 * rate) * angle / math.pi

    return Trial(X, y, v, {"sampling": "reuse"}, law_error)


def noise_in_stretches(rng: Rng, n: int = ROWS) -> Trial:
    """One in ten segments of 3,000 rows has random labels; the certificate sees a sample."""
    X, v = _gaussian(rng, n, 4), np.eye(4)[0]
    noisy = (rng.random(n // 3_000 + 1) < 0.1)[np.arange(n) // 3_000]
    flips = noisy & (rng.random(n) < 0.5)
    y = np.where((X[:, 0] >= 0) != flips, 1, -1).astype(np.int8)
    return Trial(X, y, v, {"certificate_degree": 4, "certificate_rows": 65_536})


def with_intercept(rng: Rng, n: int = ROWS) -> Trial:
    """Labels by a halfspace off the origin, 2% random noise: its classifier is certified."""
    X, v, offset = _gaussian(rng, n, 4), np.eye(4)[0], 1.0
    y = np.where((X[:, 0] >= offset) != (rng.random(n) < 0.02), 1, -1).astype(np.int8)
    return Trial(X, y, v, {"certificate_degree": 4}, offset=offset)


def coins_with_eps(rng: Rng, n: int = ROWS) -> Trial:
    """Coin tosses for labels, and eps = 0.1 asked for."""
    X = _gaussian(rng, n, 5)
    y = rng.choice(np.array([-1, 1], dtype=np.int8), n)
    return Trial(X, y, np.eye(5)[0], {"eps": 0.1})
