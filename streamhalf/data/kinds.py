"""Kinds of arrays that others bring along, told without an import: theirs is there already.

Dask's arrays bring pandas and xarray with them, a second that a run from a store need not wait.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    import dask.array as da
    import xarray as xr


def is_dask_array(data: Any) -> TypeGuard[da.Array]:
    """Whether data are a Dask array."""
    return _is_a(data, "dask.array", "Array")


def is_dataset(data: Any) -> TypeGuard[xr.Dataset]:
    """Whether data are an xarray Dataset."""
    return _is_a(data, "xarray", "Dataset")


def is_data_array(data: Any) -> TypeGuard[xr.DataArray]:
    """Whether data are an xarray DataArray."""
    return _is_a(data, "xarray", "DataArray")


def _is_a(data: Any, module: str, name: str) -> bool:
    kind = getattr(sys.modules.get(module), name, None)  # None while another thread imports it
    return kind is not None and isinstance(data, kind)
