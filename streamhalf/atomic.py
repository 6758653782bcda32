"""Files appear whole or not at all: written to a temporary name, then renamed."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from streamhalf.errors import StreamhalfError


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file atomically."""
    target = Path(path)
    if target.exists() and not target.is_file():
        _write_through(target, content)
        return
    target = target.resolve()  # a link stays a link
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except FileNotFoundError as error:
        raise StreamhalfError(
            f"{target}: cannot be written: there is no folder {target.parent}; name a file in an "
            "existing folder"
        ) from error
    except OSError as error:
        raise StreamhalfError(f"{target}: cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except OSError as error:
        raise StreamhalfError(f"{target}: cannot be written: {error.strerror}") from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _write_through(target: Path, content: bytes) -> None:
    """Write to a pipe or device, which a rename would replace by a plain file."""
    try:
        target.write_bytes(content)
    except OSError as error:
        raise StreamhalfError(f"{target}: cannot be written: {error.strerror}") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
