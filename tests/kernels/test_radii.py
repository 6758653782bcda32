from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from streamhalf.kernels.radii import chi_radii, row_lengths
from streamhalf.kernels.streams import turns_at


@pytest.mark.parametrize("dim", [1, 2, 3, 10, 300])
def test_chi_radii__are_quantiles_of_the_length_of_a_gaussian_row(dim: int) -> None:
    uniforms = np.concatenate([[1e-12, 1e-6], np.linspace(0.001, 0.999, 997), [1 - 1e-6, 1 - 1e-9]])
    np.testing.assert_allclose(chi_radii(uniforms, dim), stats.chi(dim).ppf(uniforms), atol=2e-6)


@pytest.mark.parametrize("dim", [1, 2, 50])
def test_chi_radii__are_above_0_and_finite_for_every_uniform_number(dim: int) -> None:
    radii = chi_radii(np.array([0.0, 2.0**-53, 1 - 2.0**-53]), dim)
    assert (radii > 0).all()
    assert np.isfinite(radii).all()
    assert (np.diff(radii) >= 0).all()


def test_row_lengths__neither_overflow_nor_vanish() -> None:
    rows = np.array([[3.0, 4.0]]) * np.array([1e300, 1.0, 1e-200, 0.0])[:, None]
    before = rows.copy()
    np.testing.assert_allclose(row_lengths(rows), [5e300, 5.0, 5e-200, 0.0], rtol=1e-15)
    np.testing.assert_array_equal(rows, before)
    assert row_lengths(np.array([[0.0, 1e-300]])) == 0


def test_turns_at__an_even_chance_for_every_row() -> None:
    # 8 standard deviations
    turns = turns_at(1, np.arange(40_000))
    assert abs(turns.mean() - 0.5) < 0.02
    np.testing.assert_array_equal(turns_at(1, np.arange(100, 200)), turns[100:200])
