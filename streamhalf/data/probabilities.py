"""Probabilities of another model, one for each row: arrays, .npy files, Zarr arrays, columns of tables."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.arrays import stored_numbers
from streamhalf.data.kinds import TABLE_SUFFIXES
from streamhalf.data.tables import open_files
from streamhalf.data.zarr_groups import open_group
from streamhalf.errors import DataError, UsageError
from streamhalf.redact import public_name

_PIECE_ROWS = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Probabilities:
    """Probabilities of label +1 of all stored rows, read where rows need them; a path is a .npy file."""

    values: Any
    dropped: NDArray[np.int64]

    def __getitem__(self, rows: NDArray[np.int64]) -> NDArray[np.floating[Any]]:
        """Return those of rows, whose numbers rise, without the dropped ones."""
        if not len(rows):
            return np.empty(0)
        rows = stored_numbers(self.dropped, rows)
        first, stop = int(rows[0]), int(rows[-1]) + 1
        values = _mapped(self.values) if isinstance(self.values, Path) else self.values
        if values.ndim == 2:  # of both classes
            return np.asarray(values[first:stop, 1])[rows - first]
        return np.asarray(values[first:stop])[rows - first]


def open_probabilities(
    given: Any,
    n_rows: int,
    *,
    dropped: NDArray[np.int64] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Probabilities:
    """Open probabilities of the second class, and refuse what cannot be any.

    Given is an array with one number for each row, or two (as of `predict_proba`); or FILE or
    FILE:COLUMN, where FILE ends in .npy, .zarr, .csv or .parquet, and COLUMN may be left out where
    there is one alone. The numbers are those of all stored rows, the dropped ones included.
    """
    dropped = np.empty(0, np.int64) if dropped is None else dropped
    is_path = isinstance(given, str | os.PathLike)
    values = _open(os.fspath(given), storage_options) if is_path else np.asanyarray(given)
    found = _mapped(values) if isinstance(values, Path) else values
    shown = f" of {public_name(os.fspath(given))}" if is_path else ""
    stored = n_rows + len(dropped)
    if found.shape not in ((stored,), (stored, 2)) or np.dtype(found.dtype).kind != "f":
        raise UsageError(
            f"probabilities{shown}: {found.dtype} array of shape {found.shape}; expected one number "
            f"from 0 to 1 for each of the {stored:,} rows, the probability of the second class"
        )
    opened = Probabilities(values, dropped)
    for start in range(0, n_rows, _PIECE_ROWS):
        piece = opened[np.arange(start, min(start + _PIECE_ROWS, n_rows))]
        low, high = float(piece.min()), float(piece.max())
        if not (low >= 0 and high <= 1):
            raise UsageError(f"probabilities{shown}: between {low:g} and {high:g}; must be from 0 to 1")
    return opened


def _open(text: str, options: Mapping[str, Any] | None) -> Any:
    path, column = text, ""
    before, _, after = text.rpartition(":")
    if before.rstrip("/").lower().endswith((".zarr", *TABLE_SUFFIXES)) and not os.path.exists(text):
        path, column = before, after
    ending = path.rstrip("/").lower()
    if ending.endswith(".npy"):
        return Path(os.path.abspath(path))
    if ending.endswith(".zarr"):
        members = {name: one for name, one in open_group(path, storage_options=options).arrays() if one.ndim <= 2}
        return members[_choose(path, column, members)]
    if ending.endswith(TABLE_SUFFIXES) and (table := open_files(path, options)) is not None:
        name = _choose(path, column, table.columns)
        pieces = [table.read(piece, [name]).column(name).to_numpy() for piece in range(table.n_pieces)]
        return np.concatenate(pieces)
    raise UsageError(f"probabilities: {public_name(path)} ends in none of .npy, .zarr, .csv, .parquet")


def _choose(path: str, column: str, names: Any) -> str:
    if column in names:
        return column
    if not column and len(names) == 1:
        return str(next(iter(names)))
    shown = ", ".join(sorted(map(str, names))[:12])
    raise UsageError(f"probabilities: name one column of {public_name(path)}, as FILE:COLUMN; there are {shown}")


def _mapped(path: Path) -> NDArray[Any]:
    try:
        return _map(str(path), path.stat().st_mtime_ns)
    except OSError as error:
        raise DataError(f"probabilities: {path} cannot be read ({error.strerror or error})") from error
    except ValueError as error:
        raise DataError(f"probabilities: {path} is no .npy file of numbers: {error}") from error


@functools.lru_cache(maxsize=4)
def _map(name: str, _: int) -> NDArray[Any]:
    return np.lib.format.open_memmap(name, mode="r")
