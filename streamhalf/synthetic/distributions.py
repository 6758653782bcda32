"""Distributions of synthetic rows: N(0, I), and some that break it in one known way each."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from streamhalf.kernels.margins import native_margins
from streamhalf.kernels.plane import on_positive_side
from streamhalf.synthetic.kinds import Marginal, Noise

Features: TypeAlias = NDArray[np.floating[Any]]
STUDENT_T_DOF = 10
MIXTURE_SHARE = 0.01
MIXTURE_SCALE = 2.0
EQUICORRELATION = 0.5
SHIFT = 0.3
LOW_RANK_SHARE = 0.9
HOLE_HALF_WIDTH = 0.2
HOLE_ATOM = 3.0
SPIKE_SHARE = 0.1
SPIKE_HALF_WIDTH = 0.005
_FACES = np.array([-math.sqrt(3), math.sqrt(3), 0, 0, 0, 0])
_LOG2_CELL_ROWS = 14
_LOG2_CELL_VALUES = 20  # wide rows: a cell stays at 8 MiB, down to 64 rows
_LOG2_LEAST_CELL_ROWS = 6
# Rounding x to float32 moves v·x by up to 2**-24 |x|: the distribution's gap is wider than the promised one.
_HOLE_GAP = HOLE_HALF_WIDTH + 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """Rows to be drawn together: how many, of which dtype, and the generator that is theirs."""

    generator: np.random.Generator
    n_rows: int
    v: NDArray[np.float64]
    dtype: np.dtype[Any]

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_rows, len(self.v)

    def normals(self, n_columns: int) -> Features:
        """Standard normal numbers, drawn in the cell's own precision."""
        dtype: Any = np.float32 if self.dtype == np.float32 else np.float64
        return self.generator.standard_normal((self.n_rows, n_columns), dtype=dtype)

    def signs(self, shape: tuple[int, ...]) -> NDArray[np.int8]:
        return 2 * self.generator.integers(0, 2, shape, dtype=np.int8) - 1


def cell_rows(dim: int) -> int:
    """Rows that are drawn together: a function of the dimension alone."""
    spare = _LOG2_CELL_VALUES - (dim - 1).bit_length()
    return int(2 ** min(_LOG2_CELL_ROWS, max(_LOG2_LEAST_CELL_ROWS, spare)))


def cell_generator(seed: int, stream: int, number: int) -> np.random.Generator:
    """The generator of a cell: key (seed, stream), and a counter range of its own for each cell."""
    counter = np.array([0, 0, number, 0], dtype=np.uint64)
    key = np.array([seed, stream], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(counter=counter, key=key))


class HoleDistribution(NamedTuple):
    """With probability `atom_share` ±HOLE_ATOM, else scale·g given |scale·g| > gap, g ~ N(0,1)."""

    gap: float
    scale: float
    atom_share: float


@functools.cache
def hole_distribution() -> HoleDistribution:
    """Solve for the distribution with no mass on |z| < HOLE_HALF_WIDTH and N(0,1)'s moments to degree 5.

    Odd moments vanish by symmetry; scale and share are what E z² = 1 and E z⁴ = 3 leave. Given
    |g| > a = gap/scale, E g² = 1 + a h and E g⁴ = 3 + (a³ + 3a) h with h = phi(a)/Phi(-a).
    """

    def solve_share(scale: float) -> tuple[float, float]:
        a = _HOLE_GAP / scale
        hazard = math.exp(-a * a / 2) / math.sqrt(2 * math.pi) / float(ndtr(-a))
        second = scale**2 * (1 + a * hazard)
        fourth = scale**4 * (3 + (a**3 + 3 * a) * hazard)
        share = (1 - second) / (HOLE_ATOM**2 - second)
        return share, (1 - share) * fourth + share * HOLE_ATOM**4 - 3

    scale = float(brentq(lambda scale: solve_share(scale)[1], 0.5, 1.0, xtol=1e-15))
    return HoleDistribution(gap=_HOLE_GAP, scale=scale, atom_share=solve_share(scale)[0])


class SpikeDistribution(NamedTuple):
    """With probability SPIKE_SHARE uniform on ±SPIKE_HALF_WIDTH, else gaussian·g ± sign."""

    gaussian: float
    sign: float


@functools.cache
def spike_distribution() -> SpikeDistribution:
    """Solve for the distribution with an atom-like spike at 0 and the moments of N(0,1) to degree 5.

    Odd moments vanish by symmetry. s (sqrt(1-r) g ± sqrt(r)) has second moment s² and fourth moment s⁴ (3 - 2r²); the
    spike itself adds half_width²/3 and half_width⁴/5 times its share.
    """
    rest = 1 - SPIKE_SHARE
    squared = (1 - SPIKE_SHARE * SPIKE_HALF_WIDTH**2 / 3) / rest
    fourth = (3 - SPIKE_SHARE * SPIKE_HALF_WIDTH**4 / 5) / rest
    r = math.sqrt((3 - fourth / squared**2) / 2)
    return SpikeDistribution(gaussian=math.sqrt(squared * (1 - r)), sign=math.sqrt(squared * r))


def _gaussian(cell: Cell) -> Features:
    return cell.normals(len(cell.v))


def _mixture(cell: Cell) -> Features:
    X = _gaussian(cell)
    X[cell.generator.random(cell.n_rows) < MIXTURE_SHARE] *= MIXTURE_SCALE
    return X


def _correlated(cell: Cell) -> Features:
    common = math.sqrt(EQUICORRELATION) * cell.normals(1)
    return common + math.sqrt(1 - EQUICORRELATION) * _gaussian(cell)


def _low_rank(cell: Cell) -> Features:
    """Loadings (cos j, sin j): covariance LOW_RANK_SHARE cos(i - j) off the diagonal."""
    first, second = (math.sqrt(LOW_RANK_SHARE) * cell.normals(1) for _ in range(2))
    angles = np.arange(len(cell.v))
    cosines, sines = (wave(angles).astype(cell.dtype) for wave in (np.cos, np.sin))
    own = math.sqrt(1 - LOW_RANK_SHARE) * _gaussian(cell)
    # elementwise, because a matrix product's bits depend on the number of BLAS threads
    X: Features = first * cosines + second * sines + own
    return X


def _hole(cell: Cell) -> Features:
    law = hole_distribution()
    upper = (1 - cell.generator.random(cell.n_rows)) * ndtr(-law.gap / law.scale)  # never 0
    size = np.where(cell.generator.random(cell.n_rows) < law.atom_share, HOLE_ATOM, -law.scale * ndtri(upper))
    return _with_margins(cell, size * cell.signs((cell.n_rows,)))


def _spike(cell: Cell) -> Features:
    law = spike_distribution()
    position = cell.generator.uniform(-SPIKE_HALF_WIDTH, SPIKE_HALF_WIDTH, cell.n_rows)
    bulk = law.gaussian * cell.generator.standard_normal(cell.n_rows)
    bulk += law.sign * cell.signs((cell.n_rows,))
    in_spike = cell.generator.random(cell.n_rows) < SPIKE_SHARE
    return _with_margins(cell, np.where(in_spike, position, bulk))


def _with_margins(cell: Cell, wanted: NDArray[np.float64]) -> Features:
    """Gaussian rows moved along v until v·x is as wanted."""
    X = _gaussian(cell)
    move = (wanted - native_margins(X, cell.v)).astype(cell.dtype)
    X += np.multiply.outer(move, cell.v.astype(cell.dtype))
    return X


DRAWS: dict[Marginal, Callable[[Cell], NDArray[Any]]] = {
    Marginal.GAUSSIAN: _gaussian,
    Marginal.STUDENT_T: lambda cell: (
        cell.generator.standard_t(STUDENT_T_DOF, cell.shape) * math.sqrt((STUDENT_T_DOF - 2) / STUDENT_T_DOF)
    ),
    Marginal.LAPLACE: lambda cell: cell.generator.laplace(0.0, math.sqrt(0.5), cell.shape),
    Marginal.UNIFORM: lambda cell: cell.generator.uniform(-math.sqrt(3), math.sqrt(3), cell.shape),
    Marginal.RADEMACHER: lambda cell: cell.signs(cell.shape),
    Marginal.GAUSS_HERMITE: lambda cell: _FACES.astype(cell.dtype)[
        cell.generator.integers(0, len(_FACES), cell.shape, dtype=np.uint8)
    ],
    Marginal.MIXTURE: _mixture,
    Marginal.CORRELATED: _correlated,
    Marginal.SHIFTED: lambda cell: _gaussian(cell) + SHIFT,
    Marginal.LOW_RANK: _low_rank,
    Marginal.HOLE: _hole,
    Marginal.SPIKE: _spike,
}
SHARE_TOLERANCE = 0.05  # By how much of the smaller class a share may miss the one asked for
_CLOSE = 1e-5  # Values of v·x nearer than this may be one value of a discrete distribution, summed in another order


def normal_threshold(marginal: Marginal, v: NDArray[np.float64], positive: float) -> float | None:
    """Return the quantile of v·x where it is normal, else nothing.

    fsum, because a BLAS sum's bits differ between machines.
    """
    length, total = math.fsum(v * v), math.fsum(v)
    mean, variance = SHIFT * total if marginal is Marginal.SHIFTED else 0.0, length
    if marginal is Marginal.CORRELATED:
        variance = (1 - EQUICORRELATION) * length + EQUICORRELATION * total**2
    elif marginal is Marginal.LOW_RANK:
        angles = np.arange(len(v))
        factors = math.fsum(v * np.cos(angles)) ** 2 + math.fsum(v * np.sin(angles)) ** 2
        variance = (1 - LOW_RANK_SHARE) * length + LOW_RANK_SHARE * factors
    elif marginal not in (Marginal.GAUSSIAN, Marginal.SHIFTED):
        return None
    return mean - math.sqrt(variance) * float(ndtri(positive))


def sample_threshold(margins: Features, positive: float) -> tuple[float, float]:
    """Return the threshold between two values of a sample whose share above is nearest, and it.

    Between two values, because a row on the plane would be on either side by its rounding.
    """
    ordered = np.sort(margins.astype(np.float64))
    n = len(ordered)
    at = ordered[n - min(max(round(positive * n), 1), n)]
    below, above = np.searchsorted(ordered, [at - _CLOSE, at + _CLOSE])
    sides = [ordered[i] for i in (below - 1, above) if 0 <= i < n]
    middles = [(at + float(side)) / 2 for side in sides]
    shares = [1 - float(np.searchsorted(ordered, middle)) / n for middle in middles]
    return min(zip(middles, shares, strict=True), key=lambda one: abs(one[1] - positive))


@dataclass(frozen=True, slots=True, eq=False)
class CleanRows:
    """Rows before the noise: features, m = v·x - t, the direction u, uniform numbers, and the rarer label."""

    X: Features
    margin: Features
    u: NDArray[np.float64]
    uniforms: NDArray[np.float64]
    rare: int = 1

    @property
    def labels(self) -> NDArray[np.int8]:
        """sgn(v·x - t), with sgn(0) = +1."""
        return np.where(on_positive_side(self.margin), np.int8(1), np.int8(-1))


@dataclass(frozen=True, slots=True)
class Cut:
    """Flips rows with (score, uniform) up to (score, uniform) of the cut, in dictionary order.

    Discrete features give many rows the same score: the uniform number of a row breaks the tie.
    """

    score: float
    uniform: float

    def flips(self, scores: Features, uniforms: NDArray[np.float64]) -> NDArray[np.bool_]:
        return np.asarray((scores < self.score) | ((scores == self.score) & (uniforms <= self.uniform)))


NO_FLIPS = Cut(score=-math.inf, uniform=-1.0)


def choose_directions(
    planted: str, random_v: NDArray[np.float64], random_u: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the planted v, rounded to float32, and u orthogonal to it (zero in one dimension).

    Rounded, v is the same vector beside features of either dtype.
    """
    dim = len(random_v)
    raw = {"axis": np.eye(1, dim)[0], "diagonal": np.ones(dim), "generic": random_v}
    v = _normalise(raw[planted]).astype(np.float32).astype(np.float64)
    if dim == 1:
        return v, np.zeros(1)
    return v, _normalise(random_u - math.fsum(random_u * v) / math.fsum(v * v) * v)


def choose_cut(scores: Features, uniforms: NDArray[np.float64], n_flips: int) -> Cut:
    """Return the cut that flips exactly `n_flips` of these rows, given distinct uniforms."""
    if n_flips == 0:
        return NO_FLIPS
    score = np.partition(scores, n_flips - 1)[n_flips - 1]
    n_tied_flips = n_flips - int(np.count_nonzero(scores < score))
    tied = uniforms[scores == score]
    uniform = np.partition(tied, n_tied_flips - 1)[n_tied_flips - 1]
    return Cut(score=float(score), uniform=float(uniform))


def _normalise(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Unit vector along x; fsum, because a BLAS sum's bits differ between machines."""
    return x / math.sqrt(math.fsum(x * x))


def _wedge(rows: CleanRows, label: int) -> Features:
    """Tangent of the angle to the plane, where m has this sign and u·x < 0."""
    side = native_margins(rows.X, rows.u)
    depth = label * rows.margin
    inside = (depth > 0) & (side < 0)
    tangent = np.full_like(side, math.inf)
    with np.errstate(over="ignore"):  # a right angle's tangent: infinity is what it should be
        np.divide(depth, -side, out=tangent, where=inside)
    return tangent


# Score of each row: those with the smallest are flipped first, those with infinity never
SCORES: dict[Noise, Callable[[CleanRows], Features]] = {
    Noise.NONE: lambda rows: np.full(len(rows.margin), math.inf),
    Noise.RANDOM: lambda rows: rows.uniforms,
    Noise.NEAR: lambda rows: np.abs(rows.margin),
    Noise.FAR: lambda rows: -np.abs(rows.margin),
    Noise.CHOW: lambda rows: -rows.labels * native_margins(rows.X, rows.u),
    Noise.WEDGE: lambda rows: _wedge(rows, 1),
    Noise.MINOR: lambda rows: np.where(rows.labels == rows.rare, -np.abs(rows.margin), math.inf),
    Noise.TILT: lambda rows: _wedge(rows, rows.rare),
}
