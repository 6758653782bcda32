"""Views: which rows statistics see, how, and that what they share is computed once."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamhalf.data.block import Block
from streamhalf.data.opening import open_source
from streamhalf.data.transforms import Isotropic, Radial
from streamhalf.engine import open_engine
from streamhalf.engine.run import Run
from streamhalf.events import ignore
from streamhalf.kernels.plane import Frame, Plane
from streamhalf.kernels.streams import draw_rows, uniforms_at
from streamhalf.reductions import (
    Bundle,
    CandidateSlabs,
    Chow,
    Covariance,
    LabelCounts,
    Moments,
    PlaneErrors,
    candidates,
)
from streamhalf.reductions import row_view as module
from streamhalf.reductions.row_view import (
    Accepted,
    MarginBand,
    RowView,
    Sample,
    StoredSigns,
    Viewed,
    Widened,
    in_space,
    sampled,
)
from streamhalf.testing import assert_close, assert_identical, make_block, scale_of

BLOCK = make_block(5_000, 3, seed=2)
UNIFORMS = uniforms_at(7, 11, BLOCK.rows)
FRAME = Frame(Plane(np.array([0.6, 0.0, 0.8]), 0.3), 0.4)
SPACE = Isotropic(np.array([1.0, 2.0, 3.0]), np.diag([0.5, 1.0, 2.0]))


class Seen(LabelCounts):
    """Keeps the rows that it is given."""

    def map(self, block: Block) -> Any:
        return block


def view(low: float = 0.0, high: float = 1.0, **others: Any) -> RowView:
    return RowView(Sample(7, 11, low, high), **others)


def look(one: RowView) -> Block:
    found = Viewed(Seen(), one).map(BLOCK)
    return found.inner if isinstance(found, Accepted) else found


def test_sample__is_an_interval_of_numbers() -> None:
    seen = look(view(0.25, 0.5))
    np.testing.assert_array_equal(seen.rows, BLOCK.rows[(UNIFORMS >= 0.25) & (UNIFORMS < 0.5)])
    np.testing.assert_array_equal(seen.X, BLOCK.X[seen.rows])


def test_sample__of_a_sample_uses_what_is_left_of_its_number() -> None:
    inner = sampled(Seen(), Sample(3, 4, 0.25, 0.75))
    seen = sampled(inner, Sample(7, 11, 0.5, 0.9)).map(BLOCK)
    left = (UNIFORMS - 0.5) / 0.4
    np.testing.assert_array_equal(seen.rows, BLOCK.rows[(left >= 0.25) & (left < 0.75)])


def test_transform__applies_to_the_rows_of_the_sample_alone() -> None:
    seen = look(view(0.0, 0.3, transforms=(SPACE,)))
    rows = BLOCK.rows[UNIFORMS < 0.3]
    np.testing.assert_array_equal(seen.rows, rows)
    np.testing.assert_allclose(seen.X, (BLOCK.X[rows] - SPACE.centre) @ SPACE.matrix.T, atol=1e-12)


@pytest.mark.parametrize("top", [1.0, 0.3])
def test_frame__accepts_by_number_and_shows_its_own_rows(top: float) -> None:
    found = Viewed(Seen(), view(0.0, top, accept=FRAME)).map(BLOCK)
    along = FRAME.coordinates(BLOCK.X)
    keep = UNIFORMS / top < FRAME.acceptance(along)
    assert 50 < np.count_nonzero(keep) < 4_000
    assert (found.n_seen, found.n_accepted) == (np.count_nonzero(top > UNIFORMS), np.count_nonzero(keep))
    np.testing.assert_array_equal(found.inner.rows, BLOCK.rows[keep])
    np.testing.assert_array_equal(found.inner.y, BLOCK.y[keep])
    np.testing.assert_allclose(found.inner.X, FRAME.to_frame(BLOCK.X[keep], along[keep]))


def test_frame__what_it_accepts_of_a_sample_is_gaussian_again() -> None:
    # of 40,000 Gaussian rows below the top a half is accepted, 100 more or less: six times as many
    # with probability 2e-9, and so is a feature that the frame does not see
    X = np.random.default_rng(3).standard_normal((100_000, 3))
    block = Block(X, np.ones(len(X), dtype=np.int8), np.arange(len(X)))
    half = Frame(Plane(np.array([0.6, 0.8, 0.0])), 0.5)
    part = Viewed(Moments(2), view(0.0, 0.4, accept=half))
    found = part.finalize(part.map(block))
    assert found.n_accepted == pytest.approx(0.5 * found.n_seen, abs=600)
    np.testing.assert_allclose(found.inner.second_moment(), np.eye(4), atol=0.06)


def test_frame__no_accepted_rows_are_the_partial_of_none() -> None:
    far = Frame(Plane(np.array([1.0, 0.0, 0.0]), 1e9), 0.001)
    found = Viewed(LabelCounts(), view(accept=far)).map(BLOCK)
    assert (found.n_seen, found.n_accepted) == (5_000, 0)
    assert found.inner == LabelCounts().empty(3)


def test_margin_band__keeps_rows_next_to_its_plane() -> None:
    plane = Plane(np.array([0.6, 0.8, 0.0]), 0.2)
    seen = look(RowView(accept=MarginBand(plane, 0.5)))
    np.testing.assert_array_equal(seen.rows, np.flatnonzero(np.abs(plane.margins(BLOCK.X)) < 0.5))
    assert 0 < seen.n_rows < 5_000


def test_stored_signs__labels_and_sides_are_those_of_the_store() -> None:
    X = BLOCK.X.copy()
    X[::5] = [1.0, 2.0, 3.0]
    block = Block(X, BLOCK.y, BLOCK.rows)
    radial = Radial(np.array([1.0, 2.0, 3.0]), np.eye(3), seed=4)
    assert not np.array_equal(radial.apply(block).y, BLOCK.y)
    seen = in_space(in_space(Seen(), StoredSigns(4)), radial).map(block)
    np.testing.assert_array_equal(seen.y, BLOCK.y)
    along = np.einsum("ij,ij->i", seen.X, X - radial.centre)
    assert (along[np.arange(5_000) % 5 > 0] > 0).all()
    np.testing.assert_array_equal(seen.X[::5], 0)


def test_widened__rows_are_float64_before_they_are_transformed() -> None:
    narrow = make_block(100, 3, seed=1, dtype="float32")
    found = in_space(Seen(), Widened(), SPACE).map(narrow)
    assert found.X.dtype == np.float64
    assert in_space(Seen(), SPACE).map(narrow).X.dtype == np.float32


def test_bundle__one_halfspace_in_two_spaces_gets_the_same_rows_wrong() -> None:
    stored = Plane(np.array([1.0, -1.0, 0.5]), 0.3)
    moved = PlaneErrors((SPACE.to_transformed(stored),))
    left, right = Bundle((PlaneErrors((stored,)), in_space(moved, SPACE))).map(BLOCK)
    assert_identical(left, right)
    assert 0 < left.errors[0] < 5_000


VIEWS = (
    view(),
    view(0.0, 0.8),
    view(0.0, 0.3, transforms=(SPACE,)),
    view(0.0, 0.7, transforms=(SPACE,), accept=FRAME),
    view(0.0, 0.1, accept=FRAME),
    view(0.5, 0.9),
    RowView(transforms=(SPACE,)),
    RowView(),
)


def test_bundle__gives_every_member_what_its_view_gives_alone() -> None:
    statistics = (LabelCounts(), Moments(2), Chow(3), Covariance())
    parts = [Viewed(one, each) for one in statistics for each in VIEWS]
    found, alone = Bundle(tuple(parts)).map(BLOCK), tuple(part.map(BLOCK) for part in parts)
    assert_close(found, alone, scale=scale_of(alone))
    nested = Viewed(Bundle((Bundle(statistics), LabelCounts())), VIEWS[3]).map(BLOCK)
    assert nested.inner[1].n_rows == nested.n_accepted == nested.inner[0][0].n_rows


def test_bundle__in_pieces_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    reduction = Bundle(tuple(Viewed(Bundle((Moments(2), LabelCounts())), one) for one in VIEWS))
    whole = reduction.map(BLOCK)
    monkeypatch.setattr(module, "PIECE_NBYTES", 1)
    monkeypatch.setattr(module, "_WAITING_NBYTES", 1)
    assert_close(reduction.map(BLOCK), whole, scale=scale_of(whole))


def test_bundle__draws_once_and_transforms_once(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    moved: list[int] = []

    def counting(*arguments: Any, **options: Any) -> Any:
        drawn.append(1)
        return draw_rows(*arguments, **options)

    class Watched(Isotropic):
        def apply(self, block: Block) -> Block:
            moved.append(block.n_rows)
            return Isotropic.apply(self, block)

    space = Watched(SPACE.centre, SPACE.matrix)
    views = [view(0.0, top, transforms=(space,), accept=one) for top in (0.2, 0.8) for one in (None, FRAME)]
    monkeypatch.setattr(module, "draw_rows", counting)
    Bundle(tuple(Viewed(LabelCounts(), one) for one in (*views, view(0.0, 0.9)))).map(BLOCK)
    assert len(drawn) == 1
    assert moved == [np.count_nonzero(UNIFORMS < 0.8)]


def test_walk__of_a_row_from_the_run_to_its_kernel_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    walks: list[list[str]] = []
    count = candidates.count_slabs_along

    def walked(*arguments: Any, **options: Any) -> Any:
        frames = [one.f_code for one, _ in traceback.walk_stack(None)]
        names = [f"{Path(one.co_filename).stem}.{one.co_name}" for one in frames]
        walks.append(names[1 : names.index("run.reduce") + 1])
        return count(*arguments, **options)

    monkeypatch.setattr(candidates, "count_slabs_along", walked)
    counts = CandidateSlabs((Plane(np.eye(3)[0]),), 0.5, 3)
    final = sampled(Bundle((sampled(in_space(counts, SPACE), Sample(7, 11, 0.0, 0.9)),)), Sample(7, 11))
    with open_engine("serial") as engine:
        run = Run(engine, "auto", 8, ignore)
        run.reduce("final", open_source((BLOCK.X, BLOCK.y)), final)
    own = [name for name in walks[0] if not name.split(".")[1].startswith("<")]
    assert len(own) <= 12, own


def test_view__what_is_accepted_is_not_looked_at_again() -> None:
    with pytest.raises(ValueError, match="frame draws numbers"):
        RowView(accept=FRAME)
    twice = Viewed(Viewed(LabelCounts(), view(0.0, 0.5)), view(accept=FRAME))
    with pytest.raises(ValueError, match="neither sampled nor transformed"):
        twice.map(BLOCK)
