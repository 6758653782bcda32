from __future__ import annotations

import numpy as np
import pytest

from streamhalf.data.block import Block
from streamhalf.kernels.plane import Plane, Turns
from streamhalf.reductions.margin_counts import MarginCounts, bin_centres
from streamhalf.reductions.spread import FeatureMoments
from streamhalf.reductions.suspects import OtherModel, Suspects
from streamhalf.results import CalibrationRecord
from streamhalf.testing import fold
from tests.conftest import make_rows

X, Y = make_rows(1_000, 3, seed=2)
BLOCK = Block(X, Y, np.arange(len(Y), dtype=np.int64))
TURNS = Turns.of(Plane(np.array([1.0, 0.1, 0.0])), np.zeros(3), np.ones(3))


@pytest.mark.parametrize("limit", [1, 7, 60, 500])
@pytest.mark.parametrize("step", [1, 64, 1_000])
def test_suspects__the_furthest_whatever_the_chunks(limit: int, step: int) -> None:
    reduction = Suspects(TURNS, None, len(Y), limit)
    pieces = [slice(i, i + step) for i in range(0, len(Y), step)]
    listed = fold(reduction, BLOCK, pieces).listed
    margins = X.astype(np.float64) @ TURNS.plane.normal
    wrong = np.flatnonzero((margins >= 0) != (Y > 0))
    sines = np.abs(margins[wrong]) / TURNS.length / np.linalg.norm(X[wrong], axis=1)
    furthest = np.sort(wrong[np.argsort(-sines)[:limit]])
    assert listed.taken["row"].tolist() == furthest.tolist()
    assert listed.taken["label"].tolist() == Y[furthest].tolist()
    assert not listed.rows["row"][listed.count :].any()


def test_suspects__of_equal_rows_the_first_are_listed() -> None:
    same = Block(np.ones((50, 3)), np.full(50, -1, dtype=np.int8), np.arange(50, dtype=np.int64))
    reduction = Suspects(TURNS, None, 50, 5)
    for pieces in ([slice(0, 50)], [slice(i, i + 3) for i in range(0, 50, 3)]):
        listed = fold(reduction, same, pieces).listed
        assert listed.rows["row"].tolist() == [0, 1, 2, 3, 4]


def test_suspects__counts_by_segment_and_label() -> None:
    found = Suspects(TURNS, None, len(Y), 10).map(BLOCK)
    wrong = (X.astype(np.float64) @ TURNS.plane.normal >= 0) != (Y > 0)
    assert found.n_rows == 1_000
    assert found.segments.shape == (4, 256)
    assert found.segments[1, :64].sum() == wrong[:250].sum()
    assert found.by_label[0].tolist() == [(wrong & (s == Y)).sum() for s in (-1, 1)]


@pytest.mark.parametrize("step", [1, 64])
def test_suspects__compare_the_same_rows_whatever_the_chunks(step: int) -> None:
    edges = np.zeros((3, 7))
    reduction = Suspects(TURNS, None, len(Y), 10, edges=edges, share=0.2, seed=5)
    pieces = [slice(i, i + step) for i in range(0, len(Y), step)]
    found, whole = fold(reduction, BLOCK, pieces), reduction.map(BLOCK)
    for one in ("counts", "low", "high"):
        np.testing.assert_array_equal(getattr(found.row_values, one), getattr(whole.row_values, one))
    assert 130 < whole.row_values.counts[0].sum() < 270  # 200, with a standard deviation of 12.6


def test_feature_moments__far_from_zero_in_chunks() -> None:
    far = Block(X + np.float32(1_000), Y, BLOCK.rows)
    pieces = [slice(i, i + 33) for i in range(0, len(Y), 33)]
    found, exact = fold(FeatureMoments(), far, pieces), far.X.astype(np.float64)
    np.testing.assert_allclose(found.mean, exact.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.deviation, exact.std(axis=0), rtol=1e-9)


def test_suspects__issues_are_wrong_rows_whose_other_label_is_probable() -> None:
    counts = MarginCounts((TURNS.plane.unit(),)).map(BLOCK).counts[0]
    curve = CalibrationRecord.of(counts, bin_centres(), held_out=False)
    assert curve is not None
    some, every = (Suspects(TURNS, curve, len(Y), 1_000, misclassified=one) for one in (False, True))
    issues, wrong = some.map(BLOCK), every.map(BLOCK)
    assert 0 < issues.n_issues == issues.listed.count < wrong.listed.count == wrong.n_wrong
    listed = wrong.listed.taken
    assert (listed["label_score"][listed["is_label_issue"]] < 0.5).all()
    negative = listed[listed["label"] < 0]
    order = np.argsort(negative["suspicion"])
    assert (np.diff(negative["label_score"][order]) <= 1e-12).all()
    assert issues.by_label[1].sum() == issues.n_issues


def test_suspects__another_model_adds_rows_and_scores() -> None:
    chances = np.where(Y > 0, 0.9, 0.1)
    chances[7] = 1 - chances[7]
    counts = MarginCounts((TURNS.plane.unit(),), chances).map(BLOCK).counts
    own, other = (CalibrationRecord.of(one, bin_centres(), held_out=False) for one in counts)
    assert own is not None
    assert other is not None
    both = Suspects(TURNS, own, len(Y), 1_000, True, OtherModel(chances, other)).map(BLOCK)
    listed = both.listed.taken
    assert 7 in listed["row"]
    score = dict(zip(listed["row"].tolist(), listed["other_score"].tolist(), strict=True))
    assert score[7] < 0.5 < min(one for row, one in score.items() if row != 7)
