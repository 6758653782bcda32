"""The laws that every transform obeys."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.data.transforms import RowTransform
from streamhalf.kernels.plane import Plane
from streamhalf.results import TransformRecord, from_json, to_json
from streamhalf.testing.comparing import assert_identical
from streamhalf.testing.drawing import DIMS, at_dimension, cut, for_drawn_blocks

_ROUNDING = 256
"""Margins below so many units in the last place of their largest term may have either sign."""


def check_transform(
    row_transform: RowTransform | Callable[[int], RowTransform],
    *,
    dims: Sequence[int] = DIMS,
    through_origin: bool = False,
    max_examples: int = 40,
) -> None:
    """Raise an AssertionError if the transform breaks a law.

    Rows stay as many, with their numbers, and labels stay ±1; any chunking gives the same bits;
    nothing is mutated; the map pickles and comes back from its record; and no row changes sides: a
    plane gets the same rows wrong before (`to_stored`) and after, wherever its margin is no mere
    rounding.

    Parameters
    ----------
    row_transform
        The map, or a function that makes one for a number of features.
    through_origin
        Draw only planes through the origin of the transform, which among stored rows is the centre
        of its record (the origin, if it has none), for a map that keeps no others.
    dims, max_examples
        As of `check_reduction`.
    """
    n_judged = 0

    def check(block: Block, pieces: list[slice]) -> None:
        nonlocal n_judged
        example = at_dimension(row_transform, block.dim)
        before = copy.deepcopy(block)
        mapped = example.apply(block)
        assert_identical(block, before)
        _check_rows(mapped, block)
        parts = [example.apply(piece) for piece in cut(block, pieces)]
        for name in ("X", "y", "rows"):
            joined = np.concatenate([getattr(part, name) for part in parts])
            np.testing.assert_array_equal(joined, getattr(mapped, name), f"{name}: chunked")
        again = pickle.loads(pickle.dumps(example))
        assert_identical(again.apply(block), mapped)
        assert again.record == example.record
        n_judged += _check_sides(example, block, mapped, through_origin=through_origin)
        remade = type(example).from_record(from_json(TransformRecord, to_json(example.record)))
        np.testing.assert_array_equal(remade.apply(block).X, mapped.X, "made from its record")

    for_drawn_blocks(check, dims=dims, max_examples=max_examples)
    assert n_judged > 0, "every margin was rounding: no side was looked at"


def _check_rows(mapped: Block, block: Block) -> None:
    np.testing.assert_array_equal(mapped.rows, block.rows, "row numbers")
    assert mapped.X.shape[0] == len(mapped.y) == block.n_rows
    assert np.isfinite(mapped.X).all(), "a feature is not finite"
    assert np.isin(mapped.y, (-1, 1)).all(), "a label is not ±1"
    assert (mapped.X.dtype, mapped.y.dtype) == (block.X.dtype, block.y.dtype), "another precision"


def _check_sides(example: Any, block: Block, mapped: Block, *, through_origin: bool) -> int:
    """Both ways: planes drawn among mapped rows, and planes drawn among stored rows."""
    rng = np.random.default_rng(block.n_rows)
    centre = np.array(example.record.centre or (0.0,) * block.dim)
    after = _draw_plane(rng, mapped, np.zeros(mapped.dim) if through_origin else None)
    before = _draw_plane(rng, block, centre if through_origin else None)
    pairs = ((example.to_stored(after), after), (before, example.to_transformed(before)))
    return sum(_count_same_sides(block, old, mapped, new) for old, new in pairs)


def _draw_plane(rng: np.random.Generator, block: Block, point: NDArray[np.float64] | None) -> Plane:
    """A plane through a point, or one with rows on both sides, if it can have them."""
    normal = rng.standard_normal(block.dim)
    if point is not None:
        return Plane(normal, float(normal @ point))
    middle = float(np.median(block.X @ normal))
    return Plane(normal, middle + 0.1 * rng.standard_normal())


def _count_same_sides(stored: Block, old: Any, mapped: Block, new: Any) -> int:
    """Hold sides against labels, before and after; returns how many rows were clear of rounding."""
    side_before, clear_before = _sides(stored, old)
    side_after, clear_after = _sides(mapped, new)
    clear = clear_before & clear_after
    was_right, is_right = side_before == stored.y, side_after == mapped.y
    np.testing.assert_array_equal(is_right[clear], was_right[clear], "a row changed sides")
    return int(np.count_nonzero(clear))


def _sides(block: Block, plane: Any) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
    """The side of every row, and whether its margin is more than rounding."""
    terms = block.X.astype(np.float64) * plane.normal
    margin = terms.sum(axis=1) - plane.threshold
    largest = np.abs(terms).sum(axis=1) + abs(plane.threshold)
    clear = np.abs(margin) > _ROUNDING * np.finfo(block.X.dtype).eps * largest
    return np.where(margin >= 0, np.int8(1), np.int8(-1)), clear
