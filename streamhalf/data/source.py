"""`Source`: labelled rows from wherever they are, opened and validated once."""

from __future__ import annotations

import difflib
import hashlib
import itertools
from collections.abc import Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.arrays import ArrayReader, DaskReader, stored_numbers
from streamhalf.data.block import Block, Reader, RowRange, RowRanges
from streamhalf.data.schema import (
    BITS,
    SIGNS,
    LabelCoding,
    RowSchema,
    coding_like,
    distinct,
    find_coding,
    is_feature_dtype,
    plain_label,
    words_on_dtype,
    working_dtype,
)
from streamhalf.data.zarr_reader import GRID_ROWS, ZarrReader, impossible_value, stored_rows
from streamhalf.errors import DataError, UsageError
from streamhalf.results import DataRecord, EncodingRecord, Notice, NoticeCode

BLOCK_NBYTES = 16 << 20  # Small stored chunks are read together until a block has about this size
_LEAST_BLOCKS, LEAST_NBYTES = 64, 4 << 20  # Smaller blocks of at least so many bytes, so that there are so many of them
_MANY_CHUNKS, _SMALL_NBYTES = 256, 1 << 20
_MOST_CHUNKS = 4096
_TINY_NBYTES, _KEPT_NBYTES = 64 << 10, 64 << 20
_PROBES, _PROBE_ROWS = 4, 64


class OwnColumns:
    """The user's columns of the stored rows, features or not; they stay in the process that opened the data."""

    __slots__ = ()

    @property
    def names(self) -> tuple[str, ...]:
        raise NotImplementedError

    def take(self, rows: NDArray[np.int64], names: Sequence[str]) -> dict[str, Any]:
        """Return columns, as Arrow arrays, of stored rows whose numbers rise; only these rows are held."""
        raise NotImplementedError

    def __reduce__(self) -> Any:
        return type(None), ()


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A data set: how to read it, what a row is, and how rows fall into blocks.

    `blocks` are aligned to what is read as a whole: stored chunks, or shards. `row_nbytes` are those
    in memory, label included. `fingerprint` is a digest of shape, dtype and the values of sampled
    rows, the same whatever the chunking. `dropped` are the stored rows that are left out, rising.
    """

    name: str
    reader: Reader
    schema: RowSchema
    blocks: RowRanges
    row_nbytes: int
    fingerprint: str
    notices: tuple[Notice, ...] = ()
    encoding: EncodingRecord | None = None
    snapshot: str = ""
    dropped: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    own: OwnColumns | None = None

    @property
    def n_rows(self) -> int:
        return self.blocks[-1].stop

    @property
    def dim(self) -> int:
        return self.schema.dim

    @property
    def is_labelled(self) -> bool:
        return not any(one.code is NoticeCode.LABELS_ABSENT for one in self.notices)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """A name for every feature: its own, or x1, x2, ..."""
        return self.record.feature_names

    @property
    def working_dtype(self) -> np.dtype[Any]:
        return working_dtype(np.dtype(self.reader.features.dtype))

    @property
    def unit_rows(self) -> int | None:
        """Rows of a stored chunk where it is read whole or not at all, else None."""
        return self.reader.unit_rows

    def read(self, rows: RowRange) -> Block:
        return self._read(RowRanges.of((rows,)))

    def _read(self, rows: RowRanges) -> Block:
        X, y = self.reader.read(rows)
        try:
            return self.schema.block(rows, X, y)
        except DataError:
            if missing := self.reader.find_missing(rows):
                raise DataError(missing) from None
            raise

    def pieces(self, ranges: RowRanges) -> tuple[RowRanges, NDArray[np.int64]]:
        """The rows, cut at blocks, and the number of the block that each piece lies in."""
        if not len(ranges):
            return ranges, np.empty(0, dtype=np.int64)
        starts = self.blocks.bounds[:, 0]
        first = int(np.searchsorted(starts, ranges.span.start, side="right")) - 1
        last = int(np.searchsorted(starts, ranges.span.stop))
        near = starts[first:last]  # a task of a few rows does not look at all blocks
        pieces = ranges.cut(near)
        return pieces, first + np.searchsorted(near, pieces.bounds[:, 0], side="right") - 1

    def reads(self, ranges: RowRanges) -> list[tuple[RowRange, RowRanges]]:
        """Return the blocks that are read at once, each with its rows."""
        pieces, homes = self.pieces(ranges)
        blocks = RowRanges(self.blocks.bounds[np.unique(homes)])
        return list(zip(blocks, pieces.grouped(homes), strict=True))

    def gathered(self, ranges: RowRanges) -> list[RowRanges]:
        """The same rows, few of neighbouring blocks together, no more than a block of them.

        Work takes its time by the piece as well as by the row. Where chunks are decoded whole, the
        rows of one block are enough to hold.
        """
        gathered: list[list[RowRanges]] = []
        held, most = 0, self.blocks[0].n_rows if self.unit_rows is None else 0
        for _, rows in self.reads(ranges):
            if gathered and held + rows.n_rows <= most:
                gathered[-1].append(rows)
            else:
                gathered.append([rows])
                held = 0
            held += rows.n_rows
        return [RowRanges(np.concatenate([one.bounds for one in some])) for some in gathered]

    def read_each(self, ranges: RowRanges, following: RowRanges | None = None) -> Iterator[Block]:
        """Read rows, a block of them at once, and the next, then the first `following` ones, while one is worked on.

        Where the kernel can be asked for the next, no thread is needed for it: next to one that
        computes, a thread that reads costs both a tenth of their time.
        """
        groups = self.gathered(ranges)
        later = [] if following is None else self.gathered(following)[:1]
        if len(groups) + len(later) < 2 or self.reader.prefetch(groups[0]):
            for group, coming in itertools.zip_longest(groups, [*groups[1:], *later]):
                if coming is not None:
                    self.reader.prefetch(coming)
                yield self._read(group)
            return
        with ThreadPoolExecutor(1, thread_name_prefix="read-ahead") as ahead:
            coming = ahead.submit(self._read, groups[0])
            for group in groups[1:]:
                block = coming.result()
                coming = ahead.submit(self._read, group)
                yield block
            yield coming.result()

    def reblocked(self, block_rows: int) -> Source:
        """The same rows in blocks of another size, no longer whole chunks, whose checksums are checked at once."""
        if block_rows < 1:
            raise UsageError(f"block_rows: {block_rows} given; use at least 1")
        blocks = RowRanges.evenly(self.n_rows, block_rows)
        return replace(self, blocks=blocks).checked_at_once()

    @property
    def has_tiny_chunks(self) -> bool:
        """Return True for a small local data set in hundreds of tiny chunks, to be read once."""
        nbytes, reader = self.n_rows * self.row_nbytes, self.reader
        if not isinstance(reader, ZarrReader) or reader.remote is not None or nbytes > _KEPT_NBYTES:
            return False
        n_chunks = self.n_rows / stored_rows(reader.features)
        return n_chunks > max(_MANY_CHUNKS, nbytes / _TINY_NBYTES)

    def kept(self) -> Source:
        """The same rows, read and checked now and kept in memory; read in the same blocks."""
        features = np.empty((self.n_rows, self.dim), working_dtype(self.reader.features.dtype))
        labels = np.empty(self.n_rows, dtype=np.int8)
        for rows in self.blocks:
            block = self.read(rows)
            features[rows.start : rows.stop], labels[rows.start : rows.stop] = block.X, block.y
        reader = ArrayReader(features, labels, self.unit_rows)
        return replace(self, reader=reader, schema=replace(self.schema, coding=SIGNS))

    def named(self, columns: tuple[str, ...], classes: tuple[Any, ...] = ()) -> Source:
        """The same rows, their features under these names, and -1 and +1 for these classes."""
        return replace(self, schema=replace(self.schema, columns=columns, classes=classes))

    def checked_at_once(self) -> Source:
        """The same rows, every chunk held against its checksum before a part of it is read."""
        if not isinstance(self.reader, ZarrReader):
            return self
        return replace(self, reader=replace(self.reader, parts=False))

    def fingerprint_of(self, n_rows: int) -> str:
        edges = np.array([n_rows], dtype=np.int64)
        pieces = self.blocks.cut(edges).bounds
        first = replace(self, blocks=RowRanges(pieces[pieces[:, 1] <= n_rows]))
        return _fingerprint(first, self.reader.features.dtype)

    @property
    def record(self) -> DataRecord:
        classes = () if self.schema.label_values == SIGNS.values else self.schema.label_values
        names = self.schema.columns
        return DataRecord(
            self.n_rows, self.dim, self.fingerprint, self.name, names, classes, self.encoding, self.snapshot
        )

    def stored_numbers(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers that rows have in the stored data, where some are left out."""
        return stored_numbers(self.dropped, rows)

    def check_kept(self, keep: Sequence[str]) -> None:
        """Refuse columns to keep that the data do not have."""
        names = () if self.own is None else self.own.names
        if keep and not names:
            raise UsageError("keep: the data have no columns beside the features; leave it out (--keep)")
        if unknown := [name for name in keep if name not in names]:
            raise UsageError(
                f"keep: {', '.join(map(repr, unknown))} not among the columns; {nearest_names(unknown[0], names)}"
            )

    def kept_columns(self, rows: NDArray[np.int64], keep: Sequence[str]) -> dict[str, Any]:
        """Return the user's columns, as Arrow arrays, of rows in any order."""
        if not keep:
            return {}
        self.check_kept(keep)
        assert self.own is not None
        stored, places = np.unique(self.stored_numbers(rows), return_inverse=True)
        return {name: column.take(places) for name, column in self.own.take(stored, keep).items()}


def check_arrays(features: str, X: Any, labels: str, y: Any) -> None:
    """Refuse arrays whose shapes and dtypes are not those of labelled rows; y may be None."""
    if X.ndim == 2 and X.shape[1] == 0:
        raise DataError(f"{features}: there are no features (shape {X.shape}); store one column or more")
    if X.ndim != 2:
        raise DataError(f"{features}: shape {X.shape}; expected (rows, features)")
    if y is not None and y.ndim != 1:
        raise DataError(f"{labels}: shape {y.shape}; expected (rows,)")
    if y is not None and X.shape[0] != y.shape[0]:
        raise DataError(
            f"{features} has {X.shape[0]} rows and {labels} has {y.shape[0]}; expected as many labels as rows"
        )
    if X.shape[0] == 0:
        raise DataError(f"{features}: 0 rows; at least 1 is needed")
    if not is_feature_dtype(X.dtype):
        raise DataError(f"{features}: {words_on_dtype(X.dtype)}")
    if y is not None and y.dtype.kind not in "biufUSTO":
        raise DataError(f"{labels}: dtype {y.dtype}; expected two values: numbers, bool or text")


def build_source(
    name: str,
    reader: Reader,
    blocks: RowRanges,
    *,
    names: tuple[str, str],
    chunk_rows: tuple[int, int],
    columns: tuple[str, ...] = (),
    labelled: bool = True,
    probe: bool = True,
    positive: str | None = None,
    known: tuple[Any, ...] = (),
) -> Source:
    """Look at a few rows of checked arrays, settle the label coding, and fingerprint.

    `names` and `chunk_rows` are those of the features and of the labels. Without `probe` no features
    are looked at, and there is no fingerprint.
    """
    X, y = reader.features, reader.labels
    if labelled:
        coding = _settle_coding(names[1], reader, blocks, positive, known)
        notices = notices_of_labels(names[1], coding)
    else:
        coding, notices = SIGNS, (Notice.of(NoticeCode.LABELS_ABSENT, array=names[1]),)
    if X.dtype.kind != "f":
        used = str(working_dtype(X.dtype))
        converted = Notice.of(NoticeCode.FEATURES_CONVERTED, array=names[0], stored=str(X.dtype), used=used)
        notices = (converted, *notices)
    source = Source(
        name=name,
        reader=reader,
        schema=RowSchema(*names, X.shape[1], coding, *chunk_rows, columns),
        blocks=blocks,
        row_nbytes=X.shape[1] * working_dtype(X.dtype).itemsize + (1 if y is None else y.dtype.itemsize),
        fingerprint="",
        notices=notices,
    )
    return replace(source, fingerprint=_fingerprint(source, X.dtype)) if probe else source


def block_nbytes(nbytes: int) -> int:
    """About how large the blocks of so many bytes are: smaller ones of less, for many threads."""
    return min(BLOCK_NBYTES, max(LEAST_NBYTES, nbytes // _LEAST_BLOCKS))


def align_blocks(n_rows: int, chunk_rows: int, row_nbytes: int) -> RowRanges:
    """Cut rows into blocks of whole chunks."""
    chunks = max(1, block_nbytes(n_rows * row_nbytes) // (chunk_rows * row_nbytes))
    return RowRanges.evenly(n_rows, chunk_rows * chunks)


def blocks_of(reader: ArrayReader | DaskReader) -> tuple[RowRanges, int]:
    """Return the blocks of arrays in memory or of Dask, and the rows of a chunk."""
    if isinstance(reader, DaskReader):
        sizes = reader.features.chunks[0]
        return RowRanges.of_sizes(sizes), max(sizes)
    X = reader.features
    return align_blocks(len(X), GRID_ROWS, X.shape[1] * X.dtype.itemsize), GRID_ROWS


def gathered_chunks(chunks: tuple[int, ...], row_nbytes: int) -> tuple[int, ...]:
    """Rows of a lazy array's chunks, hundreds of small ones gathered: each costs a task."""
    rows = np.array([size for size in chunks if size], dtype=np.int64)
    small = _SMALL_NBYTES if len(rows) <= _MOST_CHUNKS else BLOCK_NBYTES
    are_few = len(rows) <= _MANY_CHUNKS or int(rows.sum()) * row_nbytes >= len(rows) * small
    return tuple((rows if are_few else _together(rows, row_nbytes)).tolist())


def gathered(sizes: NDArray[np.int64], row_nbytes: int) -> RowRanges:
    """Return blocks of whole pieces, small neighbours together until they are as large as one."""
    sizes = sizes[sizes > 0]
    if (sizes[:-1] == sizes[0]).all() and sizes[-1] <= sizes[0]:  # as those of a store with such chunks
        return align_blocks(int(sizes.sum()), int(sizes[0]), row_nbytes)
    return RowRanges.of_sizes(_together(sizes, row_nbytes))


def _together(sizes: NDArray[np.int64], row_nbytes: int) -> NDArray[np.int64]:
    before = (np.cumsum(sizes) - sizes) * row_nbytes
    groups = before // block_nbytes(int(sizes.sum()) * row_nbytes)
    return np.add.reduceat(sizes, np.flatnonzero(np.diff(groups, prepend=-1)))


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
    name: str, reader: Reader, blocks: RowRanges, positive: str | None, known: tuple[Any, ...]
) -> LabelCoding:
    """Look at labels until they tell what -1 and +1 are; all others are -1 beside a `positive` one."""
    labels = reader.labels
    if labels is None:
        return SIGNS
    if labels.dtype.kind == "b" and positive is None and not known:
        return LabelCoding(False, True)
    probes = np.concatenate([_labels(reader, rows) for rows in _probe_ranges(blocks[-1].stop)])
    seen: list[Any] = []
    for y in itertools.chain([probes], (_labels(reader, rows) for rows in blocks)):
        stored = y if labels.dtype.kind in "fOb" else y[y != impossible_value(labels.dtype)]
        seen = distinct(name, np.concatenate([np.array(seen, dtype=labels.dtype), stored]))
        if known:
            return coding_like(name, known, {plain_label(one): one for one in seen})
        if positive is None and (found := find_coding(name, np.array(seen, dtype=labels.dtype))) is not None:
            return found
        high = [value for value in seen if str(value) == positive]
        if high and len(seen) > 2:
            return LabelCoding(f"not {positive}", high[0], rest=True)
    if positive is not None and not high:
        raise UsageError(f"positive: {positive!r} is no value of {name}; {nearest_names(positive, seen)}")
    if len(seen) == 1 and (positive is not None or labels.dtype.kind not in "iuf"):
        raise DataError(f"{name}: only one label, {seen[0]}, was found; two classes are needed")
    return SIGNS if positive is None else LabelCoding(next(value for value in seen if value != high[0]), high[0])


def notices_of_labels(name: str, coding: LabelCoding) -> tuple[Notice, ...]:
    """Return what is to be said of labels that are not -1 and +1."""
    if coding == SIGNS:
        return ()
    if coding == BITS and coding.low is not False:
        return (Notice.of(NoticeCode.LABELS_ARE_BITS, array=name),)
    return (Notice.of(NoticeCode.LABELS_READ, array=name, low=str(coding.low), high=str(coding.high)),)


def _labels(reader: Reader, rows: RowRange) -> NDArray[Any]:
    return reader.read_labels(RowRanges.of((rows,)))


def _fingerprint(source: Source, dtype: np.dtype[Any]) -> str:
    digest = hashlib.sha256(f"{source.n_rows} {source.dim} {dtype.newbyteorder('=')}".encode())
    for rows in _probe_ranges(source.n_rows):
        block = source.read(rows)
        digest.update(block.X.astype(block.X.dtype.newbyteorder("<")).tobytes())
        digest.update(block.y.tobytes())
    return digest.hexdigest()[:32]
