"""Where a run runs, and which settings come from Dask's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dask.config

from streamhalf.config import AUTO, RunConfig, check_names, read_settings
from streamhalf.data.arrays import DaskReader
from streamhalf.data.clients import active_client, waitable
from streamhalf.data.source import Source
from streamhalf.engine.cluster import ClusterEngine
from streamhalf.engine.job import Engine
from streamhalf.errors import UsageError
from streamhalf.results import Notice, NoticeCode

if TYPE_CHECKING:
    from distributed import Client

_SECTION = "streamhalf"
_WHERE = "the section `streamhalf` of Dask's configuration"

_WORDS = {
    "threads": "threads",
    "threading": "threads",
    "sync": "serial",
    "synchronous": "serial",
    "single-threaded": "serial",
    "processes": "processes",
    "multiprocessing": "processes",
}
"""What Dask's own setting `scheduler` says, in our words."""


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """Where a run runs; `notice` says so where nobody named it for this run."""

    target: str | Client
    notice: Notice | None = None

    @property
    def name(self) -> str:
        """The word or the address."""
        if isinstance(self.target, str):
            return self.target
        return str(self.target.scheduler_info(n_workers=0)["address"])

    def notices(self) -> tuple[Notice, ...]:
        """What is to be said of it."""
        return () if self.notice is None else (self.notice,)


def choose(scheduler: str, client: Client | None = None, source: Source | None = None) -> Chosen:
    """Where a run runs.

    Parameters
    ----------
    scheduler
        The setting; what it names is taken. With "auto", in this order: the cluster that holds
        persisted data, what Dask's setting `scheduler` names, the active client, Dask's setting
        `scheduler-address`, threads.
    client
        Goes before everything.
    source
        The data, which may be persisted.
    """
    if client is not None:
        return Chosen(waitable(client))
    if scheduler != AUTO:
        return Chosen(scheduler)
    if (held := _holder(source)) is not None:
        return Chosen(held, _runs_on(held, "which holds the data"))
    word = dask.config.get("scheduler", None)
    if isinstance(word, str) and word.lower() in _WORDS:
        return Chosen(_WORDS[word.lower()])
    if (active := active_client()) is not None:
        return Chosen(active, _runs_on(active, "the active client"))
    if address := dask.config.get("scheduler-address", None):
        why = "named by Dask's scheduler-address"
        return Chosen(address, Notice.of(NoticeCode.RUNS_ON, place=str(address), why=why))
    return Chosen("threads")


def dask_settings() -> dict[str, Any]:
    """Settings in the section `streamhalf` of Dask's configuration."""
    section = dask.config.get(_SECTION, None)
    if section is None:
        return {}
    if not isinstance(section, Mapping):
        raise UsageError(f"{_WHERE}: expected 'name: value' lines, got {type(section).__name__}")
    given = {str(name).replace("-", "_"): value for name, value in section.items()}
    check_names(given, RunConfig.names(), _WHERE)
    return read_settings(given)


def _runs_on(client: Client, why: str) -> Notice:
    address = client.scheduler_info(n_workers=0)["address"]
    return Notice.of(NoticeCode.RUNS_ON, place=address, why=why)


def refuse_elsewhere(engine: Engine, source: Source | None) -> None:
    """Refuse to run on one cluster what another one holds."""
    held = _holder(source)
    if held is None or not isinstance(engine, ClusterEngine) or held is engine.client:
        return
    theirs, ours = (one.scheduler_info(n_workers=0) for one in (held, engine.client))
    if theirs["id"] != ours["id"]:
        raise UsageError(
            f"scheduler: the run is on {ours['address']}, but the data are persisted on "
            f"{theirs['address']}; leave client= and scheduler= out, or persist the data there"
        )


def _holder(source: Source | None) -> Client | None:
    """The client of the cluster that holds the data, if they are persisted."""
    reader = None if source is None else source.reader
    return reader.client if isinstance(reader, DaskReader) else None
