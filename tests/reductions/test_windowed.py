"""Windows of rows: which are taken, and that nothing but their number matters."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from streamhalf.data.block import Block
from streamhalf.reductions import LabelCounts, Windowed
from streamhalf.reductions.windowed import WINDOW_ROWS
from streamhalf.testing.drawing import cut

N_WINDOWS = 400


class Rows:
    """Keeps the numbers of the rows it is given."""

    name = "rows"

    def map(self, block: Block) -> list[int]:
        assert len(block.X) == len(block.y) == len(block.rows)
        np.testing.assert_array_equal(block.X[:, 0], block.rows)
        return block.rows.tolist()


def numbered(start: int, stop: int) -> Block:
    rows = np.arange(start, stop, dtype=np.int64)
    return Block(rows[:, None].astype(np.float64), np.ones(len(rows), dtype=np.int8), rows)


def taken(share: float, seed: int = 0, start: int = 0, stop: int = N_WINDOWS * WINDOW_ROWS) -> set:
    return set(Windowed(Rows(), share, seed).map(numbered(start, stop)))


def test_windowed__takes_whole_windows_and_their_share() -> None:
    rows = np.array(sorted(taken(0.3)))
    windows, counts = np.unique(rows // WINDOW_ROWS, return_counts=True)
    assert (counts == WINDOW_ROWS).all()
    # a binomial with this mean and standard deviation 9: five of them, chance below 1e-6
    assert abs(len(windows) - 0.3 * N_WINDOWS) < 46


def test_windowed__any_chunking_takes_the_same_rows() -> None:
    block = numbered(0, 20 * WINDOW_ROWS)
    whole = taken(0.4, stop=20 * WINDOW_ROWS)
    assert 0 < len(whole) < block.n_rows
    edges = [0, 1, 1023, 1024, 1030, 5000, 5001, 12_288, 20_479, 20_480]
    pieces = [slice(a, b) for a, b in itertools.pairwise(edges)]
    found = [row for piece in cut(block, pieces) for row in Windowed(Rows(), 0.4, 0).map(piece)]
    assert found == sorted(whole)


def test_windowed__rows_with_gaps_are_taken_by_their_number() -> None:
    block = numbered(0, 20 * WINDOW_ROWS).select(np.arange(20 * WINDOW_ROWS) % 700 < 300)
    found = set(Windowed(Rows(), 0.4, 0).map(block))
    assert found == taken(0.4, stop=20 * WINDOW_ROWS) & set(block.rows.tolist())


def test_windowed__other_seeds_take_other_windows_and_larger_shares_more() -> None:
    assert taken(0.2) < taken(0.5) < taken(1.0)
    assert taken(0.2) != taken(0.2, seed=1)


@pytest.mark.parametrize("share", [0.0, 1e-9])
def test_windowed__nothing_taken_is_the_partial_of_no_rows(share: float) -> None:
    reduction = Windowed(LabelCounts(), share, 0)
    assert reduction.map(numbered(0, 3000)) == reduction.empty(1)
