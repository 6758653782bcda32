"""Zarr groups and arrays for reading, names of features included, or why they cannot be read."""

from __future__ import annotations

import os
import warnings
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import zarr
from zarr.abc.store import Store
from zarr.storage import ZipStore

from streamhalf.data.access_check import endpoint_problem, storage_problem
from streamhalf.data.kinds import TABLE_SUFFIXES, is_data_array
from streamhalf.data.remote_store import StoreURL, open_remote
from streamhalf.data.source import nearest_names
from streamhalf.errors import DataError, UsageError
from streamhalf.paths import retrying
from streamhalf.redact import denial, one_line, printable, public_name, without_secrets

_START = 4096
"""Characters of a file that tell what it is."""


def open_group(url: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None) -> zarr.Group:
    """Open a Zarr group for reading, or say in one line why it cannot be."""
    text = os.fspath(url)
    name = public_name(text)
    if "://" not in text and not os.path.exists(text):
        raise DataError(f"{name}: no such store; check the path")
    if "://" not in text and zipfile.is_zipfile(text):
        return _opened(name, text, lambda: zarr.open_group(ZipStore(os.path.abspath(text)), mode="r"))
    if "://" not in text and os.path.isfile(text):
        raise DataError(f"{name}: {_kind_of_file(text)}; a Zarr store is a folder")
    if "://" not in text:
        text = os.path.abspath(text)  # it travels to workers, which live in other folders
        return _opened(name, text, lambda: zarr.open_group(text, mode="r"))
    return _open_url(name, StoreURL(text, dict(storage_options or {})))


def _open_url(name: str, origin: StoreURL) -> zarr.Group:
    """A group far away; who cannot say why it is not there asks fsspec, which tells more."""
    _refuse(origin, endpoint_problem)
    failed: Exception | None = None
    if origin.is_for_obstore():
        try:
            return retrying(lambda: open_remote(origin))
        except Exception as error:
            failed = error
    _refuse(origin, storage_problem)

    def open_by_fsspec() -> zarr.Group:
        try:
            return open_remote(replace(origin, use_obstore=False))
        except ImportError:
            if failed is not None:
                raise failed from None
            raise

    return _opened(name, origin.url, open_by_fsspec, origin.options)


def open_store(store: Store) -> zarr.Group:
    """Open the root group of a Zarr store."""
    return _opened(str(store), "://", lambda: zarr.open_group(store, mode="r"))


def _opened(
    name: str, text: str, open_it: Callable[[], zarr.Group], options: Mapping[str, Any] | None = None
) -> zarr.Group:
    """A group, or in one line why it cannot be read."""
    try:
        return retrying(open_it)
    except (zarr.errors.GroupNotFoundError, FileNotFoundError) as error:
        if "://" not in text:
            raise DataError(
                f"{name}: not a readable Zarr group: no zarr.json or .zgroup is in this folder; "
                "give a Zarr store, a .csv or a .parquet file"
            ) from error
        if not text.startswith("s3"):
            raise DataError(f"{name}: not a readable Zarr group: {one_line(error)}") from error
        raise DataError(f"{name}: no Zarr store of this name is in the bucket; check the path") from error
    except ImportError as error:
        raise UsageError(
            f"{name}: {without_secrets(one_line(error), text)}; install streamhalf[object-storage]"
        ) from error
    except Exception as error:
        if denied := denial(error, text, options):
            raise DataError(f"{name}: {denied}") from error
        raise DataError(f"{name}: not a readable Zarr group: {without_secrets(one_line(error), text)}") from error


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


def _refuse(origin: StoreURL, problem: Callable[[str, str, dict[str, Any]], str | None]) -> None:
    """Say at once, and in its own words, that storage cannot be used."""
    protocol, _, path = origin.url.partition("://")
    try:
        found = None if "::" in origin.url else problem(protocol, path, dict(origin.options))
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
        "this is a file and no Zarr store; write it as .csv (separated by commas) or .parquet, or "
        "give arrays in Python: streamhalf.fit((X, y))"
    )


ATTRIBUTE = "feature_names"
"""Of an array or a group, a list with one name for each feature."""


def names_of_array(X: Any, field: str) -> tuple[str, ...]:
    """Of the columns of a data frame or of an xarray array (rows, features); empty without any."""
    if is_data_array(X):
        if X.ndim != 2:
            return ()
        if ATTRIBUTE in X.attrs:
            return checked_names(X.attrs[ATTRIBUTE], X.shape[1], field)
        coordinate = X.coords.get(X.dims[1])
        return () if coordinate is None else _words(coordinate.values.tolist())
    if isinstance(X, zarr.Array):
        named = X.ndim == 2 and ATTRIBUTE in X.attrs
        return checked_names(X.attrs[ATTRIBUTE], X.shape[1], field) if named else ()
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
    if not isinstance(names, Sequence) or isinstance(names, str) or len(names) != dim:
        found = len(names) if isinstance(names, Sequence) and not isinstance(names, str) else names
        raise DataError(
            f"{field}: {ATTRIBUTE} is {printable(str(found))!r} for {dim} features; give a list of "
            "one name each, or remove the attribute"
        )
    return tuple(printable(str(name)) for name in names)


def _words(names: Iterable[Any]) -> tuple[str, ...]:
    """Names that are words; numbers of columns are none."""
    found = list(names)
    return tuple(map(printable, found)) if all(isinstance(one, str) for one in found) else ()
