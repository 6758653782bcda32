"""The laws that every reduction obeys."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from streamhalf.data.block import Block
from streamhalf.reductions.base import Reduction
from streamhalf.testing.comparing import assert_close, assert_identical, leaves, scale_of
from streamhalf.testing.drawing import DIMS, at_dimension, cut, fold, for_drawn_blocks

_SPARE_NBYTES = 64
"""A few counters beside the arrays need not be planned for."""


def check_reduction(
    reduction: Reduction[Any, Any] | Callable[[int], Reduction[Any, Any]],
    *,
    dims: Sequence[int] = DIMS,
    max_examples: int = 40,
) -> None:
    """Raise an AssertionError that names the first law the reduction breaks.

    Parameters
    ----------
    reduction
        The reduction, or a function that makes one for a number of features.
    dims
        Numbers of features that it is checked with.
    max_examples
        How many blocks of rows, each with a chunking, every law is checked on.
    """

    def check(block: Block, pieces: list[slice]) -> None:
        example = at_dimension(reduction, block.dim)
        for law in LAWS:
            try:
                law(example, block, pieces)
            except Exception as error:
                raise AssertionError(
                    f"{example.name}: {law.__name__} does not hold for {block.n_rows} rows of "
                    f"{block.dim} features ({type(error).__name__}: {error})"
                ) from error

    for_drawn_blocks(check, dims=dims, max_examples=max_examples)


def empty_is_neutral(reduction: Any, block: Block, pieces: list[slice]) -> None:
    """Combined with the partial of no rows, a partial stays as it is."""
    partial = reduction.map(block)
    empty = reduction.empty(block.dim)
    assert_identical(reduction.combine(empty, partial), partial)
    assert_identical(reduction.combine(partial, empty), partial)


def combine_is_associative(reduction: Any, block: Block, pieces: list[slice]) -> None:
    """From left to right or from right to left, up to rounding."""
    parts = [reduction.map(piece) for piece in cut(block, pieces)]
    left, right = fold(reduction, block, pieces), reduction.empty(block.dim)
    for part in reversed(parts):
        right = reduction.combine(part, right)
    assert_close(left, right, scale=scale_of(left))


def any_chunking_equals_one_chunk(reduction: Any, block: Block, pieces: list[slice]) -> None:
    """Up to rounding."""
    whole = reduction.map(block)
    assert_close(fold(reduction, block, pieces), whole, scale=scale_of(whole))


def nothing_is_mutated(reduction: Any, block: Block, pieces: list[slice]) -> None:
    """Blocks and partials are as they were, whatever was made of them."""
    before = copy.deepcopy(block)
    parts = [reduction.map(piece) for piece in (block, *cut(block, pieces))]
    kept = copy.deepcopy(parts)
    for left, right in itertools.pairwise(parts):
        reduction.combine(left, right)
        reduction.finalize(right)
    assert_identical(parts, kept)
    assert_identical(block, before)


def partials_and_reductions_pickle(reduction: Any, block: Block, pieces: list[slice]) -> None:
    """And give the same numbers afterwards."""
    partial = reduction.map(block)
    assert_identical(pickle.loads(pickle.dumps(partial)), partial)
    again = pickle.loads(pickle.dumps(reduction)).map(block)
    assert_identical(again, partial)


def partial_size_is_as_planned(reduction: Any, block: Block, pieces: list[slice]) -> None:
    """The same for every number of rows, and no more than `partial_nbytes`."""
    sizes = {sum(a.nbytes for a in leaves(reduction.map(piece))) for piece in [block, *cut(block, pieces)]}
    assert len(sizes) == 1, "the size depends on the number of rows"
    assert sizes.pop() <= reduction.partial_nbytes(block.dim) + _SPARE_NBYTES


def rows_used_are_counted(reduction: Any, block: Block, pieces: list[slice]) -> None:
    """None of no rows, never more than there are, and the same whatever the chunking."""
    used = sum(reduction.rows_used(reduction.map(piece)) for piece in cut(block, pieces))
    assert reduction.rows_used(reduction.empty(block.dim)) == 0
    assert reduction.rows_used(fold(reduction, block, pieces)) == used <= block.n_rows


def finalize_takes_any_partial(reduction: Any, block: Block, pieces: list[slice]) -> None:
    """That of no rows too; a result is never NaN."""
    for partial in (reduction.empty(block.dim), reduction.map(block)):
        for array in leaves(reduction.finalize(partial)):
            assert not np.isnan(array).any()


LAWS: tuple[Callable[[Any, Block, list[slice]], None], ...] = (
    empty_is_neutral,
    combine_is_associative,
    any_chunking_equals_one_chunk,
    nothing_is_mutated,
    partials_and_reductions_pickle,
    partial_size_is_as_planned,
    rows_used_are_counted,
    finalize_takes_any_partial,
)
