"""Every kind of input, on this machine and on a cluster: it works, or it has its sentence.

The cluster is a `dask scheduler` with workers that live in another folder than the client.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask.array as da
import dask.dataframe as dd
import icechunk
import numpy as np
import obstore.store
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import xarray as xr
import zarr
from distributed import Client
from zarr.storage import ObjectStore

import streamhalf
from streamhalf import DataError
from streamhalf.data import table_source
from streamhalf.results import Notice, NoticeCode
from tests.clusters import open_cluster
from tests.conftest import make_rows, slowly, write_arrays
from tests.waiting import PATIENCE

X, Y = make_rows(4000, 2, dtype="float64")
WHOLE = np.rint(10 * X).astype(np.int64)
WORDS = np.where(Y > 0, "yes", "no")
FRAME = pd.DataFrame({"a": X[:, 0], "b": X[:, 1]})

# Dask's client leaves connections to peers that are gone to the garbage collector
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")

Build = Callable[[Path, Client], Any]


@pytest.fixture(scope="module")
def connected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client of a scheduler and two workers that are programs in another folder."""
    with (
        open_cluster(tmp_path_factory.mktemp("elsewhere")) as cluster,
        Client(cluster.address, set_as_default=False) as client,
    ):
        client.wait_for_workers(2, timeout=PATIENCE)
        yield client


def framed(frame: Any = None, **columns: Any) -> Any:
    """A Dask DataFrame, or a series of one."""
    found = FRAME if frame is None else frame
    return dd.from_pandas(found.assign(**columns) if columns else found, npartitions=3)


def lazy(X: Any = X, y: Any = Y) -> tuple[da.Array, da.Array]:
    return da.from_array(X, chunks=(1000, 2)), da.from_array(y, chunks=700)


def dataset(**variables: Any) -> xr.Dataset:
    features, labels = lazy()
    return xr.Dataset({"X": (("row", "feature"), features), "y": ("row", labels)})


def store(X: Any = X, y: Any = Y, **layout: Any) -> Build:
    def build(folder: Path, client: Client) -> Path:
        path = folder / "rows.zarr"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Zarr v3 has no fixed word for some strings yet
            write_arrays(str(path), X, y, chunk_rows=1000, **layout)
        return path

    return build


def open_in_obstore(folder: Path, client: Client) -> zarr.Group:
    path = store()(folder, client)
    held = ObjectStore(obstore.store.LocalStore(str(path)), read_only=True)
    return zarr.open_group(held, mode="r")


def open_relative(folder: Path, client: Client) -> str:
    store()(folder, client)
    return "rows.zarr"


def open_relative_group(folder: Path, client: Client) -> zarr.Group:
    store()(folder, client)
    return zarr.open_group("rows.zarr", mode="r")


def open_dataset(folder: Path, client: Client) -> xr.Dataset:
    store(zarr_format=2)(folder, client)
    return xr.open_zarr("rows.zarr", chunks=None, consolidated=False)


def parquet(*, folder: bool = False, partitioned: bool = False) -> Build:
    def build(where: Path, client: Client) -> str:
        frame = FRAME.assign(y=Y)
        if partitioned:  # in the order of the rows; the key is no feature, for it is constant
            frame.assign(part="a").to_parquet(where / "rows", partition_cols=["part"])
        elif folder:
            (where / "rows").mkdir()
            for i in range(4):
                frame[i * 1000 : (i + 1) * 1000].to_parquet(where / "rows" / f"{i}.parquet")
        else:
            frame.to_parquet(where / "rows.parquet", row_group_size=700)
        return str(where / ("rows" if folder or partitioned else "rows.parquet"))

    return build


def csv(folder: Path, client: Client) -> str:
    FRAME.assign(y=Y).to_csv(folder / "rows.csv", index=False)
    return str(folder / "rows.csv")


def zipped(folder: Path, client: Client) -> str:
    with zarr.storage.ZipStore(folder / "rows.zip", mode="w") as held:
        write_arrays(held, X, Y, chunk_rows=1000)
    return str(folder / "rows.zip")


def icechunk_session(folder: Path, client: Client) -> Any:
    repository = icechunk.Repository.create(icechunk.local_filesystem_storage(str(folder / "ice")))
    session = repository.writable_session("main")
    write_arrays(session.store, X, Y, chunk_rows=1000)
    session.commit("rows")
    return repository.readonly_session("main")


INPUTS: dict[str, Build] = {
    "NumPy": lambda folder, client: (X, Y),
    "list": lambda folder, client: [X, Y],
    "pandas": lambda folder, client: FRAME.assign(y=Y),
    "pandas pair": lambda folder, client: (FRAME, pd.Series(Y)),
    "Dask": lambda folder, client: lazy(),
    "Dask persisted": lambda folder, client: tuple(client.persist([*lazy()])),
    "Dask frame": lambda folder, client: framed(y=Y),
    "Dask frame without divisions": lambda folder, client: framed(y=Y).clear_divisions(),
    "Polars": lambda folder, client: pl.from_pandas(FRAME.assign(y=Y)),
    "Polars, lazy": lambda folder, client: pl.from_pandas(FRAME.assign(y=Y)).lazy(),
    "Arrow": lambda folder, client: pa.Table.from_pandas(FRAME.assign(y=Y)),
    "Parquet": parquet(),
    "Parquet folder": parquet(folder=True),
    "Parquet partitioned": parquet(partitioned=True),
    "CSV": csv,
    "zip": zipped,
    "Icechunk": icechunk_session,
    "Dask frame pair": lambda folder, client: (framed(), framed(pd.Series(Y))),
    "Dask frame persisted": lambda folder, client: client.persist(framed(y=Y)),
    "DataArrays": lambda folder, client: tuple(dataset().data_vars.values()),
    "Dataset": lambda folder, client: dataset(),
    "Dataset in memory": lambda folder, client: dataset().compute(),
    "Dataset stored": open_dataset,
    "Dataset persisted": lambda folder, client: dataset().persist(scheduler=client),
    "Zarr v2": store(zarr_format=2),
    "Zarr v3": store(compressors=None),
    "sharded": store(shard_rows=2000),
    "compressed": store(),
    "obstore": open_in_obstore,
    "relative path": open_relative,
    "relative group": open_relative_group,
}

HALVES = X.astype(np.float16)
NAMED = Notice.of(NoticeCode.LABELS_READ, array="y", low="no", high="yes")

CONVERTED: dict[str, tuple[Build, Any]] = {
    "integers": (
        lambda folder, client: (WHOLE, Y),
        Notice.of(NoticeCode.FEATURES_CONVERTED, array="X", stored="int64", used="float64"),
    ),
    "integers, lazy": (
        lambda folder, client: lazy(WHOLE.astype("i2")),
        Notice.of(NoticeCode.FEATURES_CONVERTED, array="X", stored="int16", used="float32"),
    ),
    "integers, stored": (
        store(WHOLE.astype("u1"), zarr_format=2),
        Notice.of(NoticeCode.FEATURES_CONVERTED, array="X", stored="uint8", used="float32"),
    ),
    "integers, framed": (
        lambda folder, client: pd.DataFrame(WHOLE, columns=["a", "b"]).assign(y=Y),
        Notice.of(NoticeCode.FEATURES_CONVERTED, array="X", stored="int64", used="float64"),
    ),
    "bits": (lambda folder, client: (X, (Y > 0).astype(int)), Notice.of(NoticeCode.LABELS_ARE_BITS, array="y")),
    "1 and 2": (
        lambda folder, client: (X, np.where(Y > 0, 2, 1)),
        Notice.of(NoticeCode.LABELS_READ, array="y", low="1", high="2"),
    ),
    "words": (lambda folder, client: (X, WORDS), NAMED),
    "words, lazy": (lambda folder, client: lazy(y=WORDS), NAMED),
    "words, stored": (store(y=WORDS), NAMED),
    "words, stored as v2": (store(y=WORDS, zarr_format=2), NAMED),
    "words, framed": (lambda folder, client: FRAME.assign(y=pd.Categorical(WORDS)), NAMED),
    "words, in a Dask frame": (lambda folder, client: framed(y=WORDS), NAMED),
    "words, persisted": (lambda folder, client: tuple(client.persist([*lazy(y=WORDS)])), NAMED),
}

REFUSED: dict[str, tuple[Build, str]] = {
    "sparse": (
        lambda folder, client: (scipy.sparse.csr_matrix(X), Y),
        r"X: csr_matrix is sparse, and rows are read dense; give X\.toarray\(\)",
    ),
    "sparse columns": (
        lambda folder, client: pd.DataFrame({"a": pd.arrays.SparseArray(X[:, 0])}).assign(y=Y),
        "column 'a' dtype Sparse.*rows are read dense",
    ),
    "Dask of unknown size": (
        lambda folder, client: (lazy()[0][da.from_array(Y) > 0], Y[Y > 0]),
        r"chunks of unknown size; call compute_chunk_sizes\(\)",
    ),
    "frame without labels": (
        lambda folder, client: FRAME,
        r"no column named 'y'; found: a, b; name the column of the labels: label=",
    ),
    "no labels in a pair": (lambda folder, client: (X, None), "y: None in the pair; give an array"),
    "three labels": (
        lambda folder, client: (X, np.resize(["a", "b", "c"], len(X))),
        "y: values a, b, c found; expected two",
    ),
}


def error_of(weights: Any, features: Any) -> float:
    predicted = np.where(features.astype(np.float64) @ weights >= 0, 1, -1)
    return float(np.mean(predicted != Y))


def certify(data: Any, client: Client, place: str, weights: Any) -> Any:
    where: dict[str, Any] = {"client": client} if place == "client" else {}
    quick = {"certificate_degree": 2, "certificate_effort": 0.01}
    return streamhalf.certify(data, weights=weights, **quick, **where)


@pytest.mark.parametrize("place", ["client", *slowly(["no client"])])
@pytest.mark.parametrize("name", INPUTS)
def test_input__works(
    name: str, place: str, connected: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    weights = np.array([1.0, 0.5])
    result = certify(INPUTS[name](tmp_path, connected), connected, place, weights)
    assert result.error.empirical == error_of(weights, X)
    assert not [one for one in result.notices if one.code is not NoticeCode.TABLE_ENCODED]


@pytest.mark.parametrize("place", ["client", *slowly(["no client"])])
@pytest.mark.parametrize("name", CONVERTED)
def test_input__is_converted_with_a_notice(name: str, place: str, connected: Client, tmp_path: Path) -> None:
    build, notice = CONVERTED[name]
    weights = np.array([1.0, -0.25])  # exact products: rows on the boundary are +1 however summed
    result = certify(build(tmp_path, connected), connected, place, weights)
    features = WHOLE if notice.code is NoticeCode.FEATURES_CONVERTED else X
    features = features.astype(notice["stored"]) if notice.code is NoticeCode.FEATURES_CONVERTED else X
    assert result.error.empirical == error_of(weights, features)
    assert notice in result.notices


@pytest.mark.parametrize("place", ["no client", *slowly(["client"])])
@pytest.mark.parametrize("name", REFUSED)
def test_input__is_refused_in_a_sentence(name: str, place: str, connected: Client, tmp_path: Path) -> None:
    build, words = REFUSED[name]
    with pytest.raises(DataError, match=words) as caught:
        certify(build(tmp_path, connected), connected, place, [1.0, 0.0])
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("kind", [csv, parquet(), parquet(folder=True), parquet(partitioned=True)])
def test_table__that_is_not_kept_is_read_by_workers(
    kind: Build, connected: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same result as of one store with the rows."""
    rows = store(compressors=None)(tmp_path, connected)
    given: dict[str, Any] = {"seed": 1, "client": connected, "certificate_degree": 2, "certificate_effort": 0.01}
    expected = streamhalf.fit(rows, **given)
    monkeypatch.setattr(table_source, "_KEPT_NBYTES", 0)
    path = kind(tmp_path, connected)
    assert isinstance(streamhalf.open_source(path).reader, table_source.TableReader)
    found = streamhalf.fit(path, **given)
    assert (found.halfspace, found.error, found.opt) == (expected.halfspace, expected.error, expected.opt)
    assert found.data.fingerprint == expected.data.fingerprint


@pytest.mark.parametrize("place", ["client", *slowly(["no client"])])
@pytest.mark.parametrize("kind", ["Zarr", "pair"])
def test_input__of_floats_of_16_bits_works(kind: str, place: str, connected: Client, tmp_path: Path) -> None:
    data = store(HALVES)(tmp_path, connected) if kind == "Zarr" else (HALVES, Y)
    weights = np.array([1.0, 0.5])
    assert certify(data, connected, place, weights).error.empirical == error_of(weights, HALVES)


def test_label__names_the_column_in_every_function(tmp_path: Path) -> None:
    frame = FRAME.assign(target=WORDS)
    expected = streamhalf.test((X, Y), scheduler="serial")
    found = streamhalf.test(frame, label="target", scheduler="serial")
    assert found.testers == expected.testers
    assert streamhalf.fit(frame, label="target").data.rows == len(X)


def test_integers__that_are_missing_from_a_store_are_told(tmp_path: Path) -> None:
    path = tmp_path / "rows.zarr"
    group = write_arrays(str(path), WHOLE.astype("u1"), Y, chunk_rows=1000, zarr_format=2)
    full = streamhalf.test(path, scheduler="serial")
    (path / "X" / "1.0").unlink()
    assert group["X"].shape == WHOLE.shape
    with pytest.raises(DataError, match=r"X: chunk 1 .* is missing from the store"):
        streamhalf.test(path, scheduler="serial")
    assert full.data.rows == len(WHOLE)
