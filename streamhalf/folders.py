"""A folder of small files, local or in object storage, whose files appear whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamhalf.errors import DataError, StreamhalfError, UsageError
from streamhalf.files import write_bytes
from streamhalf.names import one_line, public_name
from streamhalf.retry import retrying


@dataclass(frozen=True, slots=True)
class Folder:
    """Where files go: a path, or a URL with what fsspec takes for its kind of storage."""

    url: str
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The URL without secrets."""
        return public_name(self.url)

    @property
    def is_remote(self) -> bool:
        """Whether it is in object storage."""
        return "://" in self.url

    def read(self, file: str, most_nbytes: int) -> bytes | None:
        """The content of a file, or None if it does not exist; refuses one that is too large."""
        try:
            content = (
                self._read_remote(file) if self.is_remote else self._read_local(file, most_nbytes)
            )
        except FileNotFoundError:
            return None
        except StreamhalfError:
            raise
        except Exception as error:
            raise StreamhalfError(
                f"{self.name}/{file}: cannot be read: {one_line(error)}"
            ) from error
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

    def _read_remote(self, file: str) -> bytes:
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
        try:
            # an object appears when its upload is complete, never half
            retrying(lambda: self._remote().pipe_file(self._path(file), content))
        except StreamhalfError:
            raise
        except Exception as error:
            raise StreamhalfError(
                f"{self.name}/{file}: cannot be written: {one_line(error)}"
            ) from error

    def _path(self, file: str) -> str:
        return f"{self.url.rstrip('/')}/{file}"

    def _remote(self) -> Any:
        import fsspec

        try:
            filesystem, _ = fsspec.url_to_fs(self.url, **dict(self.storage_options or {}))
        except ImportError as error:
            raise UsageError(f"{self.name}: {error}; install streamhalf[object-storage]") from error
        return filesystem
