from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import LocalStore
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ZstdCodec
from zarr.storage import ObjectStore

from streamhalf.data import raw_chunks
from streamhalf.data.block import RowRange, RowRanges
from streamhalf.data.raw_chunks import drop_buffers, is_raw, lend, prefetch_chunks, read_chunks
from streamhalf.data.remote_store import RemoteStore

ROWS, DIM, STEP = 1000, 3, 64

LAYOUTS: dict[str, dict[str, Any]] = {
    "raw": {},
    "checked": {"compressors": (Crc32cCodec(),)},
    "wide": {"dtype": "float64"},
    "labels": {"dtype": "int8", "dim": 0, "compressors": (Crc32cCodec(),)},
    "zstd": {"compressors": ZstdCodec()},
    "blosc": {"compressors": BloscCodec()},
    "gzip": {"compressors": GzipCodec()},
    "two": {"compressors": (BloscCodec(), ZstdCodec())},
    "v2": {"zarr_format": 2},
    "v2 compressed, big endian": {"zarr_format": 2, "dtype": ">f8", "compressors": "auto"},
}

FOR_ZARR: dict[str, dict[str, Any]] = {
    "sharded": {"chunks": (20, DIM), "shards": (100, DIM)},
    "features in pieces": {"chunks": (STEP, 2)},
    "another byte order": {"serializer": BytesCodec(endian="big")},
    "compressed and checked": {"compressors": (ZstdCodec(), Crc32cCodec())},
    "columns first": {"zarr_format": 2, "order": "F"},
}


def some(*edges: int) -> RowRanges:
    """Rows from an edge to the next, then from the third to the fourth, and so on."""
    pairs = zip(edges[::2], edges[1::2], strict=True)
    return RowRanges.of(RowRange(start, stop) for start, stop in pairs)


def make(path: Path, dtype: str = "float32", dim: int = DIM, **layout: Any) -> zarr.Array:
    shape = (ROWS, dim) if dim else (ROWS,)
    layout = {"compressors": None, "chunks": (STEP, dim) if dim else (STEP,)} | layout
    array = zarr.create_array(str(path), shape=shape, dtype=dtype, **layout)
    rng = np.random.default_rng(0)
    array[...] = (100 * rng.standard_normal(shape)).astype(dtype)
    return array


def remote(path: Path) -> zarr.Array:
    """The same array, read as a remote one."""
    store = RemoteStore(ObjectStore(LocalStore(str(path)), read_only=True))
    return zarr.open_array(store, mode="r")


@pytest.fixture(scope="module")
def arrays(tmp_path_factory: pytest.TempPathFactory) -> list[zarr.Array]:
    folder = tmp_path_factory.mktemp("chunks")
    near = [make(folder / name, **layout) for name, layout in LAYOUTS.items()]
    return near + [remote(folder / name) for name in ("raw", "checked", "zstd")]


@given(edges=st.sets(st.integers(0, ROWS), min_size=2, max_size=20), parts=st.booleans())
def test_read_chunks__equals_zarr(arrays: list[zarr.Array], edges: set[int], parts: bool) -> None:
    rows = some(*sorted(edges)[: len(edges) // 2 * 2])
    for array in arrays:
        found = read_chunks(array, rows, parts=parts)
        assert found is not None
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array[...][rows.numbers()])


@pytest.mark.parametrize("layout", FOR_ZARR.values(), ids=FOR_ZARR)
def test_read_chunks__leaves_other_layouts_to_zarr(tmp_path: Path, layout: dict[str, Any]) -> None:
    array = make(tmp_path / "array", **layout)
    assert not is_raw(array)
    assert read_chunks(array, some(0, 10)) is None


def damage_bit(file: Path, byte: int = 5) -> None:
    content = bytearray(file.read_bytes())
    content[byte] ^= 1
    file.write_bytes(bytes(content))


DAMAGES: dict[str, Any] = {
    "a bit": damage_bit,
    "missing": Path.unlink,
    "too short": lambda file: file.write_bytes(file.read_bytes()[:-1]),
    "too long": lambda file: file.write_bytes(file.read_bytes() + b"x"),
    "empty": lambda file: file.write_bytes(b""),
    "a folder": lambda file: (file.unlink(), file.mkdir()),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("read", [lambda path: zarr.open_array(path, mode="r"), remote])
def test_read_chunks__damage_is_left_to_zarr(tmp_path: Path, damage: Any, read: Any) -> None:
    make(tmp_path / "array", compressors=(Crc32cCodec(),))
    damage(tmp_path / "array" / "c" / "1" / "0")
    array = read(tmp_path / "array")
    for rows in (some(64, 128), some(70, 80), some(0, ROWS), some(3, 9, 90, 99)):
        assert read_chunks(array, rows) is None
    assert read_chunks(array, some(200, 300)) is not None


def test_read_chunks__a_compressed_chunk_of_another_size_is_left_to_zarr(tmp_path: Path) -> None:
    array = make(tmp_path / "array", compressors=ZstdCodec())
    small = make(tmp_path / "small", compressors=ZstdCodec(), chunks=(STEP // 2, DIM))
    file = Path("c", "1", "0")
    (tmp_path / "array" / file).write_bytes((tmp_path / "small" / file).read_bytes())
    assert read_chunks(small, some(0, ROWS)) is not None
    assert read_chunks(array, some(0, ROWS)) is None


@pytest.mark.parametrize("byte", [5, -5])
def test_read_chunks__what_follows_the_last_row_is_checked_too(tmp_path: Path, byte: int) -> None:
    array, last = make(tmp_path / "array", compressors=(Crc32cCodec(),)), ROWS // STEP
    rows = some(last * STEP, ROWS)
    np.testing.assert_array_equal(read_chunks(array, rows), array[last * STEP :])
    damage_bit(tmp_path / "array" / "c" / str(last) / "0", byte)
    assert read_chunks(array, rows) is None


def test_read_chunks__a_part_costs_a_part_and_leaves_the_checksum(tmp_path: Path) -> None:
    array = make(tmp_path / "array", compressors=(Crc32cCodec(),))
    file = tmp_path / "array" / "c" / "1" / "0"
    before = array[70:80]
    damage_bit(file)
    part = read_chunks(array, some(70, 80), parts=True)
    np.testing.assert_array_equal(part, before)
    for whole in (some(64, 128), some(60, 130), some(64, 70, 70, 128)):
        assert read_chunks(array, whole, parts=True) is None
    file.write_bytes(file.read_bytes()[:-1])
    assert read_chunks(array, some(70, 80), parts=True) is None


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="the system has no posix_fadvise")
def test_prefetch_chunks__asks_for_the_bytes_of_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = make(tmp_path / "array", compressors=(Crc32cCodec(),))
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(raw_chunks, "_PREFETCH_NBYTES", 300)
    monkeypatch.setattr(raw_chunks, "_SMALL_NBYTES", 0)
    monkeypatch.setattr(os, "posix_fadvise", lambda _, at, size, advice: asked.append((at, size)))
    assert prefetch_chunks(array, some(60, 100))  # rows 60 to 63 of chunk 0, 0 to 35 of chunk 1
    assert asked == [(720, 48), (0, 300), (300, 132)]
    (tmp_path / "array" / "c" / "1" / "0").unlink()
    assert prefetch_chunks(array, some(60, 70))  # the reader finds out
    assert not prefetch_chunks(make(tmp_path / "packed", compressors="auto"), some(0, 9))
    monkeypatch.delattr(os, "posix_fadvise")
    assert not prefetch_chunks(array, some(60, 70))


def test_lend__a_buffer_is_used_again_when_no_array_refers_to_it() -> None:
    drop_buffers()
    shape, dtype = (1 << 18, 4), np.dtype("float32")
    first = lend(shape, dtype)
    address = first.ctypes.data
    view = first[10:20].T
    del first
    assert lend(shape, dtype).ctypes.data != address  # a view holds it
    drop_buffers()
    del view
    again = lend((1 << 18, 3), dtype)
    assert again.ctypes.data == address
    assert again.flags.writeable
    assert lend((4, 4), dtype).base is None  # small ones are the C library's
