"""A second look at the labels: a regression of the rows that do not look wrong.

Flips along one direction pull every model of all rows towards them, and then look right. So the rows that look wrong
are left out, the regression is fitted again, and so on: each time it is pulled less.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamhalf.algorithms.baselines import regress_rows
from streamhalf.algorithms.regression import is_short_of_rows
from streamhalf.data.block import Block
from streamhalf.kernels.plane import Plane, are_wrong
from streamhalf.reductions.margin_counts import bin_centres, count_margins
from streamhalf.reductions.suspects import PlaneModel
from streamhalf.results import CalibrationRecord

_ROUNDS = 5
"""Chosen on the ten tables of `scripts/compare_audit --tables`."""


def look_again(sample: Block, plane: Plane, calibration: CalibrationRecord) -> PlaneModel | None:
    """Return a regression without suspects; None where rows are too few for their features.

    Parameters
    ----------
    sample
        Rows of the data, in memory.
    plane, calibration
        The first look, whose suspects are left out first.
    """
    found = None
    for _ in range(_ROUNDS):
        kept = sample.select(~_look_wrong(sample, plane, calibration))
        if is_short_of_rows(kept.n_rows, kept.dim) or abs(int(kept.y.sum(dtype=np.int64))) == kept.n_rows:
            return found
        plane = regress_rows(kept, 0).unit()
        curve = CalibrationRecord.of(count_margins(plane.margins(sample.X), sample.y), bin_centres(), held_out=False)
        if curve is None:
            return found
        calibration, found = curve, PlaneModel(plane, curve)
    return found


def _look_wrong(sample: Block, plane: Plane, calibration: CalibrationRecord) -> NDArray[np.bool_]:
    margins, positive = plane.margins(sample.X), sample.y > 0
    negatives, positives = calibration.issue_scores()
    scores = calibration.label_scores(margins, positive)
    return are_wrong(margins, sample.y) & (scores <= np.where(positive, positives, negatives))
