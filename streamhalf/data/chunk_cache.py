"""What a process has fetched from afar in a run: kept while it fits, fetched by one at a time.

Passes read the same chunks in the same order again and again. A cache that throws out what was used
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
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeAlias

from zarr.abc.store import ByteRequest

logger = logging.getLogger("streamhalf")

Content: TypeAlias = Any
"""Bytes that were fetched, as anything with a buffer."""

Key: TypeAlias = "str | tuple[str, ByteRequest]"
"""An object below a store, or a range of its bytes."""

FETCHES_AT_ONCE = 16
"""Enough to fill a line on which a request takes 40 ms before its first byte comes."""

_FIRST_NBYTES = 64 << 20
"""What is kept before a run has said how much may be."""

_PAYS = 4
"""Of an object of which a fourth is wanted all is fetched: it will be wanted again."""

_SMALL_NBYTES = 64 << 10
"""Of the memory a sixteenth is for objects up to this size: the indexes of shards, and the like."""

_IDLE_SECONDS = 600.0
"""A chunk_cache of another run that nobody used for so long is one whose run was killed."""


@dataclass(frozen=True, slots=True)
class Moved:
    """What came over the network."""

    nbytes: int = 0
    requests: int = 0

    def __add__(self, other: Moved) -> Moved:
        return Moved(self.nbytes + other.nbytes, self.requests + other.requests)


NOTHING = Moved()


@dataclass(frozen=True, slots=True)
class Terms:
    """How much a process may keep, and where.

    Parameters
    ----------
    nbytes
        Of memory.
    folder
        For what memory has no room for, if there is one.
    alone
        Whether no other process reads the store: what one keeps in memory is of no use to another.
    """

    nbytes: int = _FIRST_NBYTES
    folder: str | None = None
    alone: bool = True


class ChunkCache:
    """What one process has fetched of one store that was opened; safe for threads.

    Attributes
    ----------
    has_ranges
        Whether the server gives parts of objects, for all that is known.
    """

    def __init__(self, token: str) -> None:
        self._token = token
        self._lock = threading.Lock()
        self._terms = Terms()
        self._kept: dict[Key, Content] = {}
        self._coming: dict[Key, Future[Content]] = {}
        self._checked: set[Key] = set()
        self._moved = Moved()
        self._used = self._expected = 0
        self._folder_failed = self._closed = False
        self._entered: tuple[str, set[int]] = ("", set())
        self.last_used = time.monotonic()
        self.has_ranges = True

    def settle(self, terms: Terms) -> None:
        """Keep as much as the terms allow from now on; what came last leaves memory first."""
        leaving: list[tuple[Key, Content]] = []
        with self._lock:
            self.last_used = time.monotonic()
            self._terms = replace(terms, folder=None) if self._folder_failed else terms
            while self._used > terms.nbytes:
                key, content = self._kept.popitem()
                self._used -= len(content)
                self._checked.discard(key)
                leaving.append((key, content))
        for key, content in leaving:
            self._keep_in_folder(key, content)

    def enter(self, of_pass: str, task: int) -> None:
        """A task of a pass begins in this process."""
        with self._lock:
            if self._entered[0] != of_pass:
                self._entered = (of_pass, set())
            self._entered[1].add(task)

    def has_entered(self, of_pass: str, task: int) -> bool:
        """Whether a task has begun here: what it reads need not be fetched ahead any more."""
        with self._lock:
            return self._entered[0] == of_pass and task in self._entered[1]

    def wants_whole(self, nbytes: int, wanted: int) -> bool:
        """Whether an object of which a part is wanted is to be fetched whole, and kept."""
        with self._lock:
            terms = self._terms
            pays = terms.alone or terms.folder is not None or wanted * _PAYS >= nbytes
            has_room = self._used + self._expected + nbytes <= self._room
            return pays and (has_room or terms.folder is not None)

    @property
    def _room(self) -> int:
        """Bytes for objects that are not small."""
        return self._terms.nbytes - self._terms.nbytes // 16

    def holds(self, key: Key) -> bool:
        """Whether something is here, or on its way."""
        with self._lock:
            return key in self._kept or key in self._coming or self._file(key) is not None

    def begin(self, key: Key, fetch: Callable[[], Content], expected: int = 0) -> Future[Content]:
        """Have something fetched, unless it is here or on its way."""
        with self._lock:
            self.last_used = time.monotonic()
            if (found := self._coming.get(key)) is not None:
                return found
            if key in self._kept:
                here: Future[Content] = Future()
                here.set_result(self._kept[key])
                return here
            self._expected += expected
            begun = self._coming[key] = _baselines().submit(self._bring, key, fetch, expected)
            return begun

    def end(self, key: Key, begun: Future[Content]) -> None:
        """Let go of what was fetched for somebody who has it now, or who will try again."""
        with self._lock:
            if self._coming.get(key) is begun:
                del self._coming[key]

    def take(self, key: Key, fetch: Callable[[], Content], expected: int = 0) -> Content:
        """Something that was fetched, or is now."""
        begun = self.begin(key, fetch, expected)
        try:
            return begun.result()
        finally:
            self.end(key, begun)

    def is_checked(self, key: Key) -> bool:
        """Whether something in memory was held against its checksum."""
        with self._lock:
            return key in self._checked

    def note_checked(self, key: Key) -> None:
        """Something fits its checksum; as long as it is in memory, it need not be held again."""
        with self._lock:
            if key in self._kept:
                self._checked.add(key)

    def drop(self, key: Key) -> None:
        """Forget something that is not as it should be."""
        with self._lock:
            self._used -= len(self._kept.pop(key, b""))
            self._checked.discard(key)
            if (file := self._file(key)) is not None:
                os.unlink(file)

    def drain(self) -> Moved:
        """What came over the network since this was asked last."""
        with self._lock:
            moved, self._moved = self._moved, Moved()
            return moved

    def clear(self) -> None:
        """Forget all, in memory and in the folder, and keep nothing that is still on its way."""
        with self._lock:
            self._closed = True
            self._kept.clear()
            self._checked.clear()
            self._coming.clear()
            self._used = 0
            if self._terms.folder is not None:
                shutil.rmtree(self._own_folder(self._terms.folder), ignore_errors=True)

    def _bring(self, key: Key, fetch: Callable[[], Content], expected: int) -> Content:
        """The content from the folder, or from afar; kept where there is room."""
        content: Content = None
        try:
            with self._lock:
                file = self._file(key)
            content = fetch() if file is None else _read(file)
        finally:
            with self._lock:
                self._expected -= expected
                moved = content is not None and file is None
                self._moved += Moved(len(content) if moved else 0, int(file is None))
        if file is None and content is not None:
            self._keep(key, content)
        return content

    def _keep(self, key: Key, content: Content) -> None:
        with self._lock:
            if self._closed:
                return
            terms = self._terms
            room = self._room if len(content) > _SMALL_NBYTES else terms.nbytes
            if fits := self._used + len(content) <= room:
                self._used += len(content)
                self._kept[key] = content
        if not (fits and terms.alone):
            self._keep_in_folder(key, content)

    def _keep_in_folder(self, key: Key, content: Content) -> None:
        """Keep something in the folder, where all processes of this machine find it."""
        terms = self._terms
        if terms.folder is None:
            return
        folder = self._own_folder(terms.folder)
        try:
            os.makedirs(folder, exist_ok=True)
            _write(os.path.join(folder, _file_name(key)), content)
        except OSError as error:  # full, most likely: a run can do without
            if not self._closed:
                logger.warning("cache: %s is used no more: %s", terms.folder, error.strerror)
            with self._lock:
                self._folder_failed, self._terms = True, replace(terms, folder=None)
        if self._closed:  # emptied in the meantime
            shutil.rmtree(folder, ignore_errors=True)

    def _file(self, key: Key) -> str | None:
        """Where something is in the folder, if it is."""
        if self._terms.folder is None:
            return None
        path = os.path.join(self._own_folder(self._terms.folder), _file_name(key))
        return path if os.path.exists(path) else None

    def _own_folder(self, folder: str) -> str:
        return os.path.join(folder, f"streamhalf-{self._token}")


_chunk_caches: dict[str, ChunkCache] = {}
_registering = threading.Lock()


def chunk_cache_of(token: str) -> ChunkCache:
    """The chunk_cache of a store that was opened, in this process."""
    with _registering:
        if token not in _chunk_caches:
            now = time.monotonic()
            for other, chunk_cache in list(_chunk_caches.items()):
                if now - chunk_cache.last_used > _IDLE_SECONDS:
                    _chunk_caches.pop(other).clear()
            _chunk_caches[token] = ChunkCache(token)
        return _chunk_caches[token]


def release(token: str) -> None:
    """Forget what was fetched in this process of a store that was opened."""
    with _registering:
        chunk_cache = _chunk_caches.pop(token, None)
    if chunk_cache is not None:
        chunk_cache.clear()


def _file_name(key: Key) -> str:
    return hashlib.sha256(repr(key).encode()).hexdigest()


def _read(file: str) -> bytes:
    with open(file, "rb") as stream:
        return stream.read()


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
def _baselines() -> ThreadPoolExecutor:
    """Threads that wait for the network, in this process."""
    return ThreadPoolExecutor(FETCHES_AT_ONCE, thread_name_prefix="streamhalf-fetch")
