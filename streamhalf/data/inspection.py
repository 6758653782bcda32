"""Inspection of a store: contents, layout, missing chunks, advice."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import zarr

from streamhalf.data.block import RowRanges
from streamhalf.data.opening import open_source
from streamhalf.data.source import align_blocks
from streamhalf.data.zarr_groups import open_group, open_member
from streamhalf.data.zarr_reader import MISSING, ZarrReader, stored_rows, unit_of_blocks
from streamhalf.errors import DataError, UsageError
from streamhalf.redact import public_name
from streamhalf.results import Notice

_SMALL_OBJECT, _LARGE_OBJECT = 1 << 20, 256 << 20
_MOST_NAMED = 20
_UNKNOWN = "unknown: chunks are missing"


@dataclass(frozen=True, slots=True)
class ArrayReport:
    """Layout of one stored array."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    chunks: tuple[int, ...]
    shards: tuple[int, ...] | None
    codecs: tuple[str, ...]
    nbytes: int
    n_objects: int
    n_missing: int | None

    @property
    def has_checksum(self) -> bool:
        return any("crc32" in codec.lower() for codec in self.codecs)


@dataclass(frozen=True, slots=True)
class StoreReport:
    """The answer of `inspect`."""

    source: str
    zarr_format: int
    rows: int
    dim: int
    labels: str
    fingerprint: str
    arrays: tuple[ArrayReport, ArrayReport]
    planted: Mapping[str, Any] | None
    missing: tuple[str, ...]
    advice: tuple[str, ...]
    notices: tuple[Notice, ...]


def inspect(
    store: str | os.PathLike[str],
    *,
    features: str = "X",
    labels: str = "y",
    storage_options: Mapping[str, Any] | None = None,
) -> StoreReport:
    """Say what is in a store, whether it is whole, and what would serve better.

    Reads its metadata, a listing, and a few rows.
    """
    if not isinstance(store, str | os.PathLike):
        raise UsageError(f"store: {type(store).__name__} given; inspect takes a path or URL")
    url = os.fspath(store)
    group, name = open_group(url, storage_options=storage_options), public_name(url)
    X, y = (open_member(group, name, key) for key in (features, labels))
    arrays = (_describe(X), _describe(y))
    coding, fingerprint, notices = _UNKNOWN, _UNKNOWN, tuple[Notice, ...]()
    incomplete = any(array.n_missing for array in arrays)
    try:
        source = open_source(url, features=features, labels=labels, storage_options=storage_options)
        coding, fingerprint, notices = str(source.schema.coding), source.fingerprint, source.notices
    except DataError as error:
        # where rows that opening looks at are missing, that is to be told, not to fail on
        if X.ndim != 2 or y.shape != X.shape[:1] or MISSING not in str(error):
            raise
        incomplete = True
    marks = group.attrs.get("streamhalf")
    return StoreReport(
        source=name,
        zarr_format=int(group.metadata.zarr_format),
        rows=X.shape[0],
        dim=X.shape[1],
        labels=coding,
        fingerprint=fingerprint,
        arrays=arrays,
        planted=marks if isinstance(marks, Mapping) and "synthetic" in marks else None,
        missing=_locate(X, y) if incomplete else (),
        advice=tuple(_advise(*arrays, are_whole=unit_of_blocks(X) == stored_rows(X))),
        notices=notices,
    )


def _describe(array: zarr.Array[Any]) -> ArrayReport:
    serializer = (array.serializer,) if array.metadata.zarr_format == 3 else ()
    codecs = (*array.filters, *serializer, *array.compressors)
    pieces = array.shards or array.chunks
    n_objects = math.prod(math.ceil(extent / piece) for extent, piece in zip(array.shape, pieces, strict=True))
    per_object = math.prod(pieces) // math.prod(array.chunks)
    try:
        n_missing = n_objects - array.nchunks_initialized // per_object
    except Exception:  # a storage that cannot list says nothing about what is missing
        n_missing = None
    return ArrayReport(
        name=array.basename,
        shape=array.shape,
        dtype=str(array.dtype),
        chunks=array.chunks,
        shards=array.shards,
        codecs=tuple(type(codec).__name__ for codec in codecs),
        nbytes=array.nbytes,
        n_objects=n_objects,
        n_missing=n_missing,
    )


def _locate(X: zarr.Array[Any], y: zarr.Array[Any]) -> tuple[str, ...]:
    """Name the missing chunks of both arrays, the first of them where they are many."""
    reader, step = ZarrReader(X, y), min(X.chunks[0], y.chunks[0])
    blocks = align_blocks(X.shape[0], stored_rows(X), X.dtype.itemsize * X.shape[1])
    holes = filter(reader.find_missing, (RowRanges.of((rows,)) for rows in blocks))
    found = (reader.find_missing(part) for rows in holes for _, part in rows.by_step(step))
    # a chunk of labels may span several chunks of features: it is named once
    texts = dict.fromkeys(itertools.islice((text for text in found if text), _MOST_NAMED + 1))
    if len(texts) <= _MOST_NAMED:
        return tuple(texts)
    return (*list(texts)[:_MOST_NAMED], "and more; the counts above are of all")


def _advise(X: ArrayReport, y: ArrayReport, *, are_whole: bool) -> Iterator[str]:
    pieces, row_nbytes = X.shards or X.chunks, (X.nbytes + y.nbytes) // X.shape[0]
    object_nbytes = pieces[0] * row_nbytes
    if object_nbytes < _SMALL_OBJECT and X.n_objects > 64:
        yield (
            f"{X.name}: objects of {object_nbytes / 2**20:.2f} MiB are small; chunks of about "
            f"{max(1, (16 << 20) // row_nbytes):,} rows read faster"
        )
    if object_nbytes > _LARGE_OBJECT and are_whole:
        yield (
            f"{X.name}: objects of {object_nbytes / 2**20:,.0f} MiB are read whole by one task; "
            "smaller chunks need less memory"
        )
    if not X.has_checksum:
        yield f"{X.name}: no checksum codec; a flipped bit would go unnoticed (add crc32c)"
    if any(word in codec for codec in X.codecs for word in ("Zstd", "Blosc", "GZip", "Zlib", "LZ4")):
        yield f"{X.name}: compression saves little on real-valued features and slows reading"
    if X.dtype == "float64":
        yield f"{X.name}: float64; float32 halves the bytes, and the sums are in float64 anyway"
    if (y.shards or y.chunks)[0] > 64 * pieces[0]:
        yield f"{y.name}: one chunk of labels spans many chunks of {X.name}; align the two"
