"""Label issues of more than two classes: an audit of every class against the rest, as one list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.source import Source
from streamhalf.data.suspects import SuspectTable
from streamhalf.errors import UsageError
from streamhalf.results import FitResult

if TYPE_CHECKING:
    import pandas as pd


def class_of(model: FitResult) -> Any:
    """Return the class that a fit tells from the rest, or refuse one of two classes."""
    classes = model.data.classes
    if len(classes) != 2 or classes[0] != f"not {classes[1]}":
        shown = " and ".join(map(str, classes)) or "-1 and +1"
        raise UsageError(f"models: one is of {shown}; fit each class against the rest (positive=..., --positive CLASS)")
    return classes[1]


def join_classes(
    tables: Mapping[Any, SuspectTable], source: Source, label: str, keep: Sequence[str], top: int | None
) -> pd.DataFrame:
    """Return every listed row once, the surest first.

    The predicted label is the class that claims the row most; where none does, it is that the row is not of its own.

    Parameters
    ----------
    tables
        Lists by class: rows of the class that look like the rest, and rows of the rest that look like it.
    source, label
        The data, for given labels, and the name of these.
    keep
        Columns of the data to show.
    top
        Rows to list; None: all.
    """
    import pandas as pd

    parts = []
    for one, table in tables.items():
        claims = table.rows["label"] < 0
        parts.append(
            pd.DataFrame(
                {
                    "row": table.rows["row"],
                    "predicted_label": np.where(claims, str(one), f"not {one}"),
                    "label_score": table.rows["label_score"],
                    "claims": claims,
                    "suspicion": table.rows["suspicion"],
                }
            )
        )
    every = pd.concat(parts).sort_values(["claims", "suspicion"], ascending=False, kind="stable")
    joined = every.groupby("row", as_index=False).agg(
        predicted_label=("predicted_label", "first"), label_score=("label_score", "min"), suspicion=("suspicion", "max")
    )
    joined = joined.sort_values(["suspicion", "row"], ascending=[False, True])[:top].drop(columns="suspicion")
    rows = joined["row"].to_numpy()
    kept = source.own.take(np.unique(rows), [*keep]) if source.own is not None and keep else {}
    places = np.searchsorted(np.unique(rows), rows)
    columns = {name: values.take(places).to_pandas() for name, values in kept.items()}
    found = {"row": rows, **columns, "given_label": _labels(source, rows, label)}
    return pd.DataFrame(found | {name: joined[name].to_numpy() for name in ("predicted_label", "label_score")})


def _labels(source: Source, rows: NDArray[np.int64], label: str) -> NDArray[Any]:
    """Return labels of stored rows as they are in the data."""
    stored, places = np.unique(rows, return_inverse=True)
    if source.own is not None and label in source.own.names:
        return np.asarray(source.own.take(stored, [label])[label].to_pandas())[places]
    labels: Any = source.reader.labels
    return np.asarray(labels[:])[rows]
