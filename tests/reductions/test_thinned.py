"""Nested samples that are drawn once."""

from __future__ import annotations

import numpy as np
import pytest

from streamhalf.data.block import Block
from streamhalf.kernels.uniforms import uniforms_at
from streamhalf.reductions import Bundle, Chow, LabelCounts, Moments, Sampled, Thinned
from streamhalf.reductions import thinned as module
from streamhalf.testing.comparing import assert_identical
from streamhalf.testing.drawing import make_block

N_ROWS = 500
BLOCK = make_block(N_ROWS, 3, seed=2)
MEMBERS = (LabelCounts(), Moments(2), Chow(3), LabelCounts())


@pytest.mark.parametrize("tops", [(0.2, 0.8, 0.5, 0.5), (0.5, 0.5, 0.5, 0.5), (1.0, 0.0, 0.3, 2.0)])
def test_thinned__gives_every_member_the_rows_that_sampled_gives_it(
    tops: tuple[float, ...],
) -> None:
    found = Thinned(MEMBERS, tops, 7, 11)
    expected = Bundle(
        tuple(Sampled(one, 0.0, top, 7, 11) for one, top in zip(MEMBERS, tops, strict=True))
    )
    assert_identical(found.finalize(found.map(BLOCK)), expected.finalize(expected.map(BLOCK)))


def test_thinned__a_smaller_sample_is_part_of_a_larger_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[set[int]] = []

    class Watching(LabelCounts):
        def map(self, block: Block):
            seen.append(set(block.rows.tolist()))
            return LabelCounts.map(self, block)

    Thinned((Watching(), Watching(), Watching()), (0.3, 0.9, 0.6), 7, 11).map(BLOCK)
    small, large, middle = seen
    assert small < middle < large < set(BLOCK.rows.tolist())
    uniforms = uniforms_at(7, 11, BLOCK.rows)
    assert small == set(BLOCK.rows[uniforms < 0.3].tolist())


def test_thinned__draws_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counting(seed: int, stream: int, rows: np.ndarray) -> np.ndarray:
        calls.append(len(rows))
        return uniforms_at(seed, stream, rows)

    monkeypatch.setattr(module, "uniforms_at", counting)
    Thinned(MEMBERS, (0.1, 0.2, 0.3, 0.4), 7, 11).map(BLOCK)
    assert calls == [N_ROWS]


def test_thinned__name_and_size_are_those_of_its_members() -> None:
    bundle, thinned = Bundle(MEMBERS), Thinned(MEMBERS, (0.5,) * 4, 1, 2)
    assert thinned.name == f"thinned-{bundle.name}"
    assert thinned.partial_nbytes(5) == bundle.partial_nbytes(5)
