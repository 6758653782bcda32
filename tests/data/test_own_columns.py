"""The user's own columns beside the rows, by row number."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr

import streamhalf
from streamhalf import UsageError
from streamhalf.data.opening import open_source
from tests.conftest import make_rows, write_arrays

X, Y = make_rows(600, 2, seed=4, dtype="float64")
IDS = np.array([f"n{i}" for i in range(len(X))])
FRAME = pd.DataFrame({"a": X[:, 0], "b": X[:, 1]}).assign(id=IDS, y=Y)
ROWS = np.array([501, 3, 4, 599, 3])


def stored(folder: Path) -> str:
    group = write_arrays(str(folder / "rows.zarr"), X, Y, chunk_rows=100)
    group.create_array("id", data=np.arange(len(X)), chunks=(100,))
    group.create_array("wide", data=X, chunks=(100, 2))
    return str(folder / "rows.zarr")


def parquet(folder: Path) -> str:
    FRAME.to_parquet(folder / "rows.parquet", row_group_size=70)
    return str(folder / "rows.parquet")


def csv(folder: Path) -> str:
    FRAME.to_csv(folder / "rows.csv", index=False)
    return str(folder / "rows.csv")


HOMES: dict[str, Any] = {
    "store": stored,
    "Parquet": parquet,
    "CSV": csv,
    "frame": lambda folder: FRAME,
    "pair": lambda folder: (FRAME.drop(columns="y"), Y),
    "Dask frame": lambda folder: dd.from_pandas(FRAME, npartitions=3),
    "Dataset": lambda folder: xr.Dataset({"X": (("row", "j"), X), "y": ("row", Y), "id": ("row", IDS)}),
}


@pytest.mark.parametrize("home", HOMES)
def test_kept_columns__are_those_of_the_rows_in_any_order(home: str, tmp_path: Path) -> None:
    source = open_source(HOMES[home](tmp_path))
    found = source.kept_columns(ROWS, ["id"])["id"].to_pylist()
    assert found == (ROWS.tolist() if home == "store" else IDS[ROWS].tolist())
    assert source.kept_columns(ROWS[:0], ["id"])["id"].to_pylist() == []
    with pytest.raises(UsageError, match=r"keep: 'ids' not among the columns; found: .*id"):
        source.check_kept(["ids"])
    assert pickle.loads(pickle.dumps(source.own)) is None


def test_kept_columns__count_rows_that_were_left_out(tmp_path: Path) -> None:
    frame = FRAME.assign(a=FRAME["a"].where(FRAME.index % 3 != 0))
    source = open_source(frame, missing="drop", drop=("id",))
    assert source.kept_columns(np.array([2, 0]), ["id"])["id"].to_pylist() == ["n4", "n1"]


def test_keep__is_refused_where_there_are_no_columns() -> None:
    with pytest.raises(UsageError, match="keep: the data have no columns beside the features"):
        open_source((X, Y)).check_kept(["id"])


def test_predict__keeps_arrays_of_a_store(tmp_path: Path) -> None:
    path, out = stored(tmp_path), tmp_path / "out.csv"
    streamhalf.predict(path, model=streamhalf.Halfspace((1.0, 0.5)), out=out, keep="id")
    written = pd.read_csv(out)
    np.testing.assert_array_equal(written["id"], np.arange(len(X)))
    np.testing.assert_array_equal(written["prediction"], np.where(X @ [1.0, 0.5] >= 0, 1, -1))
    assert isinstance(zarr.open_group(path, mode="r")["id"], zarr.Array)
