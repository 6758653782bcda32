"""`dataset.streamhalf`: registered on demand, and nothing else than the functions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import xarray as xr

import streamhalf
from streamhalf import Verdict

QUICK = {"n_workers": 1, "eps": 0.25}


@pytest.fixture
def dataset() -> Iterator[xr.Dataset]:
    """Gaussian rows, and the accessor, which is taken away again afterwards."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((100_000, 2))
    y = np.where(X[:, 0] >= 0, 1, -1) * np.where(rng.random(len(X)) < 0.05, -1, 1)
    streamhalf.register_accessor()
    yield xr.Dataset({"X": (("row", "feature"), X), "y": ("row", y)})
    del xr.Dataset.streamhalf  # type: ignore[attr-defined]


def test_accessor__fit_test_and_certify(dataset: xr.Dataset) -> None:
    fitted = dataset.streamhalf.fit(certificate_degree=0, **QUICK)
    assert fitted.verdict is Verdict.ACCEPTED
    assert fitted.halfspace == streamhalf.fit(dataset, certificate_degree=0, **QUICK).halfspace
    assert dataset.streamhalf.test(**QUICK).verdict is Verdict.PASSED
    certified = dataset.streamhalf.certify(weights=fitted, certificate_degree=2, **QUICK)
    directly = streamhalf.certify(dataset, weights=fitted, certificate_degree=2, **QUICK)
    assert certified.halfspace == fitted.halfspace
    assert certified.certificate == directly.certificate


def test_accessor__other_names_of_variables(dataset: xr.Dataset) -> None:
    renamed = dataset.rename(X="features", y="labels")
    tested = renamed.streamhalf.test(features="features", labels="labels", **QUICK)
    assert tested.verdict is Verdict.PASSED


def test_register_accessor__twice_is_once(dataset: xr.Dataset) -> None:
    before = xr.Dataset.streamhalf  # type: ignore[attr-defined]
    streamhalf.register_accessor()
    assert xr.Dataset.streamhalf is before  # type: ignore[attr-defined]
