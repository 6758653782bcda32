"""Data sets for the benchmarks, made once and kept in a folder, and the bare reading of them."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import zarr

import streamhalf


@dataclass(frozen=True, slots=True)
class Folder:
    """Where the stores lie."""

    path: Path

    def store(self, rows: int, dim: int, *, chunk_rows: int = 1 << 18) -> str:
        """A store of N(0, I) rows with 5% chow noise."""
        path = self.path / f"chow-{rows}-{dim}-{chunk_rows}.zarr"
        if not path.exists():
            spec = {"rows": rows, "dim": dim, "marginal": "gaussian", "noise": "chow", "rate": 0.05}
            streamhalf.synth(os.fspath(path), **spec, chunk_rows=chunk_rows)
        return os.fspath(path)


def read_bare(store: str, *, threads: int = 2) -> int:
    """Decode every stored chunk into memory, and do nothing with it; returns the rows."""
    group = zarr.open_group(store, mode="r")
    X, y = group["X"], group["y"]
    step = X.chunks[0]

    def read(start: int) -> int:
        rows = slice(start, start + step)
        features, labels = X[rows], y[rows]
        assert len(features) == len(labels)
        return len(labels)

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(read, range(0, X.shape[0], step)))
