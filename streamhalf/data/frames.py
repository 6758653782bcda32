"""Data frames as pairs of arrays, and what is refused by its name: sparse rows, unknown lengths."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from streamhalf.data.clients import compute_on, holding_client
from streamhalf.data.exact import refuse_rounded
from streamhalf.data.source import nearest_names
from streamhalf.errors import DataError
from streamhalf.redact import plural

NAMING_LABELS = "label=... (--label COLUMN in a terminal)"


def is_frame(data: Any) -> bool:
    """Whether data are a pandas or a Dask DataFrame."""
    return hasattr(data, "columns") and (is_dask_frame(data) or _is_pandas(data))


def is_dask_frame(data: Any) -> bool:
    """Whether data are a Dask DataFrame or Series."""
    return hasattr(data, "to_dask_array") and hasattr(data, "divisions")


def split_frame(
    frame: Any, label: str, *, name: str = "DataFrame", columns: tuple[str, ...] = ()
) -> tuple[Any, Any]:
    """The columns but one as a frame of features, and that one as labels.

    Errors call it by its name; of features that have all of these `columns`, they are taken.
    """
    names = {str(name): name for name in frame.columns}
    if label not in names:
        raise DataError(
            f"{name}: no column named {label!r}; {nearest_names(label, names)}; name the column "
            f"of the labels: {NAMING_LABELS}"
        )
    features = chosen_columns(frame.drop(columns=[names[label]]), columns)
    return dense_columns(features, name=name), frame_rows(name, frame[names[label]])


def frame_columns(data: Any) -> list[str] | None:
    """Names of the columns of a frame; None of anything else."""
    return [str(name) for name in data.columns] if is_frame(data) else None


def chosen_columns(frame: Any, names: tuple[str, ...]) -> Any:
    """These columns in this order; the frame itself where it has none of them."""
    own = {str(name): name for name in frame.columns}
    if not own.keys() & set(names):
        return frame
    if missing := [name for name in names if name not in own]:
        raise DataError(
            f"columns: {', '.join(missing)} not found among {', '.join(own)}; give data with all "
            "features that the model was fitted on"
        )
    return frame[[own[name] for name in names]]


def dense_columns(frame: Any, *, name: str = "DataFrame", remedy: str = "") -> Any:
    """The frame, if its columns are dense numbers; an error about another ends with `remedy`."""
    for column, dtype in frame.dtypes.items():
        kind = getattr(dtype, "kind", "O")
        if kind not in "biuf" or str(dtype).startswith("Sparse"):
            _refuse_stray_text(frame, column, name)
            how = (
                f"take the time since a start ((frame[{column!r}] - frame[{column!r}].min()) / "
                "pandas.Timedelta('1s'))"
                if kind in "mM"
                else "encode it (pandas.get_dummies), convert it"
            )
            raise DataError(
                f"{name}: column {column!r} has dtype {dtype}; features are dense numbers: {how} "
                f"or drop it (frame.drop(columns={column!r})){remedy}"
            )
    return frame


def _refuse_stray_text(frame: Any, column: Any, name: str) -> None:
    """Name the first cell that is no number, where most of a column are."""
    if not _is_pandas(frame) or not frame.columns.is_unique:
        return
    import pandas as pd

    cells = frame[column].reset_index(drop=True)
    if cells.dtype.kind == "O":
        refuse_rounded(name, cells.to_numpy(dtype=object)[:, None], (column,))
    stray = cells[cells.notna() & pd.to_numeric(cells, errors="coerce").isna()]
    if 0 < len(stray) < len(cells) / 2:
        raise DataError(
            f"{name}: column {column!r} holds text among numbers: {stray.iloc[0]!r} in row "
            f"{stray.index[0]} (counting from 0; {plural(len(stray), 'such cell')}); mend it or "
            "remove these rows"
        )


def frame_rows(name: str, frame: Any) -> Any:
    """The values of a frame or a column as one array; rows of a Dask one are counted first."""
    if is_dask_frame(frame):
        if not frame.known_divisions:
            raise DataError(
                f"{name}: a Dask DataFrame with unknown divisions, so its rows have no numbers "
                "yet; give (frame[features].to_dask_array(lengths=True), "
                "frame[label].to_dask_array(lengths=True)), which counts them once"
            )
        # what is persisted is counted where it is; Dask itself would ask its default scheduler
        (lengths,) = compute_on(holding_client(frame), frame.map_partitions(len))
        if frame.ndim == 2 and len(_plain_dtypes(frame)) > 1:
            frame = frame.map_partitions(_wide_rows, name, meta=frame._meta.astype(np.float64))
        with warnings.catch_warnings():
            # labels that are words come as objects, which is what is wanted
            limited = "Dask currently has limited support for converting pandas"
            warnings.filterwarnings("ignore", message=limited, category=UserWarning)
            return frame.to_dask_array(lengths=tuple(map(int, lengths)))
    if not _is_pandas(frame):
        return frame
    dtypes = frame.dtypes if hasattr(frame, "columns") else [frame.dtype]
    kinds = {getattr(dtype, "kind", "O") for dtype in dtypes}
    if not kinds <= set("biuf"):
        return frame.to_numpy()
    plain = _plain_dtypes(frame)
    missing = any(frame.isna().to_numpy().ravel()) if kinds - {"f"} else False
    if len(plain) == 1 and not missing:
        return frame.to_numpy(dtype=plain.pop())
    if frame.ndim == 1:
        return frame.to_numpy(dtype=np.float64, na_value=np.nan)
    return _wide_rows(frame, name).to_numpy()


def _plain_dtypes(frame: Any) -> set[np.dtype[Any]]:
    """What the columns, or one, are without pandas' own kinds of numbers."""
    dtypes = frame.dtypes if frame.ndim == 2 else [frame.dtype]
    return {np.dtype(getattr(dtype, "numpy_dtype", dtype)) for dtype in dtypes}


def refuse_rounded_columns(frame: Any, name: str) -> None:
    """Refuse a pandas frame with a number that float64 cannot hold."""
    for i, (column, dtype) in enumerate(frame.dtypes.items()):
        numbers = getattr(dtype, "kind", "O") in "biuf"
        plain = np.dtype(getattr(dtype, "numpy_dtype", dtype) if numbers else object)
        cells = frame.iloc[:, i]
        whole = cells.fillna(0) if plain.kind in "iu" else cells
        refuse_rounded(name, whole.to_numpy(dtype=plain)[:, None], (column,))


def _wide_rows(frame: Any, name: str) -> Any:
    """Columns of several kinds of numbers as float64, NaN where one is missing."""
    refuse_rounded_columns(frame, name)
    wide = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    return type(frame)(wide, index=frame.index, columns=frame.columns)


def refuse_sparse(name: str, array: Any) -> None:
    """Refuse sparse rows by the name of their kind."""
    kind = type(getattr(array, "_meta", array))  # of a Dask array, what its chunks are
    if kind.__module__.split(".")[0] in ("scipy", "sparse", "cupyx"):
        raise DataError(
            f"{name}: {kind.__name__} is sparse, and rows are read dense; give {name}.toarray(), "
            "or a Dask array whose chunks are dense"
        )


def _is_pandas(data: Any) -> bool:
    return type(data).__module__.split(".")[0] == "pandas" and hasattr(data, "to_numpy")
