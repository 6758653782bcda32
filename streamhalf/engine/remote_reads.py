"""Passes over rows that are far away: what may be kept, what is fetched ahead, what has moved."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from streamhalf.data.block import Block, RowRanges
from streamhalf.data.chunk_cache import Moved, Terms, chunk_cache_of, release
from streamhalf.data.remote_store import FarStore
from streamhalf.data.source import Source
from streamhalf.data.zarr_reader import ZarrReader
from streamhalf.engine.job import Engine

_FOLLOWED = 2
"""On more processes than these nobody knows which task comes next in a process."""


@dataclass(frozen=True, slots=True)
class FarReads:
    """How the tasks of a pass read a store that is far away.

    Parameters
    ----------
    token
        Of the store.
    terms
        What each process may keep.
    lead
        How many tasks further on the next one of a thread is; 0 where that is not known.
    of_pass
        Names the pass.
    """

    token: str
    terms: Terms
    lead: int
    of_pass: str

    def enter(self, item: tuple[RowRanges, RowRanges | None]) -> Any:
        """Have this process keep what it may; the item of a task that begins, for it to read.

        Without what follows where that has begun already: nobody would take it.
        """
        chunk_cache, (rows, following) = chunk_cache_of(self.token), item
        chunk_cache.settle(self.terms)
        chunk_cache.enter(self.of_pass, rows.span.start)
        begun = following and chunk_cache.has_entered(self.of_pass, following.span.start)
        return (rows, None) if begun else item

    def moved(self) -> Moved:
        """What came over the network in this process since this was asked last."""
        return chunk_cache_of(self.token).drain()

    def items(self, tasks: tuple[RowRanges, ...]) -> tuple[Any, ...]:
        """Tasks, each with the one that follows it in its thread."""
        following = tasks[self.lead :] if self.lead else ()
        return tuple(zip_longest(tasks, following))


@dataclass(frozen=True, slots=True, eq=False)
class FarRows:
    """Reads the rows of a task, and has those of the next one fetched meanwhile."""

    source: Source

    def __call__(self, item: tuple[RowRanges, RowRanges | None]) -> Iterable[Block]:
        """The blocks of one task."""
        rows, following = item
        return self.source.read_each(rows, following)


def far_store(source: Source) -> FarStore | None:
    """The store of a source, where it is far away."""
    return source.reader.far if isinstance(source.reader, ZarrReader) else None


def far_reads(
    source: Source,
    engine: Engine,
    *,
    n_tasks: int,
    at_once: int,
    kept: int,
    folder: str | None,
) -> FarReads | None:
    """How a pass reads its store, if that is far away.

    A process works on `at_once` tasks, and keeps so many bytes.
    """
    if (store := far_store(source)) is None:
        return None
    n_processes = engine.n_processes
    alone = n_processes == 1
    fits = source.n_rows * source.row_nbytes <= kept
    followed = alone or (n_processes <= _FOLLOWED and fits)
    lead = min(n_tasks, at_once * n_processes) if followed else 0
    return FarReads(store.token, Terms(kept, folder, alone), lead, uuid.uuid4().hex)


def forget(engine: Engine, tokens: Iterable[str]) -> None:
    """Have all processes of an engine forget what they fetched."""
    for token in tokens:
        engine.everywhere(release, token)
