"""Synthetic rows in a Zarr store, written chunk by chunk."""

from __future__ import annotations

import math

from streamhalf.data.block import RowRange
from streamhalf.data.zarr_writer import Column, Target
from streamhalf.errors import UsageError
from streamhalf.results import to_json
from streamhalf.synthetic.spec import Planted, SyntheticSpec, generate, require_integer

_CHUNK_ROWS, _CHUNK_NUMBERS = 2**18, 2**24
"""Rows of a chunk, and features of all of them, at most."""


def create_store(
    target: Target, spec: SyntheticSpec, *, chunk_rows: int | None = None, overwrite: bool = False
) -> tuple[RowRange, ...]:
    """Make an empty, unfinished store; return its chunks, which `write_rows` is to fill."""
    chunks = chunks_of(spec, chunk_rows)
    step = chunks[0].n_rows
    columns = (
        Column("X", (spec.rows, spec.dim), step, spec.dtype, math.nan, ("row", "feature")),
        Column("y", (spec.rows,), step, "int8", 0, ("row",)),
    )
    target.create(columns, {"synthetic": to_json(spec)}, overwrite=overwrite)
    return chunks


def chunks_of(spec: SyntheticSpec, chunk_rows: int | None) -> tuple[RowRange, ...]:
    """The chunks of a store; None for rows of 64 MiB at most in each."""
    if chunk_rows is None:
        chunk_rows = max(1, min(_CHUNK_ROWS, _CHUNK_NUMBERS // spec.dim))
    require_integer("chunk_rows", chunk_rows, 1)
    return RowRange(0, spec.rows).split(min(chunk_rows, spec.rows))


def write_rows(target: Target, spec: SyntheticSpec, planted: Planted, row_range: RowRange) -> int:
    """Draw and write whole chunks, one in memory at a time; return how many labels were flipped."""
    step = target.array("X").chunks[0]
    if row_range.start % step or (row_range.stop % step and row_range.stop != spec.rows):
        raise UsageError(
            f"row_range: {row_range.start} to {row_range.stop} given; must begin and end with "
            f"chunks of {step} rows; two writers of one chunk would undo each other"
        )
    n_flipped = 0
    for chunk in row_range.split(step):
        rows = generate(spec, planted, chunk)
        target.write("X", chunk, rows.X)
        target.write("y", chunk, rows.y)
        n_flipped += rows.n_flipped
    return n_flipped


def finish_store(target: Target, spec: SyntheticSpec, planted: Planted, n_flipped: int) -> None:
    """Mark a store whose chunks all exist as complete, and record what was planted in it."""
    marks = {
        "synthetic": to_json(spec),
        "planted_vector": planted.v.tolist(),
        "planted_threshold": planted.threshold,
        "planted_error": n_flipped / spec.rows,
        "n_flipped": n_flipped,
    }
    target.finish(("X", "y"), marks)
