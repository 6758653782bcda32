"""A line to a server on loopback that is slow to answer, and counts what goes over it."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_QUANTUM = 1 << 18
_METHODS = ("GET", "HEAD", "other")


@dataclass(frozen=True, slots=True)
class SlowLine:
    """Where the line begins, and what went over it: requests by method, and bytes of answers."""

    port: int
    counts: Any

    def reset(self) -> None:
        """Count from here."""
        for place in range(len(self.counts)):
            self.counts[place] = 0

    @property
    def requests(self) -> dict[str, int]:
        """How many requests of each method went over it."""
        return dict(zip(_METHODS, self.counts, strict=False))

    @property
    def nbytes(self) -> int:
        """Bytes of all answers."""
        return int(self.counts[len(_METHODS)])


@contextlib.contextmanager
def open_line(port: int, *, delay: float = 0.0, rate: float | None = None) -> Iterator[SlowLine]:
    """A line in a process of its own: `delay` seconds a request, `rate` bytes/s a connection."""
    spawn = multiprocessing.get_context("spawn")
    counts, ready = spawn.Array("q", len(_METHODS) + 1), spawn.Queue()
    process = spawn.Process(target=_run, args=(port, delay, rate, counts, ready), daemon=True)
    process.start()
    try:
        yield SlowLine(ready.get(timeout=60), counts)
    finally:
        process.terminate()
        process.join()


def _run(port: int, delay: float, rate: float | None, counts: Any, ready: Any) -> None:
    async def serve() -> None:
        async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await _connect(reader, writer, port, delay, rate, counts)

        server = await asyncio.start_server(connect, "127.0.0.1", 0, limit=_QUANTUM)
        ready.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


async def _connect(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, delay: float, rate: float | None, counts: Any
) -> None:
    """Carry requests without a body one way and answers the other."""
    answers, server = await asyncio.open_connection("127.0.0.1", port, limit=_QUANTUM)
    back = asyncio.ensure_future(_carry(answers, writer, rate, counts))
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            method = head.partition(b" ")[0].decode()
            counts[_METHODS.index(method) if method in _METHODS else 2] += 1
            await asyncio.sleep(delay)
            server.write(head)
            await server.drain()
    back.cancel()
    server.close()
    writer.close()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rate: float | None, counts: Any) -> None:
    """Carry answers, no faster than the line."""
    free = time.monotonic()
    with contextlib.suppress(ConnectionError):
        while content := await reader.read(_QUANTUM):
            counts[len(_METHODS)] += len(content)
            if rate is not None:
                free = max(free, time.monotonic()) + len(content) / rate
                await asyncio.sleep(max(0.0, free - time.monotonic()))
            writer.write(content)
            await writer.drain()
    writer.close()
