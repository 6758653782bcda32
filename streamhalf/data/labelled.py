"""Labelled rows with any two class labels, and functions of rows in the container they came in."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
import xarray as xr
import zarr
from numpy.typing import NDArray

from streamhalf.data.clients import compute_on, holding_client
from streamhalf.data.kinds import is_frame
from streamhalf.data.opening import open_source, unwrapped
from streamhalf.data.schema import refuse_rounded
from streamhalf.data.source import Source
from streamhalf.data.zarr_groups import names_of_array
from streamhalf.errors import DataError, TargetError, UsageError
from streamhalf.kernels.plane import Plane


@dataclass(frozen=True, slots=True, eq=False)
class Labelled:
    """A source whose labels are -1 and +1, and the two classes these stand for, in this order."""

    source: Source
    classes: NDArray[Any]


def holds_labels(data: Any) -> bool:
    """Return True for data with labels inside: a path, a URL, a Zarr group or a Dataset."""
    return isinstance(data, str | os.PathLike | zarr.Group | xr.Dataset)


def open_labelled(
    X: Any,
    y: Any = None,
    *,
    features: str = "X",
    labels: str = "y",
    storage_options: Mapping[str, Any] | None = None,
    classes: NDArray[Any] | None = None,
    names: tuple[str, ...] | None = None,
    **table: Any,
) -> Labelled:
    """Open rows whose labels are any two values: X with its labels inside, or features and their labels y.

    The two `classes` are looked up among the labels where they are not known; labels in a store are
    -1/+1 or 0/1 and need no such look. `names` are for features without names of their own.
    """
    open_named: Any = partial(open_source, features=features, labels=labels, **table)
    if holds_labels(X) and y is not None:
        raise UsageError(f"y: given beside {type(X).__name__}, which holds its labels; leave it out")
    if not holds_labels(X) and y is None:
        raise UsageError(f"y: missing; {type(X).__name__} holds features only, give the labels too")
    if isinstance(X, xr.Dataset):
        if labels in X:
            target = X[labels]
            classes = _settle(labels, target.data, classes)
            X = X.assign({labels: (target.dims, encode_labels(target.data, classes=classes))})
        source = open_named(X)
        source = source.named(source.schema.columns, tuple(() if classes is None else classes.tolist()))
    elif holds_labels(X):
        source = open_named(X, storage_options=storage_options)
    else:
        y = _plain(unwrapped(labels, y))
        classes = _settle(labels, y, classes)
        rows = X if is_frame(X) else _plain(X)
        coded = open_named((rows, encode_labels(y, classes=classes)))
        columns = coded.schema.columns if is_frame(X) else names or names_of_array(X, features)
        source = coded.named(columns, tuple(classes.tolist()))
    stored = np.array(source.schema.coding.values)
    return Labelled(source, stored if classes is None else classes)


def encode_labels(y: Any, *, classes: NDArray[Any]) -> Any:
    """+1 for the second class, -1 for the first and 0 for anything else, as int8; lazy if y is."""
    encode = partial(_encode_block, classes=classes)
    if isinstance(y, da.Array):
        return da.map_blocks(encode, y, dtype=np.int8, meta=np.empty((0,) * y.ndim, dtype=np.int8))
    return encode(np.asarray(y))


def map_rows(function: Callable[[NDArray[Any]], NDArray[Any]], X: Any, *, dtype: Any, columns: int = 0) -> Any:
    """Apply a function (n, d) -> (n,), or (n, columns), to features, in their container, lazily where that is lazy.

    It must pickle for clusters. Coordinates of the rows of an xarray array are kept.
    """
    if isinstance(X, xr.DataArray):
        if X.ndim != 2:
            raise DataError(f"X: dimensions {X.dims}; expected (rows, features)")
        rows = X.dims[0]
        kept = {name: coord for name, coord in X.coords.items() if set(coord.dims) <= {rows}}
        values = map_rows(function, X.data, dtype=dtype, columns=columns)
        dims = (rows, "class") if columns else (rows,)
        return xr.DataArray(values, dims=dims, coords=kept, name=None)
    if isinstance(X, da.Array):
        whole = X.rechunk({1: -1})
        function = partial(_map_exactly, function)
        if columns:
            chunks, meta = (whole.chunks[0], (columns,)), np.empty((0, columns), dtype=dtype)
            return da.map_blocks(function, whole, chunks=chunks, dtype=dtype, meta=meta)
        return da.map_blocks(function, whole, drop_axis=1, dtype=dtype, meta=np.empty(0, dtype=dtype))
    return _map_exactly(function, X)


def _map_exactly(function: Callable[[NDArray[Any]], NDArray[Any]], X: NDArray[Any]) -> NDArray[Any]:
    refuse_rounded("X", X)
    return function(X)


def predict_rows(X: NDArray[Any], *, plane: Plane, classes: NDArray[Any]) -> NDArray[Any]:
    rows = np.asarray(X)
    if not np.isfinite(rows).all():
        first = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
        raise DataError(f"X: row {first} (counting from 0) holds NaN or infinite values; remove or impute such rows")
    chosen: NDArray[Any] = classes[(plane.signs(rows) > 0).astype(np.intp)]
    return chosen


def _encode_block(y: NDArray[Any], *, classes: NDArray[Any]) -> NDArray[np.int8]:
    signs = (y == classes[1]).astype(np.int8) - (y == classes[0]).astype(np.int8)
    return np.asarray(signs, dtype=np.int8)


def _plain(array: Any) -> Any:
    data = array.data if isinstance(array, xr.DataArray) else array
    return data if isinstance(data, da.Array) else np.asarray(data)


def _settle(name: str, y: Any, classes: NDArray[Any] | None) -> NDArray[Any]:
    """The known classes, or the two distinct labels, sorted."""
    if classes is not None:
        return classes
    if isinstance(y, da.Array):
        (found,) = compute_on(holding_client(y), da.unique(y))
    else:
        found = np.unique(np.asarray(y))
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        raise TargetError(f"{name}: NaN or infinite labels; remove or impute these rows")
    if len(found) == 1:
        raise TargetError(f"{name}: only one class ({found[0]}); two are needed")
    if len(found) != 2:
        shown = ", ".join(str(value) for value in found[:5])
        raise TargetError(
            f"{name}: {len(found)} classes ({shown}{', ...' if len(found) > 5 else ''}); keep two "
            "of them, or fit one class against the rest"
        )
    return np.asarray(found)
