"""Integers that float64 would round are refused, however they come; others are taken."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr

import streamhalf
from streamhalf.data.opening import open_source
from streamhalf.data.schema import find_rounded
from streamhalf.errors import DataError
from streamhalf.estimator import HalfspaceTesterLearner

N = 3_000
BAD = 2_500
"""The row that is rounded: none of those that opening looks at."""

y = np.resize(np.array([-1, 1], dtype=np.int8), N)


def integers(dtype: str = "int64", offset: int = 1 << 53) -> np.ndarray:
    X = np.resize(np.arange(0, 64, 2, dtype=dtype), (N, 2))
    X[BAD, 1] = offset + 1
    return X


def as_zarr(X: np.ndarray, folder: Path) -> Any:
    group = zarr.open_group(folder / "rows.zarr", mode="w")
    for name, values in (("X", X), ("y", y)):
        group.create_array(name, data=values, chunks=(1000, *values.shape[1:]))
    return str(folder / "rows.zarr")


def as_frame(X: np.ndarray, folder: Path) -> pd.DataFrame:
    return pd.DataFrame({"a": X[:, 0] / 2, "time": X[:, 1], "y": y})


def as_csv(X: np.ndarray, folder: Path) -> str:
    as_frame(X, folder).to_csv(folder / "rows.csv", index=False)
    return str(folder / "rows.csv")


def as_csv_of_floats(X: np.ndarray, folder: Path) -> str:
    lines = [f"{time}{'.5' if time == 2 else '.0'},{label}" for time, label in zip(X[:, 1], y, strict=True)]
    (folder / "rows.csv").write_text("\n".join(["time,y", *lines]))
    return str(folder / "rows.csv")


def as_parquet(X: np.ndarray, folder: Path) -> str:
    as_frame(X, folder).to_parquet(folder / "rows.parquet")
    return str(folder / "rows.parquet")


def as_dask_frame(X: np.ndarray, folder: Path) -> Any:
    import dask.dataframe as dd

    return dd.from_pandas(as_frame(X, folder), npartitions=3)


def read_all(data: Any) -> np.ndarray:
    source = open_source(data)
    return np.concatenate([source.read(block).X[:, -1] for block in source.blocks])


INPUTS: dict[str, Callable[[np.ndarray, Path], Any]] = {
    "zarr": as_zarr,
    "group": lambda X, folder: zarr.open_group(as_zarr(X, folder), mode="r"),
    "arrays": lambda X, folder: (X, y),
    "big-endian": lambda X, folder: (X.astype(X.dtype.newbyteorder()), y),
    "lists": lambda X, folder: ([[0.5, *row] for row in X.tolist()], y.tolist()),
    "dask": lambda X, folder: (da.from_array(X, chunks=(1000, 1)), y),
    "dask that broke its promise": lambda X, folder: (
        da.from_array(X, chunks=(1000, 2)).map_blocks(lambda part: part, dtype=np.float64),
        y,
    ),
    "dataset": lambda X, folder: xr.Dataset({"X": (("row", "f"), X), "y": ("row", y)}),
    "frame": as_frame,
    "nullable frame": lambda X, folder: as_frame(X, folder).convert_dtypes(),
    "frame of integers": lambda X, folder: as_frame(X * 2, folder).astype({"a": X.dtype}) // 2,
    "pair with a frame": lambda X, folder: (as_frame(X, folder).drop(columns="y"), y),
    "dask frame": as_dask_frame,
    "csv": as_csv,
    "csv of floats": as_csv_of_floats,
    "parquet": as_parquet,
}


UNSIGNED = ("zarr", "arrays", "big-endian", "dask", "frame", "csv", "parquet")


@pytest.mark.parametrize(
    ("kind", "dtype"), [*((kind, "int64") for kind in INPUTS), *((kind, "uint64") for kind in UNSIGNED)]
)
def test_open__integers_that_are_rounded_are_refused_with_the_remedy(kind: str, dtype: str, tmp_path: Path) -> None:
    data = INPUTS[kind](integers(dtype), tmp_path)
    with pytest.raises(DataError, match=r"9007199254740993.*subtract an offset"):
        read_all(data)


@pytest.mark.parametrize("kind", [*INPUTS])
def test_open__integers_that_float64_holds_are_taken(kind: str, tmp_path: Path) -> None:
    X = integers(offset=(1 << 60) - 1)
    read = read_all(INPUTS[kind](X, tmp_path))
    assert read.dtype == np.float64
    assert read[BAD] == float(1 << 60)


@pytest.mark.parametrize("offset", [-(1 << 53), -(1 << 63), (1 << 63) - 1, (1 << 54) + 2])
def test_find_rounded__is_the_comparison_with_exact_integers(offset: int) -> None:
    near = [min(max(offset + step, -(1 << 63)), (1 << 63) - 1) for step in range(-9, 10)]
    found = find_rounded(np.array(near))
    rounded = [int(float(one)) != one for one in near]
    assert (found if found is not None else np.zeros(len(near), bool)).tolist() == rounded


def test_fit__nanoseconds_are_refused_in_time_stamps_too() -> None:
    times = pd.date_range("2026-01-01", periods=N, freq="7ns")
    nanoseconds = times.to_numpy().astype("datetime64[ns]").view(np.int64)
    with pytest.raises(DataError, match="subtract an offset"):
        streamhalf.fit((np.column_stack([nanoseconds, nanoseconds]), y))
    with pytest.raises(DataError, match=r"'t' holds dates .*time since a start"):
        streamhalf.fit(pd.DataFrame({"t": times, "y": y}))
    with pytest.raises(DataError, match="time since a start"):
        open_source((times.to_numpy()[:, None], y))


@pytest.mark.parametrize(
    "convert",
    [
        lambda X: X,
        lambda X: X.tolist(),
        lambda X: X.astype(object),
        lambda X: X.astype(np.longdouble),
        lambda X: pd.DataFrame(X, columns=["a", "time"]),
        lambda X: da.from_array(X, chunks=(1000, 2)),
    ],
)
def test_estimator__fit_and_predict_refuse_what_is_rounded(convert: Callable[..., Any]) -> None:
    with pytest.raises(DataError, match="9007199254740993"):
        HalfspaceTesterLearner().fit(convert(integers()), y)
    fine = np.random.default_rng(0).standard_normal((N, 2)) + 3 * y[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = HalfspaceTesterLearner().fit(fine, y)
        for call in (model.predict, model.decision_function, model.result_.predict):
            with pytest.raises(DataError, match="9007199254740993"):
                np.asarray(call(convert(integers())))


def test_features__are_checked_without_labels_too(tmp_path: Path) -> None:
    source = open_source(as_zarr(integers(), tmp_path), labelled=False)
    with pytest.raises(DataError, match=r"row 2500 .*9007199254740993"):
        source.read(source.blocks[-1])


def test_open__columns_that_a_model_knows_are_refused_too(tmp_path: Path) -> None:
    X = integers(offset=0)
    encoding = open_source(as_frame(X, tmp_path)).encoding
    for make in (as_frame, as_csv, as_csv_of_floats):
        if make is as_csv_of_floats:
            encoding = open_source(make(X, tmp_path)).encoding
        with pytest.raises(DataError, match=r"'time' holds in row 2500 .*9007199254740993"):
            open_source(make(integers(), tmp_path), encoding=encoding)


def test_open__nanoseconds_become_days() -> None:
    times = pd.date_range("2026-01-01", periods=N, freq="37min").as_unit("ns")
    frame = pd.DataFrame({"t": times, "took": times - times[0], "y": y})
    frame.loc[3, "took"] = pd.NaT
    source = open_source(frame)
    X = source.read(source.blocks[-1]).X
    assert source.encoding is not None
    days = (times - pd.Timestamp(0)) / pd.Timedelta(days=1)
    read = X[-9:, source.encoding.features.index("t: days")]
    np.testing.assert_allclose(read, days[-9:], rtol=1e-12)
