from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from streamhalf.kernels.segments import scatter_ratio
from streamhalf.reductions import SegmentScatter
from streamhalf.testing import make_block

N_ROWS, DIM, N_SEGMENTS = 5_000, 3, 9


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_segment_scatter__is_what_the_rows_give(dtype: str) -> None:
    # every other row of a longer data set, whose last segments hold none
    block = make_block(N_ROWS, DIM, seed=3, dtype=dtype)
    block = block.select(block.rows % 2 == 0)
    scatter = SegmentScatter(2 * N_ROWS, N_SEGMENTS)
    found = scatter.finalize(scatter.map(block))
    X, y = block.X.astype(np.float64), block.y.astype(np.float64)
    rows = np.column_stack([y, (X**2).sum(axis=1), X, y[:, None] * X])
    segment = block.rows * N_SEGMENTS // (2 * N_ROWS)
    assert found.segments.tolist() == np.unique(segment).tolist() == [0, 1, 2, 3, 4]
    assert found.counts.tolist() == np.bincount(segment).tolist()
    means = np.array([rows[segment == i].mean(axis=0) for i in found.segments])
    np.testing.assert_allclose(found.means, means, rtol=1e-9)
    np.testing.assert_allclose(found.overall, rows.mean(axis=0), rtol=1e-9)
    ratios = scatter_ratio(found.counts, means, rows.var(axis=0))
    np.testing.assert_allclose(found.ratios, ratios, rtol=1e-6)
    np.testing.assert_allclose(found.squared_skewness, stats.skew(rows) ** 2, rtol=1e-6)
    np.testing.assert_allclose(found.kurtosis, stats.kurtosis(rows, fisher=False), rtol=1e-6)


def test_segment_scatter__one_segment_has_nothing_to_be_compared_with() -> None:
    block = make_block(100, DIM, seed=3)
    scatter = SegmentScatter(10**6, 256)
    assert scatter.finalize(scatter.map(block)).ratios.tolist() == [0] * (2 + 2 * DIM)
