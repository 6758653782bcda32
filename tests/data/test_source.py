from __future__ import annotations

import itertools
import pickle
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import dask.array as da
import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import LocalStore
from zarr.storage import MemoryStore, ObjectStore

from streamhalf import DataError, UsageError, open_source
from streamhalf.data.arrays import ArrayReader
from streamhalf.data.block import RowRange, RowRanges
from streamhalf.data.source import Source, align_blocks
from streamhalf.redact import public_name
from streamhalf.results import Notice, NoticeCode
from tests.conftest import StoreWriter, make_rows, write_arrays

X, Y = make_rows(1000, 3)
LAYOUTS = {
    "v2": {"zarr_format": 2},
    "v3": {"zarr_format": 3},
    "sharded": {"shard_rows": 300},
    "raw": {"compressors": None},
    "split-features": {"feature_chunk": 2},
    "labels-finer": {"chunk_rows": 250, "label_chunk_rows": 7},
    "labels-coarser": {"chunk_rows": 30, "label_chunk_rows": 1000},
}
REFERENCE = open_source((X, Y)).fingerprint


def read_all(source: Source) -> tuple[np.ndarray, np.ndarray]:
    blocks = list(source.read_each(RowRanges.of(source.blocks)))
    rows = np.concatenate([block.rows for block in blocks])
    np.testing.assert_array_equal(rows, np.arange(source.n_rows))
    return np.concatenate([b.X for b in blocks]), np.concatenate([b.y for b in blocks])


def assert_same_rows(source: Source, X: np.ndarray = X, y: np.ndarray = Y) -> None:
    got_X, got_y = read_all(source)
    np.testing.assert_array_equal(got_X, X)
    np.testing.assert_array_equal(got_y, y)
    assert got_X.dtype == X.dtype
    assert got_y.dtype == np.int8


def make_sources(write: StoreWriter) -> dict[str, Source]:
    """The same rows in every layout, as arrays and as Dask arrays."""
    found = {name: open_source(write(X, Y, **layout)) for name, layout in LAYOUTS.items()}
    found["bool"] = open_source(write(X, Y > 0, chunk_rows=70))
    found["whole chunks"] = open_source(write(X, Y, compressors=None)).checked_at_once()
    lazy = (da.from_array(X, chunks=((100, 0, 650, 250), 3)), da.from_array(Y, chunks=130))
    return found | {"memory": open_source((X, Y)), "lazy": open_source(lazy)}


def test_read_each__gives_the_rows_a_block_of_them_at_a_time(write_store: StoreWriter, small_blocks: None) -> None:
    rng = np.random.default_rng(1)
    sources = make_sources(write_store)
    for _ in range(5):
        edges = np.sort(rng.choice(1001, size=40, replace=False))
        rows = RowRanges(edges.reshape(-1, 2).astype(np.int64))
        for source in sources.values():
            blocks = list(source.read_each(rows))
            assert len(blocks) <= len(source.reads(rows)) <= len(source.blocks)
            if source.unit_rows is None:  # what few rows there are of neighbours comes together
                sizes = [block.n_rows for block in blocks]
                most = source.blocks[0].n_rows
                assert max(sizes) <= most
                assert all(sum(pair) > most for pair in itertools.pairwise(sizes))
            else:
                assert len(blocks) == len(source.reads(rows))
            numbers = np.concatenate([block.rows for block in blocks])
            np.testing.assert_array_equal(numbers, rows.numbers())
            np.testing.assert_array_equal(np.concatenate([b.X for b in blocks]), X[numbers])
            np.testing.assert_array_equal(np.concatenate([b.y for b in blocks]), Y[numbers])


def test_read_each__names_the_bad_row_of_many_ranges(write_store: StoreWriter) -> None:
    bad_X, bad_y = X.copy(), Y.copy()
    bad_X[605, 1], bad_y[713] = np.inf, 7
    rows = RowRanges.of(RowRange(i, i + 10) for i in range(0, 1000, 20))
    for layout in ({"compressors": None}, {}):
        source = open_source(write_store(bad_X, Y, **layout))
        with pytest.raises(DataError, match=r"X: row 605 .* chunk 6\) holds NaN or inf"):
            list(source.read_each(rows))
        source = open_source(write_store(X, bad_y, **layout))
        list(source.read_each(rows))  # row 713 lies in a gap
        with pytest.raises(DataError, match=r"y: row 713 .* chunk 7\) holds other values"):
            list(source.read_each(RowRanges.of((RowRange(3, 9), RowRange(710, 720)))))


def test_read_each__names_the_missing_chunk_of_many_ranges(write_store: StoreWriter) -> None:
    for layout in ({"compressors": None}, {}):
        path = write_store(X, Y, chunk_rows=100, **layout)
        source = open_source(path)
        next(file for file in (path / "X" / "c" / "4").iterdir()).unlink()
        rows = RowRanges.of(RowRange(i, i + 10) for i in range(0, 1000, 50))
        with pytest.raises(DataError, match=r"X: chunk 4 \(rows 400 to 499\) is missing"):
            list(source.read_each(rows))
        away = RowRanges.of((RowRange(0, 10), RowRange(600, 650)))
        assert sum(block.n_rows for block in source.read_each(away)) == 60


def test_unit_rows__are_those_of_what_is_read_whole(write_store: StoreWriter) -> None:
    found = {name: source.unit_rows for name, source in make_sources(write_store).items()}
    assert (found["raw"], found["whole chunks"], found["memory"]) == (None, None, None)
    assert (found["sharded"], found["labels-finer"], found["bool"]) == (300, 250, 70)
    assert found["lazy"] == 650


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_open_source__reads_every_layout(write_store: StoreWriter, layout: dict[str, Any], small_blocks: None) -> None:
    source = open_source(write_store(X, Y, **layout))
    assert_same_rows(source)
    assert (source.n_rows, source.dim, source.row_nbytes) == (1000, 3, 13)
    assert source.fingerprint == REFERENCE
    assert source.notices == ()


WAYS: dict[str, Callable[[Path], Any]] = {
    "str": str,
    "pathlib": lambda path: path,
    "url": lambda path: path.as_uri(),
    "group": lambda path: zarr.open_group(str(path), mode="r"),
    "store": lambda path: ObjectStore(LocalStore(str(path)), read_only=True),
    "group on obstore": lambda path: zarr.open_group(ObjectStore(LocalStore(str(path)), read_only=True), mode="r"),
    "store in memory": lambda path: write_arrays(MemoryStore(), X, Y),
    "dask": lambda path: (da.from_array(X, chunks=300), Y),
    "arrays": lambda path: (X, Y),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_open_source__takes_paths_urls_and_groups_and_pickles(write_store: StoreWriter, way: Any) -> None:
    path = write_store(X, Y)
    data = way(path)
    source = open_source(data)
    assert_same_rows(source)
    if isinstance(data, str | Path):
        assert str(path) in source.name
    copy = pickle.loads(pickle.dumps(source))
    assert_same_rows(copy)
    assert copy.fingerprint == source.fingerprint


def test_open_source__takes_a_memory_url() -> None:
    url = "memory://test-open-source/rows.zarr"
    write_arrays(url, X, Y)
    source = open_source(url)
    assert_same_rows(source)
    assert source.name == url


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("chunks", [None, {}, {"row": 200}], ids=["plain", "stored", "other"])
def test_open_source__takes_a_dataset(
    write_store: StoreWriter, zarr_format: int, chunks: dict[str, int] | None
) -> None:
    path = write_store(X, Y, zarr_format=zarr_format)
    with xr.open_zarr(path, consolidated=False, chunks=chunks) as dataset:
        source = open_source(dataset)
        assert_same_rows(source)
        assert len(source.blocks) == (5 if chunks else 10)
        assert source.fingerprint == REFERENCE


def test_open_source__turns_a_dataset_whose_rows_come_last() -> None:
    dataset = xr.Dataset({"X": (("feature", "row"), X.T), "y": ("row", Y)})
    assert_same_rows(open_source(dataset))


@pytest.mark.parametrize(
    ("features", "labels"),
    [
        (X, Y),
        (da.from_array(X, chunks=(128, 2)), da.from_array(Y, chunks=77)),
        (da.from_array(X, chunks=(400, 3)), Y),
        (X, da.from_array(Y, chunks=77)),
        (da.from_array(X, chunks=((0, 500, 0, 0, 500), 3)), da.from_array(Y, chunks=77)),
        (X.tolist(), Y.tolist()),
    ],
    ids=["numpy", "dask", "dask-numpy", "numpy-dask", "empty-chunks", "lists"],
)
def test_open_source__takes_a_pair_of_arrays(features: Any, labels: Any) -> None:
    source = open_source((features, labels))
    dtype = "float64" if isinstance(features, list) else "float32"
    assert_same_rows(source, X.astype(dtype))


def test_open_source__returns_a_source_as_it_is() -> None:
    source = open_source((X, Y))
    assert open_source(source) is source


@pytest.mark.parametrize("data", [None, 3, [X, Y, Y], (X, Y, Y)])
def test_open_source__refuses_other_things(data: Any) -> None:
    with pytest.raises(UsageError, match="cannot be opened; expected a path"):
        open_source(data)


def test_open_source__takes_names(write_store: StoreWriter) -> None:
    path = write_store(X, Y, names=("traits", "class"))
    source = open_source(path, features="traits", labels="class")
    assert_same_rows(source)
    assert (source.schema.features, source.schema.labels) == ("traits", "class")


def test_open_source__takes_names_in_a_dataset() -> None:
    dataset = xr.Dataset({"traits": (("row", "feature"), X), "class": ("row", Y)})
    assert_same_rows(open_source(dataset, features="traits", labels="class"))


def test_open_source__refuses_unknown_names_in_a_dataset() -> None:
    dataset = xr.Dataset({"feats": (("row", "feature"), X), "y": ("row", Y)})
    with pytest.raises(DataError, match=r"no variable named 'features'.*did you mean 'feats'"):
        open_source(dataset, features="features")


def test_open_source__refuses_dask_chunks_of_unknown_size() -> None:
    lazy = da.from_array(X, chunks=(100, 3))
    with pytest.raises(DataError, match=r"X: chunks of unknown size; call compute_chunk_sizes"):
        open_source((lazy[lazy[:, 0] > 0], Y))


BITS = Y > 0
CODINGS = {
    "int8": (Y, False),
    "int64": (Y.astype(np.int64), False),
    "float32": (Y.astype(np.float32), False),
    "big-endian": (Y.astype(">f8"), False),
    "uint8": (BITS.astype(np.uint8), True),
    "int8-bits": (BITS.astype(np.int8), True),
    "float-bits": (BITS.astype(np.float64), True),
    "bool": (BITS, True),
}


@pytest.mark.parametrize("stored", [True, False], ids=["store", "arrays"])
@pytest.mark.parametrize(("labels", "bits"), CODINGS.values(), ids=CODINGS)
def test_open_source__maps_every_label_coding(
    write_store: StoreWriter, labels: np.ndarray, bits: bool, stored: bool
) -> None:
    source = open_source(write_store(X, labels) if stored else (X, labels))
    assert_same_rows(source)
    said = Notice.of(NoticeCode.LABELS_ARE_BITS, array="y")
    if labels.dtype == bool:
        said = Notice.of(NoticeCode.LABELS_READ, array="y", low="False", high="True")
    assert source.notices == ((said,) if bits else ())
    assert source.fingerprint == REFERENCE


@pytest.mark.parametrize("low", [-1, 0])
def test_open_source__looks_on_when_the_first_labels_are_all_ones(low: int) -> None:
    labels = np.ones(1000, dtype=np.int8)
    labels[600:620] = low  # between the probed rows
    source = open_source((X, labels))
    np.testing.assert_array_equal(read_all(source)[1], np.where(labels == 1, 1, -1))


def test_open_source__reads_labels_of_one_class() -> None:
    assert_same_rows(open_source((X, np.ones(1000))), y=np.ones(1000, dtype=np.int8))


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_open_source__reads_big_endian_features(write_store: StoreWriter, zarr_format: int) -> None:
    wide = X.astype(">f8")
    source = open_source(write_store(wide, Y, zarr_format=zarr_format))
    assert_same_rows(source, X.astype(np.float64))
    assert source.fingerprint == open_source((X.astype(np.float64), Y)).fingerprint


@given(n_rows=st.integers(1, 10**6), chunk_rows=st.integers(1, 10**5), dim=st.integers(1, 500))
def test_align_blocks__covers_all_rows_once_in_whole_chunks(n_rows: int, chunk_rows: int, dim: int) -> None:
    row_nbytes = 8 * dim
    step = max(chunk_rows, n_rows // 5000)  # keeps the number of blocks small
    blocks = align_blocks(n_rows, step, row_nbytes)
    assert blocks[0].start == 0
    assert blocks[-1].stop == n_rows
    assert all(a.stop == b.start for a, b in itertools.pairwise(blocks))
    assert all(block.n_rows > 0 and block.start % step == 0 for block in blocks)
    assert all(block.n_rows * row_nbytes <= max(16 << 20, step * row_nbytes) for block in blocks)


@pytest.mark.parametrize(("layout", "step"), [({}, 100), ({"shard_rows": 300}, 300)])
def test_source__blocks_are_whole_chunks_or_shards(
    write_store: StoreWriter, small_blocks: None, layout: dict[str, Any], step: int
) -> None:
    source = open_source(write_store(X, Y, label_chunk_rows=50, **layout))
    expected = [RowRange(i, min(i + step, 1000)) for i in range(0, 1000, step)]
    assert list(source.blocks) == expected


@pytest.mark.parametrize("row", [0, 312, 999])
def test_fingerprint__changes_with_a_sampled_value(row: int) -> None:
    changed = X.copy()
    changed[row, 1] = np.nextafter(changed[row, 1], np.float32(9))
    flipped = Y.copy()
    flipped[row] *= -1
    prints = {open_source(pair).fingerprint for pair in ((X, Y), (changed, Y), (X, flipped))}
    assert len(prints) == 3


def test_fingerprint__changes_with_shape_and_dtype() -> None:
    pairs = [(X, Y), (X.astype(np.float64), Y), (X[:, :2], Y), (X[:-1], Y[:-1])]
    assert len({open_source(pair).fingerprint for pair in pairs}) == 4


def test_source__tells_when_the_data_changed_after_opening() -> None:
    source = open_source((X, Y))
    shrunk = replace(source, reader=ArrayReader(X[:500], Y[:500]))
    with pytest.raises(DataError, match="rows 0 to 999 came with shapes"):
        shrunk.read(source.blocks[0])


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://host/a.zarr", "https://host/a.zarr"),
        ("https://me:secret@host/a.zarr", "https://host/a.zarr"),
        ("https://me:sec@ret@host/a.zarr", "https://host/a.zarr"),
        ("https://host/a.zarr?signature=secret", "https://host/a.zarr"),
        ("here/what?.zarr", "here/what?.zarr"),
        ("here/me@home.zarr", "here/me@home.zarr"),
    ],
)
def test_public_name__hides_secrets_only(url: str, name: str) -> None:
    assert public_name(url) == name


def test_open_source__hides_secrets_in_what_the_storage_says() -> None:
    with pytest.raises(DataError) as caught:
        open_source("memory://me:secret@host/nothing.zarr")
    assert "secret" not in str(caught.value)
    assert "memory://host/nothing.zarr" in str(caught.value)


@dataclass(frozen=True, eq=False)
class WatchedReader:
    """Notes every read, and wakes those that wait for one."""

    unit_rows: ClassVar[None] = None
    inner: ArrayReader
    begun: list[int] = field(default_factory=list)
    news: threading.Condition = field(default_factory=threading.Condition)

    def read(self, rows: RowRanges) -> tuple[np.ndarray, np.ndarray]:
        with self.news:
            self.begun.append(rows.span.start)
            self.news.notify_all()
        return self.inner.read(rows)

    def find_missing(self, rows: RowRanges) -> str | None:
        return None

    def prefetch(self, rows: RowRanges) -> bool:
        return False

    def wait_for(self, start: int) -> bool:
        with self.news:
            return self.news.wait_for(lambda: start in self.begun, timeout=60)


def test_read_each__reads_one_block_ahead_and_no_more() -> None:
    reader = WatchedReader(ArrayReader(X, Y))
    source = replace(open_source((X, Y)).reblocked(250), reader=reader)
    blocks = source.read_each(RowRanges.of(source.blocks))
    assert reader.begun == []  # nothing is read before it is asked for
    assert next(blocks).rows[0] == 0
    assert reader.wait_for(250)  # while the first is worked on
    assert reader.begun == [0, 250]
    assert next(blocks).rows[0] == 250
    assert reader.wait_for(500)
    assert [block.rows[0] for block in blocks] == [500, 750]
    assert reader.begun == [0, 250, 500, 750]


@dataclass(frozen=True, eq=False)
class PrefetchingReader(WatchedReader):
    """Can be asked for rows without being made to read them."""

    asked: list[int] = field(default_factory=list)

    def prefetch(self, rows: RowRanges) -> bool:
        self.asked.append(rows.span.start)
        return True


def test_read_each__asks_for_the_next_block_where_it_can() -> None:
    reader = PrefetchingReader(ArrayReader(X, Y))
    source = replace(open_source((X, Y)).reblocked(250), reader=reader)
    blocks = source.read_each(RowRanges.of(source.blocks))
    assert next(blocks).rows[0] == 0
    assert (reader.begun, reader.asked) == ([0], [0, 250])
    assert [block.rows[0] for block in blocks] == [250, 500, 750]
    assert (reader.begun, reader.asked) == ([0, 250, 500, 750], [0, 250, 500, 750])


def test_read_each__an_error_ahead_is_raised_in_its_turn() -> None:
    bad = X.copy()
    bad[600, 1] = np.nan
    source = open_source((bad, Y)).reblocked(250)
    blocks = source.read_each(RowRanges.of(source.blocks))
    assert [next(blocks).rows[0], next(blocks).rows[0]] == [0, 250]
    with pytest.raises(DataError, match="row 600"):
        next(blocks)


@pytest.mark.parametrize(("dtype", "value"), [("float32", 3e38), ("float64", 1e150)])
def test_open_source__takes_values_whose_squares_overflow(dtype: str, value: float) -> None:
    large = X.astype(dtype)
    large[7] = value
    assert_same_rows(open_source((large, Y)), large)
