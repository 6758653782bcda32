"""Checkpoints: after every pass its partial goes into a folder, from which a run can go on.

All that a run does between passes is a function of the passes' results, so the results are all
there is to save: a resumed run replays them and reads on where the other stopped. Files hold plain
arrays and JSON, never pickles, and each appears whole or not at all.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.engine.job import Counted
from streamhalf.errors import DataError, UsageError
from streamhalf.folders import Folder
from streamhalf.records import PassRecord, from_json, to_json

MANIFEST = "manifest.json"
_LARGEST_MANIFEST = 16 << 20


@dataclass(frozen=True, slots=True)
class SavedPass:
    """One pass in the manifest; `digest` is that of its file."""

    file: str
    digest: str
    n_rows: int
    record: PassRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What the folder holds, and of which run."""

    schema: str = "streamhalf-checkpoint-1"
    identity: str
    passes: tuple[SavedPass, ...]


class Checkpoint:
    """The checkpoint folder of one run.

    Parameters
    ----------
    folder
        Local or in object storage.
    identity
        What must agree for a run to go on: data, parameters, version; names and values.
    resume
        Go on from what the folder holds; without it a folder that holds a run is refused.
    """

    def __init__(self, folder: Folder, identity: Mapping[str, Any], *, resume: bool) -> None:
        self._folder = folder
        self._identity = json.dumps(to_json(dict(identity)), sort_keys=True)
        self._passes: tuple[SavedPass, ...] = ()
        found = self._read_manifest()
        if found is None:
            return
        if not resume:
            raise UsageError(
                f"checkpoint: {folder.name} holds a run already; add --resume to go on with it, or "
                "name another folder"
            )
        _compare(folder.name, found.identity, self._identity)
        self._passes = found.passes

    @property
    def n_passes(self) -> int:
        """Passes the folder holds."""
        return len(self._passes)

    def load(self, ordinal: int, name: str, template: Any) -> tuple[Counted, PassRecord] | None:
        """The saved partial of a pass, in the shape of `template`; None if there is none."""
        if ordinal >= len(self._passes):
            return None
        saved = self._passes[ordinal]
        content = self._folder.read(saved.file)
        where = f"checkpoint: {self._folder.name}/{saved.file}"
        if content is None or hashlib.sha256(content).hexdigest() != saved.digest:
            raise DataError(f"{where} is missing or damaged; remove the folder and start anew")
        if saved.record.name != name:
            raise DataError(
                f"{where} is of pass {saved.record.name!r}, but {name!r} is next; remove the "
                "folder and start anew"
            )
        partial = _rebuild(template, iter(_unpack(content, where)), where)
        return Counted(saved.n_rows, partial), saved.record

    def save(self, counted: Counted, record: PassRecord) -> None:
        """Write a pass, then the manifest that names it."""
        content = _pack(list(_leaves(counted.partial)))
        file = f"pass-{len(self._passes):03d}.npz"
        self._folder.write(file, content)
        saved = SavedPass(file, hashlib.sha256(content).hexdigest(), counted.n_rows, record)
        passes = (*self._passes, saved)
        manifest = Manifest(identity=self._identity, passes=passes)
        text = json.dumps(to_json(manifest), indent=1, allow_nan=False)
        self._folder.write(MANIFEST, text.encode())
        self._passes = passes

    def _read_manifest(self) -> Manifest | None:
        content = self._folder.read(MANIFEST)
        if content is None:
            return None
        where = f"checkpoint: {self._folder.name}/{MANIFEST}"
        if len(content) > _LARGEST_MANIFEST:
            raise DataError(f"{where} has {len(content)} bytes; not a manifest")
        try:
            data = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where} is not JSON; remove the folder and start anew") from error
        manifest = from_json(Manifest, data, where=where)
        for saved in manifest.passes:
            if "/" in saved.file or not saved.file.startswith("pass-"):
                raise DataError(f"{where}: file {saved.file!r} is not a pass of this folder")
        return manifest


def _compare(name: str, saved: str, wanted: str) -> None:
    """Say which parts of two identities differ."""
    try:
        old, new = json.loads(saved), json.loads(wanted)
        differing = [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
    except (ValueError, TypeError, AttributeError) as error:
        raise DataError(f"checkpoint: {name}: identity is damaged; start anew") from error
    if differing:
        said = ", ".join(f"{key} (was {old.get(key)!r}, is {new.get(key)!r})" for key in differing)
        raise UsageError(
            f"checkpoint: {name} is of another run: {said}; use what the run began with, or start "
            "anew in another folder"
        )


def _leaves(value: Any) -> Iterator[NDArray[Any]]:
    """The numbers of a partial, in a fixed order."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _leaves(getattr(value, field.name))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _leaves(item)
    else:
        yield np.asarray(value)


def _rebuild(template: Any, arrays: Iterator[NDArray[Any]], where: str) -> Any:
    """A partial in the shape of the template, with the numbers of `arrays`."""
    if dataclasses.is_dataclass(template) and not isinstance(template, type):
        values = {
            field.name: _rebuild(getattr(template, field.name), arrays, where)
            for field in dataclasses.fields(template)
        }
        return dataclasses.replace(template, **values)
    if isinstance(template, tuple | list):
        return type(template)(_rebuild(item, arrays, where) for item in template)
    expected = np.asarray(template)
    array = next(arrays, None)
    if array is None or array.shape != expected.shape or array.dtype.kind not in "fiu":
        raise DataError(f"{where} does not fit its pass; remove the folder and start anew")
    return array if isinstance(template, np.ndarray) else type(template)(array.item())


def _pack(arrays: list[NDArray[Any]]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, *arrays)
    return buffer.getvalue()


def _unpack(content: bytes, where: str) -> list[NDArray[Any]]:
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            return [archive[f"arr_{i}"] for i in range(len(archive.files))]
    except (ValueError, KeyError, OSError, zipfile.BadZipFile) as error:
        raise DataError(f"{where} is not an archive of arrays; start anew") from error
