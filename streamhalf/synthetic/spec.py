"""Synthetic labelled rows of any number, the same bits whatever the chunking.

Rows are drawn in cells of fixed size. A cell has a generator of its own, named by (seed, cell), and is always drawn
whole: a range of rows is cut from the cells that cover it. NumPy may change the streams of its distributions between
versions; within one version a seed names one data set.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import RowRange
from streamhalf.data.zarr_groups import Column, Target
from streamhalf.errors import UsageError
from streamhalf.kernels.margins import native_margins
from streamhalf.kernels.plane import Plane
from streamhalf.kernels.streams import Stream, uniforms_at
from streamhalf.results import to_json
from streamhalf.synthetic.distributions import (
    DRAWS,
    NO_FLIPS,
    SCORES,
    SHARE_TOLERANCE,
    Cell,
    CleanRows,
    Cut,
    cell_generator,
    cell_rows,
    choose_cut,
    choose_directions,
    normal_threshold,
    sample_threshold,
)
from streamhalf.synthetic.kinds import DIRECTIONS, DTYPES, Marginal, Noise

PILOT_ROWS = 2**20
SAMPLE_VALUES = 2**26  # Of wide rows fewer are drawn to place a threshold
# a seed names a data set, so these numbers never change
_FEATURES, _DIRECTIONS, _NOISE = (Stream.SYNTHETIC + number for number in range(3))


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticSpec:
    """A synthetic data set; strings are taken for `marginal` and `noise` too.

    Parameters
    ----------
    rows, dim
        Number of rows and of features.
    marginal
        Distribution of the features.
    noise, rate
        Which labels are flipped, and which share of them.
    seed
        Names the data set; fewer rows of the same seed are a prefix, up to the flipped labels.
    planted
        Direction v of the labels sgn(v·x - t): "axis" (the first), "diagonal" or "generic" (random).
    positive
        Share of the rows that t leaves on the positive side; 0.5 is t = 0, also where the marginal is not symmetric.
    dtype
        Of the features, "float32" or "float64".
    """

    rows: int
    dim: int
    marginal: Marginal
    noise: Noise
    rate: float = 0.0
    seed: int = 0
    planted: str = "generic"
    positive: float = 0.5
    dtype: str = "float32"

    def __post_init__(self) -> None:
        for name, kind in (("marginal", Marginal), ("noise", Noise)):
            _require_choice(name, getattr(self, name), tuple(kind))
            object.__setattr__(self, name, kind(getattr(self, name)))
        _require_choice("planted", self.planted, DIRECTIONS)
        _require_choice("dtype", self.dtype, DTYPES)
        for name, low, high in (("rows", 1, None), ("dim", 1, None), ("seed", 0, 2**64 - 1)):
            # a plain number: those of NumPy overflow
            whole = require_integer(name, getattr(self, name), low, high)
            object.__setattr__(self, name, whole)
        for name, drawn in (("marginal", self.marginal), ("noise", self.noise)):
            if self.dim < drawn.min_dim:
                raise UsageError(
                    f"dim: {self.dim} is too small for {name} '{drawn}'; it needs at least "
                    f"{drawn.min_dim}; raise dim or choose another {name}"
                )
        if not isinstance(self.positive, int | float) or not 0 < self.positive < 1:
            raise UsageError(
                f"positive: {self.positive!r} given; give a share above 0 and below 1: which rows "
                "are +1 before the noise"
            )
        limit = self.noise.max_rate(self.positive)
        if not isinstance(self.rate, int | float) or not 0 <= self.rate < limit:
            raise UsageError(
                f"rate: {self.rate!r} given; noise '{self.noise}' takes a number from 0 to below "
                f"{limit:g} (positive {self.positive:g}); lower the rate"
            )
        if (self.noise is Noise.NONE) != (self.rate == 0):
            raise UsageError(
                f"rate: {self.rate!r} given with noise '{self.noise}'; noise 'none' takes rate 0 "
                "and every other noise a rate above 0; change one of the two"
            )


@dataclass(frozen=True, slots=True, eq=False)
class Planted:
    """Directions, threshold and cut, chosen once for all tasks.

    The labels are sgn(v·x - threshold) before the noise; u is a direction orthogonal to v (zero in one dimension), and
    the cut says which rows are flipped.
    """

    v: NDArray[np.float64]
    u: NDArray[np.float64]
    threshold: float
    cut: Cut = NO_FLIPS

    @property
    def plane(self) -> Plane:
        return Plane(self.v, self.threshold)


@dataclass(frozen=True, slots=True, eq=False)
class Generated:
    """Features (n, d), labels ±1 (n,) with their noise, and how many of them were flipped."""

    X: NDArray[np.floating[Any]]
    y: NDArray[np.int8]
    n_flipped: int


def plant(spec: SyntheticSpec) -> Planted:
    """Choose directions, threshold and cut, which is a quantile of the first `PILOT_ROWS` rows.

    Up to that many rows, every noise but random flips round(rate · rows) labels exactly.
    """
    raw_v, raw_u = (cell_generator(spec.seed, _DIRECTIONS, number).standard_normal(spec.dim) for number in range(2))
    v, u = choose_directions(spec.planted, raw_v, raw_u)
    planted = Planted(v, u, _choose_threshold(spec, v))
    if not spec.noise.needs_pilot:
        cut = NO_FLIPS if spec.noise is Noise.NONE else Cut(score=spec.rate, uniform=-1.0)
        return replace(planted, cut=cut)
    n_pilot = min(spec.rows, PILOT_ROWS)
    numbers = range(-(-n_pilot // cell_rows(spec.dim)))
    by_cell = [SCORES[spec.noise](_draw_cell(spec, planted, number)) for number in numbers]
    scores = np.concatenate(by_cell)[:n_pilot]
    uniforms = _noise_uniforms(spec, RowRange(0, n_pilot))
    cut = choose_cut(scores, uniforms, round(spec.rate * n_pilot))
    if math.isinf(cut.score) and cut.score > 0:
        share = np.count_nonzero(np.isfinite(scores)) / n_pilot
        raise UsageError(
            f"rate: {spec.rate!r} given; noise '{spec.noise}' can flip a share {share:.4f} of "
            f"these rows at most (marginal '{spec.marginal}', seed {spec.seed}); lower the rate"
        )
    return replace(planted, cut=cut)


def generate(spec: SyntheticSpec, planted: Planted, row_range: RowRange) -> Generated:
    """Draw a range of rows: bit for bit the slice of any larger range."""
    start, stop = row_range.start, row_range.stop
    if not 0 <= start <= stop <= spec.rows:
        raise UsageError(f"row_range: {start} to {stop} given; must lie within 0 to {spec.rows}; clip it")
    X = np.empty((stop - start, spec.dim), dtype=spec.dtype)
    y = np.empty(stop - start, dtype=np.int8)
    n_flipped = 0
    step = cell_rows(spec.dim)
    for number in range(start // step, -(-stop // step)):
        cell = _draw_cell(spec, planted, number)
        flips = planted.cut.flips(SCORES[spec.noise](cell), cell.uniforms)
        first = number * step
        begin, end = max(start, first), min(stop, first + step)
        source, target = slice(begin - first, end - first), slice(begin - start, end - start)
        X[target] = cell.X[source]
        y[target] = np.where(flips, -cell.labels, cell.labels)[source]
        n_flipped += int(np.count_nonzero(flips[source]))
    return Generated(X, y, n_flipped)


def _choose_threshold(spec: SyntheticSpec, v: NDArray[np.float64]) -> float:
    """Rounded to float32 as v is; fewer rows of a seed have the same, so it has its own sample."""
    if spec.positive == 0.5:
        return 0.0
    threshold = normal_threshold(spec.marginal, v, spec.positive)
    if threshold is None:
        n_sample = min(PILOT_ROWS, SAMPLE_VALUES // spec.dim)
        numbers = range(max(1, n_sample // cell_rows(spec.dim)))
        sample = np.concatenate([native_margins(_draw_features(spec, v, i), v) for i in numbers])
        threshold, share = sample_threshold(sample, spec.positive)
        if abs(share - spec.positive) > SHARE_TOLERANCE * min(spec.positive, 1 - spec.positive):
            raise UsageError(
                f"positive: {spec.positive!r} given; the nearest share of marginal "
                f"'{spec.marginal}' along this direction is {share:.4g}; ask for that, or choose "
                "another marginal or direction"
            )
    return float(np.float32(threshold))


def _draw_features(spec: SyntheticSpec, v: NDArray[np.float64], number: int) -> NDArray[np.floating[Any]]:
    generator = cell_generator(spec.seed, _FEATURES, number)
    cell = Cell(generator, cell_rows(spec.dim), v, np.dtype(spec.dtype))
    return DRAWS[spec.marginal](cell).astype(cell.dtype, copy=False)


def _draw_cell(spec: SyntheticSpec, planted: Planted, number: int) -> CleanRows:
    n_rows = cell_rows(spec.dim)
    X = _draw_features(spec, planted.v, number)
    return CleanRows(
        X=X,
        margin=native_margins(X, planted.v) - planted.threshold,
        u=planted.u,
        uniforms=_noise_uniforms(spec, RowRange(number * n_rows, (number + 1) * n_rows)),
        rare=1 if spec.positive <= 0.5 else -1,
    )


def _noise_uniforms(spec: SyntheticSpec, rows: RowRange) -> NDArray[np.float64]:
    return uniforms_at(spec.seed, _NOISE, np.arange(rows.start, rows.stop, dtype=np.int64))


def _require_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UsageError(f"{name}: {value!r} given; choose one of {', '.join(choices)}")


def require_integer(name: str, value: Any, low: int, high: int | None = None) -> int:
    """The whole number; refused if it is none, or not within the limits."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or value < low or (high is not None and value > high):
        limit = f"at least {low}" if high is None else f"from {low} to {high}"
        raise UsageError(f"{name}: {value!r} given; give a whole number, {limit}")
    return int(value)


_CHUNK_ROWS, _CHUNK_NUMBERS = 2**18, 2**24  # Rows of a chunk, and features of all of them, at most


def create_store(
    target: Target, spec: SyntheticSpec, *, chunk_rows: int | None = None, overwrite: bool = False
) -> tuple[RowRange, ...]:
    """Make an empty, unfinished store; return its chunks, which `write_rows` is to fill."""
    chunks = chunks_of(spec, chunk_rows)
    step = chunks[0].n_rows
    columns = (
        Column("X", (spec.rows, spec.dim), step, spec.dtype, math.nan, ("row", "feature")),
        Column("y", (spec.rows,), step, "int8", 0, ("row",)),
    )
    target.create(columns, {"synthetic": to_json(spec)}, overwrite=overwrite)
    return chunks


def chunks_of(spec: SyntheticSpec, chunk_rows: int | None) -> tuple[RowRange, ...]:
    """The chunks of a store; None for rows of 64 MiB at most in each."""
    if chunk_rows is None:
        chunk_rows = max(1, min(_CHUNK_ROWS, _CHUNK_NUMBERS // spec.dim))
    require_integer("chunk_rows", chunk_rows, 1)
    return RowRange(0, spec.rows).split(min(chunk_rows, spec.rows))


def write_rows(target: Target, spec: SyntheticSpec, planted: Planted, row_range: RowRange) -> int:
    """Draw and write whole chunks, one in memory at a time; return how many labels were flipped."""
    n_flipped = 0
    for chunk in row_range.split(target.array("X").chunks[0]):
        rows = generate(spec, planted, chunk)
        target.write("X", chunk, rows.X)
        target.write("y", chunk, rows.y)
        n_flipped += rows.n_flipped
    return n_flipped


def finish_store(target: Target, spec: SyntheticSpec, planted: Planted, n_flipped: int) -> None:
    """Mark a store whose chunks all exist as complete, and record what was planted in it."""
    marks = {
        "synthetic": to_json(spec),
        "planted_vector": planted.v.tolist(),
        "planted_threshold": planted.threshold,
        "planted_error": n_flipped / spec.rows,
        "n_flipped": n_flipped,
    }
    target.finish(("X", "y"), marks)
