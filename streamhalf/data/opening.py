"""`open_source`: one registry of readers for stores, tables, Datasets, arrays and frames."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import zarr
from numpy.typing import NDArray
from zarr.abc.store import Store
from zarr.storage import LocalStore, MemoryStore

from streamhalf.config import check_names
from streamhalf.data.arrays import ArrayReader, DaskReader, FilledRows, Layout, WithoutRows, find_gaps
from streamhalf.data.block import RowRanges
from streamhalf.data.clients import compute_on, holding_client
from streamhalf.data.kinds import (
    is_dask_array,
    is_dask_frame,
    is_data_array,
    is_data_tree,
    is_dataset,
    is_frame,
    is_pandas,
    is_table_path,
    refuse_sparse,
)
from streamhalf.data.remote_store import RemoteStore, through_cache
from streamhalf.data.schema import array_of, coding_like
from streamhalf.data.source import (
    BLOCK_NBYTES,
    OwnColumns,
    Source,
    align_blocks,
    blocks_of,
    build_source,
    check_arrays,
    gathered_chunks,
    nearest_names,
)
from streamhalf.data.table_source import TableOptions, open_table
from streamhalf.data.tables import Table, open_files, to_table
from streamhalf.data.zarr_groups import names_in_group, names_of_array, open_group, open_member, open_store
from streamhalf.data.zarr_private import at_absolute_path, refill
from streamhalf.data.zarr_reader import ZarrReader, impossible_value, stored_rows, unit_of_blocks
from streamhalf.errors import DataError, ListingError, UsageError
from streamhalf.redact import one_line, public_name
from streamhalf.results import EncodingRecord, Notice, NoticeCode, from_json

if TYPE_CHECKING:
    import xarray as xr

# Data frames, which need not be installed, are the last of these
DataLike: TypeAlias = "str | os.PathLike[str] | zarr.Group | xr.Dataset | tuple[Any, Any] | list[Any] | Source | Any"
MOST_BLOCKS = 1 << 22  # Limit of blocks: 64 TiB of well-stored rows; a longer list means a damaged shape


@dataclass(frozen=True, slots=True)
class Request:
    """Arguments of `open_source` beside the data."""

    features: str
    table: TableOptions
    labelled: bool | None
    storage_options: Mapping[str, Any] | None
    probe: bool

    @property
    def labels(self) -> str:
        return self.table.label


def open_source(
    data: DataLike,
    *,
    features: str = "X",
    labels: str = "y",
    labelled: bool | None = True,
    storage_options: Mapping[str, Any] | None = None,
    probe: bool = True,
    **table: Any,
) -> Source:
    """Open rows and validate them once.

    Parameters
    ----------
    data
        Path or URL of a Zarr store, of a Parquet or CSV file, or of a folder or glob of them; a
        Zarr store or group, an xarray Dataset, a frame (pandas, Dask, Polars, Arrow) with a column
        of labels, or a pair (features, labels) of arrays or frames.
    features, labels
        Names of the two arrays in a store or Dataset; `labels` of the column in a table.
    labelled
        False to read features alone; None for labels where the data have some.
    storage_options
        For URLs: what fsspec takes for this kind of storage.
    probe
        False to compute no features of Dask arrays yet: such a source has no fingerprint.
    **table
        Fields of `TableOptions`: columns, drop, positive, encode, missing, encoding, known, named.
    """
    if isinstance(data, Source):
        return data
    known = {one.name for one in fields(TableOptions)} - {"label"}
    check_names(table, ["labels", *sorted(known)], "open_source")
    options = TableOptions(label=labels, **table)
    request = Request(features, options, labelled, storage_options, probe)
    for matches, open_data in READERS:
        if matches(data, request):
            return open_data(data, request)
    raise UsageError(
        f"data: {type(data).__name__} cannot be opened; expected a path or URL of a Zarr store, a "
        "Parquet or CSV table, a Zarr group, an xarray Dataset, a data frame with a column of "
        "labels, or a pair (features, labels) of NumPy or Dask arrays"
    )


def _open_table_path(data: Any, request: Request) -> Source:
    text = os.fspath(data)
    name = public_name(text)
    if "://" not in text and not any(mark in text for mark in "*?[") and not os.path.exists(text):
        raise DataError(f"{name}: no such file; check the path")
    if (found := open_files(text, request.storage_options)) is None:
        raise DataError(f"{name}: no CSV or Parquet file is here; check the path")
    return _open_tabular(found, request)


def _open_path(data: Any, request: Request) -> Source:
    """Open a Zarr store, or the tables of a folder that is none."""
    text = os.fspath(data)
    try:
        group = open_group(text, storage_options=request.storage_options)
    except DataError:
        found = None
        if not os.path.isfile(text):
            with contextlib.suppress(ListingError, UsageError, ImportError):  # what Zarr said of it tells more
                found = open_files(text, request.storage_options)
        if found is None:
            raise
        return _open_tabular(found, request)
    return _from_group(group, public_name(text), request)


def _open_tabular(table: Table, request: Request) -> Source:
    if request.features != "X":
        raise UsageError(_features_of_table(request.features))
    labelled = request.labels in table.columns if request.labelled is None else request.labelled
    return open_table(table, request.table, labelled=labelled)


def _open_frame(data: Any, request: Request) -> Source:
    return _open_tabular(to_table(data), request)


def _open_zarr_group(data: Any, request: Request) -> Source:
    return _from_group(through_cache(at_absolute_path(data)), str(data.store_path), request)


def _store_of(data: Any) -> Any:
    """Return a store, that of a session of Icechunk too."""
    return data if isinstance(data, Store) else getattr(data, "store", None)


def _is_zarr_store(data: Any, request: Request) -> bool:
    return isinstance(_store_of(data), Store) and not isinstance(data, zarr.Array)


def _open_zarr_store(data: Any, request: Request) -> Source:
    return _open_zarr_group(open_store(_store_of(data)), request)


def _from_group(group: zarr.Group, name: str, request: Request) -> Source:
    features, labels = request.features, request.labels
    X = open_member(group, name, features)
    labelled = request.labelled if request.labelled is not None else labels in group
    y = open_member(group, name, labels) if labelled else None
    check_arrays(features, X, labels, y)
    marks = group.attrs.get("streamhalf")
    marks = marks if isinstance(marks, dict) else {}
    if marks.get("complete") is False:
        raise DataError(f"{name}: the store was never finished; write it again (--overwrite)")
    columns, known = names_in_group(group, X, features), request.table.known
    classes = marks.get("classes") if "encoding" in marks else None  # of a table that was converted
    classes = tuple(classes) if labelled and isinstance(classes, list) and len(classes) == 2 else ()
    if classes and known:
        coded = dict(zip(classes, (-1, 1), strict=True))
        coding_like(labels, known, coded)
        sign = coded.get(known[1], 0)
        request = replace(request, table=replace(request.table, known=(-sign, sign) if sign else ("not 0", 0)))
    source = _from_stored(name, X, y, request, columns)
    snapshot = str(getattr(getattr(group.store, "session", None), "snapshot_id", ""))  # of Icechunk
    source = replace(source, snapshot=snapshot, own=ArrayColumns(group, X.shape[0]))
    if "encoding" in marks:
        source = replace(source, encoding=from_json(EncodingRecord, marks["encoding"], where=f"{name}: encoding"))
        if classes:
            source = source.named(source.schema.columns, known or classes)
    return source


@dataclass(frozen=True, slots=True, eq=False)
class ArrayColumns(OwnColumns):
    """Arrays with one value a row: those of a Zarr group, or variables of a Dataset."""

    home: Any
    n_rows: int

    @property
    def names(self) -> tuple[str, ...]:
        members = dict(self.home.arrays()) if isinstance(self.home, zarr.Group) else self.home.variables
        return tuple(str(name) for name, one in members.items() if one.shape == (self.n_rows,))

    def take(self, rows: NDArray[np.int64], names: Sequence[str]) -> dict[str, Any]:
        """Return values of rows; of stored arrays the chunks that these lie in are read."""
        found = {}
        for name in names:
            array = self.home[name]
            values = np.asarray(array.oindex[rows] if isinstance(array, zarr.Array) else array[rows])
            found[name] = pa.array(values.tolist() if values.dtype.kind in "TO" else values)
        return found


def _from_stored(
    name: str, X: zarr.Array[Any], y: zarr.Array[Any] | None, request: Request, columns: tuple[str, ...]
) -> Source:
    row_nbytes = X.shape[1] * X.dtype.itemsize
    unit = unit_of_blocks(X)
    if (n_blocks := X.nbytes / max(BLOCK_NBYTES, unit * row_nbytes)) > MOST_BLOCKS:
        raise DataError(
            f"{name}: {request.features} claims {X.shape[0]} rows in {n_blocks:.2g} blocks; the "
            f"limit is {MOST_BLOCKS}, store larger chunks"
        )
    return _built(
        name,
        ZarrReader(X, y, parts=y is not None),
        align_blocks(X.shape[0], unit, row_nbytes),
        request,
        chunk_rows=(X.chunks[0], X.chunks[0] if y is None else y.chunks[0]),
        columns=columns,
        labelled=y is not None,
    )


def _built(
    name: str,
    reader: Any,
    blocks: RowRanges,
    request: Request,
    *,
    chunk_rows: tuple[int, int],
    columns: tuple[str, ...],
    labelled: bool,
    probe: bool = True,
) -> Source:
    """Build a source of arrays; rows with gaps are left out or filled where that is asked for."""
    missing = request.table.missing
    said: tuple[Notice, ...] = ()
    dropped = np.empty(0, np.int64)
    names = (request.features, request.labels)
    if missing in ("drop", "fill"):
        gaps = find_gaps(name, reader, blocks)
        if missing == "drop" and len(gaps.rows):
            n_rows, dropped = blocks.span.stop, gaps.rows
            if len(dropped) == n_rows:
                raise DataError(f"{name}: every row has gaps; use missing='fill' (--missing fill)")
            reader = WithoutRows(reader, dropped)
            blocks = reader.blocks(blocks)
            said = (Notice.of(NoticeCode.ROWS_DROPPED, dropped=len(dropped), stored=n_rows),)
        elif missing == "fill" and gaps.by_feature.any():
            flagged = np.flatnonzero(gaps.by_feature)
            reader = FilledRows(reader, gaps.medians, flagged)
            own = columns or tuple(f"x{j + 1}" for j in range(len(gaps.medians)))
            columns = (*own, *(f"{own[j]} missing" for j in flagged))
            filled = {"gaps": int(gaps.by_feature.sum()), "features": len(flagged)}
            said = (Notice.of(NoticeCode.GAPS_FILLED, **filled),)
    source = build_source(
        name,
        reader,
        blocks,
        names=names,
        chunk_rows=chunk_rows,
        columns=columns,
        labelled=labelled,
        probe=probe,
        positive=request.table.positive,
        known=request.table.known,
    )
    return replace(source, notices=(*source.notices, *said), dropped=dropped)


def _open_dataset(data: Any, request: Request) -> Source:
    if is_data_tree(data):
        data = data.to_dataset()
    X, y = _variable(data, request.features), None
    if request.labels in data if request.labelled is None else request.labelled:
        y = _variable(data, request.labels)
        if y.ndim == 1 and X.ndim == 2 and y.dims[0] in X.dims:
            X = X.transpose(y.dims[0], ...)
    columns = names_of_array(X, request.features)
    source = _from_arrays("Dataset", _lazy(X).data, None if y is None else _lazy(y).data, request, columns)
    return replace(source, own=ArrayColumns(data, X.shape[0]))


def _variable(dataset: xr.Dataset, key: str) -> xr.DataArray:
    if key not in dataset:
        raise DataError(f"Dataset: no variable named {key!r}; {nearest_names(key, dataset.data_vars)}")
    return dataset[key]


def _lazy(variable: xr.DataArray) -> xr.DataArray:
    """Return a variable that is still on disk in its stored chunks; any other as it is."""
    stored = variable.encoding.get("preferred_chunks")
    if variable.chunks is not None or stored is None:
        return variable
    return variable.chunk({dim: stored[dim] for dim in variable.dims if dim in stored})


def _is_pair(data: Any, request: Request) -> bool:
    return isinstance(data, tuple | list) and len(data) == 2 and request.labelled is not False


def _open_pair(data: Any, request: Request) -> Source:
    for name, one in zip((request.features, request.labels), data, strict=True):
        if one is None:
            raise DataError(f"{name}: None in the pair; give an array: (features, labels)")
    X, y = data
    if not is_frame(X):
        return _from_arrays("arrays", X, y, request, names_of_array(X, request.features))
    opened = _open_frame(X, replace(request, labelled=False))
    rows = opened.reader.features
    if isinstance(rows, Layout):  # of a frame that is too large to be kept encoded
        rows, _ = opened.reader.read(RowRanges.evenly(opened.n_rows, opened.n_rows))
    if len(opened.dropped):
        if is_dask_array(rows):
            raise UsageError("missing: 'drop' needs the labels in the Dask DataFrame; give one frame and label=")
        y = np.delete(np.asarray(y), opened.dropped)
    bare = replace(request, table=replace(request.table, missing="auto"))
    source = _from_arrays("arrays", rows, y, bare, opened.schema.columns)
    kept = (NoticeCode.ROWS_DROPPED, NoticeCode.TABLE_ENCODED)
    said = tuple(one for one in opened.notices if one.code in kept)
    return replace(
        source, notices=(*source.notices, *said), encoding=opened.encoding, dropped=opened.dropped, own=opened.own
    )


def _is_array(data: Any, request: Request) -> bool:
    return not request.labelled and (hasattr(data, "ndim") or isinstance(data, list | tuple))


def _open_array(data: Any, request: Request) -> Source:
    return _from_arrays("arrays", data, None, request, names_of_array(data, request.features))


def refuse_array_names(data: Any, named: Mapping[str, Any]) -> None:
    """Refuse names of the arrays of a store, `features` and `labels`, where data are a table, which has none."""
    if is_table_path(data) or is_frame(data):
        if "features" in named:
            raise UsageError(_features_of_table(named["features"]))
        if "labels" in named:
            raise UsageError(
                f"labels: {named['labels']!r} given for a table, which has columns and no arrays; name the column: "
                f"label={named['labels']!r} (--label {named['labels']})"
            )


def _features_of_table(features: str) -> str:
    return (
        f"features: {features!r} given for a table, whose features are all columns but that of the "
        "labels; leave it out (--features), and choose columns with columns= or drop= (--columns, "
        "--drop)"
    )


# Kinds of data: how one is recognised, and opened; the first that matches is taken. A new one is a line here.
READERS: tuple[tuple[Callable[[Any, Request], bool], Callable[[Any, Request], Source]], ...] = (
    (lambda data, _: is_table_path(data), _open_table_path),
    (lambda data, _: isinstance(data, str | os.PathLike), _open_path),
    (lambda data, _: isinstance(data, zarr.Group), _open_zarr_group),
    (_is_zarr_store, _open_zarr_store),
    (lambda data, _: is_dataset(data) or is_data_tree(data), _open_dataset),
    (lambda data, _: is_frame(data), _open_frame),
    (_is_pair, _open_pair),
    (_is_array, _open_array),
)


def _from_arrays(name: str, X: Any, y: Any, request: Request, columns: tuple[str, ...] = ()) -> Source:
    """Open arrays in memory, Dask arrays and single Zarr arrays."""
    features, labels, labelled = request.features, request.labels, y is not None
    if _is_stored(X) and (not labelled or (_is_stored(y) and _together(X, y))):
        check_arrays(features, X, labels, y)
        near = through_cache(at_absolute_path(X))
        if labelled and isinstance(near.store, RemoteStore):  # of both what is fetched is counted
            y = zarr.open_array(near.store, path=y.path, mode="r", zarr_format=y.metadata.zarr_format)
        elif labelled:
            y = at_absolute_path(y)
        return _from_stored(name, near, y, request, columns)
    if _is_stored(X):
        X = _lazily(X)
    X = unwrapped(features, X)
    if is_dask_array(X) and X.ndim == 2 and np.isnan(X.shape[0]):
        raise DataError(f"{features}: chunks of unknown size; call compute_chunk_sizes() first")
    y = unwrapped(labels, y) if labelled else np.ones(len(X), dtype=np.int8)
    lazy = is_dask_array(X) or is_dask_array(y)
    X, y = _as_array(features, X, lazy), _as_array(labels, y, lazy)
    if lazy and X.ndim == 2 and len(X):
        X = X.rechunk({0: gathered_chunks(X.chunks[0], X.shape[1] * X.dtype.itemsize)})
    reader = DaskReader.align(X, y) if lazy else ArrayReader(X, y)
    check_arrays(features, reader.features, labels, reader.labels)
    blocks, chunk_rows = blocks_of(reader)
    return _built(
        name,
        reader,
        blocks,
        request,
        chunk_rows=(chunk_rows, chunk_rows),
        columns=columns,
        labelled=labelled,
        probe=request.probe or not lazy,
    )


def _is_stored(array: Any) -> bool:
    """Return True for a Zarr array outside of this process's memory."""
    return isinstance(array, zarr.Array) and not isinstance(array.store, MemoryStore)


def _together(X: zarr.Array[Any], y: zarr.Array[Any]) -> bool:
    """Return True where one reader may read both."""
    stores = X.store, y.store
    return stores[0] == stores[1] or all(isinstance(one, LocalStore) for one in stores)


def _lazily(X: zarr.Array[Any]) -> Any:
    """Return a stored array, whose labels are elsewhere, as a Dask array; NaN where none is."""
    import dask.array as da

    refilled = refill(at_absolute_path(X), impossible_value(X.dtype))
    return da.from_array(refilled, chunks=(stored_rows(X), *X.shape[1:]))


def unwrapped(name: str, array: Any) -> Any:
    """Return what is inside a DataArray or a series; sparse rows are refused."""
    if is_data_array(array):
        array = _lazy(array).data
    elif is_dask_frame(array):
        (lengths,) = compute_on(holding_client(array), array.map_partitions(len))
        with warnings.catch_warnings():
            # labels that are words come as objects, which is what is wanted
            limited = "Dask currently has limited support for converting pandas"
            warnings.filterwarnings("ignore", message=limited, category=UserWarning)
            array = array.to_dask_array(lengths=tuple(map(int, lengths)))
    elif is_pandas(array) or hasattr(array, "__arrow_c_stream__"):  # a series
        array = array.to_numpy()
    refuse_sparse(name, array)
    return array


def _as_array(name: str, array: Any, lazy: bool) -> Any:
    if is_dask_array(array):
        return array
    try:
        plain = array_of(name, array)
    except ValueError as error:
        raise DataError(f"{name}: not an array: {one_line(error)}") from error
    if not lazy:
        return plain
    import dask.array as da

    # Dask cannot size objects; they are refused by their dtype later on
    return da.from_array(plain, chunks=-1 if plain.dtype.hasobject else "auto")
