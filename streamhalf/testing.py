"""Checks for those who write a statistic, a tester or a row transform: one line in a test.

Examples are drawn by Hypothesis, the same ones every time.
"""

from __future__ import annotations

import copy
import functools
import itertools
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.config import RunConfig
from streamhalf.data.block import Block
from streamhalf.data.transforms import RowTransform
from streamhalf.engine import checkpoint
from streamhalf.kernels.plane import Frame, Plane
from streamhalf.reductions.base import Reduction
from streamhalf.results import Outcome, Stage, TestResult, TransformRecord, from_json, to_json
from streamhalf.testers.base import Context, Tester

try:
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import strategies as st
except ImportError as error:
    raise ImportError("streamhalf.testing draws its examples with Hypothesis; install streamhalf[testing]") from error

__all__ = ["check_reduction", "check_tester", "check_transform"]
DIMS = (1, 2, 3, 7)
MAX_ROWS = 60


def make_block(n_rows: int, dim: int, seed: int, dtype: str = "float64") -> Block:
    """Rows with correlated, shifted, heavy-tailed features: no statistic is trivially zero."""
    rng = np.random.default_rng(seed)
    X = (rng.standard_t(6, (n_rows, dim)) @ rng.standard_normal((dim, dim)) + 0.5).astype(dtype)
    y = np.where(rng.random(n_rows) < 0.6, 1, -1).astype(np.int8)
    block = Block(X, y, np.arange(n_rows, dtype=np.int64))
    for array in (block.X, block.y, block.rows):
        array.setflags(write=False)  # writing into a block fails at once
    return block


@st.composite
def chunked_blocks(draw: st.DrawFn, dims: Sequence[int]) -> tuple[Block, list[slice]]:
    """Rows of a drawn dimension and precision, and slices that cover them; empty and one-row pieces included."""
    n_rows = draw(st.integers(1, MAX_ROWS))
    dim, dtype = draw(st.sampled_from(dims)), draw(st.sampled_from(["float32", "float64"]))
    block = make_block(n_rows, dim, draw(st.integers(0, 2**32 - 1)), dtype)
    edges = sorted([0, *draw(st.lists(st.integers(0, n_rows), max_size=8)), n_rows])
    return block, [slice(a, b) for a, b in itertools.pairwise(edges)]


def cut(block: Block, pieces: list[slice]) -> list[Block]:
    return [block.cut(piece) for piece in pieces]


def fold(reduction: Any, block: Block, pieces: list[slice]) -> Any:
    """The partial of the block, combined from left to right of those of its pieces."""
    parts = (reduction.map(piece) for piece in cut(block, pieces))
    return functools.reduce(reduction.combine, parts, reduction.empty(block.dim))


def for_drawn_blocks(check: Callable[[Block, list[slice]], None], *, dims: Sequence[int], max_examples: int) -> None:
    """Call `check` with blocks and chunkings, the same ones every time."""

    @settings(
        max_examples=max_examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(chunked_blocks(dims))
    def run(drawn: tuple[Block, list[slice]]) -> None:
        check(*drawn)

    run()


def leaves(value: Any) -> Iterator[NDArray[Any]]:
    """Yield the arrays of a partial, a structured one field by field."""
    for array in [value] if isinstance(value, np.ndarray) else checkpoint.leaves(value):
        if array.dtype.names is None:
            yield array
        for name in array.dtype.names or ():
            yield from leaves(array[name])


def assert_close(left: Any, right: Any, *, scale: float) -> None:
    """Equal up to rounding of float32 products, which are right to 1e-7 of the largest sum."""
    for a, b in zip(leaves(left), leaves(right), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6 * scale)


def assert_identical(left: Any, right: Any) -> None:
    for a, b in zip(leaves(left), leaves(right), strict=True):
        np.testing.assert_array_equal(a, b)


def scale_of(partial: Any) -> float:
    """Return the scale of rounding: float32 products are right to a share of the largest sum."""
    arrays = [np.abs(a[np.isfinite(a)]) for a in leaves(partial)]
    return 1 + max(float(a.max(initial=0)) for a in arrays)


_SPARE_NBYTES = 64  # A few counters beside the arrays need not be planned for


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
        example: Any = reduction(block.dim) if callable(reduction) else reduction
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
    """From left to right or from right to left, up to rounding; all at once, the same bits."""
    left, right = fold(reduction, block, pieces), reduction.empty(block.dim)
    for piece in reversed(cut(block, pieces)):
        right = reduction.combine(reduction.map(piece), right)
    assert_close(left, right, scale=scale_of(left))
    parts = [reduction.map(piece) for piece in cut(block, pieces)]
    if len(parts) > 1:
        assert_identical(reduction.combine(*parts), functools.reduce(reduction.combine, parts))


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
    if len(parts) > 1:
        reduction.combine(*parts)
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
_ROWS = 20_000
_DIM = 3
_EPS = 0.25
_TAU = 1e-6  # Rows of N(0, I) are rejected by chance once in a million times


def check_tester(tester: type[Tester]) -> None:
    """Raise an AssertionError if the tester breaks a law.

    It has a say in some pass; its share of tau is one; rows of N(0, I) are not rejected; outcomes are the same however
    rows are cut; every result has words, goes to JSON and back, and names the rows it would take if it cannot tell.

    Parameters
    ----------
    tester
        The class; `of` is called with a context of every pass.
    """
    assert 0 <= tester.share <= 1, f"share: {tester.share} is no share of tau"
    plane = Plane(np.eye(_DIM)[0])
    frame = Frame(plane, 0.5)
    run = {"config": RunConfig(), "dim": _DIM, "n_rows": _ROWS, "total_rows": _ROWS, "eps": _EPS, "tau": _TAU}
    stages = {Stage.INITIAL: {}, Stage.UPDATE: {"frame": frame}, Stage.FINAL: {"candidates": (plane,)}}
    made = {stage: tester.of(Context(**run, stage=stage, **known)) for stage, known in stages.items()}  # type: ignore[arg-type]
    for stage, one in made.items():
        if one is not None:
            # testers of an update see the frame's rows, which are N(0, I) as well
            _check_pass(one, round(_ROWS * frame.rate) if stage is Stage.UPDATE else _ROWS)
    assert any(made.values()), "it has a say in no pass"


def _check_pass(tester: Tester, n_rows: int) -> None:
    assert tester.rows_needed() >= 1
    X = np.random.default_rng(7).standard_normal((n_rows, _DIM)).astype(np.float32)
    y = np.where(X[:, 0] >= 0, np.int8(1), np.int8(-1))
    block = Block(X, y, np.arange(n_rows, dtype=np.int64))
    test_results = _judge(tester, block, n_pieces=1)
    assert test_results, "it says nothing"
    assert test_results == _judge(pickle.loads(pickle.dumps(tester)), block, n_pieces=1)
    in_pieces = _judge(tester, block, n_pieces=7)
    assert [one.outcome for one in in_pieces] == [one.outcome for one in test_results], "chunking matters"
    for one in test_results:
        assert one.tester in tester.words, f"no words for {one.tester!r}"
        assert one.outcome is not Outcome.REJECTED, f"{one.tester} rejects rows of N(0, I)"
        numbers = (one.statistic, one.limit, one.null_quantile)
        assert np.isfinite(numbers).all(), f"{one.tester}: a number is not finite"
        known = one.outcome is not Outcome.INCONCLUSIVE or one.rows_needed is not None
        assert known, f"{one.tester} cannot tell, and not how many rows it takes either"
        assert from_json(TestResult, to_json(one)) == one


def _judge(tester: Tester, block: Block, *, n_pieces: int) -> tuple[TestResult, ...]:
    reduction = tester.needs()
    edges = np.linspace(0, block.n_rows, n_pieces + 1, dtype=int)
    total = fold(reduction, block, [slice(a, b) for a, b in itertools.pairwise(edges)])
    return tester.judge(reduction.finalize(total), n_seen=_ROWS)


_ROUNDING = 256  # Margins below so many units in the last place of their largest term may have either sign


def check_transform(
    row_transform: RowTransform | Callable[[int], RowTransform],
    *,
    dims: Sequence[int] = DIMS,
    through_origin: bool = False,
    max_examples: int = 40,
) -> None:
    """Raise an AssertionError if the transform breaks a law.

    Rows stay as many, with their numbers, and labels stay ±1; any chunking gives the same bits; nothing is mutated; the
    transform pickles and comes back from its record; and no row changes sides: a plane gets the same rows wrong before
    (`to_stored`) and after, wherever its margin is no mere rounding.

    Parameters
    ----------
    row_transform
        The transform, or a function that makes one for a number of features.
    through_origin
        Draw only planes through the origin of the transform, which among stored rows is the centre of its record (the
        origin, if it has none), for a transform that keeps no others.
    dims, max_examples
        As of `check_reduction`.
    """
    n_judged = 0

    def check(block: Block, pieces: list[slice]) -> None:
        nonlocal n_judged
        example: Any = row_transform(block.dim) if callable(row_transform) else row_transform
        before = copy.deepcopy(block)
        mapped = example.apply(block)
        assert_identical(block, before)
        np.testing.assert_array_equal(mapped.rows, block.rows, "row numbers")
        assert mapped.X.shape[0] == len(mapped.y) == block.n_rows
        assert np.isfinite(mapped.X).all(), "a feature is not finite"
        assert np.isin(mapped.y, (-1, 1)).all(), "a label is not ±1"
        assert (mapped.X.dtype, mapped.y.dtype) == (block.X.dtype, block.y.dtype), "another precision"
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


def _check_sides(example: Any, block: Block, mapped: Block, *, through_origin: bool) -> int:
    """Compare sides with labels for planes drawn among mapped and among stored rows; count those clear of rounding."""
    rng = np.random.default_rng(block.n_rows)
    centre = np.array(example.record.centre or (0.0,) * block.dim)
    after = _draw_plane(rng, mapped, np.zeros(mapped.dim) if through_origin else None)
    before = _draw_plane(rng, block, centre if through_origin else None)
    n_clear = 0
    for old, new in ((example.to_stored(after), after), (before, example.to_transformed(before))):
        (side_before, clear_before), (side_after, clear_after) = _sides(block, old), _sides(mapped, new)
        clear = clear_before & clear_after
        was_right, is_right = side_before == block.y, side_after == mapped.y
        np.testing.assert_array_equal(is_right[clear], was_right[clear], "a row changed sides")
        n_clear += int(np.count_nonzero(clear))
    return n_clear


def _draw_plane(rng: np.random.Generator, block: Block, point: NDArray[np.float64] | None) -> Plane:
    """A plane through a point, or one with rows on both sides, if it can have them."""
    normal = rng.standard_normal(block.dim)
    if point is not None:
        return Plane(normal, float(normal @ point))
    middle = float(np.median(block.X @ normal))
    return Plane(normal, middle + 0.1 * rng.standard_normal())


def _sides(block: Block, plane: Any) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
    """The side of every row, and whether its margin is more than rounding."""
    terms = block.X.astype(np.float64) * plane.normal
    margin = terms.sum(axis=1) - plane.threshold
    largest = np.abs(terms).sum(axis=1) + abs(plane.threshold)
    clear = np.abs(margin) > _ROUNDING * np.finfo(block.X.dtype).eps * largest
    return np.where(margin >= 0, np.int8(1), np.int8(-1)), clear
