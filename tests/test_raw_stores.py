"""Fits on stores as `synth` writes them: plain chunks with checksums, of which parts are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from zarr.codecs import Crc32cCodec

import streamhalf
from streamhalf import DataError, FitResult, Verdict
from streamhalf.algorithms.row_split import pilot
from streamhalf.data import raw_chunks, source
from streamhalf.data.block import RowRange, RowRanges
from streamhalf.data.opening import open_source
from streamhalf.engine.job import SerialEngine
from streamhalf.engine.run import Run
from streamhalf.events import ignore
from streamhalf.reductions.labels import LabelCounts
from tests.conftest import StoreWriter, make_rows, watch_reads

CHUNK_ROWS, N_CHUNKS = 6_500, 20
N_ROWS = CHUNK_ROWS * N_CHUNKS
ROW_NBYTES = 3 * 4 + 1
SPEC = {"rows": N_ROWS, "dim": 3, "marginal": "gaussian", "noise": "random", "rate": 0.05}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Twenty blocks of Gaussian rows."""
    monkeypatch.setattr(source, "BLOCK_NBYTES", 1)
    path = tmp_path / "rows.zarr"
    streamhalf.synth(path, **SPEC, chunk_rows=CHUNK_ROWS)
    return path


def fit(path: Path, **parameters: Any) -> FitResult:
    return streamhalf.fit(path, scheduler="serial", sampling="windows", **parameters)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of every file that is read, whole or in part."""
    found: list[int] = []
    watch_reads(monkeypatch, found)
    return found


def test_fit__reads_no_more_bytes_than_it_wants(store: Path, read: list[int]) -> None:
    result = fit(store)
    assert result.verdict is Verdict.ACCEPTED
    assert result.passes[-1].name == "certificate"  # it reads all chunks, and their checksums
    wanted = sum(one.bytes_read for one in result.passes)
    # the last pass that judges and the certificate read all, and so do, of so few rows, the sample
    # the refine and the choice of thresholds; what is learnt from is read once
    assert wanted <= 6 * N_ROWS * ROW_NBYTES
    opening = 8 * 64 * ROW_NBYTES  # a few rows are looked at first
    assert wanted <= sum(read) <= wanted + opening


def test_checksums__are_looked_at_where_no_pass_did(store: Path, read: list[int]) -> None:
    run = Run(SerialEngine(), 1 << 30, 8, ignore)
    found = open_source(str(store))
    opening = sum(read)
    raw_chunks._sound.clear()
    run.reduce("some", found, LabelCounts(), blocks=pilot(N_ROWS, 6_400, seed=1))
    assert sum(read) - opening == 6_400 * ROW_NBYTES
    touched = np.count_nonzero(run.unchecked.seen)
    assert 10 < touched <= 20
    run.close()
    assert sum(read) - opening == 6_400 * ROW_NBYTES
    looked = {Path(path).relative_to(store).as_posix() for path, _ in raw_chunks._sound}
    assert len(looked) == 2 * touched


def damage(store: Path, value: float) -> None:
    """Change a value of the first pass, in the chunk that the 13th of its 32 places lies in."""
    chunk, row = divmod(12 * N_ROWS // 32, CHUNK_ROWS)
    assert chunk == 7
    file = store / "X" / "c" / "7" / "0"
    content = bytearray(file.read_bytes())
    content[12 * row : 12 * row + 4] = np.float32(value).tobytes()
    file.write_bytes(bytes(content))


# by its value alone, the row would pass, make the first pass reject, or be called invalid
@pytest.mark.parametrize("value", [0.5, 1e30, np.nan])
@pytest.mark.parametrize("certificate_degree", [0, 2])
def test_damage__is_found_before_anything_is_said(store: Path, value: float, certificate_degree: int) -> None:
    damage(store, value)
    with pytest.raises(DataError, match=r"object X/c/7/0\): its checksum does not fit"):
        fit(store, certificate_degree=certificate_degree)


@pytest.mark.parametrize(
    ("ranges", "unchecked"),
    [
        ([RowRange(0, 100)], []),
        ([RowRange(0, 50)], [0]),
        ([RowRange(0, 50), RowRange(50, 100)], []),
        ([RowRange(0, 50), RowRange(51, 100)], [0]),
        ([RowRange(0, 300)], []),
        ([RowRange(50, 250)], [0, 200]),
        ([RowRange(0, 200), RowRange(350, 500)], [300]),
        ([RowRange(999, 1000)], [900]),
    ],
)
def test_run__remembers_blocks_read_in_parts_only(
    write_store: StoreWriter, small_blocks: None, ranges: list[RowRange], unchecked: list[int]
) -> None:
    found = open_source(write_store(*make_rows(1000, 3), compressors=(Crc32cCodec(),)))
    run = Run(SerialEngine(), 1 << 30, 8, ignore)
    run.reduce("some", found, LabelCounts(), blocks=RowRanges.of(ranges))
    assert found.blocks.bounds[run.unchecked.seen == 1, 0].tolist() == unchecked
    run.close()
    assert [one.name for one in run.passes] == ["some"]


@pytest.mark.parametrize("label_chunk_rows", [50, 100, 150, 1000])
def test_labels__in_chunks_of_their_own_are_checked_with_every_block(
    write_store: StoreWriter, small_blocks: None, label_chunk_rows: int
) -> None:
    layout = {"compressors": (Crc32cCodec(),), "label_chunk_rows": label_chunk_rows}
    path = write_store(*make_rows(1000, 3), **layout)
    found = open_source(path)
    file = path / "y" / "c" / "0"
    content = bytearray(file.read_bytes())
    content[7] ^= 0xFE  # +1 becomes -1 and -1 becomes +1
    file.write_bytes(bytes(content))
    with pytest.raises(DataError, match="checksum"):
        found.read(found.blocks[0])
