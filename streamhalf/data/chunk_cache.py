"""Per-process cache of objects fetched from remote stores: single-flight, in memory or a folder.

Passes read the same chunks in the same order again and again. A cache that evicts what was used
longest ago would keep nothing of a store larger than itself; here what came first stays, so that a
part of the store is fetched once and only the rest is fetched again.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from zarr.abc.store import ByteRequest

logger = logging.getLogger("streamhalf")
Content: TypeAlias = Any  # Fetched bytes: anything with a buffer; None where the object is absent or not as expected
Key: TypeAlias = "str | tuple[str, str]"  # An object of a store, or a range of its bytes
FETCHES_AT_ONCE = 16  # Enough to fill a line on which a request takes 40 ms before its first byte comes
_FIRST_NBYTES = 64 << 20  # kept before a pass has set its limits
_WORTH_FETCHING = 4  # an object of which a fourth is wanted is fetched whole
_SMALL_NBYTES = 64 << 10  # a sixteenth of the memory is for objects up to this size
_IDLE_SECONDS = 600.0  # after which the cache of a run that was killed is dropped


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes and requests that went over the network."""

    nbytes: int = 0
    requests: int = 0

    def __add__(self, other: Moved) -> Moved:
        return Moved(self.nbytes + other.nbytes, self.requests + other.requests)


NOTHING = Moved()


@dataclass(frozen=True, slots=True)
class CacheLimits:
    """Bytes of memory and the folder that a process may use; `alone` if no other reads the store.

    What one of several processes keeps in memory is of no use to the others.
    """

    nbytes: int = _FIRST_NBYTES
    folder: str | None = None
    alone: bool = True


def key_of(key: str, byte_range: ByteRequest | None) -> Key:
    """Return the key of an object or a range of it; Zarr's requests cannot be hashed in all versions."""
    return key if byte_range is None else (key, repr(byte_range))


class ChunkCache:
    """Cache of one opened store in one process; thread-safe.

    `has_ranges` is False once the server has sent a whole object for a part. `furthest` is for the
    engine: the pass that reads, and the first row of the last task that has begun here.
    """

    def __init__(self, token: str) -> None:
        self._token = token
        self._lock = threading.Lock()
        self._limits = CacheLimits()
        self._folder: str | None = None
        self._kept: dict[Key, Content] = {}
        self._coming: dict[Key, Future[Content]] = {}
        self._moved = NOTHING
        self._used = self._expected = 0
        self._folder_failed = self._closed = False
        self.last_used = time.monotonic()
        self.has_ranges = True
        self.furthest = "", -1

    def set_limits(self, limits: CacheLimits) -> None:
        """Keep as much as the limits allow from now on; what came last leaves memory first."""
        leaving: list[tuple[Key, Content]] = []
        with self._lock:
            self.last_used = time.monotonic()
            self._limits = limits
            self._folder = None if limits.folder is None else os.path.join(limits.folder, f"streamhalf-{self._token}")
            while self._used > limits.nbytes:
                key, content = self._kept.popitem()
                self._used -= len(content)
                leaving.append((key, content))
        for key, content in leaving:
            self._keep_in_folder(key, content)

    def wants_whole(self, nbytes: int, wanted: int) -> bool:
        """Return True if an object should be fetched whole although only a part is wanted."""
        with self._lock:
            if self._folder is not None and not self._folder_failed:
                return True
            pays = self._limits.alone or wanted * _WORTH_FETCHING >= nbytes
            return pays and self._used + self._expected + nbytes <= self._room(nbytes)

    def _room(self, nbytes: int) -> int:
        """Return the bytes of memory for objects of this size."""
        total = self._limits.nbytes
        return total - total // 16 if nbytes > _SMALL_NBYTES else total

    def holds(self, key: Key) -> bool:
        """Return True if an object is here or on its way."""
        with self._lock:
            return key in self._kept or key in self._coming or self._file(key) is not None

    def begin(self, key: Key, fetch: Callable[[], Content], expected: int = 0) -> Future[Content]:
        """Start to fetch an object of an `expected` size, unless it is here or on its way."""
        with self._lock:
            self.last_used = time.monotonic()
            if (found := self._coming.get(key)) is not None:
                return found
            if key in self._kept:
                here: Future[Content] = Future()
                here.set_result(self._kept[key])
                return here
            self._expected += expected
            begun = self._coming[key] = _pool().submit(self._bring, key, fetch, expected)
            return begun

    def end(self, key: Key, begun: Future[Content]) -> None:
        """Let go of a fetched object: its reader has it now, or will try again."""
        with self._lock:
            if self._coming.get(key) is begun:
                del self._coming[key]

    def take(self, key: Key, fetch: Callable[[], Content], expected: int = 0) -> Content:
        """Return an object, fetched unless it is here."""
        begun = self.begin(key, fetch, expected)
        try:
            return begun.result()
        finally:
            self.end(key, begun)

    def drain(self) -> Moved:
        """Return what went over the network since the last call."""
        with self._lock:
            moved, self._moved = self._moved, NOTHING
            return moved

    def clear(self) -> None:
        """Drop everything, in memory and in the folder, and keep nothing that is on its way."""
        with self._lock:
            self._closed = True
            self._kept.clear()
            self._coming.clear()
            self._used = 0
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)

    def _bring(self, key: Key, fetch: Callable[[], Content], expected: int) -> Content:
        """Return the content from the folder or the network; keep it where there is room."""
        content, file = None, None
        try:
            with self._lock:
                file = self._file(key)
            if file is not None:
                with open(file, "rb") as stream:
                    return stream.read()
            content = fetch()
        finally:
            with self._lock:
                self._expected -= expected
                if file is None:
                    self._moved += Moved(0 if content is None else len(content), 1)
        if content is not None:
            self._keep(key, content)
        return content

    def _keep(self, key: Key, content: Content) -> None:
        with self._lock:
            if self._closed:
                return
            if fits := self._used + len(content) <= self._room(len(content)):
                self._used += len(content)
                self._kept[key] = content
        if not (fits and self._limits.alone):
            self._keep_in_folder(key, content)

    def _keep_in_folder(self, key: Key, content: Content) -> None:
        """Write an object to the folder, where all processes of this machine find it."""
        if (folder := self._folder) is None or self._folder_failed:
            return
        try:
            os.makedirs(folder, exist_ok=True)
            _write(os.path.join(folder, _file_name(key)), content)
        except OSError as error:  # most likely full: a run can do without
            if not self._closed:
                logger.warning("cache: %s is used no more: %s", os.path.dirname(folder), error.strerror)
            self._folder_failed = True
        if self._closed:  # cleared meanwhile
            shutil.rmtree(folder, ignore_errors=True)

    def _file(self, key: Key) -> str | None:
        path = None if self._folder is None else os.path.join(self._folder, _file_name(key))
        return path if path is not None and os.path.exists(path) else None


_caches: dict[str, ChunkCache] = {}
_registering = threading.Lock()


def cache_of(token: str) -> ChunkCache:
    """Return this process's cache of an opened store."""
    with _registering:
        if token not in _caches:
            now = time.monotonic()
            for other, found in list(_caches.items()):
                if now - found.last_used > _IDLE_SECONDS:
                    _caches.pop(other).clear()
            _caches[token] = ChunkCache(token)
        return _caches[token]


def release(token: str) -> None:
    """Drop this process's cache of an opened store."""
    with _registering:
        found = _caches.pop(token, None)
    if found is not None:
        found.clear()


def _file_name(key: Key) -> str:
    return hashlib.sha256(repr(key).encode()).hexdigest()


def _write(path: str, content: Content) -> None:
    """Write a file that appears whole; it need not outlive the machine's next start."""
    temporary = f"{path}.{os.getpid()}-{threading.get_ident()}"
    try:
        with open(temporary, "wb") as stream:
            stream.write(content)
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


@cache
def _pool() -> ThreadPoolExecutor:
    """Return the threads of this process that wait for the network."""
    return ThreadPoolExecutor(FETCHES_AT_ONCE, thread_name_prefix="streamhalf-fetch")
