from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from streamhalf.kernels.radii import chi_radii, split_rows


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


def test_split_rows__gives_directions_and_lengths() -> None:
    rows = np.random.default_rng(0).standard_normal((50, 4))
    units, lengths = split_rows(rows)
    np.testing.assert_allclose(lengths, np.linalg.norm(rows, axis=1))
    np.testing.assert_allclose(units * lengths[:, None], rows)


def test_split_rows__neither_overflows_nor_vanishes() -> None:
    rows = np.array([[3.0, 4.0]]) * np.array([1e300, 1.0, 1e-300, 0.0])[:, None]
    before = rows.copy()
    units, lengths = split_rows(rows)
    np.testing.assert_allclose(units, [[0.6, 0.8]] * 3 + [[0.0, 0.0]])
    np.testing.assert_allclose(lengths, [5e300, 5.0, 5e-300, 0.0])
    np.testing.assert_array_equal(rows, before)
