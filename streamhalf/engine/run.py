"""A run: one engine, one budget, one list of pass records."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from streamhalf.data.block import Reader, RowRange, RowRanges
from streamhalf.data.source import Source
from streamhalf.engine.checkpoint import Checkpoint
from streamhalf.engine.far import far_store, forget
from streamhalf.engine.job import Engine, run_job
from streamhalf.engine.lazy import Keeping
from streamhalf.engine.plan import PassPlan, Tell, run_pass
from streamhalf.errors import DataError
from streamhalf.events import Answered, Observer, PassEnded, RunEnded, ignore
from streamhalf.records import PassRecord, Verdict
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.label_counts import LabelCounts

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
    checked: dict[RowRange, bool] = field(default_factory=dict)
    """Blocks whose parts may be read without their checksums: whether they were read whole too."""
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
            blocks=RowRanges.of(source.blocks) if blocks is None else blocks,
            split_every=split_every or self.split_every,
            detail=detail,
            tell=None if self.listen is None else self.listen(name, reduction),
        )
        if (far := far_store(source)) is not None:
            self.tokens.add(far.token)
        if source.reader.defers_checks:
            self._note_parts(plan)
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
        result, record = run_pass(
            self.engine,
            self._near(plan),
            memory_limit=self.memory_limit,
            observer=self.observer,
            save=kept.save if kept else None,
            cache=self.cache,
        )
        self.passes.append(record)
        return result

    def close(self) -> None:
        """Hold what was read in parts only against its checksums, then say how the run ended."""
        unchecked = RowRanges.of(sorted(rows for rows, whole in self.checked.items() if not whole))
        if unchecked and self.in_parts is not None:
            # not a pass of the run: what is computed is of no interest
            plan = PassPlan("checksums", self.in_parts, LabelCounts(), unchecked, self.split_every)
            job = plan.job_for(self.engine, memory_limit=self.memory_limit, cache=self.cache)
            run_job(self.engine, job, ignore)
        if self.answer is not None:
            self.observer(self.answer)
        if self.verdict is not None:
            self.observer(RunEnded(self.verdict))

    def forget(self) -> None:
        """Forget what was fetched, everywhere."""
        forget(self.engine, self.tokens)
        if self.spilled is not None:
            shutil.rmtree(self.spilled, ignore_errors=True)

    def _near(self, plan: PassPlan) -> PassPlan:
        """The pass, over rows that were computed once if they were lazy."""
        if self.keeping is None or plan.source.reader is not self.keeping.reader:
            return plan
        if self.near is None:
            self.near, self.spilled = self.keeping.compute()
            if isinstance(self.memory_limit, int):  # what is available has less of it already
                self.memory_limit -= self.keeping.nbytes
        return replace(plan, source=replace(plan.source, reader=self.near))

    def _note_parts(self, plan: PassPlan) -> None:
        self.in_parts = plan.source
        for block, rows in plan.source.reads(plan.blocks):
            whole = len(rows) == 1 and rows.n_rows == block.n_rows
            self.checked[block] = whole or self.checked.get(block, False)
