"""A run: one engine, one budget, one list of pass records."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Reader, RowRange, RowRanges
from streamhalf.data.chunk_cache import release
from streamhalf.data.schema import working_dtype
from streamhalf.data.source import Source
from streamhalf.data.zarr_reader import ZarrReader, stored_rows
from streamhalf.engine.checkpoint import Checkpoint
from streamhalf.engine.job import Counted, Engine, Job, run_job
from streamhalf.engine.lazy import Keeping
from streamhalf.engine.plan import PassPlan, Tell, fan_in, remote_store_of, run_pass
from streamhalf.errors import DataError
from streamhalf.events import Answered, KernelsCompiled, Observer, PassEnded, RunEnded, ignore
from streamhalf.kernels.warm_up import warm_up
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.label_counts import LabelCounts
from streamhalf.results import PassRecord, RunRecord, Verdict

logger = logging.getLogger("streamhalf")


@dataclass(slots=True, eq=False)
class Run:
    """Runs passes one after the other and keeps their records.

    `listen` gives what is to hear of the tasks of a pass of this name and reduction, if anything.
    """

    engine: Engine
    memory_limit: int | str
    split_every: int
    observer: Observer
    checkpoint: Checkpoint | None = None
    listen: Callable[[str, Reduction[Any, Any]], Tell | None] | None = None
    passes: list[PassRecord] = field(default_factory=list)
    warm: bool = False
    """Whether the kernels were compiled or loaded."""
    seen: NDArray[np.int8] | None = None
    """Of each block whose parts may be read without their checksums: 1 if rows of it were read, 2
    if all of it was at once."""
    provenance: RunRecord | None = None
    verdict: Verdict | None = None
    answer: Answered | None = None
    in_parts: Source | None = None
    """The source whose blocks these are."""
    cache: str | None = None
    """Folder for what is fetched from afar and does not fit into memory."""
    keeping: Keeping | None = None
    """Where the rows of lazy arrays go."""
    near: Reader | None = None
    """What reads them once they are there."""
    kept: tuple[Reader, Source] | None = None
    """What reads a small store of many tiny chunks, and its rows."""
    spilled: str | None = None
    """The folder that they are in."""
    tokens: set[str] = field(default_factory=set)
    """Of the stores far away that were read."""

    def reduce(
        self,
        name: str,
        source: Source,
        reduction: Reduction[Any, Any],
        *,
        blocks: RowRanges | None = None,
        split_every: int | None = None,
        detail: str = "",
    ) -> Any:
        """One pass over `blocks` (all by default); returns the finalized result."""
        plan = PassPlan(
            name=name,
            source=source,
            reduction=reduction,
            blocks=source.blocks if blocks is None else blocks,
            split_every=split_every
            or fan_in(self.split_every, reduction.partial_nbytes(source.dim)),
            detail=detail,
            tell=None if self.listen is None else self.listen(name, reduction),
        )
        if (store := remote_store_of(source)) is not None:
            self.tokens.add(store.token)
        kept, ordinal = self.checkpoint, len(self.passes)
        if kept and (saved := kept.load(ordinal, name, reduction, source.dim)):
            counted, record = saved
            if counted.n_rows != plan.n_rows:
                raise DataError(
                    f"checkpoint: pass {name!r} holds {counted.n_rows} rows of {plan.n_rows}; "
                    "remove the folder and start anew"
                )
            self.passes.append(record)
            logger.info("pass %s: %d rows from the checkpoint", name, counted.n_rows)
            self.observer(PassEnded(record))
            return reduction.finalize(counted.partial)
        plan = self._near(plan)
        if plan.source.reader.defers_checks:
            self._note_parts(plan)
        self._warm_up(plan.source)
        result, record = run_pass(
            self.engine,
            plan,
            memory_limit=self.memory_limit,
            observer=self.observer,
            save=kept.save if kept else None,
            cache=self.cache,
        )
        self.passes.append(record)
        return result

    def _warm_up(self, source: Source) -> None:
        """Compile or load the kernels before the first pass, here and on every worker."""
        if self.warm:
            return
        self.warm, dtype = True, working_dtype(source.reader.features.dtype).name
        warm_up(dtype, lambda: self.observer(KernelsCompiled()))
        self.engine.everywhere(warm_up, dtype)

    def close(self) -> None:
        """Hold what was read in parts only against its checksums, then say how the run ended."""
        if self.in_parts is not None and self.seen is not None and (self.seen == 1).any():
            # not a pass of the run: what is computed is of no interest
            unchecked = RowRanges(self.in_parts.blocks.bounds[self.seen == 1])
            run_job(self.engine, self._checks(self.in_parts, unchecked), ignore)
        if self.answer is not None:
            self.observer(self.answer)
        if self.verdict is not None:
            self.observer(RunEnded(self.verdict))

    def forget(self) -> None:
        """Forget what was fetched, everywhere."""
        for token in self.tokens:
            self.engine.everywhere(release, token)
        if self.spilled is not None:
            shutil.rmtree(self.spilled, ignore_errors=True)

    def _near(self, plan: PassPlan) -> PassPlan:
        """The pass, over rows that were computed or gathered once where that is better."""
        if plan.source.has_tiny_chunks and not self.engine.remote:
            if self.kept is None or self.kept[0] is not plan.source.reader:
                self.kept = plan.source.reader, plan.source.kept()
            return replace(plan, source=self.kept[1])
        if self.keeping is None or plan.source.reader is not self.keeping.reader:
            return plan
        if self.near is None:
            self.near, self.spilled = self.keeping.compute()
            if isinstance(self.memory_limit, int):  # what is available has less of it already
                self.memory_limit -= self.keeping.nbytes
        return replace(plan, source=replace(plan.source, reader=self.near))

    def _note_parts(self, plan: PassPlan) -> None:
        self.in_parts, blocks = plan.source, plan.source.blocks
        pieces, homes = plan.source.pieces(plan.blocks)
        rows = np.bincount(homes, pieces.sizes, len(blocks))
        reader = plan.source.reader
        split = isinstance(reader, ZarrReader) and reader.splits_chunks
        whole = (rows == blocks.sizes) & (not split)
        seen = (rows > 0).astype(np.int8) + whole
        self.seen = seen if self.seen is None else np.maximum(self.seen, seen)

    def _checks(self, source: Source, unchecked: RowRanges) -> Job:
        """Blocks that are read whole; or chunks, if blocks are parts of them, in small pieces."""
        reader = source.reader
        if not isinstance(reader, ZarrReader) or not reader.splits_chunks:
            plan = PassPlan("checksums", source, LabelCounts(), unchecked, self.split_every)
            return plan.job_for(self.engine, memory_limit=self.memory_limit, cache=self.cache)
        step = stored_rows(reader.features)
        firsts = np.unique((unchecked.bounds - np.array([0, 1])) // step)[:, None] * step
        chunks = RowRanges(np.minimum(firsts + np.array([0, step]), source.n_rows))
        return Job("checksums", reader, tuple(chunks), tuple(chunks.sizes.tolist()), _check, _none)


def _check(reader: ZarrReader, rows: RowRange) -> Counted:
    reader.check(rows)
    return Counted(rows.n_rows, None)


def _none(context: Any, left: None, right: None) -> None:
    return None
