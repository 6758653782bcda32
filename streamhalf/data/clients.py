"""Which Dask client holds persisted chunks, which one is active, and that it can be waited for."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

from dask.base import compute

from streamhalf.errors import DataError, UsageError

if TYPE_CHECKING:
    from distributed import Client


def holding_client(*arrays: Any) -> Client | None:
    """The client whose cluster holds chunks of persisted collections; None where none does."""
    distributed: Any = sys.modules.get("distributed")  # whoever has a client has imported it
    if distributed is None:
        return None
    try:
        futures = distributed.futures_of(arrays)
    except Exception as error:  # CancelledError, of one kind or another
        raise DataError(
            "data: persisted chunks are gone (their client was closed, or they were cancelled); "
            "persist the data again"
        ) from error
    if not futures:
        return None
    client: Client = futures[0].client
    if client.status == "closed":
        raise DataError("data: persisted on a cluster whose client is closed; persist them again")
    return waitable(client)


def compute_on(client: Client | None, *arrays: Any) -> tuple[Any, ...]:
    """Values of lazy arrays, on a client's cluster or where Dask would have them computed."""
    with warnings.catch_warnings():
        # arrays in memory travel with the graph, and there is nothing to be done about it here
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        found: tuple[Any, ...] = compute(*arrays, scheduler=client)
    return found


def active_client() -> Client | None:
    """The client that Dask's own functions would use; None inside a task, which may not wait."""
    distributed: Any = sys.modules.get("distributed")
    if distributed is None or _in_task(distributed):
        return None
    try:
        client: Client = distributed.Client.current()
    except ValueError:
        return None
    return waitable(client) if client.status == "running" else None


def waitable(client: Client) -> Client:
    """The client, refused where nobody could wait for it: asynchronous, in its own event loop."""
    if client.asynchronous:
        raise UsageError(
            "client: it is asynchronous and this is its event loop, which must not be blocked; "
            "write `await streamhalf.fit(..., wait=False)` or `await asyncio.to_thread(...)`, or "
            "give a synchronous client"
        )
    return client


def here() -> str:
    """Words for the process that runs: the address of a worker, if it is one."""
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
