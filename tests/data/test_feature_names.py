from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr

import streamhalf
from streamhalf import DataError
from streamhalf.data.labelled import open_labelled
from streamhalf.data.opening import open_source
from streamhalf.data.source import Source
from tests.conftest import StoreWriter, make_rows

X, Y = make_rows(300, 3, seed=1)
NAMES = ("age", "fare", "mean radius")


def names(source: Source) -> tuple[str, ...]:
    return source.record.features


def test_names__of_a_data_frame() -> None:
    assert names(open_source((pd.DataFrame(X, columns=list(NAMES)), Y))) == NAMES
    assert names(open_labelled(pd.DataFrame(X, columns=list(NAMES)), Y).source) == NAMES


def test_names__numbers_of_columns_are_none() -> None:
    source = open_source((pd.DataFrame(X), Y))
    assert names(source) == ()
    assert source.feature_names == ("x1", "x2", "x3")


@pytest.mark.parametrize("chunks", [None, {"row": 100}])
def test_names__of_a_coordinate(chunks: Any) -> None:
    array = xr.DataArray(X, dims=("row", "feature"), coords={"feature": list(NAMES)})
    dataset = xr.Dataset({"X": array, "y": ("row", Y)})
    if chunks:
        dataset = dataset.chunk(chunks)
    assert names(open_source(dataset)) == NAMES
    assert names(open_source((dataset["X"], dataset["y"]))) == NAMES
    assert names(open_labelled(dataset["X"], dataset["y"]).source) == NAMES


def test_names__arrays_have_none() -> None:
    assert names(open_source((X, Y))) == ()
    assert names(open_source((da.from_array(X), da.from_array(Y)))) == ()


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("place", ["", "X"])
def test_names__of_an_attribute(write_store: StoreWriter, zarr_format: int, place: str) -> None:
    path = write_store(X, Y, zarr_format=zarr_format)
    zarr.open(str(path), path=place, mode="r+").attrs["feature_names"] = list(NAMES)
    assert names(open_source(path)) == NAMES


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.filterwarnings("ignore")  # Zarr v3 has no settled way to store text
def test_names__of_a_store_that_xarray_wrote(tmp_path: Path, zarr_format: int) -> None:
    array = xr.DataArray(X, dims=("row", "feature"), coords={"feature": list(NAMES)})
    xr.Dataset({"X": array, "y": ("row", Y)}).to_zarr(tmp_path / "data.zarr", zarr_format=zarr_format)
    assert names(open_source(tmp_path / "data.zarr")) == NAMES


@pytest.mark.parametrize("wrong", [["a", "b"], "abc", 3])
def test_names__that_do_not_fit_are_refused(write_store: StoreWriter, wrong: Any) -> None:
    path = write_store(X, Y)
    zarr.open_group(str(path), mode="r+").attrs["feature_names"] = wrong
    with pytest.raises(DataError, match=r"X: feature_names is .* for 3 features"):
        open_source(path)


def test_names__are_in_errors_about_values() -> None:
    bad = X.copy()
    bad[7, 2] = np.inf
    with pytest.raises(DataError, match="in feature 'mean radius'"):
        open_source((pd.DataFrame(bad, columns=list(NAMES)), Y))


def test_names__are_in_errors_about_features() -> None:
    frame = pd.DataFrame(X, columns=list(NAMES))
    still = frame.assign(fare=np.float32(4))
    with pytest.raises(DataError, match="feature 2 'fare' is constant"):
        streamhalf.test((still, Y), whiten=True, encode="none")
    double = frame.assign(fare=2 * frame["age"])
    with pytest.raises(DataError, match="look at features 1 'age', 2 'fare' and remove one"):
        streamhalf.test((double, Y), whiten=True, encode="none")


def test_names__are_in_the_record_and_what_is_said_of_it() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((60_000, 3))
    y = np.where(rows[:, 0] >= 0, 1, -1)
    result = streamhalf.fit((pd.DataFrame(rows, columns=list(NAMES)), y), certificate_degree=0)
    assert result.data.features == NAMES
    assert result.diagnostics["feature_name"].values.tolist() == list(NAMES)
