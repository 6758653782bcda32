from __future__ import annotations

import itertools
from dataclasses import replace

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from streamhalf import RunConfig, open_source
from streamhalf.algorithms.row_split import GROUP_CHUNKS, RowSplit, RowSubset, pilot, window_rows_for
from streamhalf.data.block import Block, RowRange, RowRanges
from streamhalf.engine import PassPlan, open_engine, run_pass
from streamhalf.events import ignore
from streamhalf.kernels.streams import Stream, uniforms_at
from streamhalf.reductions import Bundle, Chow, LabelCounts, Moments
from streamhalf.results import HeldOutRecord, Sampling
from streamhalf.testing import assert_close, assert_identical
from tests.conftest import make_rows


def make_deal(n_rows: int, split: Sampling = Sampling.WINDOWS, **others) -> RowSplit:
    settings = {"seed": 7, "held_out": 0.5, "window_rows": 64, "chunk_rows": None, **others}
    return RowSplit(n_rows=n_rows, sampling=split, blocks=(RowRange(0, n_rows),), **settings)


def rows_of(share: RowSubset) -> NDArray[np.int64]:
    """The rows that a share stands for, one by one."""
    rows = share.blocks.numbers()
    uniforms = uniforms_at(share.seed, Stream.SHARES, rows)
    return rows[(uniforms >= share.low) & (uniforms < share.high)]


LAYOUTS = {
    "n_rows": st.integers(1, 3_000),
    "window_rows": st.integers(1, 90),
    "chunk_rows": st.none() | st.integers(1, 400),
    "held_out": st.sampled_from([0.0, 0.25, 0.5, 0.9]),
    "seed": st.integers(0, 2**63 - 1),
}


@pytest.mark.parametrize("split", [Sampling.WINDOWS, Sampling.ROWS])
@given(data=st.data(), **LAYOUTS)
def test_take__shares_are_disjoint_and_cover(split, data, n_rows, **layout) -> None:
    row_split = make_deal(n_rows, split, **layout)
    cuts = sorted(data.draw(st.lists(st.integers(0, n_rows), max_size=5)))
    shares = [row_split.take(a, b - a) for a, b in itertools.pairwise([0, *cuts, n_rows])]
    for share in shares:
        starts, stops = share.blocks.bounds.T
        assert (starts < stops).all()
        assert (starts[1:] > stops[:-1]).all() or split is Sampling.ROWS
    taken = np.concatenate([rows_of(share) for share in (*shares, row_split.held_out_subset())])
    np.testing.assert_array_equal(np.sort(taken), np.arange(n_rows))


@given(cursor=st.integers(0, 2_000), wanted=st.integers(0, 2_000), **LAYOUTS)
def test_windows__a_share_has_the_rows_it_should_give_or_take_a_window(
    cursor: int, wanted: int, n_rows: int, **layout
) -> None:
    row_split = make_deal(n_rows, **layout)
    share = row_split.take(cursor, wanted)
    assert share == row_split.take(cursor, wanted) == make_deal(n_rows, **layout).take(cursor, wanted)
    assert (share.low, share.high) == (row_split.held_out, 1.0)
    kept = 1 - row_split.held_out
    end = n_rows if cursor + wanted >= row_split.learning_rows else (cursor + wanted) / kept
    expected = max(0, end - min(cursor / kept, n_rows))
    assert abs(share.blocks.n_rows - expected) <= row_split.window_rows + (1 / kept)


def test_windows__of_a_pass_are_chunks_drawn_from_everywhere() -> None:
    # of 1,600 chunks a pass has those of about two groups of 64, over 50 parts of 32 chunks. Chi²
    # with 49 degrees beyond its quantile at 1e-6 has this probability for each of 4 cases.
    limit = stats.chi2.isf(1e-6, 49)
    for cursor in (0, 400_000, 2_000_000, 3_600_000):
        share = make_deal(8_000_000, chunk_rows=5_000).take(cursor, 400_000)
        chunks = np.unique(share.blocks.numbers() // 5_000)
        counts, _ = np.histogram(chunks, bins=50, range=(0, 1_600))
        expected = counts.sum() / 50
        assert ((counts - expected) ** 2 / expected).sum() < limit


def test_windows__of_a_pass_are_one_range_of_each_segment() -> None:
    # 128 segments of 62,464 rows, 976 windows each, and the rest; 100 or so of each in a pass
    split = make_deal(8_000_000)
    starts = []
    for cursor in (0, 400_000, 2_000_000, 3_500_000):
        share = split.take(cursor, 400_000)
        segments = share.blocks.numbers() // 62_464
        counts = np.bincount(segments)[:128] // 64
        assert counts.max() - counts.min() <= 2
        assert len(share.blocks) <= 2 * 129  # a range may go round the end of its segment
        starts += [block.start % 62_464 for block in share.blocks]
    # ranges begin anywhere: a share of 1e-6 of seeds is beyond this
    assert stats.kstest(np.array(starts) / 62_464, "uniform").pvalue > 1e-6
    assert split.take(0, 64).blocks != make_deal(8_000_000, seed=1).take(0, 64).blocks


def test_windows__touch_a_group_of_chunks_and_as_many_as_they_need() -> None:
    # 1,000 chunks of 10,000 rows: 2% of the rows fill 20 chunks, and lie in one group or two
    row_split = make_deal(10_000_000, chunk_rows=10_000)
    for cursor in (0, 100_000, 1_000_000, 4_900_000):
        for share_of_rows in (0.02, 0.3):
            share = row_split.take(cursor, int(share_of_rows * 5_000_000))
            touched = len(np.unique(share.blocks.numbers() // 10_000))
            needed = share.blocks.n_rows / 10_000
            assert needed <= touched <= needed + 2 * GROUP_CHUNKS
    first = row_split.take(0, 100_000)
    assert len(np.unique(first.blocks.numbers() // 10_000)) == GROUP_CHUNKS


@given(n_rows=st.integers(1, 400), seed=st.integers(0, 2**63 - 1))
def test_rows__shares_are_intervals_of_the_learning_uniforms(n_rows: int, seed: int) -> None:
    row_split = make_deal(n_rows, Sampling.ROWS, seed=seed, held_out=0.25)
    share = row_split.take(n_rows // 4, n_rows // 4)
    assert share.low == 0.25 + (n_rows // 4) / n_rows
    assert share.high == 0.25 + 2 * (n_rows // 4) / n_rows
    block = Block(np.zeros((n_rows, 1)), np.ones(n_rows, dtype=np.int8), np.arange(n_rows))
    assert share.restrict(LabelCounts()).map(block).n_rows == len(rows_of(share))


def test_reuse__every_pass_begins_with_the_first_row_for_learning() -> None:
    row_split = make_deal(1_000, Sampling.REUSE, held_out=0.25)
    whole = RowRanges.of((RowRange(0, 1_000),))
    assert row_split.take(0, 500) == row_split.take(990, 500) == RowSubset(whole, 7, 0.25, 0.75)
    assert row_split.take(10, 750) == row_split.take(10, 10_000) == RowSubset(whole, 7, 0.25, 1.0)
    nothing_held_out = replace(row_split, held_out=0.0).take(5, 1_000)
    reduction = LabelCounts()
    assert nothing_held_out.restrict(reduction) is reduction


@pytest.mark.parametrize("split", Sampling)
def test_held_out__is_drawn_row_by_row_from_all_blocks(split: Sampling) -> None:
    # half of 100,000 rows: 50,000 ± 158; six times as far has probability 2e-9
    share = replace(
        make_deal(100_000, split), blocks=(RowRange(0, 70_000), RowRange(70_000, 100_000))
    ).held_out_subset()
    assert share.record == HeldOutRecord(((0, 100_000),), 0.0, 0.5)
    assert len(share.blocks) == 2
    assert abs(len(rows_of(share)) - 50_000) < 950


def test_record__names_the_windows_of_a_share() -> None:
    share = make_deal(1_000).take(100, 200)
    record = share.record
    named = [row for start, stop in record.ranges for row in range(start, stop)]
    assert named == share.blocks.numbers().tolist()
    # neighbours are one range, so that a document stays short
    assert all(a[1] < b[0] for a, b in itertools.pairwise(record.ranges))
    assert (record.low, record.high) == (0.5, 1.0)


@given(n_rows=st.integers(1, 10**11), smallest=st.integers(1, 10**11))
def test_window_rows__leave_the_smallest_pass_enough(n_rows: int, smallest: int) -> None:
    rows = window_rows_for(n_rows, smallest)
    assert rows.bit_count() == 1
    assert rows >= 64
    assert -(-n_rows // rows) <= 1 << 20
    if rows > 64 and 2 * n_rows < rows << 20:  # not for the memory's sake
        assert rows <= 16_384
        assert rows <= smallest / 256
    if rows < 16_384:
        assert 2 * rows > smallest / 256


@given(n_rows=st.integers(1, 10**10), wanted=st.integers(1, 10**5), seed=st.integers(0, 2**64 - 1))
def test_pilot__takes_about_the_wanted_rows(n_rows: int, wanted: int, seed: int) -> None:
    found = pilot(n_rows, wanted, seed=seed)
    assert found == pilot(n_rows, wanted, seed=seed)
    starts, stops = found.bounds.T
    assert starts[0] >= 0
    assert stops[-1] <= n_rows
    assert (starts[1:] > stops[:-1]).all()
    if wanted >= n_rows:
        assert found.n_rows == n_rows
    else:
        assert abs(found.n_rows - wanted) <= 2 * max(1, wanted // 64)


def test_pilot__is_drawn_from_everywhere_by_the_seed() -> None:
    # 64 windows in each of 200 pilots over 10 tenths: 1,280 ± 34 windows each, six times as far has
    # probability 2e-9
    found = [pilot(10_000_000, 65_536, seed=seed) for seed in range(200)]
    assert len(set(found)) == 200
    windows = np.concatenate([ranges.numbers()[::1_024] for ranges in found])
    counts, _ = np.histogram(windows, bins=10, range=(0, 10_000_000))
    assert np.abs(counts - 1_280).max() < 205


@pytest.mark.parametrize("scheduler", ["serial", "threads"])
@settings(max_examples=8)
@given(cursor=st.integers(0, 900), wanted=st.integers(1, 900), chunk=st.integers(20, 700))
def test_windows__of_dask_arrays_are_cut_anywhere(scheduler: str, cursor: int, wanted: int, chunk: int) -> None:
    X, y = make_rows(1_000, 3, dtype="float64")
    lazy = open_source((da.from_array(X, chunks=(chunk, 3)), da.from_array(y, chunks=333)))
    row_split = make_deal(1_000, held_out=0.0, window_rows=16, chunk_rows=lazy.unit_rows)
    share = row_split.take(cursor, wanted + 32)
    reduction = Bundle((Moments(2), Chow(3)))

    def run(source, engine_name: str):
        plan = PassPlan("share", source, reduction, share.blocks)
        with open_engine(engine_name, RunConfig(n_workers=2)) as engine:
            return run_pass(engine, plan, memory_limit=1 << 30, observer=ignore)

    result, record = run(lazy, scheduler)
    assert record.rows_read == share.blocks.n_rows > 0
    assert_identical(result, run(lazy, "serial")[0])
    # arrays in memory may be dealt to tasks in another way, and so be summed in another order
    expected, _ = run(open_source((X, y)), "serial")
    assert_close(result, expected, scale=1.0)
