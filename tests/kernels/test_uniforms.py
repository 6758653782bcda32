from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamhalf.kernels.uniforms import generator_of, uniforms_at


@given(start=st.integers(0, 10**12), length=st.integers(1, 50), skip=st.integers(0, 49))
def test_uniforms__depend_on_the_row_alone(start: int, length: int, skip: int) -> None:
    rows = np.arange(start, start + length)
    drawn = uniforms_at(7, 3, rows)
    assert ((drawn >= 0) & (drawn < 1)).all()
    np.testing.assert_array_equal(uniforms_at(7, 3, rows[skip:]), drawn[skip:])
    np.testing.assert_array_equal(uniforms_at(7, 3, rows[::3]), drawn[::3])


@given(starts=st.sets(st.integers(0, 200_000), min_size=1, max_size=8), size=st.integers(1, 40))
def test_uniforms__are_the_same_where_rows_lie_far_apart(starts: set[int], size: int) -> None:
    rows = np.unique([start + i for start in starts for i in range(size)])
    np.testing.assert_array_equal(uniforms_at(7, 3, rows), ALL[rows])


ALL = uniforms_at(7, 3, np.arange(200_040))


def test_uniforms__are_uniform_and_differ_between_seeds_and_streams() -> None:
    # Kolmogorov-Smirnov distance above 2/sqrt(n) has probability 7e-4
    n = 100_000
    draws = [uniforms_at(seed, stream, np.arange(n)) for seed, stream in ((0, 0), (0, 1), (1, 0))]
    for drawn in draws:
        assert np.abs(np.sort(drawn) - np.arange(n) / n).max() < 2 / np.sqrt(n)
    assert abs(np.corrcoef(draws)[0, 1:]).max() < 0.02


def test_generator__depends_on_seed_and_stream() -> None:
    keys = ((0, 1), (0, 1), (0, 2), (1, 1))
    first, again, *others = (generator_of(seed, stream).random() for seed, stream in keys)
    assert first == again
    assert len({first, *others}) == 3
