"""Directions of the moment sketch of wide data."""

from __future__ import annotations

import numpy as np
import pytest

from streamhalf import RunConfig
from streamhalf.algorithms.plan import plan_for_eps
from streamhalf.algorithms.sketches import sketch_directions, with_sketch
from streamhalf.results import Stage


@pytest.mark.parametrize("n_anchors", [0, 1, 2])
def test_sketch_directions__span_the_anchors(n_anchors: int) -> None:
    rng = np.random.default_rng(1)
    anchors = list(rng.standard_normal((n_anchors, 80)))
    found = sketch_directions(80, anchors, seed=3, number=0)
    assert found.shape == (24, 80)
    np.testing.assert_allclose(found @ found.T, np.eye(24), atol=1e-12)
    for i, anchor in enumerate(anchors):
        span = found[: i + 1]
        np.testing.assert_allclose(span.T @ (span @ anchor), anchor, atol=1e-10)
    np.testing.assert_array_equal(found, sketch_directions(80, anchors, seed=3, number=0))
    assert not np.allclose(found, sketch_directions(80, anchors, seed=4, number=0))
    assert not np.allclose(found, sketch_directions(80, anchors, seed=3, number=1))


@pytest.mark.parametrize("dim", [64, 65])
def test_with_sketch__only_wide_data_have_one(dim: int) -> None:
    config = RunConfig(seed=3)
    context = plan_for_eps(0.25, dim, config).context(Stage.INITIAL, config)
    found = with_sketch(context, [], number=5)
    if dim == 64:
        assert found is context
    else:
        expected = sketch_directions(dim, [], seed=3, number=5)
        np.testing.assert_array_equal(found.directions, expected)
