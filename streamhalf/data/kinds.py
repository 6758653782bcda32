"""Recognise other libraries' data without importing them: their users have.

Dask's arrays bring pandas and xarray with them, a second that a run from a store need not wait.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, TypeGuard

from streamhalf.errors import DataError

if TYPE_CHECKING:
    import dask.array as da
    import xarray as xr


TABLE_SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".pq")


def is_table_path(data: Any) -> TypeGuard[str | os.PathLike[str]]:
    """Return True for the path or URL of a CSV or Parquet file, or of a glob of them."""
    if not isinstance(data, str | os.PathLike):
        return False
    text = os.fspath(data).lower().rstrip("/")
    return text.endswith(TABLE_SUFFIXES) or any(mark in text for mark in "*?[")


def is_dask_array(data: Any) -> TypeGuard[da.Array]:
    return _is_a(data, "dask.array", "Array")


def is_dataset(data: Any) -> TypeGuard[xr.Dataset]:
    return _is_a(data, "xarray", "Dataset")


def is_data_array(data: Any) -> TypeGuard[xr.DataArray]:
    return _is_a(data, "xarray", "DataArray")


def is_data_tree(data: Any) -> bool:
    """Return True for a node of an xarray DataTree."""
    return _is_a(data, "xarray", "DataTree")


def is_pandas(data: Any) -> bool:
    return type(data).__module__.split(".")[0] == "pandas" and hasattr(data, "to_numpy")


def is_dask_frame(data: Any) -> bool:
    return hasattr(data, "to_dask_array") and hasattr(data, "divisions")


def is_frame(data: Any) -> bool:
    """Return True for a table of named columns: pandas, Dask, Polars or Arrow."""
    if is_dask_frame(data) or is_pandas(data):
        return hasattr(data, "columns")
    if is_dask_array(data) or is_data_array(data) or is_dataset(data):
        return False
    return hasattr(data, "__arrow_c_stream__") or _is_a(data, "polars", "LazyFrame")


def refuse_sparse(name: str, array: Any) -> None:
    kind = type(getattr(array, "_meta", array))  # of a Dask array, what its chunks are
    if kind.__module__.split(".")[0] in ("scipy", "sparse", "cupyx"):
        raise DataError(
            f"{name}: {kind.__name__} is sparse, and rows are read dense; give {name}.toarray(), "
            "or a Dask array whose chunks are dense"
        )


def _is_a(data: Any, module: str, name: str) -> bool:
    kind = getattr(sys.modules.get(module), name, None)  # None while another thread imports it
    return kind is not None and isinstance(data, kind)
