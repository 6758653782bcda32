"""Data sets for the benchmarks, made once and kept in a folder, and the bare reading of them."""

from __future__ import annotations

import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import zarr

import streamhalf


@dataclass(frozen=True, slots=True)
class Folder:
    """Where the stores lie."""

    path: Path

    def store(self, rows: int, dim: int, *, chunk_rows: int | None = None) -> str:
        """A store of N(0, I) rows with 5% chow noise."""
        path = self.path / f"chow-{rows}-{dim}-{chunk_rows or 'usual'}.zarr"
        if not path.exists():
            spec = {"rows": rows, "dim": dim, "marginal": "gaussian", "noise": "chow", "rate": 0.05}
            streamhalf.synth(os.fspath(path), **spec, chunk_rows=chunk_rows)
        return os.fspath(path)


class BareReader:
    """Decodes every stored chunk into memory and does nothing with it.

    In a process of its own, which has done nothing else: what reading with Zarr costs by itself.
    """

    def __init__(self, threads: int = 2) -> None:
        self.threads = threads
        self.process = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))

    def __enter__(self) -> BareReader:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.shutdown()

    def seconds(self, store: str) -> float:
        """Time of one read of the whole store."""
        return self.process.submit(read_bare, store, self.threads).result()


def read_bare(store: str, threads: int) -> float:
    """Seconds that decoding all chunks takes."""
    started = time.perf_counter()
    group = zarr.open_group(store, mode="r")
    X, y = group["X"], group["y"]
    step = X.chunks[0]

    def read(start: int) -> int:
        rows = slice(start, start + step)
        features, labels = X[rows], y[rows]
        assert len(features) == len(labels)
        return len(labels)

    with ThreadPoolExecutor(threads) as pool:
        assert sum(pool.map(read, range(0, X.shape[0], step))) == X.shape[0]
    return time.perf_counter() - started
