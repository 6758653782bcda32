"""`Source`: labelled rows from wherever they are, opened and validated once."""

from __future__ import annotations

import bisect
import difflib
import hashlib
import itertools
from collections.abc import Hashable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block, RowRange
from streamhalf.data.schema import LabelCoding, RowSchema, find_coding
from streamhalf.data.stored import UnlabelledReader, ZarrReader
from streamhalf.errors import DataError, UsageError
from streamhalf.records import DataRecord, LabelsAreBits, Notice

BLOCK_NBYTES = 16 << 20
"""Small stored chunks are read together until a block has about this size."""

_PROBES, _PROBE_ROWS = 4, 64


class Reader(Protocol):
    """Raw rows by number; picklable."""

    def read(self, rows: RowRange) -> tuple[NDArray[Any], NDArray[Any]]:
        """Raw features (n, d) and labels (n,)."""
        ...

    def find_missing(self, rows: RowRange) -> str | None:
        """Say what of the range is not stored, or None."""
        ...

    def read_nbytes(self, rows: RowRange) -> int:
        """Bytes that reading the range takes out of storage, as numbers in memory."""
        ...

    def prefetch(self, rows: RowRange) -> bool:
        """Have rows brought near without waiting; False where only reading them does that."""
        ...

    @property
    def defers_checks(self) -> bool:
        """Whether parts of stored chunks are read without a look at their checksums."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A data set: how to read it, what a row is, and how rows fall into blocks.

    Parameters
    ----------
    name
        What the user called it, without credentials.
    reader
        Reads raw rows.
    schema
        Checks them and turns them into blocks.
    blocks
        Consecutive row ranges, aligned to whole stored chunks or shards.
    row_nbytes
        Bytes of one row, label included, in memory.
    fingerprint
        Digest of shape, dtype and the values of sampled rows; the same whatever the chunking.
    notices
        What the user should know about the data.
    """

    name: str
    reader: Reader
    schema: RowSchema
    blocks: tuple[RowRange, ...]
    row_nbytes: int
    fingerprint: str
    notices: tuple[Notice, ...] = ()

    @property
    def n_rows(self) -> int:
        """How many rows the data set has."""
        return self.blocks[-1].stop

    @property
    def dim(self) -> int:
        """How many features a row has."""
        return self.schema.dim

    def read(self, rows: RowRange) -> Block:
        """Read and check a range of rows."""
        X, y = self.reader.read(rows)
        try:
            return self.schema.block(rows, X, y)
        except DataError:
            if missing := self.reader.find_missing(rows):
                raise DataError(missing) from None
            raise

    def reads(self, ranges: tuple[RowRange, ...]) -> list[tuple[RowRange, ...]]:
        """Group rising ranges by the block they begin in: a stored chunk is decoded whole."""
        starts = [block.start for block in self.blocks]
        home = [bisect.bisect_right(starts, rows.start) for rows in ranges]
        pairs = itertools.groupby(zip(home, ranges, strict=True), key=lambda pair: pair[0])
        return [tuple(rows for _, rows in group) for _, group in pairs]

    def read_each(self, ranges: tuple[RowRange, ...]) -> Iterator[Block]:
        """Read several ranges, each stored chunk once, and the next while one is worked on.

        Where the kernel can be asked for the next, no thread is needed for it: next to one that
        computes, a thread that reads costs both a tenth of their time.
        """
        groups = self.reads(ranges)
        if len(groups) < 2 or self._prefetch(groups[0]):
            for group, coming in itertools.zip_longest(groups, groups[1:]):
                if coming is not None:
                    self._prefetch(coming)
                yield from self._read_group(group)
            return
        with ThreadPoolExecutor(1, thread_name_prefix="read-ahead") as ahead:
            coming = ahead.submit(self._read_group, groups[0])
            for group in groups[1:]:
                blocks = coming.result()
                coming = ahead.submit(self._read_group, group)
                yield from blocks
            yield from coming.result()

    def _prefetch(self, group: tuple[RowRange, ...]) -> bool:
        return self.reader.prefetch(RowRange(group[0].start, group[-1].stop))

    def _read_group(self, group: tuple[RowRange, ...]) -> list[Block]:
        """The ranges of one block, in one read unless that takes more bytes, then cut apart."""
        if len(group) == 1:
            return [self.read(group[0])]
        span = RowRange(group[0].start, group[-1].stop)
        if sum(map(self.reader.read_nbytes, group)) < self.reader.read_nbytes(span):
            return [self.read(rows) for rows in group]
        start = span.start
        whole = self.read(span)
        windows = [slice(rows.start - start, rows.stop - start) for rows in group]
        return [Block(whole.X[cut], whole.y[cut], whole.rows[cut]) for cut in windows]

    def reblocked(self, block_rows: int) -> Source:
        """The same rows, cut into blocks of `block_rows` whatever the stored chunks.

        Blocks are no longer whole chunks, so every chunk is held against its checksum at once.
        """
        if block_rows < 1:
            raise UsageError(f"block_rows: {block_rows} given; use at least 1")
        starts = range(0, self.n_rows, block_rows)
        blocks = tuple(RowRange(i, min(i + block_rows, self.n_rows)) for i in starts)
        return replace(self, blocks=blocks).checked_at_once()

    def checked_at_once(self) -> Source:
        """The same rows, every chunk held against its checksum whenever a part of it is read."""
        if not isinstance(self.reader, ZarrReader):
            return self
        return replace(self, reader=replace(self.reader, parts=False))

    @property
    def record(self) -> DataRecord:
        """Which data this is, for results."""
        return DataRecord(self.n_rows, self.dim, self.fingerprint, self.name)


@dataclass(frozen=True, slots=True)
class Shape:
    """What opening found out about the two arrays before any row was read."""

    name: str
    features: str
    labels: str
    features_shape: tuple[int, ...]
    labels_shape: tuple[int, ...]
    features_dtype: np.dtype[Any]
    labels_dtype: np.dtype[Any]
    features_chunk_rows: int
    labels_chunk_rows: int

    def validate(self) -> None:
        """Refuse shapes and dtypes that are not labelled rows."""
        X, y = self.features, self.labels
        if len(self.features_shape) == 2 and self.features_shape[1] == 0:
            raise DataError(
                f"{X}: there are no features (shape {self.features_shape}); store one column or "
                "more"
            )
        if len(self.features_shape) != 2 or self.features_shape[1] < 1:
            raise DataError(f"{X}: shape {self.features_shape}; expected (rows, features)")
        if len(self.labels_shape) != 1:
            raise DataError(f"{y}: shape {self.labels_shape}; expected (rows,)")
        if self.features_shape[0] != self.labels_shape[0]:
            raise DataError(
                f"{X} has {self.features_shape[0]} rows and {y} has {self.labels_shape[0]}; "
                "expected as many labels as rows"
            )
        if self.features_shape[0] == 0:
            raise DataError(f"{X}: 0 rows; at least 1 is needed")
        if self.features_dtype.kind != "f" or self.features_dtype.itemsize not in (4, 8):
            raise DataError(
                f"{X}: dtype {self.features_dtype}; expected float32 or float64 (convert it)"
            )
        if self.labels_dtype.kind not in "biuf":
            raise DataError(
                f"{y}: dtype {self.labels_dtype}; expected integers -1/+1 or 0/1, or bool"
            )


def build_source(shape: Shape, reader: Reader, blocks: tuple[RowRange, ...]) -> Source:
    """Validate, look at a few rows, settle the label coding, and fingerprint."""
    shape.validate()
    n_rows, dim = shape.features_shape
    samples = [(rows, *reader.read(rows)) for rows in _probe_ranges(n_rows)]
    labels = [y for _, _, y in samples]
    coding = _settle_coding(shape, reader, blocks, labels)
    schema = RowSchema(
        features=shape.features,
        labels=shape.labels,
        dim=dim,
        coding=coding,
        features_chunk_rows=shape.features_chunk_rows,
        labels_chunk_rows=shape.labels_chunk_rows,
    )
    notices: tuple[Notice, ...] = ()
    if coding is LabelCoding.BITS:
        notices = (LabelsAreBits(shape.labels),)
    source = Source(
        name=shape.name,
        reader=reader,
        schema=schema,
        blocks=blocks,
        row_nbytes=dim * shape.features_dtype.itemsize + shape.labels_dtype.itemsize,
        fingerprint="",
        notices=notices,
    )
    return replace(source, fingerprint=_fingerprint(source, shape.features_dtype))


def align_blocks(n_rows: int, chunk_rows: int, row_nbytes: int) -> tuple[RowRange, ...]:
    """Cut rows into blocks of whole chunks of about `BLOCK_NBYTES` each."""
    chunks = max(1, BLOCK_NBYTES // (chunk_rows * row_nbytes))
    step = chunk_rows * chunks
    return tuple(RowRange(i, min(i + step, n_rows)) for i in range(0, n_rows, step))


def nearest_names(wanted: str, found: Iterable[Hashable]) -> str:
    """Words for an error about a name that is not there."""
    names = sorted(str(name) for name in found)
    close = difflib.get_close_matches(wanted, names, n=1, cutoff=0.5)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    return f"found: {', '.join(names) or 'nothing'}{hint}"


def _probe_ranges(n_rows: int) -> list[RowRange]:
    if n_rows <= _PROBES * _PROBE_ROWS:
        return [RowRange(0, n_rows)]
    starts = [i * (n_rows - _PROBE_ROWS) // (_PROBES - 1) for i in range(_PROBES)]
    return [RowRange(start, start + _PROBE_ROWS) for start in starts]


def _settle_coding(
    shape: Shape, reader: Reader, blocks: tuple[RowRange, ...], labels: list[NDArray[Any]]
) -> LabelCoding:
    if shape.labels_dtype.kind == "b":
        return LabelCoding.BITS
    plausible = [y[np.isin(y, (-1, 0, 1))] for y in labels]  # the rest is named when it is read
    found = find_coding(shape.labels, np.concatenate(plausible))
    settled = found is not None or isinstance(reader, UnlabelledReader)
    for rows in () if settled else blocks:  # all ones so far: look until a row tells
        y = reader.read(rows)[1]
        found = find_coding(shape.labels, y[np.isin(y, (-1, 0, 1))])
        if found is not None:
            break
    return found or LabelCoding.SIGNS


def _fingerprint(source: Source, dtype: np.dtype[Any]) -> str:
    digest = hashlib.sha256(f"{source.n_rows} {source.dim} {dtype.newbyteorder('=')}".encode())
    for rows in _probe_ranges(source.n_rows):
        block = source.read(rows)
        digest.update(block.X.astype(block.X.dtype.newbyteorder("<")).tobytes())
        digest.update(block.y.tobytes())
    return digest.hexdigest()[:32]
