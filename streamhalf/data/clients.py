"""Dask clients: the one that holds persisted chunks, and the active one."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

from dask.base import compute

from streamhalf.errors import DataError, UsageError

if TYPE_CHECKING:
    from distributed import Client


def holding_client(*arrays: Any) -> Client | None:
    """Return the client whose cluster holds chunks of persisted collections, if any."""
    distributed: Any = sys.modules.get("distributed")  # imported by any user of a client
    if distributed is None:
        return None
    try:
        futures = distributed.futures_of(arrays)
    except Exception as error:  # CancelledError, of one kind or another
        raise DataError(
            "data: persisted chunks are gone (their client was closed, or they were cancelled); persist the data again"
        ) from error
    if not futures:
        return None
    client: Client = futures[0].client
    if client.status == "closed":
        raise DataError("data: persisted on a cluster whose client is closed; persist them again")
    return waitable(client)


def compute_on(client: Client | None, *arrays: Any) -> tuple[Any, ...]:
    """Compute lazy arrays on a client's cluster, or where Dask would by default."""
    with warnings.catch_warnings():
        # arrays in memory travel with the graph, and there is nothing to be done about it here
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        found: tuple[Any, ...] = compute(*arrays, scheduler=client)
    return found


def active_client() -> Client | None:
    """Return the client that Dask would use; None inside a task, which may not wait."""
    distributed: Any = sys.modules.get("distributed")
    if distributed is None or _in_task(distributed):
        return None
    try:
        client: Client = distributed.Client.current()
    except ValueError:
        return None
    return waitable(client) if client.status == "running" else None


def waitable(client: Client) -> Client:
    """Return the client; refuse an asynchronous one, whose event loop must not be blocked."""
    if client.asynchronous:
        raise UsageError(
            "client: it is asynchronous and this is its event loop, which must not be blocked; "
            "write `await streamhalf.fit(..., wait=False)` or `await asyncio.to_thread(...)`, or "
            "give a synchronous client"
        )
    return client


def here() -> str:
    """Name this process: by its address, if it is a worker."""
    distributed: Any = sys.modules.get("distributed")
    if distributed is None or not _in_task(distributed):
        return "this process"
    return f"worker {distributed.get_worker().address}"


def _in_task(distributed: Any) -> bool:
    try:
        distributed.get_worker()
    except ValueError:
        return False
    return True
