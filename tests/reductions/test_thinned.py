"""Nested samples that are drawn once."""

from __future__ import annotations

import numpy as np
import pytest

from streamhalf.data.block import Block
from streamhalf.kernels.frame import Frame
from streamhalf.kernels.plane import Plane
from streamhalf.kernels.uniforms import uniforms_at
from streamhalf.reductions import Bundle, Chow, LabelCounts, Localized, Moments, Sampled, Thinned
from streamhalf.reductions import thinned as module
from streamhalf.testing.comparing import assert_identical
from streamhalf.testing.drawing import make_block

N_ROWS = 500
BLOCK = make_block(N_ROWS, 3, seed=2)
FRAME = Frame(Plane(np.array([0.6, 0.8, 0.0])), 0.5)
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


def test_thinned__a_smaller_sample_is_part_of_a_larger_one() -> None:
    seen: list[set[int]] = []

    class Watching(LabelCounts):
        def map(self, block: Block):
            seen.append(set(block.rows.tolist()))
            return LabelCounts.map(self, block)

    Thinned((Watching(), Watching(), Watching()), (0.3, 0.9, 0.6), 7, 11).map(BLOCK)
    small, middle, large = sorted(seen, key=len)
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
    drawing = (Sampled(LabelCounts(), 0.0, 0.5, 3, 4), Localized(LabelCounts(), FRAME, 3, 4))
    Thinned(drawing, (0.6, 0.6), 7, 11).map(BLOCK)
    assert calls == [N_ROWS, N_ROWS]


def test_thinned__members_that_draw_use_what_is_left_of_the_number() -> None:
    uniforms = uniforms_at(7, 11, BLOCK.rows)
    # [0.25, 0.75) of those below 0.6, and then the half of them below 0.5
    sampled = Sampled(Sampled(LabelCounts(), 0.0, 0.5, 3, 4), 0.25, 0.75, 3, 5)
    local = Localized(LabelCounts(), FRAME, 3, 4)
    found = Thinned((Bundle((sampled, local)), local), (0.6, 0.3), 7, 11).map(BLOCK)
    (halved, accepted), fewer = found
    assert halved.n_rows == np.count_nonzero((uniforms >= 0.15) & (uniforms < 0.3))
    along = FRAME.acceptance(FRAME.coordinates(BLOCK.X))
    for top, one in ((0.6, accepted), (0.3, fewer)):
        below = uniforms < top
        assert one.n_seen == np.count_nonzero(below)
        assert one.n_accepted == np.count_nonzero(uniforms[below] / top < along[below])


def test_thinned__what_members_draw_is_fair() -> None:
    # of 40,000 Gaussian rows below the top a half is accepted, 100 more or less: six times as many
    # with probability 2e-9, and so is a feature that the frame does not see
    rng = np.random.default_rng(3)
    X = rng.standard_normal((100_000, 3))
    block = Block(X, np.ones(len(X), dtype=np.int8), np.arange(len(X)))
    thinned = Thinned((Localized(Moments(2), FRAME, 3, 4),), (0.4,), 7, 11)
    (found,) = thinned.finalize(thinned.map(block))
    assert found.n_accepted == pytest.approx(0.5 * found.n_seen, abs=600)
    np.testing.assert_allclose(found.inner.second_moment(), np.eye(4), atol=0.06)


def test_thinned__name_and_size_are_those_of_its_members() -> None:
    bundle, thinned = Bundle(MEMBERS), Thinned(MEMBERS, (0.5,) * 4, 1, 2)
    assert thinned.name == f"thinned-{bundle.name}"
    assert thinned.partial_nbytes(5) == bundle.partial_nbytes(5)
