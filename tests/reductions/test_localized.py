"""Rejection sampling as a wrapping reduction: whom it lets in, and what the inner one sees."""

from __future__ import annotations

import numpy as np
import pytest

from streamhalf.data.block import Block
from streamhalf.kernels.frame import Frame
from streamhalf.kernels.plane import Plane
from streamhalf.kernels.uniforms import uniforms_at
from streamhalf.reductions import LabelCounts, Localized
from streamhalf.reductions.localized import LocalizedPartial, LocalizedResult
from streamhalf.testing.drawing import make_block

FRAME = Frame(Plane(np.array([0.6, 0.0, 0.8]), 0.3), 0.4)


class Kept(LabelCounts):
    """Keeps the block that it is given."""

    def map(self, block: Block) -> Block:
        return block


def localize(block: Block, *, seed: int = 1, stream: int = 2) -> Block:
    return Localized(Kept(), FRAME, seed, stream).map(block).inner


def test_localized__accepts_by_uniform_and_shows_the_frame() -> None:
    block = make_block(2_000, 3, seed=3)
    along = block.X @ FRAME.plane.normal
    keep = uniforms_at(1, 2, block.rows) < FRAME.acceptance(along)
    assert 50 < np.count_nonzero(keep) < 1_500
    seen = localize(block)
    np.testing.assert_array_equal(seen.rows, block.rows[keep])
    np.testing.assert_array_equal(seen.y, block.y[keep])
    np.testing.assert_allclose(seen.X, FRAME.to_frame(block.X[keep], along[keep]), atol=1e-12)


def test_localized__rows_depend_on_seed_and_stream() -> None:
    block = make_block(2_000, 3, seed=3)
    first, again = localize(block), localize(block)
    np.testing.assert_array_equal(first.rows, again.rows)
    for other in (localize(block, seed=7), localize(block, stream=7)):
        assert set(other.rows) != set(first.rows)


def test_localized__partial_and_result_count_both() -> None:
    block = make_block(2_000, 3, seed=3)
    reduction = Localized(LabelCounts(), FRAME, 1, 2)
    partial = reduction.map(block)
    accepted = localize(block)
    assert isinstance(partial, LocalizedPartial)
    assert (partial.n_seen, partial.n_accepted) == (2_000, accepted.n_rows)
    assert reduction.rows_used(partial) == accepted.n_rows
    result = reduction.finalize(partial)
    assert isinstance(result, LocalizedResult)
    assert (result.n_seen, result.n_accepted) == (2_000, accepted.n_rows)
    assert result.inner.n_rows == accepted.n_rows
    assert result.inner.positive == np.count_nonzero(accepted.y > 0)


@pytest.mark.parametrize("n_rows", [0, 5])
def test_localized__no_accepted_rows_are_the_partial_of_none(n_rows: int) -> None:
    far = Frame(Plane(np.array([1.0, 0.0, 0.0])), 0.001)
    block = make_block(n_rows, 3, seed=3)
    partial = Localized(LabelCounts(), far, 1, 2).map(block)
    assert (partial.n_seen, partial.n_accepted) == (n_rows, 0)
    assert partial.inner == LabelCounts().empty(3)
