"""Shared fixtures: written stores of every layout, and one small cluster for the whole session."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import zarr
from distributed import Client, LocalCluster
from hypothesis import HealthCheck, settings
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from streamhalf import config
from streamhalf.data import source
from streamhalf.data.raw_chunks import _LocalChunk

# how long an example takes says more about the machine than about the code
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

StoreWriter = Callable[..., Path]

PROGRAMS = Path(__file__).parent / "programs"
"""First folder on the path of programs that tests start."""


WORKER_NBYTES = 3 << 29
"""A process of tests with the small cluster of its session, at most."""


def pytest_xdist_auto_num_workers() -> int:
    """One process per core that memory allows; 0 runs the tests in the first process."""
    n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    available = psutil.virtual_memory().available
    for limit, used in _MEMORY_GROUPS:
        if limit.exists() and (text := limit.read_text().strip()).isdigit():
            available = min(available, int(text) - int(used.read_text()))
    n_workers = min(n_cores or 1, available // WORKER_NBYTES)
    return int(n_workers) if n_workers > 1 else 0


_GROUPS = Path("/sys/fs/cgroup")
_MEMORY_GROUPS = (
    (_GROUPS / "memory.max", _GROUPS / "memory.current"),
    (_GROUPS / "memory/memory.limit_in_bytes", _GROUPS / "memory/memory.usage_in_bytes"),
)


@pytest.fixture(scope="session", autouse=True)
def one_blas_thread() -> Iterator[None]:
    """Threads of one small product wait for each other, on a busy machine for most of the time."""
    with threadpool_limits(limits=1):
        yield


@pytest.fixture(scope="session", autouse=True)
def known_seed() -> Iterator[None]:
    """Runs without a seed get 0, here and in programs, so that chance comes out the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config, "draw_seed", lambda: 0)
        patch.setenv("PYTHONPATH", str(PROGRAMS), prepend=os.pathsep)
        yield


def slowly(values: Iterable[Any]) -> list[Any]:
    """Parameters of the slow tier."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


def make_rows(n_rows: int, dim: int, *, seed: int = 0, dtype: str = "float32") -> tuple[NDArray[Any], NDArray[np.int8]]:
    """Standard Gaussian features and labels of a halfspace with 10 % of them flipped."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, dim)).astype(dtype)
    flips = np.where(rng.random(n_rows) < 0.1, -1, 1)
    return X, (np.where(X[:, 0] >= 0, 1, -1) * flips).astype(np.int8)


def write_arrays(
    target: Any,
    X: NDArray[Any],
    y: NDArray[Any],
    *,
    zarr_format: int = 3,
    chunk_rows: int = 100,
    label_chunk_rows: int | None = None,
    shard_rows: int | None = None,
    feature_chunk: int | None = None,
    names: tuple[str, str] = ("X", "y"),
    compressors: Any = "auto",
) -> zarr.Group:
    """Write two arrays with chunkings of their own; every chunk is stored, whatever it holds."""
    group = zarr.create_group(target, zarr_format=zarr_format)  # type: ignore[arg-type]
    rows = (chunk_rows, label_chunk_rows or chunk_rows)
    for name, values, n_rows in zip(names, (X, y), rows, strict=True):
        columns = values.shape[1:] if feature_chunk is None else (feature_chunk,) * (values.ndim - 1)
        array = group.create_array(
            name,
            shape=values.shape,
            dtype=values.dtype,
            chunks=(max(1, n_rows), *columns)[: values.ndim],
            shards=None if shard_rows is None else (shard_rows, *columns),
            fill_value=0,
            compressors=compressors,
            dimension_names=("row", "feature")[: values.ndim] if zarr_format == 3 else None,
            attributes={"_ARRAY_DIMENSIONS": ["row", "feature"][: values.ndim]},
            config={"write_empty_chunks": True},
        )
        array[...] = values
    return group


@pytest.fixture
def write_store(tmp_path: Path) -> StoreWriter:
    """A function that writes a small store and returns its path; see `write_arrays`."""
    numbers = itertools.count()

    def write(X: NDArray[Any], y: NDArray[Any], **layout: Any) -> Path:
        path = tmp_path / f"store-{next(numbers)}.zarr"
        write_arrays(str(path), X, y, **layout)
        return path

    return write


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every stored chunk is a block of its own, so that few rows give many tasks."""
    monkeypatch.setattr(source, "BLOCK_NBYTES", 1)


def watch_reads(monkeypatch: pytest.MonkeyPatch, found: list[int]) -> None:
    """Append the bytes of every chunk that is read from a file, whole or in part."""

    original = _LocalChunk.read

    def watched(self: Any, raw: Any, ranges: Any) -> bool:
        found.append(raw.nbytes)
        return original(self, raw, ranges)

    monkeypatch.setattr(_LocalChunk, "read", watched)


@pytest.fixture(scope="session")
def client() -> Iterator[Client]:
    """Two worker processes of one thread each."""
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as connected,
    ):
        yield connected
