"""The laws every reduction obeys, and one example of each registered reduction."""

from __future__ import annotations

import copy
import dataclasses
import functools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from streamhalf.data.block import Block
from streamhalf.data.positions import Isotropic
from streamhalf.kernels.frame import Frame
from streamhalf.kernels.plane import Plane
from streamhalf.reductions import (
    Bundle,
    CandidateSlabs,
    Chow,
    Covariance,
    HalfspaceErrors,
    LabelCounts,
    Localized,
    Mapped,
    Moments,
    RowDigest,
    Sampled,
    SegmentScatter,
    SlabCovariance,
    SlabMoments,
    Windowed,
)
from tests.strategies import cut

DIM = 3

PLANES = (Plane(np.array([0.6, 0.0, 0.8]), 0.1), Plane(np.array([0.0, 1.0, 0.0])))

EXAMPLES: dict[type, Any] = {
    Bundle: Bundle((Moments(2), LabelCounts())),
    CandidateSlabs: CandidateSlabs(PLANES, width=0.25, half_count=6),
    Chow: Chow(5),
    Covariance: Covariance(),
    HalfspaceErrors: HalfspaceErrors(PLANES[0], np.array([[3, 20], [30, 55]])),
    LabelCounts: LabelCounts(),
    Localized: Localized(Bundle((Moments(2), Chow(3))), Frame(PLANES[0], 0.5), seed=1, stream=2),
    Mapped: Mapped(Covariance(), Isotropic(np.ones(3), np.diag([0.5, 1.0, 2.0]))),
    Moments: Moments(4),
    RowDigest: RowDigest(),
    Sampled: Sampled(LabelCounts(), 0.2, 0.7, seed=1, stream=2),
    SegmentScatter: SegmentScatter(total_rows=60, n_segments=4),
    SlabCovariance: SlabCovariance(PLANES, np.array([-1.0, 0.0, 1.0])),
    SlabMoments: SlabMoments(PLANES[0].normal, np.array([-1.0, 0.0, 1.0]), degree=4),
    Windowed: Windowed(LabelCounts(), 0.5, seed=3),
}


def leaves(value: Any) -> list[np.ndarray]:
    """All numbers in a partial or result, in a fixed order."""
    if dataclasses.is_dataclass(value):
        return [a for f in dataclasses.fields(value) for a in leaves(getattr(value, f.name))]
    if isinstance(value, tuple | list):
        return [a for item in value for a in leaves(item)]
    return [np.asarray(value)]


def assert_close(left: Any, right: Any, *, scale: float) -> None:
    for a, b in zip(leaves(left), leaves(right), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6 * scale)


def assert_identical(left: Any, right: Any) -> None:
    for a, b in zip(leaves(left), leaves(right), strict=True):
        np.testing.assert_array_equal(a, b)


def scale_of(partial: Any) -> float:
    """float32 products are right to 1e-7 of the largest sum, not of each."""
    arrays = [np.abs(a[np.isfinite(a)]) for a in leaves(partial)]
    return 1 + max(float(a.max(initial=0)) for a in arrays)


def fold(reduction: Any, parts: list[Any]) -> Any:
    return functools.reduce(reduction.combine, parts, reduction.empty(DIM))


def empty_is_neutral(reduction: Any, block: Block, pieces: list[slice]) -> None:
    partial = reduction.map(block)
    empty = reduction.empty(block.dim)
    assert_identical(reduction.combine(empty, partial), partial)
    assert_identical(reduction.combine(partial, empty), partial)


def combine_is_associative(reduction: Any, block: Block, pieces: list[slice]) -> None:
    parts = [reduction.map(piece) for piece in cut(block, pieces)]
    left = fold(reduction, parts)
    right = functools.reduce(
        lambda a, b: reduction.combine(b, a), reversed(parts), reduction.empty(DIM)
    )
    assert_close(left, right, scale=scale_of(left))


def any_chunking_equals_one_chunk(reduction: Any, block: Block, pieces: list[slice]) -> None:
    whole = reduction.map(block)
    parts = fold(reduction, [reduction.map(piece) for piece in cut(block, pieces)])
    assert_close(parts, whole, scale=scale_of(whole))


def map_and_combine_never_mutate(reduction: Any, block: Block, pieces: list[slice]) -> None:
    before = copy.deepcopy(block)
    parts = [reduction.map(piece) for piece in cut(block, pieces)]
    kept = copy.deepcopy(parts)
    fold(reduction, parts)
    assert_identical(parts, kept)
    assert_identical(block, before)


def partials_and_reductions_pickle(reduction: Any, block: Block, pieces: list[slice]) -> None:
    partial = reduction.map(block)
    assert_identical(pickle.loads(pickle.dumps(partial)), partial)
    again = pickle.loads(pickle.dumps(reduction)).map(block)
    assert_identical(again, partial)


def partial_size_is_as_planned(reduction: Any, block: Block, pieces: list[slice]) -> None:
    sizes = {
        sum(a.nbytes for a in leaves(reduction.map(piece)))
        for piece in [block, *cut(block, pieces)]
    }
    assert len(sizes) == 1, "the size depends on the number of rows"
    assert sizes.pop() <= reduction.partial_nbytes(block.dim) + 64


def finalize_takes_any_partial(reduction: Any, block: Block, pieces: list[slice]) -> None:
    for partial in (reduction.empty(block.dim), reduction.map(block)):
        for array in leaves(reduction.finalize(partial)):
            assert not np.isnan(array).any()


def rows_used_add_up(reduction: Any, block: Block, pieces: list[slice]) -> None:
    assert reduction.rows_used(reduction.empty(block.dim)) == 0
    chunks = cut(block, pieces)
    parts = [reduction.map(chunk) for chunk in chunks]
    used = [reduction.rows_used(part) for part in parts]
    assert all(0 <= count <= chunk.n_rows for count, chunk in zip(used, chunks, strict=True))
    assert reduction.rows_used(fold(reduction, parts)) == sum(used)
    assert reduction.rows_used(reduction.map(block)) == sum(used)


LAWS: tuple[Callable[[Any, Block, list[slice]], None], ...] = (
    empty_is_neutral,
    combine_is_associative,
    any_chunking_equals_one_chunk,
    map_and_combine_never_mutate,
    partials_and_reductions_pickle,
    partial_size_is_as_planned,
    finalize_takes_any_partial,
    rows_used_add_up,
)
