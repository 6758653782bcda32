"""A run: one engine, one budget, one list of pass records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from streamhalf.data.block import RowRange
from streamhalf.data.source import Source
from streamhalf.engine.checkpoint import Checkpoint
from streamhalf.engine.job import Engine
from streamhalf.engine.plan import PassPlan, Tell, run_pass
from streamhalf.errors import DataError
from streamhalf.events import Observer, PassEnded
from streamhalf.records import PassRecord
from streamhalf.reductions.base import Reduction


@dataclass(slots=True, eq=False)
class Run:
    """Runs passes one after the other and keeps their records.

    `listen` gives what is to hear of the tasks of a pass of this name and reduction, if anything.
    """

    engine: Engine
    memory_limit: int
    split_every: int
    observer: Observer
    checkpoint: Checkpoint | None = None
    listen: Callable[[str, Reduction[Any, Any]], Tell | None] | None = None
    passes: list[PassRecord] = field(default_factory=list)

    def reduce(
        self,
        name: str,
        source: Source,
        reduction: Reduction[Any, Any],
        *,
        blocks: tuple[RowRange, ...] | None = None,
        split_every: int | None = None,
        detail: str = "",
        count_accepted: Callable[[Any], int] | None = None,
    ) -> Any:
        """One pass over `blocks` (all by default); returns the finalized result."""
        plan = PassPlan(
            name=name,
            source=source,
            reduction=reduction,
            blocks=source.blocks if blocks is None else blocks,
            split_every=split_every or self.split_every,
            detail=detail,
            tell=None if self.listen is None else self.listen(name, reduction),
        )
        if self.checkpoint is not None:
            template = reduction.empty(source.dim)
            if saved := self.checkpoint.load(len(self.passes), name, template):
                counted, record = saved
                if counted.n_rows != plan.n_rows:
                    raise DataError(
                        f"checkpoint: pass {name!r} holds {counted.n_rows} rows of {plan.n_rows}; "
                        "remove the folder and start anew"
                    )
                self.passes.append(record)
                self.observer(PassEnded(record))
                return reduction.finalize(counted.partial)
        result, record = run_pass(
            self.engine,
            plan,
            memory_limit=self.memory_limit,
            observer=self.observer,
            count_accepted=count_accepted,
            save=None if self.checkpoint is None else self.checkpoint.save,
        )
        self.passes.append(record)
        return result
