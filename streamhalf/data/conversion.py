"""Encoded rows of a table as a Zarr store, which carries the encoding with it."""

from __future__ import annotations

import math

import numpy as np
import zarr

from streamhalf.data.block import RowRange
from streamhalf.data.source import Source
from streamhalf.data.zarr_groups import ATTRIBUTE
from streamhalf.data.zarr_writer import Column, Target
from streamhalf.paths import storage_errors
from streamhalf.results import to_json

_CHUNK_ROWS, _CHUNK_NBYTES = 1 << 18, 64 << 20


def chunks_for(source: Source) -> tuple[RowRange, ...]:
    """Return the chunks of a store for rows: 64 MiB at most, read and written by one task each."""
    row_nbytes = source.dim * np.dtype(source.working_dtype).itemsize
    rows = max(1, min(_CHUNK_ROWS, _CHUNK_NBYTES // row_nbytes, source.n_rows))
    return RowRange(0, source.n_rows).split(rows)


def create_converted(target: Target, source: Source, *, overwrite: bool) -> None:
    """Make an empty, unfinished store for the rows."""
    step = chunks_for(source)[0].n_rows
    shape, dtype = (source.n_rows, source.dim), str(source.working_dtype)
    columns = (
        Column("X", shape, step, dtype, math.nan, ("row", "feature")),
        Column("y", (source.n_rows,), step, "int8", 0, ("row",)),
    )
    target.create(columns, {}, overwrite=overwrite)


def write_converted(target: Target, source: Source, rows: RowRange) -> int:
    """Encode and write one chunk; returns how many labels are +1."""
    block = source.read(rows)
    target.write("X", rows, block.X)
    target.write("y", rows, block.y)
    return int(np.count_nonzero(block.y > 0))


def finish_converted(target: Target, source: Source) -> None:
    """Mark the store as complete, with the encoding, the classes and the names of features."""
    marks = {"encoding": to_json(source.encoding), "classes": list(source.schema.label_values), "source": source.name}
    target.finish(("X", "y"), marks)
    with storage_errors(f"{target.name}: cannot name the features", target):
        group = zarr.open_group(target.url, mode="r+", storage_options=target.options)
        group.attrs[ATTRIBUTE] = list(source.feature_names)
