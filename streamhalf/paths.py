"""Paths and URLs: retries, files read and written whole, checks that outputs harm no inputs."""

from __future__ import annotations

import logging
import os
import posixpath
import re
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from errno import EDQUOT, EFBIG, ELOOP, ENAMETOOLONG, ENOSPC, EROFS
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from streamhalf.errors import DataError, StreamhalfError, UsageError
from streamhalf.redact import denial, one_line, public_name

T = TypeVar("T")
AnyPath: TypeAlias = "str | os.PathLike[str]"
logger = logging.getLogger("streamhalf")
_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
# Seconds before further attempts: for a store that is back within a quarter of a minute
DELAYS = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
_PATIENCE = 30.0  # Seconds after which no further attempt begins: storage libraries retry themselves too
_PERMANENT = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)
_PERMANENT_CODES = {ENOSPC, EDQUOT, EROFS, EFBIG, ENAMETOOLONG, ELOOP}


def is_transient(error: BaseException) -> bool:
    """Return True if another attempt may succeed: a fault of the connection, not of the content."""
    if isinstance(error, _PERMANENT):
        return False
    if isinstance(error, OSError):
        return error.errno not in _PERMANENT_CODES
    kind = type(error)
    library = kind.__module__.split(".")[0]
    return library in {"aiohttp", "botocore", "aiobotocore"} and "Credential" not in kind.__name__


def retrying(call: Callable[[], T]) -> T:
    """Call, and call again after a transient error, with growing pauses."""
    deadline = time.monotonic() + _PATIENCE
    for delay in DELAYS:
        try:
            return call()
        except Exception as error:
            if not is_transient(error) or time.monotonic() > deadline:
                raise
            # no more than its kind: its text may hold what a URL holds
            logger.warning("storage: %s; trying again in %g s", type(error).__name__, delay)
            time.sleep(delay)
    return call()


@contextmanager
def storage_errors(what: str, address: Address | None = None) -> Iterator[None]:
    """Turn any error of storage into one that says what failed, and where."""
    try:
        yield
    except StreamhalfError:
        raise
    except Exception as error:
        denied = address and address.denial(error)
        raise StreamhalfError(f"{what}: {denied or one_line(error)}") from error


@dataclass(frozen=True, slots=True)
class Address:
    """A path, or a URL with fsspec's options for its kind of storage; picklable."""

    url: str
    # a cluster's logs show the arguments of tasks; secrets must not be among them
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The URL without secrets."""
        return public_name(self.url)

    @property
    def is_remote(self) -> bool:
        return "://" in self.url

    @property
    def scheme(self) -> str:
        """The scheme of a URL (s3, gs, https, ...); empty for a path."""
        return self.url.partition("://")[0].lower() if self.is_remote else ""

    @property
    def options(self) -> dict[str, Any]:
        """Storage options; none for a path."""
        return dict(self.storage_options or {}) if self.is_remote else {}

    def denial(self, error: BaseException) -> str | None:
        """Return that storage denies access, and with which credentials; None for other errors."""
        return denial(error, self.url, self.options)


class Folder(Address):
    """A folder of small files, local or in object storage, that appear whole or not at all."""

    __slots__ = ()

    def read(self, file: str, most_nbytes: int) -> bytes | None:
        """Return the content of a file, None if it does not exist; refuse one that is too large."""
        with storage_errors(f"{self.name}/{file}: cannot be read", self):
            try:
                content = self._read_all(file, most_nbytes)
            except (FileNotFoundError, NotADirectoryError):
                return None
        if len(content) > most_nbytes:
            raise DataError(f"{self.name}/{file}: more than {most_nbytes} bytes, which is not what a run writes")
        return content

    def _read_all(self, file: str, most_nbytes: int) -> bytes:
        if self.is_remote:
            return bytes(retrying(lambda: self._remote().cat_file(self._path(file))))
        path = Path(self.url, file)
        if not stat.S_ISREG(path.stat().st_mode):
            raise DataError(f"{self.name}/{file}: not a plain file")
        with open(path, "rb") as stream:
            return stream.read(most_nbytes + 1)

    def write(self, file: str, content: bytes) -> None:
        if self.is_remote:  # an object appears when its upload is complete
            with storage_errors(f"{self.name}/{file}: cannot be written", self):
                retrying(lambda: self._remote().pipe_file(self._path(file), content))
            return
        try:
            os.makedirs(self.url, exist_ok=True)
        except OSError as error:
            raise StreamhalfError(f"{self.name}: cannot be made: {error.strerror or error}") from error
        write_bytes(Path(self.url, file), content)

    def _path(self, file: str) -> str:
        return f"{self.url.rstrip('/')}/{file}"

    def _remote(self) -> Any:
        import fsspec

        try:
            filesystem, _ = fsspec.url_to_fs(self.url, **self.options)
        except ImportError as error:
            raise UsageError(f"{self.name}: {error}; install streamhalf[object-storage]") from error
        return filesystem


def write_bytes(path: AnyPath, content: bytes) -> None:
    """Write a file that appears whole or not at all: to a temporary name, then renamed."""
    target = Path(path)
    folder = target.resolve().parent  # a link stays a link
    if not folder.is_dir():
        raise StreamhalfError(
            f"{target}: cannot be written: there is no folder {folder}; name a file in an existing folder"
        )
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(content)  # a pipe or device, which a rename would replace
        else:
            _write_and_rename(target.resolve(), content)
    except OSError as error:
        raise StreamhalfError(f"{target}: cannot be written: {error.strerror}") from error


def _write_and_rename(target: Path, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, target)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def write_text_to(path: AnyPath, text: str, *, storage_options: Mapping[str, Any] | None = None) -> None:
    if "://" not in os.fspath(path):
        write_bytes(path, text.encode("utf-8"))
        return
    folder, file = _split(path)
    Folder(folder, storage_options).write(file, text.encode("utf-8"))


def read_from(url: AnyPath, most_nbytes: int, *, storage_options: Mapping[str, Any] | None = None) -> bytes:
    """Return what is at a URL."""
    folder, file = _split(url)
    content = Folder(folder, storage_options).read(file, most_nbytes)
    if content is None:
        raise DataError(f"{public_name(os.fspath(url))}: there is no such object; check the URL")
    return content


def _split(url: AnyPath) -> tuple[str, str]:
    folder, _, file = os.fspath(url).rpartition("/")
    if not file or folder.endswith("/"):
        raise UsageError(f"{public_name(os.fspath(url))}: names no object; give it a name")
    return folder, file


def path_of(data: Any) -> str | None:
    """Return the path or URL of a store, Zarr group or Dataset; None if it is not known."""
    if isinstance(data, str | os.PathLike):
        return os.fspath(data)
    if (path := getattr(data, "store_path", None)) is not None:  # a Zarr group
        return str(path)
    encoding = getattr(data, "encoding", None)
    source = encoding.get("source") if isinstance(encoding, Mapping) else None
    return source if isinstance(source, str) else None


def normalised(path: AnyPath) -> str:
    """Return one spelling of a path: links resolved, no dots, no user, no query, no last slash."""
    text = os.fspath(path)
    text = text.rpartition("::")[2] if "://" in text else text
    scheme, mark, rest = text.partition("://")
    if not mark:
        return os.path.realpath(os.path.expanduser(text))
    scheme = _ALIASES.get(scheme.lower(), scheme.lower())
    if scheme in ("file", "local"):
        return os.path.realpath(rest)
    rest = re.sub(r"^[^/]*@", "", rest.partition("?")[0])
    return f"{scheme}://{posixpath.normpath(rest).strip('/')}"


def absolute(path: AnyPath) -> str:
    """Return a path that processes in other folders understand; a URL as it is."""
    text = os.fspath(path)
    return text if "://" in text else os.path.abspath(text)


def is_within(inner: AnyPath, outer: AnyPath) -> bool:
    """Return True if a path is another, or lies somewhere in it."""
    low, high = normalised(inner), normalised(outer)
    if low == high or low.startswith(high.rstrip("/") + "/"):
        return True
    if "://" in low or "://" in high or not os.path.exists(high):
        return False
    # one folder may have several names: mounts, and systems that ignore case
    return any(one.exists() and one.samefile(high) for one in (Path(low), *Path(low).parents))


def refuse_harm(store: AnyPath, outputs: Mapping[str, AnyPath], *, replaces: bool = False) -> None:
    """Refuse outputs inside a store that is read; around it too, if writing `replaces` all."""
    name = public_name(os.fspath(store))
    for option, path in outputs.items():
        inside, around = is_within(path, store), is_within(store, path)
        if inside or (replaces and around):
            where = "contains" if not inside else "is" if around else "lies inside"
            raise UsageError(
                f"{option}: {public_name(os.fspath(path))} {where} the data {name} that are read; choose another path"
            )


def refuse_clash(inputs: Mapping[str, AnyPath], outputs: Mapping[str, AnyPath]) -> None:
    """Refuse two outputs of one path, and an output over an input file."""
    seen = {normalised(path): option for option, path in inputs.items() if not _is_device(path)}
    for option, path in outputs.items():
        if _is_device(path):
            continue
        if (other := seen.get(normalised(path))) is not None:
            raise UsageError(
                f"{option}: {public_name(os.fspath(path))} is also what {other} names; give each a path of its own"
            )
        seen[normalised(path)] = option


def _is_device(path: AnyPath) -> bool:
    """Return True for a pipe or a device, which takes whatever it is given."""
    text = os.fspath(path)
    return text == "-" or (
        "://" not in text and os.path.exists(text) and not (os.path.isfile(text) or os.path.isdir(text))
    )


def check_cache_folder(folder: str | None) -> None:
    """Refuse a folder for fetched chunks that cannot be made or written to."""
    if folder is None:
        return
    if "://" in folder:
        raise UsageError(f"cache: {folder} is a URL; give a folder on this machine's own disk")
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cache: {folder} cannot be made ({error.strerror}); choose a folder that you may write to"
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"cache: {folder} cannot be written to; choose another folder")
