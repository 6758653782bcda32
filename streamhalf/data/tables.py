"""Tables in files, CSV and Parquet, which pandas reads into memory as data frames."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeGuard

from streamhalf.data.exact import refuse_rounded
from streamhalf.errors import DataError, UsageError
from streamhalf.redact import denial, one_line, public_name, without_secrets

SUFFIXES = (".csv", ".parquet")


def is_table(data: Any) -> TypeGuard[str | os.PathLike[str]]:
    """Whether data are the name of such a file."""
    return isinstance(data, str | os.PathLike) and os.fspath(data).lower().endswith(SUFFIXES)


def read_table(
    path: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None
) -> Any:
    """The file as a data frame, or in one line why it cannot be read."""
    text = os.fspath(path)
    name = public_name(text)
    if "://" not in text and not os.path.exists(text):
        raise DataError(f"{name}: no such file; check the path")
    try:
        import pandas as pd
    except ImportError as error:
        raise UsageError(
            f"{name}: reading a table takes pandas, which is not installed; pip install pandas"
        ) from error
    options = dict(storage_options) if storage_options and "://" in text else None
    words = None
    try:
        if text.lower().endswith(".csv"):
            # digits become the nearest float, which pandas does unasked from 3.1 on
            exact: dict[str, Any] = (
                {} if _version(pd) >= (3, 1) else {"float_precision": "round_trip"}
            )
            frame = pd.read_csv(text, storage_options=options, **exact)
            if large := _large_columns(frame):
                words = pd.read_csv(text, storage_options=options, usecols=large, dtype=str)
        else:
            frame = pd.read_parquet(text, storage_options=options)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name}: not UTF-8 text; save it as UTF-8, or read it with pandas "
            "(pandas.read_csv(..., encoding='latin-1')) and give the data frame"
        ) from error
    except ImportError as error:
        raise UsageError(f"{name}: {one_line(error)}") from error
    except Exception as error:
        if denied := denial(error, text, storage_options):
            raise DataError(f"{name}: {denied}") from error
        raise DataError(
            f"{name}: not a readable table: {without_secrets(one_line(error), text)}"
        ) from error
    _check_table(frame, name)
    if words is not None:  # pandas rounds integers beside decimal fractions to floats
        refuse_rounded(name, words.to_numpy(dtype=object), [*words.columns])
    return frame


def _version(package: Any) -> tuple[int, ...]:
    return tuple(int(part) for part in package.__version__.split(".")[:2])


def _large_columns(frame: Any) -> list[int]:
    """Which columns of floats hold some that are too large to tell neighbouring integers apart."""
    floats = [i for i, dtype in enumerate(frame.dtypes) if getattr(dtype, "kind", "O") == "f"]
    return [i for i in floats if (frame.iloc[:, i].abs() >= 2.0**53).any()]


def _check_table(frame: Any, name: str) -> None:
    """Refuse a table without rows, and one whose columns are not separated by commas."""
    if len(frame.columns) == 1:
        head = str(frame.columns[0])
        for mark, called in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
            if mark in head:
                raise DataError(
                    f"{name}: one column, {head!r}, whose name has {called}; columns must be "
                    f"separated by commas: save it so, or read it with pandas "
                    f"(pandas.read_csv(..., sep={mark!r})) and give the data frame"
                )
    if len(frame) == 0:
        raise DataError(f"{name}: no rows, only names of columns; give a file with rows")
