"""Addresses of storage, and folders of small files that appear whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamhalf.atomic import write_bytes, write_text
from streamhalf.errors import DataError, StreamhalfError, UsageError
from streamhalf.redact import denial, one_line, public_name
from streamhalf.retry import retrying


@contextmanager
def saying(what: str, address: Address | None = None) -> Iterator[None]:
    """Say what failed, and where; storage has errors of many kinds."""
    try:
        yield
    except StreamhalfError:
        raise
    except Exception as error:
        denied = address and denial(error, address.url, address.storage_options)
        raise StreamhalfError(f"{what}: {denied or one_line(error)}") from error


@dataclass(frozen=True, slots=True)
class Address:
    """A path, or a URL with what fsspec takes for its kind of storage; picklable."""

    url: str
    # logs of a cluster show a task's arguments; secrets are no part of them
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The URL without secrets."""
        return public_name(self.url)

    @property
    def is_remote(self) -> bool:
        """Whether it is in object storage."""
        return "://" in self.url


class Folder(Address):
    """Where files go, local or in object storage."""

    __slots__ = ()

    def read(self, file: str, most_nbytes: int) -> bytes | None:
        """The content of a file, or None if it does not exist; refuses one that is too large."""
        read = self._read_remote if self.is_remote else self._read_local
        with saying(f"{self.name}/{file}: cannot be read", self):
            try:
                content = read(file, most_nbytes)
            except FileNotFoundError:
                return None
        if len(content) > most_nbytes:
            raise DataError(
                f"{self.name}/{file}: more than {most_nbytes} bytes, which is not what a run writes"
            )
        return content

    def _read_local(self, file: str, most_nbytes: int) -> bytes:
        path = Path(self.url, file)
        if not stat.S_ISREG(path.stat().st_mode):
            raise DataError(f"{self.name}/{file}: not a plain file")
        with open(path, "rb") as stream:
            return stream.read(most_nbytes + 1)

    def _read_remote(self, file: str, most_nbytes: int) -> bytes:
        content: bytes = retrying(lambda: self._remote().cat_file(self._path(file)))
        return content

    def write(self, file: str, content: bytes) -> None:
        """Write a file whole."""
        if not self.is_remote:
            try:
                os.makedirs(self.url, exist_ok=True)
            except OSError as error:
                raise StreamhalfError(
                    f"{self.name}: cannot be made: {error.strerror or error}"
                ) from error
            write_bytes(Path(self.url, file), content)
            return
        with saying(f"{self.name}/{file}: cannot be written", self):
            # an object appears when its upload is complete, never half
            retrying(lambda: self._remote().pipe_file(self._path(file), content))

    def _path(self, file: str) -> str:
        return f"{self.url.rstrip('/')}/{file}"

    def _remote(self) -> Any:
        import fsspec

        try:
            filesystem, _ = fsspec.url_to_fs(self.url, **dict(self.storage_options or {}))
        except ImportError as error:
            raise UsageError(f"{self.name}: {error}; install streamhalf[object-storage]") from error
        return filesystem


def write_text_to(
    place: str | os.PathLike[str], text: str, *, storage_options: Mapping[str, Any] | None = None
) -> None:
    """Write a text whole, to a path or a URL."""
    if "://" not in os.fspath(place):
        write_text(place, text)
        return
    folder, file = _parted(place)
    Folder(folder, storage_options).write(file, text.encode("utf-8"))


def read_text_from(
    place: str | os.PathLike[str],
    most_nbytes: int,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> str:
    """The text at a URL."""
    folder, file = _parted(place)
    content = Folder(folder, storage_options).read(file, most_nbytes)
    if content is None:
        raise DataError(f"{public_name(os.fspath(place))}: there is no such object; check the URL")
    return content.decode("utf-8")


def _parted(url: str | os.PathLike[str]) -> tuple[str, str]:
    folder, _, file = os.fspath(url).rpartition("/")
    if not file or folder.endswith("/"):
        raise UsageError(f"{public_name(os.fspath(url))}: names no object; give it a name")
    return folder, file
