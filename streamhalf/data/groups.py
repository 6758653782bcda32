"""Zarr groups and their arrays, opened for reading, or why they cannot be."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any

import zarr

from streamhalf.data.sight import find_trouble
from streamhalf.data.source import nearest_names
from streamhalf.errors import DataError, UsageError
from streamhalf.names import one_line, printable, public_name, without_secrets
from streamhalf.retry import retrying

_START = 4096
"""Characters of a file that tell what it is."""


def open_group(
    url: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None
) -> zarr.Group:
    """Open a Zarr group for reading, or say in one line why it cannot be."""
    text = os.fspath(url)
    name = public_name(text)
    if "://" not in text and not os.path.exists(text):
        raise DataError(f"{name}: no such store; check the path")
    if "://" not in text and os.path.isfile(text):
        raise DataError(f"{name}: {_kind_of_file(text)}; a Zarr store is a folder")
    if "://" not in text:
        text = os.path.abspath(text)  # it travels to workers, which live in other folders
    options = dict(storage_options) if storage_options and "://" in text else None
    _refuse_out_of_sight(text, options or {})
    try:
        return retrying(lambda: zarr.open_group(text, mode="r", storage_options=options))
    except (zarr.errors.GroupNotFoundError, FileNotFoundError) as error:
        if not text.startswith("s3"):
            raise DataError(f"{name}: not a readable Zarr group: {one_line(error)}") from error
        raise DataError(
            f"{name}: no Zarr store of this name is in the bucket; check the path"
        ) from error
    except ImportError as error:
        raise UsageError(
            f"{name}: {without_secrets(one_line(error), text)}; install streamhalf[object-storage]"
        ) from error
    except Exception as error:
        raise DataError(
            f"{name}: not a readable Zarr group: {without_secrets(one_line(error), text)}"
        ) from error


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
    raise DataError(f"{name}: no array named {key!r}; {printable(nearest_names(key, others))}")


def _refuse_out_of_sight(url: str, options: dict[str, Any]) -> None:
    """Say at once, and in its own words, that storage cannot be used."""
    protocol, mark, path = url.partition("://")
    try:
        found = find_trouble(protocol, path, options) if mark and "::" not in url else None
    except ImportError:
        return  # told by whoever opens it
    if found is not None:
        raise DataError(f"data: this process {found}")


def _kind_of_file(path: str) -> str:
    """What a file is that stands where a store should."""
    try:
        with open(path, encoding="utf-8") as file:
            start = file.read(_START)
    except (OSError, ValueError):
        start = ""
    if '"schema": "streamhalf-' in start:
        return "this is a result file, not data; give the store that it was made from"
    if path.endswith((".zip", ".csv", ".npy", ".npz", ".parquet", ".h5")):
        return "this is a file and no Zarr store; convert it, or give arrays in Python"
    return "this is a file and no Zarr store"
