from __future__ import annotations

import numpy as np
import pytest

from streamhalf.reductions.margin_counts import N_BINS, bin_centres, margin_bins
from streamhalf.results import CalibrationRecord, from_json, to_json


def counts_of(margins: np.ndarray, positive: np.ndarray) -> np.ndarray:
    bins = margin_bins(margins) + N_BINS * positive
    return np.bincount(bins, minlength=2 * N_BINS).reshape(2, N_BINS)


def curve_of(margins: np.ndarray, positive: np.ndarray) -> CalibrationRecord:
    found = CalibrationRecord.of(counts_of(margins, positive), bin_centres(), held_out=True)
    assert found is not None
    return found


def test_bins__rise_with_margins_and_hold_their_centres() -> None:
    assert margin_bins(bin_centres()).tolist() == list(range(N_BINS))
    values = np.array([-np.inf, -1e300, -1.0, -1e-300, -0.0, 0.0, 1e-300, 1.0, 1e300, np.inf])
    bins = margin_bins(values)
    assert (np.diff(bins) >= 0).all()
    assert bins[4] == bins[5] == N_BINS // 2
    assert (bins[0], bins[-1]) == (0, N_BINS - 1)


def test_curve__is_calibrated_and_rises() -> None:
    """Deviations of 200,000 rows: 0.01 is more than five of them in every bin of 10,000 rows."""
    rng = np.random.default_rng(0)
    margins = rng.standard_normal(200_000) * 3
    chances = 1 / (1 + np.exp(-1.5 * margins - 0.5))
    curve = curve_of(margins, rng.random(len(margins)) < chances)
    assert np.abs(curve.at(margins) - chances).mean() < 0.01
    assert (np.diff(curve.probabilities) >= 0).all()
    assert curve.slope == pytest.approx(1.5, rel=0.05)
    assert all(abs(one.observed - one.predicted) < 0.02 for one in curve.reliability)
    assert from_json(CalibrationRecord, to_json(curve)) == curve
    some, negative = np.array([2.0, 3.0, 9.0]), np.zeros(3, dtype=bool)
    ranked = curve.suspicions(some, negative, curve.label_scores(some, negative))
    assert (np.diff(ranked) > 0).all()


def test_of_sign__agrees_with_the_halfspace() -> None:
    margins = np.linspace(-1, 1, 1_000)
    curve = curve_of(margins, margins > 0.4)
    found = curve.of_sign(margins)
    assert ((found > 0.5) == (margins >= 0)).all()
    # nor is there a tie of both classes, which argmax would give to the first
    assert ((1 - found > 0.5) == (margins < 0)).all()


def test_issue_scores__need_the_other_label_to_be_as_probable_as_usual() -> None:
    rng = np.random.default_rng(1)
    margins = np.where(rng.random(50_000) < 0.5, 1.0, -1.0) + rng.standard_normal(50_000) * 0.6
    positive = (margins > 0) ^ (rng.random(50_000) < 0.1)
    negative, of_positive = curve_of(margins, positive).issue_scores()
    assert 0.05 < negative < 0.3
    assert 0.05 < of_positive < 0.3


def test_curve__none_of_one_class() -> None:
    margins = np.linspace(-1, 1, 50)
    one = counts_of(margins, np.ones(50, dtype=bool))
    assert CalibrationRecord.of(one, bin_centres(), held_out=True) is None
    assert CalibrationRecord.of(np.zeros_like(one), bin_centres(), held_out=True) is None
