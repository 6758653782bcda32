"""Lazy Dask arrays: computed once for all passes of a run, where there is room for their rows."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from dask import core
from dask.base import persist

from streamhalf.config import RunConfig
from streamhalf.data.arrays import ArrayReader, DaskReader
from streamhalf.data.block import Reader
from streamhalf.data.source import Source
from streamhalf.engine.memory import own_room
from streamhalf.errors import StreamhalfError
from streamhalf.results import Notice, NoticeCode
from streamhalf.results.codes import RowsKept

if TYPE_CHECKING:
    import dask.array as da
    from distributed import Client

_SHARE = 2  # rows take at most one part in so many of the memory
_PLAIN_KINDS = "biufUS"  # of numbers and texts that a file takes as they are


@dataclass(frozen=True, slots=True, eq=False)
class Keeping:
    """Where the rows of lazy arrays go when a pass first wants them."""

    reader: DaskReader
    nbytes_of_rows: int
    kept: RowsKept
    client: Client | None = None
    folder: str | None = None

    @property
    def notice(self) -> Notice:
        """Where the rows are kept."""
        size, kept, place = self.nbytes_of_rows, self.kept, self.folder or ""
        return Notice.of(NoticeCode.LAZY_ROWS, size=size, kept=kept, place=place)

    @property
    def nbytes(self) -> int:
        """Bytes of this process's own memory that they take."""
        return self.nbytes_of_rows if self.kept is RowsKept.MEMORY else 0

    def compute(self) -> tuple[Reader, str | None]:
        """Compute the rows; return their reader, and the folder to be removed, if any."""
        arrays = self.reader.features, self.reader.labels
        if self.kept is RowsKept.CLUSTER and self.client is not None:
            return DaskReader.align(*self.client.persist(list(arrays))), None
        if self.folder is None:
            return DaskReader.align(*persist(*arrays, scheduler="threads")), None
        return _spill(arrays, self.folder)


def plan_keeping(source: Source, target: str | Client, config: RunConfig, *, passes: int) -> Keeping | None:
    """Decide where lazy rows are kept; None where they are not lazy, or read in one pass only."""
    reader = source.reader
    if not isinstance(reader, DaskReader) or reader.client is not None or passes < 2:
        return None
    if in_memory(reader.features) and in_memory(reader.labels):
        return None
    nbytes = int(reader.features.nbytes + reader.labels.nbytes)
    if not isinstance(target, str):
        workers = target.scheduler_info(n_workers=-1)["workers"].values()
        memory = sum(int(worker["memory_limit"] or 0) for worker in workers)
        kept = RowsKept.CLUSTER if nbytes * _SHARE <= memory else RowsKept.NOWHERE
        return Keeping(reader, nbytes, kept, target)
    if target not in ("threads", "serial"):
        return None
    if nbytes * _SHARE <= own_room(config.memory_limit):
        return Keeping(reader, nbytes, RowsKept.MEMORY)
    plain = all(one.dtype.kind in _PLAIN_KINDS for one in (reader.features, reader.labels))
    folder = config.cache if plain else None
    kept = RowsKept.NOWHERE if folder is None else RowsKept.FOLDER
    return Keeping(reader, nbytes, kept, folder=folder)


def in_memory(array: da.Array) -> bool:
    """Return True if every chunk of an array is in memory already."""
    graph = array.__dask_graph__()
    chunks = (graph[key] for key in core.flatten(array.__dask_keys__()))
    return all(isinstance(getattr(one, "value", one), np.ndarray) for one in chunks)


def _spill(arrays: tuple[da.Array, da.Array], folder: str) -> tuple[Reader, str]:
    """Write rows to files, chunk by chunk, and read them from there."""
    from dask.array import store

    try:
        own = tempfile.mkdtemp(prefix="streamhalf-rows-", dir=folder)
        targets = [_file(Path(own, f"{i}.npy"), one) for i, one in enumerate(arrays)]
        try:
            store(list(arrays), targets, lock=False, scheduler="threads")
        except BaseException:
            shutil.rmtree(own, ignore_errors=True)
            raise
    except OSError as error:
        raise StreamhalfError(
            f"cache: {folder}: rows cannot be written ({error.strerror}); free some space, name "
            "another folder, or leave it out"
        ) from error
    return ArrayReader(*targets), own


def _file(path: Path, array: da.Array) -> Any:
    rows = np.lib.format.open_memmap(path, mode="w+", dtype=array.dtype, shape=array.shape)
    if hasattr(os, "posix_fallocate"):  # a full disk is told now, and not by a signal later
        with open(path, "r+b") as file:
            os.posix_fallocate(file.fileno(), 0, os.fstat(file.fileno()).st_size)
    return rows
