"""A proxy in front of an HTTP server that can refuse, stall and answer with errors, on demand."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from tests.waiting import PATIENCE

_ERROR = b"HTTP/1.1 %d Fault\r\nContent-Type: application/xml\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b"
_CODES = {403: "AccessDenied", 404: "NoSuchKey", 500: "InternalError", 503: "SlowDown"}
_QUANTUM = 1 << 16


class FaultProxy:
    """Forwards bytes to a port of loopback; each fault lasts for a time, once a request meets it.

    Every connection carries one request and is closed after it, so that a fault meets each
    request and not only the first of a connection that is kept.
    """

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self.port = 0
        self.faults: list[str] = []
        self._fault, self._seconds, self._about = "", 0.0, ""
        self._until: float | None = None
        self._stop: Callable[[], Any] = lambda: None

    def fail(self, fault: str, *, seconds: float, about: str = "") -> None:
        """Begin a fault: refuse, stall, or a status code; only for request lines with `about`.

        Its time begins with the first request that meets it, however long a busy machine takes.
        """
        self._seconds, self._about, self._until = seconds, about, None
        self._fault = fault

    def _failing(self, line: str = "") -> str:
        if not self._fault or self._about not in line:
            return ""
        if self._until is None:
            self._until = time.monotonic() + self._seconds
        return self._fault if time.monotonic() < self._until else ""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._fault == "refuse" and self._failing():
            self.faults.append("refuse")
            self._reset(writer)
            return
        head = await reader.readuntil(b"\r\n\r\n")
        line, _, rest = head.partition(b"\r\n")
        fault = self._failing(line.decode())
        if fault:
            self.faults.append(fault)
        if fault == "stall":
            await asyncio.sleep(max(0.0, (self._until or 0.0) - time.monotonic()))
            return  # closed without an answer, as by a server that was restarted
        if fault.isdigit():
            body = f"<Error><Code>{_CODES[int(fault)]}</Code></Error>".encode()
            said = b"" if line.startswith(b"HEAD") else body  # an answer to HEAD has no body
            writer.write(_ERROR % (int(fault), len(body), said))
            await writer.drain()
            return
        upstream, down = await asyncio.open_connection("127.0.0.1", self.target_port)
        try:
            down.write(line + b"\r\nConnection: close\r\n" + rest)
            copies = (_copy(reader, down), _copy(upstream, writer))
            tasks = [asyncio.ensure_future(copy) for copy in copies]
            await tasks[1]  # the server closes when it has answered
            tasks[0].cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            down.close()

    @staticmethod
    def _reset(writer: asyncio.StreamWriter) -> None:
        sock = writer.get_extra_info("socket")
        linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"  # closing sends RST, as a closed port does
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    async def run(self, started: threading.Event) -> None:
        """Serve until stopped."""
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        self._stop = lambda: loop.call_soon_threadsafe(stopped.set)
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        await stopped.wait()
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def stop(self) -> None:
        """End serving."""
        self._stop()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while content := await reader.read(_QUANTUM):
            writer.write(content)
            await writer.drain()


@contextlib.contextmanager
def open_proxy(target_port: int) -> Iterator[FaultProxy]:
    """A proxy in a thread of its own."""
    proxy, started = FaultProxy(target_port), threading.Event()

    def serve(work: Coroutine[Any, Any, None]) -> None:
        asyncio.run(work)

    thread = threading.Thread(target=serve, args=(proxy.run(started),), daemon=True)
    thread.start()
    assert started.wait(PATIENCE)
    try:
        yield proxy
    finally:
        proxy.stop()
        thread.join(PATIENCE)
