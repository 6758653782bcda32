"""All that is used of Zarr beyond its public interface.

tests/data/test_zarr_private.py holds what is relied upon, and says what changed upstream.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numcodecs
import zarr
from zarr.abc.store import ByteRequest, Store
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ZstdCodec
from zarr.core.buffer import default_buffer_prototype
from zarr.core.metadata import ArrayV3Metadata
from zarr.core.sync import sync
from zarr.storage import LocalStore

from streamhalf.data.block import RowRange

_DECODERS: dict[type, str] = {ZstdCodec: "zstd", BloscCodec: "blosc", GzipCodec: "gzip"}
zarrs: Any
try:
    import zarrs
except ImportError:
    zarrs = None


N = TypeVar("N", zarr.Group, zarr.Array[Any])


def refill(array: zarr.Array[Any], fill_value: Any, *, compiled: bool = False) -> zarr.Array[Any]:
    """The same stored array, read with another fill value, and by compiled codecs if it can be."""
    metadata = dataclasses.replace(array.metadata, fill_value=array.dtype.type(fill_value))
    refilled = zarr.AsyncArray(metadata=metadata, store_path=array.store_path)
    if compiled and isinstance(array.store, LocalStore) and zarrs is not None:
        pipeline = zarrs.ZarrsCodecPipeline.from_array_metadata_and_store(metadata, array.store)
        object.__setattr__(refilled, "codec_pipeline", pipeline)
    return zarr.Array(refilled)


def at_absolute_path(node: N) -> N:
    """The same group or array, named so that processes in other folders find it too."""
    if not isinstance(node.store, LocalStore) or node.store.root.is_absolute():
        return node
    store = LocalStore(node.store.root.absolute(), read_only=True)
    return cast(N, zarr.open(store, path=node.path, mode="r"))


def are_whole_shards(array: zarr.Array[Any], rows: RowRange) -> bool:
    """Return True if rows are full shards only, which compiled codecs read faster.

    Of a part of a shard, and of one that is full only with its fill values, they do not look at the
    checksum; plain chunks they read more slowly.
    """
    if array.shards is None:
        return False
    edges = (rows.start, rows.stop, *array.shape[1:])
    shards = (array.shards[0], *array.shards)
    return all(edge % shard == 0 for edge, shard in zip(edges, shards, strict=True))


def chunk_key(array: zarr.Array[Any], index: tuple[int, ...]) -> str:
    """Name of a stored chunk, or shard, below its array."""
    return str(array.metadata.encode_chunk_key(index))


def chunk_names(array: zarr.Array[Any]) -> Callable[[int], str]:
    """Gives the file of a chunk of rows by its number, or its key in a store that has no files."""
    root = f"{array.store.root}/" if isinstance(array.store, LocalStore) else ""
    prefix = f"{root}{array.path}/" if array.path else root
    encode, zeros = array.metadata.encode_chunk_key, (0,) * (array.ndim - 1)
    return lambda number: f"{prefix}{encode((number, *zeros))}"


class ChunkCodecs(NamedTuple):
    """How a stored chunk becomes the bytes of its numbers: its checksum checked, decoded."""

    decoders: tuple[Any, ...]
    has_checksum: bool


def chunk_codecs(array: zarr.Array[Any]) -> ChunkCodecs | None:
    """Return the codecs of chunks that hold whole rows; None where Zarr must decode them.

    That is shards, chunks with some of the columns, another byte order, and other codecs.
    """
    metadata = array.metadata
    if array.shards is not None or array.chunks[1:] != array.shape[1:] or array.dtype.kind not in "fiub":
        return None
    if not isinstance(metadata, ArrayV3Metadata):
        if metadata.order != "C" or metadata.filters:
            return None
        return ChunkCodecs(() if metadata.compressor is None else (metadata.compressor,), False)
    first, *others = metadata.codecs
    endian = getattr(first, "endian", None)
    is_native = (
        array.dtype.itemsize == 1 or getattr(endian, "value", endian) == sys.byteorder
    )  # no enumeration any more
    if not isinstance(first, BytesCodec) or not is_native:
        return None
    if len(others) == 1 and isinstance(others[0], Crc32cCodec):
        return ChunkCodecs((), True)
    names = [_DECODERS.get(type(codec)) for codec in reversed(others)]
    if None in names:
        return None
    return ChunkCodecs(tuple(numcodecs.get_codec({"id": name}) for name in names), False)


def get_now(store: Store, key: str, byte_range: ByteRequest | None) -> bytes | None:
    """Return what a store has under a key; waits, in a thread that is not Zarr's own."""
    found = sync(store.get(key, default_buffer_prototype(), byte_range))
    return None if found is None else found.to_bytes()


def is_checksum_error(error: Exception) -> bool:
    """Return True for Zarr's error about a checksum, which has no type of its own."""
    return "checksum do not match" in str(error)
