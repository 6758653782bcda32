from __future__ import annotations

import itertools

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamhalf import open_source
from streamhalf.data.block import Block, RowRange
from streamhalf.engine import PassPlan, open_engine, run_pass
from streamhalf.events import ignore
from streamhalf.kernels.streams import Stream
from streamhalf.kernels.uniforms import uniforms_at
from streamhalf.planning.deal import N_STRATA, Deal, Share, spread, subtract
from streamhalf.records import HeldOutRecord, Split
from streamhalf.reductions import Bundle, Chow, LabelCounts, Moments, Sampled
from streamhalf.testing.comparing import assert_close, assert_identical
from tests.conftest import make_rows


@st.composite
def layouts(draw: st.DrawFn) -> tuple[RowRange, ...]:
    """Consecutive blocks, equal or not, down to one row each."""
    sizes = draw(st.lists(st.integers(1, 60), min_size=1, max_size=12))
    edges = [0, *itertools.accumulate(sizes)]
    return tuple(RowRange(a, b) for a, b in itertools.pairwise(edges))


def rows_of(ranges: tuple[RowRange, ...] | list[RowRange]) -> list[int]:
    return [row for rows in ranges for row in range(rows.start, rows.stop)]


@given(data=st.data(), blocks=layouts(), seed=st.integers(0, 2**63 - 1))
def test_chunks__any_sequence_of_shares_is_disjoint_and_covers(data, blocks, seed) -> None:
    n_rows = blocks[-1].stop
    first = data.draw(st.integers(0, n_rows))
    cuts = sorted(data.draw(st.lists(st.integers(0, n_rows), max_size=5)))
    shares = Deal(seed, blocks, Split.CHUNKS, first)
    taken = []
    for cursor, stop in itertools.pairwise([0, *cuts, n_rows]):
        share = shares.take(cursor, stop - cursor)
        assert (share.low, share.high) == (0.0, 1.0)
        assert len(rows_of(share.blocks)) == stop - cursor
        assert list(share.blocks) == sorted(share.blocks)
        assert all(piece.n_rows > 0 for piece in share.blocks)
        taken += rows_of(share.blocks)
    assert sorted(taken) == list(range(n_rows))


@given(blocks=layouts(), cursor=st.integers(0, 800), wanted=st.integers(0, 800))
def test_chunks__are_deterministic_and_clipped_at_the_end(blocks, cursor, wanted) -> None:
    n_rows = blocks[-1].stop
    shares = [Deal(7, blocks, Split.CHUNKS, 10).take(cursor, wanted) for _ in range(2)]
    assert shares[0] == shares[1]
    assert len(rows_of(shares[0].blocks)) == max(0, min(wanted, n_rows - cursor))


def test_chunks__another_seed_deals_other_rows() -> None:
    blocks = tuple(RowRange(i, i + 50) for i in range(0, 2_000, 50))
    dealt = {Deal(seed, blocks, Split.CHUNKS, 64).take(64, 300).blocks for seed in range(5)}
    assert len(dealt) == 5
    firsts = {Deal(seed, blocks, Split.CHUNKS, 64).take(0, 64).blocks for seed in range(5)}
    assert len(firsts) == 1


@given(n_rows=st.integers(N_STRATA, 5_000), data=st.data())
def test_chunks__the_first_share_touches_every_stratum(n_rows: int, data) -> None:
    wanted = data.draw(st.integers(N_STRATA, n_rows))
    step = data.draw(st.integers(1, n_rows))
    blocks = tuple(RowRange(i, min(i + step, n_rows)) for i in range(0, n_rows, step))
    share = Deal(3, blocks, Split.CHUNKS, wanted).take(0, wanted)
    edges = [i * n_rows // N_STRATA for i in range(N_STRATA + 1)]
    counts, _ = np.histogram(rows_of(share.blocks), bins=[*edges[:-1], n_rows])
    assert counts.min() > 0
    # equal pieces: a stratum that is smaller than its piece gives all it has
    assert counts.max() - counts.min() <= max(1, n_rows % N_STRATA)


def test_chunks__a_share_reads_few_blocks() -> None:
    # that is what shares of chunks are for: one tenth of the rows costs about one tenth of a read
    blocks = tuple(RowRange(i, i + 1_000) for i in range(0, 100_000, 1_000))
    share = Deal(0, blocks, Split.CHUNKS, 3_200).take(3_200, 10_000)
    touched = {row // 1_000 for row in rows_of(share.blocks)}
    assert len(touched) <= 13


@given(
    n_rows=st.integers(1, 400),
    cuts=st.lists(st.integers(0, 400), max_size=4),
    seed=st.integers(0, 2**63 - 1),
)
def test_rows__shares_are_disjoint_and_cover(n_rows: int, cuts: list[int], seed: int) -> None:
    blocks = (RowRange(0, n_rows),)
    shares = Deal(seed, blocks, Split.ROWS, 5)
    block = Block(np.zeros((n_rows, 1)), np.ones(n_rows, dtype=np.int8), np.arange(n_rows))
    total = 0
    for cursor, stop in itertools.pairwise(sorted([0, *(min(c, n_rows) for c in cuts), n_rows])):
        share = shares.take(cursor, stop - cursor)
        assert share.blocks == blocks
        counts = share.restrict(LabelCounts()).map(block)
        uniforms = uniforms_at(seed, Stream.SHARES, block.rows)
        inside = (uniforms >= cursor / n_rows) & (uniforms < stop / n_rows)
        assert counts.n_rows == np.count_nonzero(inside)
        total += counts.n_rows
    assert total == n_rows


def test_rows__a_share_is_a_fair_sample_of_every_part() -> None:
    # each of 40 parts expects 250 of its 1000 rows, standard deviation 13.7: farther than 60 has
    # probability 1e-5 each
    blocks = (RowRange(0, 40_000),)
    share = Deal(5, blocks, Split.ROWS, 100).take(4_000, 10_000)
    uniforms = uniforms_at(5, Stream.SHARES, np.arange(40_000))
    taken = ((uniforms >= share.low) & (uniforms < share.high)).reshape(40, 1_000).sum(axis=1)
    assert np.abs(taken - 250).max() <= 60


def test_rows__are_clipped_at_the_end() -> None:
    share = Deal(0, (RowRange(0, 100),), Split.ROWS, 10).take(90, 50)
    assert (share.low, share.high) == (0.9, 1.0)


@given(blocks=layouts(), cursor=st.integers(0, 10**6), wanted=st.integers(0, 10**6))
def test_reuse__every_pass_takes_all_rows(blocks, cursor: int, wanted: int) -> None:
    share = Deal(0, blocks, Split.REUSE, 10).take(cursor, wanted)
    assert share == Share(blocks, 0)
    reduction = LabelCounts()
    assert share.restrict(reduction) is reduction


def test_share__restricts_only_where_rows_are_sampled() -> None:
    sampled = Share((RowRange(0, 9),), 4, 0.25, 0.5).restrict(LabelCounts())
    assert isinstance(sampled, Sampled)
    assert (sampled.low, sampled.high, sampled.seed) == (0.25, 0.5, 4)
    assert sampled.stream == Stream.SHARES


@given(n_rows=st.integers(1, 3_000), wanted=st.integers(0, 4_000))
def test_spread__takes_the_wanted_rows_at_the_beginnings_of_segments(
    n_rows: int, wanted: int
) -> None:
    pieces = spread(n_rows, wanted)
    strata = min(N_STRATA, n_rows)
    assert len(pieces) == strata
    assert [piece.start for piece in pieces] == [i * n_rows // strata for i in range(strata)]
    assert all(a.stop <= b.start for a, b in itertools.pairwise(pieces))
    total = sum(piece.n_rows for piece in pieces)
    assert total <= min(wanted, n_rows)
    if wanted <= n_rows - strata:
        assert total == wanted


@given(blocks=layouts(), data=st.data())
def test_subtract__leaves_what_is_in_no_hole(blocks, data) -> None:
    n_rows = blocks[-1].stop
    marks = sorted(data.draw(st.sets(st.integers(0, n_rows), max_size=12)))
    holes = [RowRange(a, b) for a, b in zip(marks[::2], marks[1::2], strict=False)]
    left = subtract(blocks, holes)
    assert len(left) == len(blocks)
    removed = set(rows_of(holes))
    for block, pieces in zip(blocks, left, strict=True):
        kept = [row for row in range(block.start, block.stop) if row not in removed]
        assert rows_of(pieces) == kept
        assert all(piece.n_rows > 0 for piece in pieces)


@pytest.mark.parametrize("scheduler", ["serial", "threads"])
@settings(max_examples=8)
@given(cursor=st.integers(0, 900), wanted=st.integers(1, 900), chunk=st.integers(20, 700))
def test_chunks__of_dask_arrays_are_cut_anywhere(
    scheduler: str, cursor: int, wanted: int, chunk: int
) -> None:
    # a share begins and ends inside chunks, and its first part spans several of them
    X, y = make_rows(1_000, 3, dtype="float64")
    lazy = open_source((da.from_array(X, chunks=(chunk, 3)), da.from_array(y, chunks=333)))
    share = Deal(1, lazy.blocks, Split.CHUNKS, 100).take(cursor, wanted)
    reduction = Bundle((Moments(2), Chow(3)))

    def run(source, engine_name: str):
        plan = PassPlan("share", source, reduction, share.blocks)
        with open_engine(engine_name, 2) as engine:
            return run_pass(engine, plan, memory_limit=1 << 30, observer=ignore)

    result, record = run(lazy, scheduler)
    assert record.rows_read == min(wanted, 1_000 - cursor)
    assert_identical(result, run(lazy, "serial")[0])
    # arrays in memory may be dealt to tasks in another way, and so be summed in another order
    expected, _ = run(open_source((X, y)), "serial")
    assert_close(result, expected, scale=1.0)


@given(blocks=layouts(), data=st.data())
def test_record__names_the_rows_of_a_share(blocks, data) -> None:
    n_rows = blocks[-1].stop
    cursor = data.draw(st.integers(0, n_rows))
    share = Deal(3, blocks, Split.CHUNKS, 10).take(cursor, data.draw(st.integers(0, n_rows)))
    record = share.record
    named = [row for start, stop in record.ranges for row in range(start, stop)]
    assert named == rows_of(share.blocks)
    # neighbours are one range, so that a document stays short
    assert all(a[1] < b[0] for a, b in itertools.pairwise(record.ranges))
    assert (record.low, record.high) == (0.0, 1.0)


def test_record__of_sampled_rows_keeps_their_interval() -> None:
    blocks = (RowRange(0, 50), RowRange(50, 100))
    share = Deal(3, blocks, Split.ROWS, 10).take(25, 50)
    assert share.record == HeldOutRecord(((0, 100),), 0.25, 0.75)
