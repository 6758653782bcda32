"""Calibrated probabilities: isotonic regression of labels on margins of held-out rows."""

from __future__ import annotations

import numpy as np

from streamhalf.reductions.margin_counts import MarginCountsResult, slab_edges
from streamhalf.results import CalibrationRecord


def calibrate(found: MarginCountsResult) -> CalibrationRecord | None:
    """Return the rising curve of the share of +1 by margin; None without rows."""
    from scipy.optimize import isotonic_regression

    rows = found.counts.sum(axis=0)
    held = np.flatnonzero(rows)
    if not held.size:
        return None
    share = found.counts[1, held] / rows[held]
    starts = isotonic_regression(share, weights=rows[held]).blocks[:-1]
    negatives, positives = np.add.reduceat(found.counts[:, held], starts, axis=1).tolist()
    # a block begins where its first slab does
    edges = slab_edges()[held[starts[1:]] - 1]
    return CalibrationRecord(tuple(edges.tolist()), tuple(negatives), tuple(positives))
