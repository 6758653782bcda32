"""Values that float64 would round: integers beyond 2^53, and floats that are wider.

Rows that differ only in what is rounded become equal, and nothing computed from them speaks of the
rows that were given. So such values are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.errors import DataError

_BITS = 53
"""Of the significand of a float64: all integers up to 2^53 are one."""

REMEDY = (
    "subtract an offset before it is stored (the feature's smallest value, or a start where it is "
    "a time stamp), so that every integer is at most 2^53 = 9,007,199,254,740,992"
)


def find_rounded(values: NDArray[Any]) -> NDArray[np.bool_] | None:
    """Which values float64 cannot hold; None where it holds them all."""
    kind, nbytes = values.dtype.kind, values.dtype.itemsize
    if values.size == 0 or (kind in "fiu" and nbytes < 8) or (kind == "f" and nbytes == 8):
        return None
    if kind in "iu":
        if int(values.min()) >= -(1 << _BITS) and int(values.max()) <= 1 << _BITS:
            return None
        native = values.astype(values.dtype.newbyteorder("="), copy=False)
        sizes = np.abs(native).view(np.uint64)  # that of -2^63 too
        lowest_bit = sizes & (~sizes + np.uint64(1))
        found = (sizes > 1 << _BITS) & (sizes >> np.uint64(_BITS) >= lowest_bit)
    elif kind == "f":
        with np.errstate(over="ignore", under="ignore"):
            found = (values.astype(np.float64) != values) & (values == values)
    elif kind == "O":
        with np.errstate(invalid="ignore"):
            found = np.frompyfunc(_is_rounded, 1, 1)(values).astype(np.bool_)
    else:
        return None
    return found if found.any() else None


def words_on_rounded(value: Any) -> str:
    """What is said of such a value after the place where it was found."""
    kind = "wider floats" if isinstance(value, np.floating) else "integers beyond 2^53"
    return f"{value!s}, which float64 would round, as {kind} are; {REMEDY}"


def refuse_rounded(name: str, values: NDArray[Any], columns: Sequence[Any] = ()) -> None:
    """Refuse rows (n, d) with a value that float64 cannot hold."""
    if values.ndim != 2 or (found := find_rounded(values)) is None:
        return
    row, column = np.argwhere(found)[0].tolist()
    feature = repr(columns[column]) if len(columns) else f"{column + 1}, counting from 1"
    said = words_on_rounded(values[row, column])
    raise DataError(f"{name}: row {row} (counting from 0) holds in feature {feature} {said}")


def array_of(name: str, rows: Any) -> NDArray[Any]:
    """Rows as an array; integers among the floats of a list are refused where they are rounded."""
    found = np.asarray(rows)
    if isinstance(rows, list | tuple) and found.dtype.kind == "f":
        refuse_rounded(name, np.asarray(rows, dtype=object))
    return found


def _is_rounded(value: Any) -> bool:
    """Whether an object is an integer, or the text of one, that float64 cannot hold."""
    try:
        whole = int(value.removesuffix(".0") if isinstance(value, str) else value)
        return (isinstance(value, str) or whole == value) and whole != int(float(whole))
    except OverflowError:
        return isinstance(value, int)
    except (TypeError, ValueError):
        return False
