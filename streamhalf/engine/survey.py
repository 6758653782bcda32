"""The survey of a dry run: every process that would work reads one block of rows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streamhalf.data.arrays import ArrayReader, DaskReader, PieceReader
from streamhalf.data.block import Block, RowRange, RowRanges
from streamhalf.data.source import Source
from streamhalf.engine.cluster import ClusterEngine
from streamhalf.engine.job import Engine, run_job
from streamhalf.engine.plan import PassPlan
from streamhalf.errors import DataError, StreamhalfError
from streamhalf.events import ignore
from streamhalf.redact import one_line
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.labels import LabelCounts
from streamhalf.results import WorkerRecord, installed_versions

_TRIED_ROWS = 1 << 15  # enough to time a statistic


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """The blocks that processes read one of each, and the statistics that are timed on its rows."""

    source: Source
    reductions: Mapping[str, Reduction[Any, Any]]

    def of(self, engine: Engine) -> tuple[WorkerRecord, ...]:
        """Return what the processes of an engine found, in the order of their addresses."""
        if isinstance(engine, ClusterEngine):
            return self._of_cluster(engine)
        return (self.look("this process", engine.n_threads, None, self.source.blocks[0]),)

    def look(self, address: str, n_threads: int, memory_nbytes: int | None, rows: RowRange | None) -> WorkerRecord:
        """Read rows in this process, and time the statistics on them."""
        started = time.perf_counter()
        blocks = [] if rows is None else list(self.source.read_each(RowRanges.of((rows,))))
        seconds, n_rows = time.perf_counter() - started, sum(block.n_rows for block in blocks)
        return WorkerRecord(
            address=address,
            n_threads=n_threads,
            memory_nbytes=memory_nbytes,
            versions=installed_versions(),
            rows_read=n_rows,
            bytes_read=n_rows * self.source.row_nbytes,
            seconds=seconds,
            work={name: _seconds_a_row(one, blocks) for name, one in self.reductions.items()},
        )

    def _of_cluster(self, engine: ClusterEngine) -> tuple[WorkerRecord, ...]:
        limits = {one.address: one.room for one in engine.worker_limits()}
        found = engine.client.scheduler_info(n_workers=-1)["workers"]
        threads = {address: int(worker["nthreads"]) for address, worker in sorted(found.items())}
        blocks: dict[str, RowRange | None] = dict.fromkeys(threads)
        survey, own = self, self.source.blocks
        if isinstance(self.source.reader, DaskReader | ArrayReader):
            # rows come by a graph: persisted ones may not travel, and those in memory need not
            plan = PassPlan("dry-run", self.source, LabelCounts(), RowRanges.of((own[0],)))
            run_job(engine, plan.job_for(engine), ignore)
            survey = replace(self, source=replace(self.source, reader=PieceReader()))
        else:
            blocks = {one: own[i % len(own)] for i, one in enumerate(threads)}

        async def look(dask_worker: Any) -> WorkerRecord:  # the worker's event loop goes on
            one = dask_worker.address
            known = (threads.get(one, 1), limits.get(one), blocks.get(one))
            return await asyncio.to_thread(survey.look, one, *known)

        answers = engine.client.run(look, workers=list(threads), on_error="return")
        for worker, answer in sorted(answers.items()):
            if isinstance(answer, StreamhalfError):
                raise DataError(f"worker {worker}: {answer}") from answer
            if isinstance(answer, BaseException):
                raise DataError(
                    f"worker {worker} cannot read rows of {self.source.name}: {one_line(answer)}"
                ) from answer
        return tuple(answers[worker] for worker in sorted(answers))


def _seconds_a_row(reduction: Reduction[Any, Any], blocks: list[Block]) -> float:
    """Time a statistic; 0 where there are no rows."""
    rows = [block.take(np.arange(min(_TRIED_ROWS, block.n_rows))) for block in blocks[:1]]
    if not rows or not rows[0].n_rows:
        return 0.0
    started = time.perf_counter()
    reduction.map(rows[0])
    return (time.perf_counter() - started) / rows[0].n_rows
