"""The probability of label +1 at a margin, from counts of held-out rows."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamhalf.results.base import Record

_RELIABILITY_BINS = 15

_SURE = 1e-4
"""Probabilities nearer to 0 or 1 than this count as much when rows are ranked."""

_STRICTNESS = 0.97
"""Part of a class's mean probability from which a row is an issue: on ten tables as many flipped
labels are found as by confident learning with cross-validated regression (docs/audit.md)."""

_MOST_STEPS = 100


class ReliabilityBin(Record, frozen=True):
    """Rows whose predicted probability lies in one bin: its mean, the share of label +1, rows."""

    predicted: float
    observed: float
    n_rows: int


class CalibrationRecord(Record, frozen=True):
    """Isotonic probability of label +1 as a function of the margin.

    `margins` (rising; w·x - t with w of length 1, in the units of the stored features) and
    `probabilities` are the corners of the curve, which is linear between and constant beyond them.
    `slope` is that of a logistic curve without intercept, `mean_negative` and `mean_positive` the
    mean probability of their own label over rows labelled -1 and +1.
    """

    n_rows: int
    held_out: bool
    margins: tuple[float, ...]
    probabilities: tuple[float, ...]
    slope: float
    mean_negative: float
    mean_positive: float
    reliability: tuple[ReliabilityBin, ...] = ()

    @classmethod
    def of(cls, counts: NDArray[np.int64], centres: NDArray[np.float64], *, held_out: bool) -> Self | None:
        """Return the curve of counts (2, bins) by label, -1 first; None without rows of both."""
        totals = counts.sum(axis=0)
        taken = np.flatnonzero(totals)
        from scipy.optimize import isotonic_regression  # takes a tenth of a second to import

        negatives, positives = counts[:, taken].astype(np.float64)
        if not (negatives.any() and positives.any()):
            return None
        weights, middle = negatives + positives, centres[taken]
        found = isotonic_regression(positives / weights, weights=weights)
        # an extreme block of n rows of one label says no more than 1/2 in n + 1
        blocks = np.add.reduceat(weights, found.blocks[:-1])
        hits = np.add.reduceat(positives, found.blocks[:-1])
        values = np.maximum.accumulate((hits + 0.5) / (blocks + 1))
        curve = np.repeat(values, np.diff(found.blocks))
        ends = np.unique(np.concatenate([found.blocks[:-1], found.blocks[1:] - 1]))
        return cls(
            n_rows=int(weights.sum()),
            held_out=held_out,
            margins=tuple(middle[ends].tolist()),
            probabilities=tuple(curve[ends].tolist()),
            slope=_logistic_slope(middle, negatives, positives),
            mean_negative=float((1 - curve) @ negatives / negatives.sum()),
            mean_positive=float(curve @ positives / positives.sum()),
            reliability=_reliability(curve, weights, positives),
        )

    def at(self, margins: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Return the probability of label +1 at each margin."""
        return np.asarray(np.interp(margins, self.margins, self.probabilities))

    def of_sign(self, margins: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Return the same, above 1/2 where the halfspace predicts +1, and below where -1."""
        found, above = self.at(margins), math.nextafter(0.5, 1.0)
        return np.where(margins >= 0, np.maximum(found, above), np.minimum(found, 1 - above))

    def issue_scores(self) -> tuple[float, float]:
        """Return the largest score of an issue labelled -1, and of one labelled +1.

        Confident learning: the other label is the more probable one, and about as probable as it
        is on average over the rows that carry it.
        """
        others = (self.mean_positive, self.mean_negative)
        negative, positive = (1 - max(0.5, _STRICTNESS * mean) for mean in others)
        return negative, positive

    def label_scores(self, margins: NDArray[np.float64], positive: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the probability of the given label of each row."""
        found = self.at(margins)
        return np.where(positive, found, 1 - found)

    def suspicions(self, margins: NDArray[np.float64], positive: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return what rows are ranked by, the surest issue first.

        The mean of two log-odds against the given label: calibrated ones, which know that classes
        differ, and those of a logistic curve, which go on where the calibrated ones are flat.
        """
        scores = np.clip(self.label_scores(margins, positive), _SURE, 1 - _SURE)
        along = self.slope * np.where(positive, margins, -margins)
        return -0.5 * (np.log(scores / (1 - scores)) + along)


def _logistic_slope(
    margins: NDArray[np.float64], negatives: NDArray[np.float64], positives: NDArray[np.float64]
) -> float:
    """Return the slope of the likeliest logistic curve with an intercept, by Newton's method."""
    weights = negatives + positives
    scale = math.sqrt(float(weights @ margins**2 / weights.sum())) or 1.0
    Z = np.stack([margins / scale, np.ones_like(margins)])
    w, ridge = np.zeros(2), 1e-6 * float(weights.sum())
    for _ in range(_MOST_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(w @ Z, -500, 500)))
        gradient = Z @ (positives - weights * chance) - ridge * w
        hessian = (Z * (weights * chance * (1 - chance))) @ Z.T + ridge * np.eye(2)
        step = np.linalg.solve(hessian, gradient)
        size = float(np.abs(step).max())
        w += step / max(1.0, size)  # at most 1: far steps overshoot where labels separate
        if size < 1e-9:
            break
    return max(float(w[0]), 0.0) / scale


def _reliability(
    curve: NDArray[np.float64], weights: NDArray[np.float64], positives: NDArray[np.float64]
) -> tuple[ReliabilityBin, ...]:
    which = np.minimum((curve * _RELIABILITY_BINS).astype(np.int64), _RELIABILITY_BINS - 1)
    total, hits, sums = (
        np.bincount(which, weights=one, minlength=_RELIABILITY_BINS) for one in (weights, positives, curve * weights)
    )
    return tuple(
        ReliabilityBin(float(sums[i] / total[i]), float(hits[i] / total[i]), int(total[i]))
        for i in np.flatnonzero(total).tolist()
    )
