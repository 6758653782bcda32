"""Stores and lazy arrays in far too many tiny chunks, or in chunks that no task could hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from obstore.store import LocalStore
from zarr.codecs import Crc32cCodec
from zarr.storage import ObjectStore

import streamhalf
from streamhalf import DataError, FitResult, open_source
from streamhalf.data import raw_chunks, source
from streamhalf.data.block import RowRange, RowRanges
from streamhalf.data.remote_store import RemoteStore
from streamhalf.data.source import block_nbytes, gathered_chunks
from streamhalf.engine.plan import PassPlan, plan_pass
from streamhalf.reductions import LabelCounts
from tests.comparing import comparable
from tests.conftest import StoreWriter, make_rows, watch_reads

N_ROWS, DIM = 24_000, 3
CHECKED = (Crc32cCodec(),)


def labelled() -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((N_ROWS, DIM)).astype(np.float32)
    y = np.where(X @ [1.0, 2.0, -1.0] >= 0, 1, -1).astype(np.int8)
    return X, np.where(rng.random(N_ROWS) < 0.05, -y, y).astype(np.int8)


X, Y = labelled()


def fit(data: Any, **parameters: Any) -> FitResult:
    return streamhalf.fit(data, seed=1, **{"scheduler": "serial"} | parameters)


def assert_same_answer(found: FitResult, expected: FitResult) -> None:
    assert found.verdict is expected.verdict
    assert found.error == expected.error
    assert found.halfspace is not None
    assert expected.halfspace is not None
    np.testing.assert_allclose(found.halfspace.normal, expected.halfspace.normal, rtol=1e-9)
    assert found.certificate is not None
    assert expected.certificate is not None
    assert found.certificate.digest == expected.certificate.digest


def sources_of(n_blocks: int) -> PassPlan:
    """A plan over so many blocks of 16 MiB."""
    opened = replace(
        open_source(make_rows(1000, DIM)), blocks=RowRanges.evenly(1000 * n_blocks, 1000), row_nbytes=(16 << 20) // 1000
    )
    return plan_pass("counts", opened, LabelCounts())


@pytest.mark.parametrize("n_blocks", [64, 800, 1000, 1601, 5000, 100_000])
def test_tasks__are_enough_for_64_threads_and_for_200_workers_of_4(n_blocks: int) -> None:
    n_tasks = len(sources_of(n_blocks).tasks())
    assert min(n_blocks, 1600) <= n_tasks <= 4096


def test_reads__of_a_task_do_not_look_at_all_blocks() -> None:
    opened = sources_of(1_000_000).source
    few = RowRanges.of((RowRange(500_000_010, 500_002_010),))
    assert [block.start for block, _ in opened.reads(few)] == [500_000_000, 500_001_000, 500_002_000]


LAYOUTS: dict[str, dict[str, Any]] = {"zstd": {}, "v2": {"zarr_format": 2}, "checked": {"compressors": CHECKED}}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_fit__opens_every_tiny_chunk_once(
    write_store: StoreWriter, monkeypatch: pytest.MonkeyPatch, layout: dict[str, Any]
) -> None:
    path = write_store(X, Y, chunk_rows=60, **layout)
    opened: list[str] = []

    def watched(name: str) -> Any:
        opened.append(name)
        return FileIO(name)

    FileIO = raw_chunks.FileIO
    monkeypatch.setattr(raw_chunks, "FileIO", watched)
    result = fit(path)
    n_chunks = 2 * N_ROWS // 60
    assert n_chunks <= len(opened) <= n_chunks + 50  # a few rows are looked at first
    monkeypatch.setattr(raw_chunks, "FileIO", FileIO)
    assert comparable(fit(open_source(path), scheduler="threads", n_workers=2)) == comparable(result)
    assert_same_answer(result, fit((X, Y)))


@given(
    chunks=st.lists(st.integers(0, 50), min_size=1, max_size=600).filter(any), row_nbytes=st.sampled_from([10, 100_000])
)
def test_gathered_chunks__hold_whole_chunks_and_are_no_larger_than_blocks(chunks: list[int], row_nbytes: int) -> None:
    found = gathered_chunks(tuple(chunks), row_nbytes)
    edges = set(np.cumsum(chunks).tolist())
    assert 0 not in found
    assert sum(found) == sum(chunks)
    assert set(np.cumsum(found).tolist()) <= edges
    if len(found) < sum(map(bool, chunks)):
        assert max(found) * row_nbytes <= block_nbytes(sum(chunks) * row_nbytes) + 50 * row_nbytes


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of more than 20,000 bytes are large, blocks have about 8,000."""
    monkeypatch.setattr(raw_chunks, "LARGE_NBYTES", 20_000)
    monkeypatch.setattr("streamhalf.data.zarr_reader.LARGE_NBYTES", 20_000)
    monkeypatch.setattr("streamhalf.data.zarr_reader.GRID_ROWS", 64)
    monkeypatch.setattr(raw_chunks, "_PIECE_NBYTES", 7_000)
    monkeypatch.setattr(source, "BLOCK_NBYTES", 8_000)


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[5000 if len(content) > 5000 else 5] ^= 0xFE
    file.write_bytes(bytes(content))


PARTS: dict[str, dict[str, Any]] = {
    "plain": {"compressors": None, "chunk_rows": 12_000},
    "checked": {"compressors": CHECKED, "chunk_rows": 11_000},
    "labels": {"compressors": CHECKED, "chunk_rows": 12_000, "label_chunk_rows": 7_000},
    "sharded": {"chunk_rows": 100, "shard_rows": 12_000},
}


@pytest.mark.parametrize("layout", PARTS.values(), ids=PARTS)
def test_fit__large_chunks_are_read_in_parts(
    write_store: StoreWriter, large: None, monkeypatch: pytest.MonkeyPatch, layout: dict[str, Any]
) -> None:
    read: list[int] = []
    watch_reads(monkeypatch, read)
    opened = open_source(write_store(X, Y, **layout))
    assert opened.blocks.sizes.max() * DIM * 4 <= 8_000
    assert opened.unit_rows in (None, 12_000)  # which rows a pass takes does not depend on it
    result = fit(opened)
    assert max(read, default=0) <= 8_000
    whole = fit((X, Y))
    if opened.unit_rows is None:
        assert_same_answer(result, whole)
    assert result.verdict is whole.verdict


def predict(path: Path) -> None:
    opened = open_source(path, labelled=False)
    for rows in opened.blocks:
        opened.read(rows)


WORK: dict[str, Callable[[Path], Any]] = {
    "fit": fit,
    "fit without certificate": lambda path: fit(path, certificate_degree=0),
    "fit with checkpoint": lambda path: fit(path, checkpoint=path.parent / "kept"),
    "certify": lambda path: streamhalf.certify(path, weights=[1.0, 2.0, -1.0], scheduler="serial"),
    "lazy": lambda path: streamhalf.lazy(path, LabelCounts()).compute(),
    "predict": predict,
}


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_damage__in_a_large_chunk_is_found_before_anything_is_said(
    write_store: StoreWriter, large: None, work: Callable[[Path], Any]
) -> None:
    path = write_store(X, Y, compressors=CHECKED, chunk_rows=12_000)
    work(path)
    flip(path / "X" / "c" / "1" / "0")
    for kept in path.parent.glob("kept/*"):
        kept.unlink()
    with pytest.raises(DataError, match=r"object X/c/1/0\): its checksum does not fit"):
        work(path)


def remote_group(path: Path) -> zarr.Group:
    """A store that is read as a remote one, by requests for ranges."""
    near = ObjectStore(LocalStore(str(path)), read_only=True)
    return zarr.open_group(RemoteStore(near), mode="r")


def test_fit__large_remote_chunks_are_fetched_in_parts(
    write_store: StoreWriter, large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_store(X, Y, compressors=CHECKED, chunk_rows=12_000)
    fetched: list[int] = []
    original = RemoteStore.fetch

    def watched(self: RemoteStore, key: str, *arguments: Any) -> Any:
        content = original(self, key, *arguments)
        fetched.append(0 if content is None else len(content))
        return content

    monkeypatch.setattr(RemoteStore, "fetch", watched)
    expected = fit(path)
    assert comparable(fit(remote_group(path))) == comparable(expected)
    assert max(fetched) <= 20_000  # chunks of features have 144,004 bytes
    kept = fit(remote_group(path), checkpoint=path.parent / "kept")
    assert_same_answer(kept, expected)
    flip(path / "X" / "c" / "1" / "0")
    for parameters in ({}, {"certificate_degree": 0}, {"checkpoint": path.parent / "again"}):
        with pytest.raises(DataError, match=r"object X/c/1/0\): its checksum does not fit"):
            fit(remote_group(path), **parameters)
