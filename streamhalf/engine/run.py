"""A run: one engine, one budget, one list of pass records; rows of lazy arrays computed once."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from dask import core
from dask.base import persist
from numpy.typing import NDArray

from streamhalf.config import RunConfig
from streamhalf.data.arrays import ArrayReader, DaskReader
from streamhalf.data.block import Reader, RowRange, RowRanges
from streamhalf.data.chunk_cache import release
from streamhalf.data.schema import working_dtype
from streamhalf.data.source import Source
from streamhalf.data.zarr_reader import ZarrReader, stored_rows
from streamhalf.engine.checkpoint import Checkpoint
from streamhalf.engine.job import Counted, Engine, Job, run_job
from streamhalf.engine.memory import own_room
from streamhalf.engine.plan import PassPlan, Tell, fan_in, remote_store_of, run_pass
from streamhalf.errors import DataError, StreamhalfError
from streamhalf.events import Answered, KernelsCompiled, Observer, PassEnded, RunEnded, Watched, ignore
from streamhalf.kernels.warm_up import warm_up
from streamhalf.reductions.base import Reduction
from streamhalf.results import Notice, NoticeCode, PassRecord, RunRecord, Verdict
from streamhalf.results.codes import RowsKept

if TYPE_CHECKING:
    import dask.array as da
    from distributed import Client

logger = logging.getLogger("streamhalf")


@dataclass(slots=True, eq=False)
class Run:
    """Runs passes one after the other and keeps their records.

    Partials of passes are saved in the `checkpoint`, and loaded from there. `listen` returns the
    listener for partials of the tasks of a pass. What is fetched from remote stores and does not
    fit into memory goes to the folder `cache`, rows of lazy arrays where `keeping` says.
    """

    engine: Engine
    memory_limit: int | str
    split_every: int
    observer: Observer
    checkpoint: Checkpoint | None = None
    listen: Callable[[str, Reduction[Any, Any]], Tell | None] | None = None
    cache: str | None = None
    keeping: Keeping | None = None
    passes: list[PassRecord] = field(default_factory=list)
    provenance: RunRecord | None = None
    unchecked: UncheckedBlocks | None = None
    _warm: bool = False
    _computed: tuple[Reader, str | None] | None = None  # of lazy arrays: reader, folder of files
    _kept: tuple[Reader, Source] | None = None  # reader of a store of tiny chunks, its kept rows
    _tokens: set[str] = field(default_factory=set)  # of remote stores

    def reduce(
        self,
        name: str,
        source: Source,
        reduction: Reduction[Any, Any],
        *,
        blocks: RowRanges | None = None,
        split_every: int | None = None,
        detail: str = "",
        keep: Callable[[Any], None] | None = None,
    ) -> Any:
        """Run one pass over `blocks` (all by default); return the finalized result.

        `keep` is called with the partial of all rows.
        """
        fan = fan_in(self.split_every, reduction.partial_nbytes(source.dim))
        plan = PassPlan(
            name=name,
            source=source,
            reduction=reduction,
            blocks=source.blocks if blocks is None else blocks,
            split_every=split_every or fan,
            detail=detail,
            tell=None if self.listen is None else self.listen(name, reduction),
        )
        if (store := remote_store_of(source)) is not None:
            self._tokens.add(store.token)
        if (saved := self._saved(plan)) is not None:
            if keep is not None:
                keep(saved.partial)
            return reduction.finalize(saved.partial)
        plan = self._with_kept_rows(plan)
        if plan.source.reader.defers_checks:
            if self.unchecked is None:
                assert isinstance(plan.source.reader, ZarrReader)
                none_so_far = np.zeros(len(plan.source.blocks), dtype=np.int8)
                self.unchecked = UncheckedBlocks(plan.source, plan.source.reader, none_so_far)
            self.unchecked.note(plan.blocks)
        self._warm_up(plan.source)

        def save(counted: Counted, record: PassRecord) -> None:
            if self.checkpoint is not None:
                self.checkpoint.save(counted, record)
            if keep is not None:
                keep(counted.partial)

        result, record = run_pass(
            self.engine, plan, memory_limit=self.memory_limit, observer=self.observer, save=save, cache=self.cache
        )
        self.passes.append(record)
        return result

    def _saved(self, plan: PassPlan) -> Counted | None:
        if self.checkpoint is None:
            return None
        ordinal, dim = len(self.passes), plan.source.dim
        if (saved := self.checkpoint.load(ordinal, plan.name, plan.reduction, dim)) is None:
            return None
        counted, record = saved
        if counted.n_rows != plan.blocks.n_rows:
            raise DataError(
                f"checkpoint: pass {plan.name!r} holds {counted.n_rows} rows of {plan.blocks.n_rows}; "
                "remove the folder and start anew"
            )
        self.passes.append(record)
        logger.info("pass %s: %d rows from the checkpoint", plan.name, counted.n_rows)
        self.observer(PassEnded(record))
        return counted

    def _warm_up(self, source: Source) -> None:
        """Compile or load the kernels before the first pass, here and on every worker."""
        if self._warm:
            return
        self._warm, dtype = True, working_dtype(source.reader.features.dtype).name
        warm_up(dtype, lambda: self.observer(KernelsCompiled()))
        self.engine.everywhere(warm_up, dtype)

    def _with_kept_rows(self, plan: PassPlan) -> PassPlan:
        """Return the pass over rows that are computed or gathered once, where that is better."""
        source = plan.source
        if source.has_tiny_chunks and not self.engine.remote:
            if self._kept is None or self._kept[0] is not source.reader:
                self._kept = source.reader, source.kept()
            return replace(plan, source=self._kept[1])
        if self.keeping is None or source.reader is not self.keeping.reader:
            return plan
        if self._computed is None:
            self._computed = self.keeping.compute()
            if self.keeping.kept is RowsKept.MEMORY and isinstance(self.memory_limit, int):
                self.memory_limit -= self.keeping.nbytes  # what is available has less of it already
        return replace(plan, source=replace(source, reader=self._computed[0]))

    def close(self, verdict: Verdict | None = None, answer: Answered | Watched | None = None) -> None:
        """Check what was read in parts only against its checksums, then tell how the run ended."""
        if self.unchecked is not None and (job := self.unchecked.job()) is not None:
            run_job(self.engine, job, ignore)  # not a pass of the run
        if answer is not None:
            self.observer(answer)
        if verdict is not None:
            self.observer(RunEnded(verdict))

    def forget(self) -> None:
        """Drop what was fetched, everywhere, and the files of computed rows."""
        for token in self._tokens:
            self.engine.everywhere(release, token)
        if self._computed is not None and self._computed[1] is not None:
            shutil.rmtree(self._computed[1], ignore_errors=True)


@dataclass(frozen=True, slots=True, eq=False)
class UncheckedBlocks:
    """Blocks of a store of which only parts were read, without a look at checksums.

    `seen` is 1 for blocks of which rows were read, 2 where all of it was at once.
    """

    source: Source
    reader: ZarrReader
    seen: NDArray[np.int8]

    def note(self, read: RowRanges) -> None:
        pieces, homes = self.source.pieces(read)
        blocks = self.source.blocks
        rows = np.bincount(homes, pieces.sizes, len(blocks))
        whole = (rows == blocks.sizes) & (not self.reader.splits_chunks)
        np.maximum(self.seen, (rows > 0).astype(np.int8) + whole, out=self.seen)

    def job(self) -> Job | None:
        """Return the job that checks their chunks, piece by piece; None where there are none."""
        edges, step = self.source.blocks.bounds[self.seen == 1], stored_rows(self.reader.features)
        if not len(edges):
            return None
        edges = np.stack([edges[:, 0] // step, -(-edges[:, 1] // step)], axis=1) * step
        chunks = RowRanges(np.unique(np.minimum(edges, self.source.n_rows), axis=0))
        rows = tuple(chunks.sizes.tolist())
        return Job("checksums", self.reader, tuple(chunks), rows, _check, lambda *_: None)


def _check(reader: ZarrReader, rows: RowRange) -> Counted:
    reader.check(rows)
    return Counted(rows.n_rows, None)


_SHARE = 2  # rows take at most one part in so many of the memory
_PLAIN_KINDS = "biufUS"  # of numbers and texts that a file takes as they are


@dataclass(frozen=True, slots=True, eq=False)
class Keeping:
    """Where the rows of lazy arrays go when a pass first wants them."""

    reader: DaskReader
    nbytes: int
    kept: RowsKept
    client: Client | None = None
    folder: str | None = None

    @property
    def notice(self) -> Notice:
        """Where the rows are kept."""
        return Notice.of(NoticeCode.LAZY_ROWS, size=self.nbytes, kept=self.kept, place=self.folder or "")

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
