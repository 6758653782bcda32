"""Where things are read from and written to: nothing that is written may harm what is read."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from streamhalf.errors import UsageError
from streamhalf.redact import public_name

Place: TypeAlias = "str | os.PathLike[str]"

_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}


def place_of(data: Any) -> str | None:
    """Where data come from: a path or URL, or that of a Zarr group or Dataset; None if unknown."""
    if isinstance(data, str | os.PathLike):
        return os.fspath(data)
    if (path := getattr(data, "store_path", None)) is not None:  # a Zarr group
        return str(path)
    source = getattr(data, "encoding", {}).get("source") if hasattr(data, "encoding") else None
    return source if isinstance(source, str) else None


def normalised(place: Place) -> str:
    """One spelling for each place: links resolved, no dots, no user, no query, no last slash."""
    text = os.fspath(place)
    text = text.rpartition("::")[2] if "://" in text else text
    scheme, mark, rest = text.partition("://")
    if not mark:
        return os.path.realpath(os.path.expanduser(text))
    scheme = _ALIASES.get(scheme.lower(), scheme.lower())
    if scheme in ("file", "local"):
        return os.path.realpath(rest)
    rest = re.sub(r"^[^/]*@", "", rest.partition("?")[0])
    return f"{scheme}://{posixpath.normpath(rest).strip('/')}"


def absolute(place: Place) -> str:
    """A path that processes in other folders understand too; a URL as it is."""
    text = os.fspath(place)
    return text if "://" in text else os.path.abspath(text)


def is_within(inner: Place, outer: Place) -> bool:
    """Whether a place is another, or lies somewhere in it."""
    low, high = normalised(inner), normalised(outer)
    if low == high or low.startswith(high.rstrip("/") + "/"):
        return True
    if "://" in low or "://" in high or not os.path.exists(high):
        return False
    # one folder may have several names: mounts, and systems that do not tell capitals apart
    return any(place.exists() and place.samefile(high) for place in (Path(low), *Path(low).parents))


def refuse_harm(store: Place, outputs: Mapping[str, Place], *, replaces: bool = False) -> None:
    """Refuse to write into a store that is read.

    Parameters
    ----------
    store
        What is read.
    outputs
        What is written, by the name of its parameter.
    replaces
        Whether an output takes the place of everything that stands there.
    """
    name = public_name(os.fspath(store))
    for option, place in outputs.items():
        inside, around = is_within(place, store), is_within(store, place)
        if inside or (replaces and around):
            where = "contains" if not inside else "is" if around else "lies inside"
            raise UsageError(
                f"{option}: {public_name(os.fspath(place))} {where} the data {name} that are read; "
                "choose another path"
            )


def refuse_clash(inputs: Mapping[str, Place], outputs: Mapping[str, Place]) -> None:
    """Refuse two outputs in one place, and an output in the place of an input file."""
    seen = {normalised(place): option for option, place in inputs.items() if not _is_device(place)}
    for option, place in outputs.items():
        if _is_device(place):
            continue
        if (other := seen.get(normalised(place))) is not None:
            raise UsageError(
                f"{option}: {public_name(os.fspath(place))} is also what {other} names; give each "
                "a path of its own"
            )
        seen[normalised(place)] = option


def _is_device(place: Place) -> bool:
    """Whether it is a pipe or a device, which takes whatever it is given."""
    text = os.fspath(place)
    return text == "-" or (
        "://" not in text
        and os.path.exists(text)
        and not (os.path.isfile(text) or os.path.isdir(text))
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
            f"cache: {folder} cannot be made ({error.strerror}); choose a folder that you may "
            "write to"
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"cache: {folder} cannot be written to; choose another folder")
