"""Names of features, from wherever data bring them along.

A data frame has columns; an xarray array a coordinate of its second dimension; a Zarr store the
attribute `feature_names` of the array or of the group, or the coordinate that xarray wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import zarr

from streamhalf.data.kinds import is_data_array
from streamhalf.errors import DataError
from streamhalf.redact import printable
from streamhalf.retry import retrying

ATTRIBUTE = "feature_names"
"""Of an array or a group, a list with one name for each feature."""


def names_of_array(X: Any, field: str) -> tuple[str, ...]:
    """Of the columns of a data frame or of an xarray array (rows, features); empty without any."""
    if is_data_array(X):
        if X.ndim != 2:
            return ()
        if ATTRIBUTE in X.attrs:
            return checked_names(X.attrs[ATTRIBUTE], X.shape[1], field)
        coordinate = X.coords.get(X.dims[1])
        return () if coordinate is None else _words(coordinate.values.tolist())
    if isinstance(X, zarr.Array):
        named = X.ndim == 2 and ATTRIBUTE in X.attrs
        return checked_names(X.attrs[ATTRIBUTE], X.shape[1], field) if named else ()
    columns = getattr(X, "columns", None)
    return () if columns is None or not hasattr(X, "dtypes") else _words(columns)


def names_in_group(group: zarr.Group, X: zarr.Array[Any], field: str) -> tuple[str, ...]:
    """Of the features of a store: said by an attribute, or by a coordinate."""
    for attributes in (X.attrs, group.attrs):
        if ATTRIBUTE in attributes:
            return checked_names(attributes[ATTRIBUTE], X.shape[1], field)
    written = X.attrs.get("_ARRAY_DIMENSIONS") or getattr(X.metadata, "dimension_names", None)
    dimension = written[-1] if isinstance(written, list | tuple) and len(written) == 2 else None
    if not isinstance(dimension, str) or not dimension or dimension == X.basename:
        return ()
    try:  # a coordinate is a help and no part of the data: one that cannot be read is none
        coordinate = retrying(lambda: group.get(dimension))
        if not isinstance(coordinate, zarr.Array) or coordinate.shape != X.shape[1:]:
            return ()
        return _words(np.asarray(coordinate[:]).tolist())
    except Exception:
        return ()


def checked_names(names: Any, dim: int, field: str) -> tuple[str, ...]:
    """Names that somebody gave, one for each feature; refused where they do not fit."""
    if isinstance(names, np.ndarray):
        names = names.tolist()
    if not isinstance(names, Sequence) or isinstance(names, str) or len(names) != dim:
        found = len(names) if isinstance(names, Sequence) and not isinstance(names, str) else names
        raise DataError(
            f"{field}: {ATTRIBUTE} is {printable(str(found))!r} for {dim} features; give a list of "
            "one name each, or remove the attribute"
        )
    return tuple(printable(str(name)) for name in names)


def _words(names: Iterable[Any]) -> tuple[str, ...]:
    """Names that are words; numbers of columns are none."""
    found = list(names)
    return tuple(map(printable, found)) if all(isinstance(one, str) for one in found) else ()
