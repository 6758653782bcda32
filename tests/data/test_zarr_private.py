"""Private interfaces of Zarr that we rely upon."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest
import zarr
import zarrs
from zarr.codecs import Crc32cCodec

from streamhalf.data.block import RowRange, RowRanges
from streamhalf.data.zarr_private import (
    are_whole_shards,
    chunk_codecs,
    chunk_key,
    chunk_names,
    is_checksum_error,
    refill,
)
from streamhalf.data.zarr_reader import ZarrReader
from streamhalf.errors import DataError
from tests.canary import relying_on

MEND = "streamhalf/data/zarr_private.py"
relying = functools.partial(relying_on, "zarr", mend=MEND)

ROWS, STEP = 10, 4


def make(path: Path, **layout: Any) -> zarr.Array[Any]:
    common = {"shape": (ROWS, 2), "chunks": (STEP, 2), "compressors": (Crc32cCodec(),)}
    array = zarr.create_array(str(path), dtype="<f4", **(common | layout))
    array[...] = 1 + np.arange(array.size, dtype="<f4").reshape(array.shape)
    return array


def flip_byte(file: str) -> None:
    content = bytearray(Path(file).read_bytes())
    content[5] ^= 1
    Path(file).write_bytes(bytes(content))


def test_refill__another_fill_value_for_what_is_not_stored(tmp_path: Path) -> None:
    with relying("AsyncArray(metadata=, store_path=) reads a stored array anew"):
        array = make(tmp_path / "array", fill_value=7)
        Path(chunk_names(array)(1)).unlink()
        refilled = refill(array, -5)
        np.testing.assert_array_equal(refilled[:STEP], array[:STEP])
        assert (refilled[STEP : 2 * STEP] == -5).all()
        assert (array[STEP : 2 * STEP] == 7).all()  # the one that was given stays as it was


def test_refill__shards_are_read_by_compiled_codecs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []

    async def read(self: Any, *arguments: Any, **options: Any) -> Any:
        reads.append(type(self))
        return await original(self, *arguments, **options)

    with relying("zarrs.ZarrsCodecPipeline has from_array_metadata_and_store and read"):
        original = zarrs.ZarrsCodecPipeline.read
    monkeypatch.setattr(zarrs.ZarrsCodecPipeline, "read", read)
    array = make(tmp_path / "shards", shards=(2 * STEP, 2), compressors=None)
    with relying("an AsyncArray reads through its attribute codec_pipeline, also one that we set"):
        np.testing.assert_array_equal(refill(array, 0)[:], array[:])
        assert not reads, "the pipeline was used unasked"
        np.testing.assert_array_equal(refill(array, 0, compiled=True)[:], array[:])
        assert reads, "the pipeline was not used"


@pytest.mark.parametrize(("start", "stop"), [(0, 8), (8, 16), (0, 16)])
def test_are_whole_shards__compiled_codecs_see_damage_of_all_rows(tmp_path: Path, start: int, stop: int) -> None:
    array = make(tmp_path / "shards", shape=(20, 2), shards=(2 * STEP, 2))
    assert are_whole_shards(array, RowRange(start, stop))
    flip_byte(chunk_names(array)(start // 8))
    with (
        relying_on("zarrs", "whole shards are held against their checksums", mend=MEND),
        pytest.raises(RuntimeError, match="checksum"),
    ):
        refill(array, 0, compiled=True)[start:stop]


@pytest.mark.parametrize(("start", "stop"), [(0, 4), (1, 8), (0, 20), (16, 20)])
def test_are_whole_shards__parts_and_the_last_shard_are_left_to_zarr(tmp_path: Path, start: int, stop: int) -> None:
    """Compiled codecs would not look at the checksum of the shard that is read in part."""
    array = make(tmp_path / "shards", shape=(20, 2), shards=(2 * STEP, 2))
    rows = RowRange(start, stop)
    assert not are_whole_shards(array, rows)
    flip_byte(chunk_names(array)(start // 8))
    reader = ZarrReader(array, None, parts=False)
    with pytest.raises(DataError, match="checksum does not fit"):
        reader.read(RowRanges.of((rows,)))
    narrow = make(tmp_path / "narrow", shape=(8, 1), shards=(8, 2))
    assert not are_whole_shards(narrow, RowRange(0, 8))
    assert not are_whole_shards(make(tmp_path / "plain"), RowRange(0, 8))


def test_chunk_names__are_where_zarr_puts_a_chunk(tmp_path: Path) -> None:
    with relying("metadata.encode_chunk_key(index) below LocalStore.root / path names a file"):
        array = make(tmp_path / "array")
        assert chunk_key(array, (1, 0)) == "c/1/0"
        assert chunk_names(array)(1) == str(tmp_path / "array" / "c" / "1" / "0")
        assert all(Path(chunk_names(array)(i)).is_file() for i in range(3))


def test_chunk_codecs__chunks_are_the_bytes_of_their_rows(tmp_path: Path) -> None:
    """The last chunk too is stored in full size, with the fill value after the rows."""
    assert sys.byteorder == "little"
    for checked in (False, True):
        codecs = (Crc32cCodec(),) if checked else None
        array = make(tmp_path / f"array-{checked}", compressors=codecs, fill_value=-1)
        with relying("metadata.codecs is the bytes codec, then the checksum where there is one"):
            assert chunk_codecs(array) == ((), checked)
        rows = np.full((12, 2), -1, dtype="<f4")
        rows[:ROWS] = array[:]
        with relying("a chunk's file is the bytes of its rows, then crc32c as 4 little bytes"):
            for i in range(3):
                numbers = rows[STEP * i : STEP * (i + 1)].tobytes()
                crc = google_crc32c.value(numbers).to_bytes(4, "little") if checked else b""
                assert Path(chunk_names(array)(i)).read_bytes() == numbers + crc


@pytest.mark.parametrize("layout", [{}, {"shards": (2 * STEP, 2)}], ids=["plain", "sharded"])
def test_is_checksum_error__of_a_flipped_byte(tmp_path: Path, layout: dict[str, Any]) -> None:
    array = make(tmp_path / "array", **layout)
    flip_byte(chunk_names(array)(0))
    with relying("reading a damaged chunk raises an error with 'checksum do not match' in it"):
        with pytest.raises(Exception) as caught:  # noqa: PT011 (any kind will do)
            refill(array, 0)[:STEP]
        assert is_checksum_error(caught.value)
