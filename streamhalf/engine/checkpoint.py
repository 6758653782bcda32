"""Checkpoints: the partial of every pass in a folder, from which a run can be resumed.

What a run does between passes is a function of their results: a resumed run replays these and
reads on. Files hold plain arrays and JSON, never pickles, and each appears whole or not at all.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from streamhalf.engine.job import Counted
from streamhalf.errors import DataError, UsageError
from streamhalf.paths import Folder
from streamhalf.redact import one_line
from streamhalf.reductions.base import Reduction
from streamhalf.results import PassRecord, Record, from_json, to_json

MANIFEST = "manifest.json"
SCHEMA: Final = "streamhalf-checkpoint-4"
_LARGEST_MANIFEST = 16 << 20
_OVERHEAD = 4096  # more than the headers of one array in an archive


class SavedPass(Record, frozen=True):
    """One pass in the manifest, with the digest of its file."""

    file: str
    digest: str
    n_rows: int
    record: PassRecord


class Manifest(Record, frozen=True, kw_only=True):
    """The passes in the folder, and the run they are of."""

    schema: Literal["streamhalf-checkpoint-4"] = SCHEMA
    identity: dict[str, Any]
    passes: tuple[SavedPass, ...]


class Checkpoint:
    """The checkpoint folder of one run.

    Its `identity` (data, parameters, version) must agree with the run that the folder holds, but
    for the names in `kept`, which a resumed run takes from there. Without `resume`, a folder that
    holds a run is refused.
    """

    def __init__(
        self, folder: Folder, identity: Mapping[str, Any], *, resume: bool, kept: tuple[str, ...] = ()
    ) -> None:
        self.folder = folder
        self.identity: Mapping[str, Any] = to_json(dict(identity))
        self.passes: tuple[SavedPass, ...] = ()
        found = self._read_manifest()
        if found is None:
            return
        if not resume:
            raise UsageError(
                f"checkpoint: {folder.name} holds a run already; add --resume to go on with it, or name another folder"
            )
        self.identity = _agree(folder.name, found.identity, self.identity, kept)
        self.passes = found.passes

    def load(
        self, ordinal: int, name: str, reduction: Reduction[Any, Any], dim: int
    ) -> tuple[Counted, PassRecord] | None:
        """Return the saved partial of a pass, if there is one."""
        if ordinal >= len(self.passes):
            return None
        saved, template = self.passes[ordinal], reduction.empty(dim)
        content = self.folder.read(saved.file, packed_nbytes(template))
        where = f"checkpoint: {self.folder.name}/{saved.file}"
        if content is None or hashlib.sha256(content).hexdigest() != saved.digest:
            raise DataError(f"{where} is missing or damaged; remove the folder and start anew")
        if saved.record.name != name:
            raise DataError(
                f"{where} is of pass {saved.record.name!r}, but {name!r} is next; remove the folder and start anew"
            )
        return Counted(saved.n_rows, unpack(content, template, where)), saved.record

    def save(self, counted: Counted, record: PassRecord) -> None:
        """Write a pass, then the manifest that names it."""
        content = pack(counted.partial)
        file = _file_name(len(self.passes))
        self.folder.write(file, content)
        saved = SavedPass(file, hashlib.sha256(content).hexdigest(), counted.n_rows, record)
        passes = (*self.passes, saved)
        manifest = Manifest(identity=dict(self.identity), passes=passes)
        text = json.dumps(to_json(manifest), indent=1, allow_nan=False)
        self.folder.write(MANIFEST, text.encode())
        self.passes = passes

    def _read_manifest(self) -> Manifest | None:
        content = self.folder.read(MANIFEST, _LARGEST_MANIFEST)
        if content is None:
            return None
        where = f"checkpoint: {self.folder.name}/{MANIFEST}"
        try:
            data = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where} is not JSON; remove the folder and start anew") from error
        schema = data.get("schema") if isinstance(data, dict) else None
        if str(schema).startswith("streamhalf-checkpoint-") and schema != SCHEMA:
            raise UsageError(
                f"{where} is of another version of streamhalf; go on with that one, or start anew in another folder"
            )
        manifest = from_json(Manifest, data, where=where)
        for i, saved in enumerate(manifest.passes):
            if saved.file != _file_name(i):
                raise DataError(
                    f"{where}: file {saved.file!r} is not pass {i} of this folder; remove the folder and start anew"
                )
        return manifest


def _agree(name: str, old: Mapping[str, Any], wanted: Mapping[str, Any], kept: tuple[str, ...]) -> Mapping[str, Any]:
    """Return the identity of a resumed run; refuse one that differs from what is wanted."""
    if any(type(old.get(key)) is not type(wanted[key]) for key in kept):
        raise DataError(f"checkpoint: {name}: identity is damaged; start anew")
    new = {**wanted, **{key: old[key] for key in kept}}
    differing = [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
    if differing:
        said = ", ".join(f"{key} (was {old.get(key)!r}, is {new.get(key)!r})" for key in differing)
        raise UsageError(
            f"checkpoint: {name} is of another run: {said}; use what the run began with, or start "
            "anew in another folder"
        )
    return new


def pack(partial: Any) -> bytes:
    """Return the numbers of a partial as an archive of plain arrays."""
    buffer = io.BytesIO()
    np.savez(buffer, *leaves(partial))
    return buffer.getvalue()


def packed_nbytes(template: Any) -> int:
    """Return the most bytes that the archive of such a partial takes."""
    return sum(array.nbytes + _OVERHEAD for array in leaves(template)) + _OVERHEAD


def unpack(content: bytes, template: Any, where: str) -> Any:
    """Return the partial in an archive, in the shape of the template; refuse another shape."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            if sum(file.file_size for file in archive.zip.infolist()) > packed_nbytes(template):
                raise ValueError("larger arrays")
            arrays = [np.asarray(archive[f"arr_{i}"]) for i in range(len(archive.files))]
        for array, like in zip(arrays, leaves(template), strict=True):
            # a whole number from 2^63 up, such as a digest, is stored without a sign
            unsigned = array.dtype == np.uint64 and like.dtype == np.int64 and not like.ndim
            if array.shape != like.shape or not (array.dtype == like.dtype or unsigned):
                raise ValueError(f"{array.shape} of {array.dtype}, not {like.shape} of {like.dtype}")
    # TypeError: no archive; RuntimeError: an encrypted member; MemoryError: a header of a huge array
    except (ValueError, TypeError, KeyError, OSError, EOFError, RuntimeError, MemoryError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{where} does not hold the arrays of its pass ({one_line(error)}); remove the folder and start anew"
        ) from error
    return _rebuild(template, iter(arrays))


def leaves(value: Any) -> Iterator[NDArray[Any]]:
    """Yield all numbers in a partial or result, in a fixed order."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from leaves(getattr(value, field.name))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from leaves(item)
    elif value is not None:
        yield np.asarray(value)


def _rebuild(template: Any, arrays: Iterator[NDArray[Any]]) -> Any:
    """Return a partial in the shape of the template, with the numbers of `arrays`."""
    if dataclasses.is_dataclass(template) and not isinstance(template, type):
        values = {field.name: _rebuild(getattr(template, field.name), arrays) for field in dataclasses.fields(template)}
        return dataclasses.replace(template, **values)
    if isinstance(template, tuple | list):
        return type(template)(_rebuild(item, arrays) for item in template)
    array = next(arrays)
    return array if isinstance(template, np.ndarray) else type(template)(array.item())


def _file_name(ordinal: int) -> str:
    return f"pass-{ordinal:03d}.npz"
