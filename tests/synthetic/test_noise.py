from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from streamhalf.synthetic.distributions import choose_cut


@settings(max_examples=50, deadline=None, derandomize=True, database=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.data())
def test_choose_cut__flips_exactly_the_smallest(scores: list[int], data: st.DataObject) -> None:
    n_flips = data.draw(st.integers(0, len(scores)))
    values = np.array(scores, dtype=np.float64)
    uniforms = np.random.default_rng(0).permutation(len(scores)) / len(scores)
    flipped = choose_cut(values, uniforms, n_flips).flips(values, uniforms)
    assert np.count_nonzero(flipped) == n_flips
    assert values[flipped].max(initial=0) <= values[~flipped].min(initial=3)
