"""The measurements of a fit as a Dataset: what is in it, and that files keep it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from scipy.special import ndtr

import streamhalf
from streamhalf import FitResult, Verdict
from streamhalf.results import from_json, replace, to_json
from streamhalf.results.dataset import to_dataset

N_ROWS = 100_000
SERIAL = {"scheduler": "serial"}


@pytest.fixture(scope="module")
def result() -> FitResult:
    """An accepted fit with a certificate; N(0, I) rows are accepted with probability 0.99."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((N_ROWS, 3))
    y = np.where(X[:, 0] >= 0, 1, -1) * np.where(rng.random(N_ROWS) < 0.05, -1, 1)
    found = streamhalf.fit((X, y), n_workers=1, certificate_degree=2)
    assert found.verdict is Verdict.ACCEPTED
    return found


def test_result__holds_its_dataset(result: FitResult) -> None:
    xr.testing.assert_identical(result.diagnostics, to_dataset(result))
    xr.testing.assert_identical(streamhalf.diagnostics(result), result.diagnostics)
    assert float(result.diagnostics.slab_mass.sum()) == pytest.approx(1)
    document = to_json(result)
    assert document["diagnostics"] == to_json(result.measurements)
    assert "measurements" not in document
    assert from_json(FitResult, document).measurements == result.measurements


def test_to_dataset__attributes(result: FitResult) -> None:
    attributes = to_dataset(result).attrs
    assert attributes["verdict"] == "accepted"
    assert attributes["eps"] == result.eps
    assert attributes["tau"] == 0.01
    assert attributes["fingerprint"] == result.data.fingerprint
    assert "rows_needed" not in attributes
    labels = result.error.by_label
    assert attributes["guess_error"] == labels.guess_error == pytest.approx(0.5, abs=0.01)
    assert attributes["balanced_error"] == labels.balanced
    # of the plane that the slabs lie along: where a member is chosen, the last of the path
    assert attributes["threshold"] == result.measurements.threshold
    assert {type(value) for value in attributes.values()} <= {str, int, float}


def test_to_dataset__slabs(result: FitResult) -> None:
    found, record = to_dataset(result), result.measurements
    assert record is not None
    assert found.slab_count.sum() == sum(record.slab_counts)
    assert found.slab_mass.sum() == pytest.approx(1)
    assert found.slab_mass_expected.sum() == pytest.approx(1)
    assert float(abs(found.slab_mass - found.slab_mass_expected).sum()) < result.eps
    assert found.slab_low[0] == -np.inf
    assert found.slab_high[-1] == np.inf
    np.testing.assert_array_equal(found.slab_low[1:], found.slab_high[:-1])
    widths = found.slab_high[1:-1] - found.slab_low[1:-1]
    np.testing.assert_allclose(widths, record.slab_width)
    assert (found.slab[1:-1] > found.slab_low[1:-1]).all()
    assert (found.slab.diff("slab") > 0).all()


def test_to_dataset__slabs_about_a_threshold(result: FitResult) -> None:
    assert result.measurements is not None
    moved = replace(result, measurements=replace(result.measurements, threshold=1.3))
    expected = to_dataset(moved).slab_mass_expected
    assert expected.sum() == pytest.approx(1)
    assert float(expected.where(expected.slab > 0).sum()) == pytest.approx(ndtr(-1.3))


def test_to_dataset__moments_and_normal(result: FitResult) -> None:
    found, record = to_dataset(result), result.measurements
    assert record is not None
    assert result.halfspace is not None
    np.testing.assert_array_equal(found.eigenvalue, record.eigenvalues)
    np.testing.assert_array_equal(found.edge_slab_low[1:], record.eigen_edges)
    np.testing.assert_array_equal(found.edge_slab_high[:-1], record.eigen_edges)
    assert found.feature_moment.sel(feature=2, degree=4) == record.feature_moments[1][3]
    assert found.pair_moment.sel(feature=1, other_feature=3) == record.pair_moments[0][2]
    assert found.normal.sel(feature=3) == result.halfspace.normal[2]


def test_to_dataset__candidates_testers_and_passes(result: FitResult) -> None:
    found, candidates = to_dataset(result), result.candidates
    for field in ("delta", "step", "angle", "error", "beta"):
        expected = np.array([getattr(one, field) for one in candidates], dtype=np.float64)
        assert found[f"candidate_{field}"].dtype == np.float64
        np.testing.assert_array_equal(found[f"candidate_{field}"], expected)
    methods = [str(one.method) for one in candidates]
    assert found.candidate_method.values.tolist() == methods
    # baselines have no beta and no update
    unmeasured = found.candidate_beta.isnull().values
    np.testing.assert_array_equal(unmeasured, [one != "path" for one in methods])
    assert 0 < unmeasured.sum() < len(candidates)
    kept = [one.rows_accepted / max(1, one.rows_seen) for one in candidates]
    np.testing.assert_allclose(found.candidate_acceptance, kept)
    mass = found.where(found.tester_name == "slab mass", drop=True)
    own = [one for one in result.testers if one.tester == "slab mass"]
    for field in ("statistic", "limit", "null_quantile"):
        np.testing.assert_array_equal(mass[f"tester_{field}"], [getattr(one, field) for one in own])
    assert mass.tester_outcome.values.tolist() == [one.outcome.value for one in own]
    assert set(mass.tester_pass.values) == {"final"}
    for one in result.passes:
        assert found.pass_rows_read.sel(pass_=one.name) == one.rows_read
    assert result.certificate is not None
    profile = [one.bound for one in result.certificate.profile]
    np.testing.assert_array_equal(found.certificate_bound, profile)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_to_dataset__zarr_keeps_it(tmp_path: Path, result: FitResult, zarr_format: int) -> None:
    found = to_dataset(result)
    path = str(tmp_path / "diagnostics.zarr")
    found.to_zarr(path, zarr_format=zarr_format, consolidated=False)
    again = xr.load_dataset(path, engine="zarr", consolidated=False)
    xr.testing.assert_identical(again, found)


def test_to_dataset__netcdf_keeps_it(tmp_path: Path, result: FitResult) -> None:
    found = to_dataset(result)
    path = tmp_path / "diagnostics.nc"
    found.to_netcdf(path, engine="scipy")
    xr.testing.assert_identical(xr.load_dataset(path, engine="scipy"), found)


def test_to_dataset__few_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    few = streamhalf.fit((rng.standard_normal((50, 2)), np.resize([1, -1], 50)), **SERIAL)
    found = to_dataset(few)
    assert found.attrs["rows_needed"] == few.rows_needed
    assert found.sizes["candidate"] == 1
    np.testing.assert_array_equal(found.normal, few.halfspace.normal)
    assert "slab_mass" not in found
    found.to_netcdf(tmp_path / "few.nc", engine="scipy")
    again = xr.load_dataset(tmp_path / "few.nc", engine="scipy")
    xr.testing.assert_identical(again, found)
