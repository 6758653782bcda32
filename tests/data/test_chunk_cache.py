"""The cache of fetched chunks: hits, evictions and repeated fetches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from streamhalf.data import chunk_cache as module
from streamhalf.data.chunk_cache import CacheLimits, ChunkCache, Moved, cache_of, release

SIZE = 100_000  # not a small object


@pytest.fixture
def chunk_cache(tmp_path: Path) -> Iterator[ChunkCache]:
    found = cache_of("test")
    yield found
    release("test")


class Storage:
    """Objects of one size, and how often each was fetched."""

    def __init__(self) -> None:
        self.fetched: list[str] = []

    def fetch(self, key: str) -> Callable[[], bytes]:
        def fetch() -> bytes:
            self.fetched.append(key)
            return key.encode() * (SIZE // len(key))

        return fetch


def read_all(chunk_cache: ChunkCache, storage: Storage, keys: str) -> None:
    for key in keys:
        assert bytes(chunk_cache.take(key, storage.fetch(key))) == key.encode() * SIZE


def test_chunk_cache__what_came_first_stays_when_there_is_no_room_for_all(chunk_cache: ChunkCache) -> None:
    storage = Storage()
    chunk_cache.set_limits(CacheLimits(nbytes=16 * SIZE // 5))  # 1/16 for small ones
    for _ in range(3):
        read_all(chunk_cache, storage, "abcdef")
    assert "".join(sorted(storage.fetched)) == "abc" + "ddd" + "eee" + "fff"
    assert chunk_cache.drain() == Moved(12 * SIZE, 12)
    assert chunk_cache.drain() == Moved()


def test_chunk_cache__a_folder_takes_what_memory_has_no_room_for(chunk_cache: ChunkCache, tmp_path: Path) -> None:
    storage = Storage()
    chunk_cache.set_limits(CacheLimits(nbytes=SIZE * 2, folder=str(tmp_path)))
    for _ in range(2):
        read_all(chunk_cache, storage, "abc")
    chunk_cache.set_limits(CacheLimits(nbytes=0, folder=str(tmp_path)))  # to the folder
    read_all(chunk_cache, storage, "abc")
    assert "".join(sorted(storage.fetched)) == "abc"
    assert chunk_cache.drain() == Moved(3 * SIZE, 3)
    assert len(list(tmp_path.rglob("*"))) == 4
    release("test")
    assert list(tmp_path.iterdir()) == []


def test_chunk_cache__a_full_folder_is_done_without(
    chunk_cache: ChunkCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(path: str, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    storage = Storage()
    chunk_cache.set_limits(CacheLimits(nbytes=0, folder=str(tmp_path)))
    read_all(chunk_cache, storage, "z")  # there is room for one
    monkeypatch.setattr(module, "_write", full)
    for _ in range(2):
        chunk_cache.set_limits(CacheLimits(nbytes=0, folder=str(tmp_path)))
        read_all(chunk_cache, storage, "zab")
    assert "".join(storage.fetched) == "zabab"
    (said,) = caplog.messages
    assert said.endswith(f"{tmp_path} is used no more: No space left on device")
    release("test")
    assert list(tmp_path.iterdir()) == []


def test_chunk_cache__one_fetch_serves_all_who_wait(chunk_cache: ChunkCache) -> None:
    storage, go = Storage(), threading.Event()

    def slow() -> bytes:
        assert go.wait(60)
        return storage.fetch("a")()

    chunk_cache.set_limits(CacheLimits(nbytes=0))
    first = chunk_cache.begin("a", slow)
    assert chunk_cache.holds("a")
    assert chunk_cache.begin("a", storage.fetch("b")) is first
    go.set()
    read_all(chunk_cache, storage, "a")
    assert storage.fetched == ["a"]
    assert not chunk_cache.holds("a")
    read_all(chunk_cache, storage, "a")
    assert storage.fetched == ["a", "a"]


def test_chunk_cache__a_fetch_that_failed_is_tried_again(chunk_cache: ChunkCache) -> None:
    def fail() -> bytes:
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        chunk_cache.take("a", fail)
    storage = Storage()
    read_all(chunk_cache, storage, "a")
    assert chunk_cache.drain() == Moved(SIZE, 2)


@pytest.mark.parametrize(
    ("terms", "wanted", "whole"),
    [
        (CacheLimits(2 * SIZE), 1, True),
        (CacheLimits(SIZE // 2), 1, False),
        (CacheLimits(SIZE // 2, "folder"), 1, True),
        (CacheLimits(2 * SIZE, alone=False), SIZE // 5, False),
        (CacheLimits(2 * SIZE, alone=False), SIZE // 4, True),
        (CacheLimits(2 * SIZE, "folder", alone=False), 1, True),
    ],
)
def test_wants_whole__where_it_pays_and_there_is_room(
    chunk_cache: ChunkCache, terms: CacheLimits, wanted: int, whole: bool
) -> None:
    chunk_cache.set_limits(terms)
    assert chunk_cache.wants_whole(SIZE, wanted) is whole


def test_release__what_is_still_on_its_way_does_not_make_the_folder_again(tmp_path: Path) -> None:
    chunk_cache, begun, go_on = cache_of("late"), threading.Event(), threading.Event()
    chunk_cache.set_limits(CacheLimits(nbytes=0, folder=str(tmp_path)))

    def fetch() -> bytes:
        begun.set()
        go_on.wait(10)
        return b"x" * SIZE

    coming = chunk_cache.begin("a", fetch)
    begun.wait(10)
    release("late")
    go_on.set()
    assert len(coming.result(10)) == SIZE  # who waits for it gets it
    assert list(tmp_path.iterdir()) == []


def test_release__while_a_file_is_written_removes_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chunk_cache, write = cache_of("late"), module._write

    def late(path: str, content: bytes) -> None:
        release("late")  # after the folder was made, before the file is
        Path(path).parent.mkdir()
        write(path, content)

    monkeypatch.setattr(module, "_write", late)
    chunk_cache.set_limits(CacheLimits(nbytes=0, folder=str(tmp_path)))
    assert len(chunk_cache.take("a", lambda: b"x" * SIZE)) == SIZE
    assert list(tmp_path.iterdir()) == []
