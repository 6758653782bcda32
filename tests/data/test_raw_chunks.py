from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from zarr.codecs import BytesCodec, Crc32cCodec

from streamhalf.data import raw_chunks
from streamhalf.data.block import RowRange, RowRanges
from streamhalf.data.raw_chunks import is_plain, prefetch_plain, read_plain

ROWS, DIM, STEP = 1000, 3, 64


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


@pytest.fixture(scope="module")
def arrays(tmp_path_factory: pytest.TempPathFactory) -> list[zarr.Array]:
    folder = tmp_path_factory.mktemp("plain")
    return [
        make(folder / "raw"),
        make(folder / "checked", compressors=(Crc32cCodec(),)),
        make(folder / "wide", "float64"),
        make(folder / "labels", "int8", 0, compressors=(Crc32cCodec(),)),
    ]


@given(edges=st.sets(st.integers(0, ROWS), min_size=2, max_size=20), parts=st.booleans())
def test_read_plain__equals_zarr(arrays: list[zarr.Array], edges: set[int], parts: bool) -> None:
    rows = some(*sorted(edges)[: len(edges) // 2 * 2])
    for array in arrays:
        found = read_plain(array, rows, parts=parts)
        assert found is not None
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array[...][rows.numbers()])


LAYOUTS: dict[str, dict[str, Any]] = {
    "compressed": {"compressors": "auto"},
    "sharded": {"chunks": (20, DIM), "shards": (100, DIM)},
    "features in pieces": {"chunks": (STEP, 2)},
    "another byte order": {"serializer": BytesCodec(endian="big")},
    "v2": {"zarr_format": 2},
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_read_plain__leaves_other_layouts_to_zarr(tmp_path: Path, layout: dict[str, Any]) -> None:
    array = make(tmp_path / "array", **layout)
    assert not is_plain(array)
    assert read_plain(array, some(0, 10)) is None


def test_read_plain__without_the_checksum_library_checked_chunks_are_zarrs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw_chunks, "google_crc32c", None)
    assert read_plain(make(tmp_path / "a", compressors=(Crc32cCodec(),)), some(0, 9)) is None
    assert read_plain(make(tmp_path / "b"), some(0, 9)) is not None


def damage_bit(file: Path, byte: int = 5) -> None:
    content = bytearray(file.read_bytes())
    content[byte] ^= 1
    file.write_bytes(bytes(content))


@pytest.mark.parametrize(
    "damage",
    [
        damage_bit,
        Path.unlink,
        lambda file: file.write_bytes(file.read_bytes()[:-1]),
        lambda file: file.write_bytes(file.read_bytes() + b"x"),
        lambda file: file.write_bytes(b""),
        lambda file: (file.unlink(), file.mkdir()),
    ],
)
@pytest.mark.parametrize("rows", [some(64, 128), some(70, 80), some(0, ROWS), some(3, 9, 90, 99)])
def test_read_plain__damage_is_left_to_zarr(tmp_path: Path, damage: Any, rows: RowRanges) -> None:
    array = make(tmp_path / "array", compressors=(Crc32cCodec(),))
    damage(tmp_path / "array" / "c" / "1" / "0")
    assert read_plain(array, rows) is None
    assert read_plain(array, some(200, 300)) is not None


@pytest.mark.parametrize("byte", [5, -5])
def test_read_plain__what_follows_the_last_row_is_checked_too(tmp_path: Path, byte: int) -> None:
    array, last = make(tmp_path / "array", compressors=(Crc32cCodec(),)), ROWS // STEP
    rows = some(last * STEP, ROWS)
    np.testing.assert_array_equal(read_plain(array, rows), array[last * STEP :])
    damage_bit(tmp_path / "array" / "c" / str(last) / "0", byte)
    assert read_plain(array, rows) is None


def test_read_plain__a_part_costs_a_part_and_leaves_the_checksum(tmp_path: Path) -> None:
    array = make(tmp_path / "array", compressors=(Crc32cCodec(),))
    file = tmp_path / "array" / "c" / "1" / "0"
    before = array[70:80]
    damage_bit(file)
    part = read_plain(array, some(70, 80), parts=True)
    np.testing.assert_array_equal(part, before)
    pieces = read_plain(array, some(0, 5, 66, 70, 90, 100, 300, 301), parts=True)
    assert len(pieces) == 20
    for whole in (some(64, 128), some(60, 130), some(64, 70, 70, 128)):
        assert read_plain(array, whole, parts=True) is None
    file.write_bytes(file.read_bytes()[:-1])
    assert read_plain(array, some(70, 80), parts=True) is None


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="the system has no posix_fadvise")
def test_prefetch_plain__asks_for_the_bytes_of_the_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = make(tmp_path / "array", compressors=(Crc32cCodec(),))
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(raw_chunks, "_PREFETCH_NBYTES", 300)
    monkeypatch.setattr(raw_chunks, "_SMALL_NBYTES", 0)
    monkeypatch.setattr(os, "posix_fadvise", lambda _, at, size, advice: asked.append((at, size)))
    assert prefetch_plain(array, some(60, 100))  # rows 60 to 63 of chunk 0, 0 to 35 of chunk 1
    assert asked == [(720, 48), (0, 300), (300, 132)]
    (tmp_path / "array" / "c" / "1" / "0").unlink()
    assert prefetch_plain(array, some(60, 70))  # whoever reads it finds out
    assert not prefetch_plain(make(tmp_path / "packed", compressors="auto"), some(0, 9))
    monkeypatch.delattr(os, "posix_fadvise")
    assert not prefetch_plain(array, some(60, 70))
