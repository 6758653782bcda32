from __future__ import annotations

import pickle

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamhalf.data.block import RowRange, RowRanges


@st.composite
def ranges(draw: st.DrawFn) -> RowRanges:
    """Rising ranges, some of which touch."""
    edges = sorted(draw(st.lists(st.integers(0, 60), max_size=14)))
    pairs = zip(edges[::2], edges[1::2], strict=False)
    return RowRanges.of(RowRange(start, stop) for start, stop in pairs)


def listed(found: RowRanges) -> list[int]:
    return [row for rows in found for row in range(rows.start, rows.stop)]


@given(found=ranges())
def test_ranges__say_which_rows_they_hold(found: RowRanges) -> None:
    rows = listed(found)
    assert found.numbers().tolist() == rows
    assert found.numbers().dtype == np.int64
    assert found.n_rows == len(rows)
    assert all(piece.n_rows > 0 for piece in found)
    if rows:
        assert (found.span.start, found.span.stop - 1) == (rows[0], rows[-1])
        np.testing.assert_array_equal(found.take_from(np.arange(200) ** 2, 0), np.square(rows))


@given(found=ranges())
def test_ranges__are_values(found: RowRanges) -> None:
    again = pickle.loads(pickle.dumps(found))
    assert again == found == RowRanges.of(found)
    assert hash(again) == hash(found)
    assert found != RowRanges.of((RowRange(0, 99),))
    assert found != "rows"


@given(found=ranges())
def test_joined__leaves_gaps_only(found: RowRanges) -> None:
    joined = found.joined()
    assert listed(joined) == listed(found)
    assert (joined.bounds[1:, 0] > joined.bounds[:-1, 1]).all()


@given(found=ranges(), edges=st.sets(st.integers(0, 70)))
def test_cut__leaves_no_edge_inside(found: RowRanges, edges: set[int]) -> None:
    cut = found.cut(np.array(sorted(edges), dtype=np.int64))
    assert listed(cut) == listed(found)
    assert not any(rows.start < edge < rows.stop for rows in cut for edge in edges)
    ends = {end for rows in found for end in (rows.start, rows.stop)}
    assert all(end in ends | edges for rows in cut for end in (rows.start, rows.stop))


@given(found=ranges(), step=st.integers(1, 20))
def test_grouped__keeps_neighbours_of_one_key_together(found: RowRanges, step: int) -> None:
    groups = found.grouped(found.bounds[:, 0] // step)
    assert [row for group in groups for row in listed(group)] == listed(found)
    keys = [{rows.start // step for rows in group} for group in groups]
    assert all(len(key) == 1 for key in keys)
    assert len(set().union(*keys)) == len(groups)
