"""A folder of small files, local or in object storage, whose files appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamhalf.errors import StreamhalfError, UsageError
from streamhalf.files import write_bytes
from streamhalf.names import public_name
from streamhalf.retry import retrying


@dataclass(frozen=True, slots=True)
class Folder:
    """Where files go: a path, or a URL with what fsspec takes for its kind of storage."""

    url: str
    storage_options: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        """The URL without secrets."""
        return public_name(self.url)

    @property
    def is_remote(self) -> bool:
        """Whether it is in object storage."""
        return "://" in self.url

    def read(self, file: str) -> bytes | None:
        """The content of a file, or None if it does not exist."""
        try:
            if not self.is_remote:
                return Path(self.url, file).read_bytes()
            content: bytes = retrying(lambda: self._remote().cat_file(self._path(file)))
            return content
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StreamhalfError(f"{self.name}/{file}: cannot be read: {error}") from error

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
        except OSError as error:
            raise StreamhalfError(f"{self.name}/{file}: cannot be written: {error}") from error

    def _path(self, file: str) -> str:
        return f"{self.url.rstrip('/')}/{file}"

    def _remote(self) -> Any:
        import fsspec

        try:
            filesystem, _ = fsspec.url_to_fs(self.url, **dict(self.storage_options or {}))
        except ImportError as error:
            raise UsageError(f"{self.name}: {error}; install streamhalf[object-storage]") from error
        return filesystem
