"""`open_source`: one door for paths, URLs, Zarr groups, xarray Datasets and arrays."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import zarr
from zarr.storage import LocalStore, MemoryStore

from streamhalf.data.arrays import ArrayReader, DaskReader
from streamhalf.data.block import RowRanges
from streamhalf.data.exact import array_of
from streamhalf.data.feature_names import names_in_group, names_of_array
from streamhalf.data.frames import (
    NAMING_LABELS,
    chosen_columns,
    dense_columns,
    frame_columns,
    frame_rows,
    is_frame,
    refuse_sparse,
    split_frame,
)
from streamhalf.data.groups import open_group, open_member
from streamhalf.data.kinds import is_dask_array, is_data_array, is_dataset
from streamhalf.data.remote_store import RemoteStore, through_cache
from streamhalf.data.source import (
    BLOCK_NBYTES,
    Source,
    align_blocks,
    build_source,
    check_arrays,
    gathered_chunks,
    nearest_names,
)
from streamhalf.data.tables import is_table, read_table
from streamhalf.data.zarr_private import at_absolute_path, refill
from streamhalf.data.zarr_reader import (
    GRID_ROWS,
    ZarrReader,
    impossible_value,
    stored_rows,
    unit_of_blocks,
)
from streamhalf.errors import DataError, UsageError
from streamhalf.redact import one_line, public_name

if TYPE_CHECKING:
    import xarray as xr

DataLike: TypeAlias = (
    "str | os.PathLike[str] | zarr.Group | xr.Dataset | tuple[Any, Any] | list[Any] | Source | Any"
)
"""Data frames, which need not be installed, are the last of these."""


MOST_BLOCKS = 1 << 22
"""A list of more blocks than these is refused: 64 TiB of well-stored rows, or a damaged shape."""


def open_source(
    data: DataLike,
    *,
    features: str = "X",
    labels: str = "y",
    columns: tuple[str, ...] = (),
    storage_options: Mapping[str, Any] | None = None,
    probe: bool = True,
) -> Source:
    """Open labelled rows and validate them once.

    Parameters
    ----------
    data
        Path or URL of a Zarr v2 or v3 group, or of a CSV or Parquet file, which is read into
        memory; a Zarr group, an xarray Dataset, a data frame with one column of labels, or a pair
        (features, labels) of Zarr, NumPy or Dask arrays, frames, or DataArrays.
    features, labels
        Names of the two arrays in a store or Dataset; `labels` of the column in a data frame.
    columns
        Names of the features that are wanted: of a frame that has them all, these in this order.
    storage_options
        For URLs: what fsspec takes for this kind of storage.
    probe
        False to compute no features of Dask arrays yet: such a source has no fingerprint.
    """
    if isinstance(data, Source):
        return data
    if features != "X":
        refuse_features(data, features)
    name = "DataFrame"
    if is_table(data):
        name, data = public_name(str(data)), read_table(data, storage_options=storage_options)
    if isinstance(data, str | os.PathLike):
        group = open_group(data, storage_options=storage_options)
        return _from_group(group, public_name(str(data)), features, labels)
    if isinstance(data, zarr.Group):
        return _from_group(
            through_cache(at_absolute_path(data)), str(data.store_path), features, labels
        )
    if is_dataset(data):
        return _from_dataset(data, features, labels, probe=probe)
    if is_frame(data):
        X, y = split_frame(data, labels, name=name, columns=columns)
        rows = frame_rows(name, X)
        return _from_arrays(name, rows, y, features, labels, names_of_array(X, features))
    if isinstance(data, tuple | list) and len(data) == 2:
        for name, one in zip((features, labels), data, strict=True):
            if one is None:
                raise DataError(f"{name}: None in the pair; give an array: (features, labels)")
        X, y = data
        if is_frame(X):
            X = dense_columns(chosen_columns(X, columns))
        named = names_of_array(X, features)
        return _from_arrays("arrays", X, y, features, labels, named, probe=probe)
    raise UsageError(
        f"data: {type(data).__name__} cannot be opened; expected a path or URL of a Zarr store, a "
        "Zarr group, an xarray Dataset, a data frame with a column of labels, or a pair (features, "
        "labels) of NumPy or Dask arrays"
    )


def open_features(
    data: DataLike,
    *,
    features: str = "X",
    labels: str = "y",
    columns: tuple[str, ...] = (),
    storage_options: Mapping[str, Any] | None = None,
    probe: bool = True,
) -> Source:
    """Open features alone: of a store, a Dataset, a data frame or an array; no labels are read.

    Parameters
    ----------
    data, features, storage_options, probe
        As of `open_source`; or features (rows, features) without labels.
    labels
        What labels would be called.
    columns
        Names of the features that are wanted: of a frame that has them all, these in this order.
    """
    name, X = "arrays", data
    if features != "X":
        refuse_features(data, features)
    if is_table(data):
        name, data = public_name(str(data)), read_table(data, storage_options=storage_options)
    if isinstance(data, str | os.PathLike):
        group = open_group(data, storage_options=storage_options)
        return _from_group(group, public_name(os.fspath(data)), features, None, labels)
    if isinstance(data, zarr.Group):
        return _from_group(
            through_cache(at_absolute_path(data)), str(data.store_path), features, None, labels
        )
    if is_dataset(data):
        name, X = "Dataset", _variable(data, features)
    elif is_frame(data):
        name = "DataFrame" if name == "arrays" else name
        remedy = f"; or name it if it holds the labels: {NAMING_LABELS}"
        X = dense_columns(chosen_columns(data, columns), name=name, remedy=remedy)
    return _from_arrays(name, X, None, features, labels, names_of_array(X, features), probe=probe)


def refuse_features(data: DataLike, features: str) -> None:
    """Refuse a name of features for a table, which has no such array."""
    if is_table(data) or is_frame(data):
        raise UsageError(
            f"features: {features!r} given for a table, whose features are all columns but that of "
            "the labels; leave it out (--features), and keep only the columns that are wanted"
        )


def holds_labels_named(
    data: DataLike, labels: str, *, storage_options: Mapping[str, Any] | None = None
) -> bool:
    """Whether data bring labels of this name along; a pair does, whatever they are called."""
    if is_table(data):
        data = read_table(data, storage_options=storage_options)
    if isinstance(data, str | os.PathLike):
        data = open_group(data, storage_options=storage_options)
    if isinstance(data, zarr.Group) or is_dataset(data):
        return labels in data
    if (columns := frame_columns(data)) is not None:
        return labels in columns
    return isinstance(data, tuple | list | Source) or getattr(data, "ndim", 0) != 2


def _from_group(
    group: zarr.Group, name: str, features: str, labels: str | None, unread: str = "labels"
) -> Source:
    X = open_member(group, name, features)
    y = None if labels is None else open_member(group, name, labels)
    names = (features, labels or unread)
    check_arrays(names[0], X, names[1], y)
    marks = group.attrs.get("streamhalf")
    if isinstance(marks, dict) and marks.get("complete") is False:
        raise DataError(f"{name}: the store was never finished; write it again (--overwrite)")
    columns = names_in_group(group, X, features)
    return _from_stored(name, X, y, names, columns)


def _from_stored(
    name: str,
    X: zarr.Array[Any],
    y: zarr.Array[Any] | None,
    names: tuple[str, str],
    columns: tuple[str, ...],
) -> Source:
    """Arrays that were checked, read chunk by chunk."""
    features = names[0]
    row_nbytes = X.shape[1] * X.dtype.itemsize
    unit = unit_of_blocks(X)
    if (n_blocks := X.nbytes / max(BLOCK_NBYTES, unit * row_nbytes)) > MOST_BLOCKS:
        raise DataError(
            f"{name}: {features} claims {X.shape[0]} rows in {n_blocks:.2g} blocks; the limit is "
            f"{MOST_BLOCKS}, store larger chunks"
        )
    blocks = align_blocks(X.shape[0], unit, row_nbytes)
    reader = ZarrReader(X, y, parts=y is not None)
    chunk_rows = (X.chunks[0], X.chunks[0] if y is None else y.chunks[0])
    return build_source(
        name,
        reader,
        blocks,
        names=names,
        chunk_rows=chunk_rows,
        columns=columns,
        labelled=y is not None,
    )


def _from_dataset(dataset: xr.Dataset, features: str, labels: str, *, probe: bool) -> Source:
    X, y = _variable(dataset, features), _variable(dataset, labels)
    if y.ndim == 1 and X.ndim == 2 and y.dims[0] in X.dims:
        X = X.transpose(y.dims[0], ...)
    columns = names_of_array(X, features)
    rows = _lazy(X).data, _lazy(y).data
    return _from_arrays("Dataset", *rows, features, labels, columns, probe=probe)


def _variable(dataset: xr.Dataset, key: str) -> xr.DataArray:
    if key not in dataset:
        raise DataError(
            f"Dataset: no variable named {key!r}; {nearest_names(key, dataset.data_vars)}"
        )
    return dataset[key]


def _lazy(variable: xr.DataArray) -> xr.DataArray:
    """A variable that is still on disk, in its stored chunks; any other as it is."""
    stored = variable.encoding.get("preferred_chunks")
    if variable.chunks is not None or stored is None:
        return variable
    return variable.chunk({dim: stored[dim] for dim in variable.dims if dim in stored})


def _from_arrays(
    name: str,
    X: Any,
    y: Any,
    features: str,
    labels: str,
    columns: tuple[str, ...] = (),
    *,
    probe: bool = True,
) -> Source:
    labelled = y is not None
    if _is_stored(X) and (not labelled or (_is_stored(y) and _together(X, y))):
        check_arrays(features, X, labels, y)
        near = through_cache(at_absolute_path(X))
        if labelled and isinstance(near.store, RemoteStore):  # of both what is fetched is counted
            y = zarr.open_array(
                near.store, path=y.path, mode="r", zarr_format=y.metadata.zarr_format
            )
        elif labelled:
            y = at_absolute_path(y)
        return _from_stored(name, near, y, (features, labels), columns)
    if _is_stored(X):
        X = _lazily(X)
    X = _unwrapped(features, X)
    if is_dask_array(X) and X.ndim == 2 and np.isnan(X.shape[0]):
        raise DataError(f"{features}: chunks of unknown size; call compute_chunk_sizes() first")
    y = _unwrapped(labels, y) if labelled else np.ones(len(X), dtype=np.int8)
    lazy = is_dask_array(X) or is_dask_array(y)
    X, y = _as_array(features, X, lazy), _as_array(labels, y, lazy)
    if lazy and X.ndim == 2 and len(X):
        X = X.rechunk({0: gathered_chunks(X.chunks[0], X.shape[1] * X.dtype.itemsize)})
    reader = DaskReader.align(X, y) if lazy else ArrayReader(X, y)
    X, y = reader.features, reader.labels
    check_arrays(features, X, labels, y)
    if lazy:
        chunk_rows = max(X.chunks[0])
        stops = np.cumsum(X.chunks[0])
        blocks = RowRanges(np.stack([stops - X.chunks[0], stops], axis=1))
    else:
        chunk_rows = GRID_ROWS
        blocks = align_blocks(X.shape[0], chunk_rows, X.shape[1] * X.dtype.itemsize)
    both = (chunk_rows, chunk_rows)
    names = (features, labels)
    return build_source(
        name,
        reader,
        blocks,
        names=names,
        chunk_rows=both,
        columns=columns,
        labelled=labelled,
        probe=probe or not lazy,
    )


def _is_stored(array: Any) -> bool:
    """Whether this is a Zarr array outside of this process's memory."""
    return isinstance(array, zarr.Array) and not isinstance(array.store, MemoryStore)


def _together(X: zarr.Array[Any], y: zarr.Array[Any]) -> bool:
    """Whether one reader may read both."""
    stores = X.store, y.store
    return stores[0] == stores[1] or all(isinstance(one, LocalStore) for one in stores)


def _lazily(X: zarr.Array[Any]) -> Any:
    """A stored array whose labels are elsewhere; what was never written comes as invalid rows."""
    import dask.array as da

    refilled = refill(at_absolute_path(X), impossible_value(X.dtype))
    return da.from_array(refilled, chunks=(stored_rows(X), *X.shape[1:]))


def _unwrapped(name: str, array: Any) -> Any:
    """What is inside a DataArray or a frame; sparse rows are refused."""
    inner = _lazy(array).data if is_data_array(array) else frame_rows(name, array)
    refuse_sparse(name, inner)
    return inner


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
