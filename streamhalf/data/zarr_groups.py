"""Zarr groups: opened, with names of features, or why they cannot be read; access checks for workers; written.

Nothing is overwritten unasked, and unfinished stores are marked.
"""

from __future__ import annotations

import os
import socket
import time
import warnings
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.abc.store import Store
from zarr.codecs import Crc32cCodec
from zarr.errors import NodeNotFoundError
from zarr.storage import FsspecStore, LocalStore, ZipStore

from streamhalf.data.block import Reader, RowRange
from streamhalf.data.kinds import TABLE_SUFFIXES, is_data_array
from streamhalf.data.remote_store import RemoteStore, StoreURL, configured_endpoint, open_remote, protocol_of
from streamhalf.data.source import nearest_names
from streamhalf.data.zarr_reader import ZarrReader
from streamhalf.errors import DataError, UsageError
from streamhalf.paths import Address, retrying, storage_errors
from streamhalf.redact import endpoint_in, one_line, printable, without_secrets

_CONNECT_PAUSES = (0.0, 0.5, 1.0)  # before attempts: a server that is just starting is met
_ANSWER_SECONDS = 5.0
_NO_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError")
_START = 4096  # Characters of a file that tell what it is


def open_group(url: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None) -> zarr.Group:
    """Open a Zarr group for reading, or say in one line why it cannot be."""
    address = StoreURL(os.fspath(url), storage_options)
    if address.is_remote:
        return _open_url(address)
    path = os.path.abspath(address.url)  # it travels to workers, which live in other folders
    if not os.path.exists(path):
        raise DataError(f"{address.name}: no such store; check the path")
    is_zip = zipfile.is_zipfile(path)
    if os.path.isfile(path) and not is_zip:
        raise DataError(f"{address.name}: {_kind_of_file(path)}; a Zarr store is a folder")
    return _opened(address, lambda: zarr.open_group(ZipStore(path) if is_zip else path, mode="r"))


def _open_url(address: StoreURL) -> zarr.Group:
    """Open a group far away; where it cannot be said why it is not there, fsspec is asked, which tells more."""
    _refuse(address, endpoint_problem)
    failed: Exception | None = None
    if address.is_for_obstore():
        try:
            return retrying(lambda: open_remote(address))
        except Exception as error:
            failed = error
    _refuse(address, storage_problem)

    def open_by_fsspec() -> zarr.Group:
        try:
            return open_remote(replace(address, use_obstore=False))
        except ImportError:
            if failed is not None:
                raise failed from None
            raise

    return _opened(address, open_by_fsspec)


def open_store(store: Store) -> zarr.Group:
    """Open the root group of a Zarr store."""
    return _opened(Address(str(store)), lambda: zarr.open_group(store, mode="r"))


def _opened(address: Address, open_it: Callable[[], zarr.Group]) -> zarr.Group:
    """Open a group, or say in one line why it cannot be read."""
    name = address.name
    try:
        return retrying(open_it)
    except ImportError as error:
        told = without_secrets(one_line(error), address.url)
        raise UsageError(f"{name}: {told}; install streamhalf[object-storage]") from error
    except Exception as error:
        absent = isinstance(error, zarr.errors.GroupNotFoundError | FileNotFoundError)
        if absent and address.scheme.startswith("s3"):
            raise DataError(f"{name}: no Zarr store of this name is in the bucket; check the path") from error
        if absent and os.path.isdir(address.url):
            raise DataError(
                f"{name}: not a readable Zarr group: no zarr.json or .zgroup is in this folder; "
                "give a Zarr store, a .csv or a .parquet file"
            ) from error
        told = without_secrets(one_line(error), address.url)
        raise DataError(f"{name}: {address.denial(error) or f'not a readable Zarr group: {told}'}") from error


def open_member(group: zarr.Group, name: str, key: str) -> zarr.Array[Any]:
    """Open an array of a group, or say which arrays there are."""
    try:
        member = retrying(lambda: group.get(key))
        if isinstance(member, zarr.Array):
            if min(member.chunks, default=1) < 1 and 0 not in member.shape[1:]:
                raise ValueError(f"chunks of shape {member.chunks}")
            return member
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # files that are no arrays: not what is asked about
            others = dict(group.members())
    except Exception as error:
        raise DataError(f"{name}: cannot open its array {key!r}: {one_line(error)}") from error
    raise DataError(
        f"{name}: no array named {key!r}; {printable(nearest_names(key, others))}; name those of "
        "the features and labels (features, labels; --features, --labels)"
    )


def _refuse(address: Address, problem: Callable[[Address], str | None]) -> None:
    """Say at once, and in its own words, that storage cannot be used."""
    try:
        found = None if "::" in address.url else problem(address)
    except ImportError:
        return  # opening it tells
    if found is not None:
        raise DataError(f"data: this process {found}")


def _kind_of_file(path: str) -> str:
    """Describe a file that is found in place of a store."""
    try:
        with open(path, encoding="utf-8") as file:
            start = file.read(_START)
    except (OSError, ValueError):
        start = ""
    if '"schema": "streamhalf-' in start:
        return "this is a result file, not data; give the store that it was made from"
    if path.endswith(TABLE_SUFFIXES):
        return "this is a table, which is read and not inspected; only a Zarr store has a layout"
    return (
        "this is a file and no Zarr store; let the name of a table end in .csv, .tsv or .parquet, or "
        "give arrays in Python: streamhalf.fit((X, y))"
    )


ATTRIBUTE = "feature_names"  # Of an array or a group, a list with one name for each feature


def names_of_array(X: Any, field: str) -> tuple[str, ...]:
    """Of the columns of a data frame, an xarray or a Zarr array (rows, features); empty without any."""
    if is_data_array(X) or isinstance(X, zarr.Array):
        if X.ndim == 2 and ATTRIBUTE in X.attrs:
            return checked_names(X.attrs[ATTRIBUTE], X.shape[1], field)
        coordinate = X.coords.get(X.dims[1]) if is_data_array(X) and X.ndim == 2 else None
        return () if coordinate is None else _words(coordinate.values.tolist())
    columns = getattr(X, "columns", None)
    return () if columns is None or not hasattr(X, "dtypes") else _words(columns)


def names_in_group(group: zarr.Group, X: zarr.Array[Any], field: str) -> tuple[str, ...]:
    """Of the features of a store: said by an attribute, or by a coordinate."""
    for attributes in (X.attrs, group.attrs):
        if ATTRIBUTE in attributes:
            return checked_names(attributes[ATTRIBUTE], X.shape[1], field)
    written = X.attrs.get("_ARRAY_DIMENSIONS") or getattr(X.metadata, "dimension_names", None)
    dimension = written[-1] if isinstance(written, list | tuple) and len(written) == 2 else None
    if not isinstance(dimension, str) or not dimension or dimension == X.basename:
        return ()
    try:  # a coordinate is a help and no part of the data: one that cannot be read is none
        coordinate = retrying(lambda: group.get(dimension))
        if not isinstance(coordinate, zarr.Array) or coordinate.shape != X.shape[1:]:
            return ()
        return _words(np.asarray(coordinate[:]).tolist())
    except Exception:
        return ()


def checked_names(names: Any, dim: int, field: str) -> tuple[str, ...]:
    """Given names, one for each feature; refused where they do not fit."""
    if isinstance(names, np.ndarray):
        names = names.tolist()
    is_list = isinstance(names, Sequence) and not isinstance(names, str)
    if not is_list or len(names) != dim:
        raise DataError(
            f"{field}: {ATTRIBUTE} is {printable(str(len(names) if is_list else names))!r} for {dim} features; give a "
            "list of one name each, or remove the attribute"
        )
    return tuple(printable(str(name)) for name in names)


def _words(names: Iterable[Any]) -> tuple[str, ...]:
    """Names that are words; numbers of columns are none."""
    found = list(names)
    return tuple(map(printable, found)) if all(isinstance(one, str) for one in found) else ()


@dataclass(frozen=True, slots=True, eq=False)
class AccessCheck:
    """A stored array or group that this process or another must be able to read."""

    store: Any
    path: str

    @property
    def name(self) -> str:
        """The path or URL, without secrets."""
        if isinstance(self.store, LocalStore):
            return os.fspath(self.store.root)
        return (self._address() or Address(str(self.store))).name

    def _address(self) -> Address | None:
        """Return the URL and its options, where these or fsspec are behind the store."""
        store = self.store.origin if isinstance(self.store, RemoteStore) else self.store
        if isinstance(store, Address):
            return store
        if not isinstance(store, FsspecStore):
            return None
        url = store.path if "://" in store.path else f"{protocol_of(store)}://{store.path}"
        return Address(url, {**store.fs.storage_options, "asynchronous": False})

    def problem(self) -> str | None:
        """Return why it cannot be read, to follow a worker's name; None if it can.

        Takes ten seconds at most.
        """
        if isinstance(self.store, LocalStore):
            seen = os.path.isdir(self.store.root)
            return None if seen else f"does not see {self.name}; use a shared file system or a URL"
        address = self._address()
        if address is not None and (unreached := endpoint_problem(address)):
            return unreached
        try:
            _read_metadata(self.store, self.path)
        except Exception as error:
            # asked only now: a process that can read needs no further request
            if address is not None and (found := storage_problem(address)):
                return found
            if isinstance(error, NodeNotFoundError | FileNotFoundError):
                return f"finds no Zarr store at {self.name}; check the path and the endpoint"
            if isinstance(error, TimeoutError):
                return f"gets no answer about {self.name} in {_ANSWER_SECONDS:g} s"
            denied = address and address.denial(error)
            return f"cannot read {self.name}: {denied or one_line(error)}"
        return None


def access_check_of(reader: Reader) -> AccessCheck | None:
    """Return the check of where a reader's rows are stored; None where they travel with tasks."""
    if not isinstance(reader, ZarrReader):
        return None
    return AccessCheck(reader.features.store, reader.features.path)


def _read_metadata(store: Any, path: str) -> None:
    pool = ThreadPoolExecutor(1)
    try:
        pool.submit(zarr.open, store, path=path, mode="r").result(timeout=_ANSWER_SECONDS)
    finally:
        pool.shutdown(wait=False)


def endpoint_problem(address: Address) -> str | None:
    """Return that the server cannot be reached; one connection, no request."""
    if (endpoint := _endpoint(address)) is None or _connects(endpoint):
        return None
    return f"cannot reach {endpoint}, the endpoint of {address.name}; check endpoint_url and the network"


def storage_problem(address: Address) -> str | None:
    """Return what is wrong with the server, the bucket or the credentials, if that is known."""
    found = endpoint_problem(address)
    return _bucket_problem(address) if found is None and address.scheme in ("s3", "s3a") else found


def _endpoint(address: Address) -> str | None:
    """Return the URL of the server, where it is known and no proxy stands between."""
    options = address.options
    found: Any = address.url if address.scheme in ("http", "https") else endpoint_in(options)
    if not found and address.scheme in ("s3", "s3a"):
        found = configured_endpoint(options.get("profile"))
    parts = urlsplit(found) if isinstance(found, str) else None
    if parts is None or not parts.hostname:
        return None
    if parts.scheme in getproxies() and not proxy_bypass(parts.hostname):
        return None
    return f"{parts.scheme}://{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


def _connects(endpoint: str) -> bool:
    parts = urlsplit(endpoint)
    for pause in _CONNECT_PAUSES:
        time.sleep(pause)
        try:
            socket.create_connection((parts.hostname, parts.port), timeout=1.0).close()
        except OSError:
            continue
        return True
    return False


def _bucket_problem(address: Address) -> str | None:
    """Return that the bucket is absent or we have no credentials; denied requests say nothing."""
    import fsspec

    url = address.name
    bucket = url.partition("://")[2].partition("/")[0]
    try:
        filesystem = fsspec.filesystem("s3", **address.options)
        filesystem.call_s3("head_bucket", Bucket=bucket, timeout=_ANSWER_SECONDS)
    except FileNotFoundError:
        return f"finds no bucket {bucket!r}, which {url} is in; check its name and the endpoint"
    except TimeoutError:
        return f"gets no answer about {url} in {_ANSWER_SECONDS:g} s; check the endpoint"
    except Exception as error:
        if type(error).__name__ in _NO_CREDENTIALS:
            return (
                f"has no credentials for {url}; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY "
                "there, or give them as storage options (key, secret), or anon=true"
            )
    return None


MARKS = "streamhalf"  # Group attribute with what the store is, and if it is complete
_METADATA = ("zarr.json", ".zgroup", ".zarray", ".zattrs", ".zmetadata")


@dataclass(frozen=True, slots=True)
class Column:
    """An array to be written in chunks of rows; `fill_value` is no valid value."""

    name: str
    shape: tuple[int, ...]
    chunk_rows: int
    dtype: str
    fill_value: float
    dimensions: tuple[str, ...]


class Target(Address):
    """Where a store is written; picklable, so that tasks anywhere can write to it."""

    __slots__ = ()

    def create(self, columns: tuple[Column, ...], marks: Mapping[str, Any], *, overwrite: bool) -> None:
        """Make an empty, unfinished Zarr v3 store.

        Floats hardly compress, so chunks are stored as they are, with a checksum; the fill values
        are no valid rows, so a chunk that was never written is seen.
        """
        replaces = self.replaces(overwrite)
        try:
            if not self.is_remote:
                os.makedirs(self.url, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"{self.name}: no store can be made here ({error.strerror}); choose a path in a "
                "folder that you may write to"
            ) from error
        with storage_errors(f"{self.name}: cannot make the store", self):
            group = zarr.create_group(
                self.url,
                zarr_format=3,
                overwrite=replaces,
                attributes={MARKS: {"complete": False, **marks}},
                storage_options=self.options or None,
            )
            for column in columns:
                group.create_array(
                    column.name,
                    shape=column.shape,
                    dtype=column.dtype,
                    chunks=(column.chunk_rows, *column.shape[1:]),
                    compressors=(Crc32cCodec(),),
                    fill_value=column.fill_value,
                    dimension_names=column.dimensions,
                )

    def group(self, mode: Literal["r", "r+"] = "r+") -> zarr.Group:
        """Open the store that was made here."""
        return zarr.open_group(self.url, mode=mode, storage_options=self.options or None)

    def access_check(self) -> AccessCheck:
        group = self.group("r")
        return AccessCheck(group.store, group.path)

    def array(self, name: str) -> zarr.Array[Any]:
        with storage_errors(f"{self.name}: cannot open its array {name}", self):
            return retrying(
                lambda: zarr.open_array(self.url, path=name, mode="r+", storage_options=self.options or None)
            )

    def write(self, name: str, rows: RowRange, values: NDArray[Any]) -> None:
        """Write a range of rows of one array; whole chunks, so that writing again is harmless."""
        array = self.array(name)
        with storage_errors(f"{self.name}: cannot write rows {rows.start} to {rows.stop - 1} of {name}", self):
            retrying(lambda: array.__setitem__(slice(rows.start, rows.stop), values))

    def finish(self, names: tuple[str, ...], marks: Mapping[str, Any]) -> None:
        """Mark a store whose chunks all exist as complete, and record what it is."""
        for name in names:
            array = self.array(name)
            with storage_errors(f"{self.name}: cannot list the chunks of {name}", self):
                n_written: int = retrying(partial(getattr, array, "nchunks_initialized"))
            if n_written != array.nchunks:
                raise DataError(
                    f"{self.name}: {n_written} of {array.nchunks} chunks of {name} were written; "
                    "write the rest before finishing the store"
                )
        with storage_errors(f"{self.name}: cannot mark the store as complete", self):
            retrying(lambda: self.mark({"complete": True, **marks}))

    def mark(self, marks: Mapping[str, Any]) -> None:
        self.group().attrs[MARKS] = dict(marks)

    def replaces(self, overwrite: bool) -> bool:
        """Return True if a store is here and may be replaced; refuse what may not.

        Zarr's own overwriting empties any directory or prefix, so it is used on Zarr stores alone.
        """
        try:
            found = zarr.open(self.url, mode="r", storage_options=self.options or None)
        except (NodeNotFoundError, FileNotFoundError) as error:
            if os.path.isfile(self.url) or (os.path.isdir(self.url) and os.listdir(self.url)):
                raise UsageError(
                    f"{self.name}: exists and is not a Zarr store, so --overwrite does not apply; "
                    "choose another path or remove it"
                ) from error
            return False
        except ImportError as error:
            raise UsageError(f"{self.name}: {error}; install streamhalf[object-storage]") from error
        except Exception as error:
            if denied := self.denial(error):
                raise UsageError(f"{self.name}: {denied}") from error
            raise UsageError(
                f"{self.name}: cannot tell what is here ({one_line(error)}); choose another path"
            ) from error
        if not overwrite:
            raise UsageError(f"{self.name}: a store exists here; choose another path or add --overwrite")
        if isinstance(found, zarr.Group) and (foreign := _foreign_entry(self.url)):
            raise UsageError(
                f"{self.name}: holds {foreign!r}, which is no part of a Zarr store, and would be "
                "lost; choose another path or move it away"
            )
        return True


def _foreign_entry(url: str) -> str | None:
    """Return a file or folder in a Zarr group on this machine that Zarr did not make."""
    if "://" in url:
        return None
    with os.scandir(url) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        if entry.is_dir():
            if not any(os.path.exists(os.path.join(entry.path, name)) for name in _METADATA):
                return entry.name
        elif entry.name not in (*_METADATA, ".DS_Store"):
            return entry.name
    return None
