"""Which features have a part in a direction, words for them, and whether rows can tell."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamhalf.errors import TransformError

_NOTICEABLE = 0.05
"""Share of the largest weight in a direction from which a feature has a part in it."""

_MOST_NAMED = 8


def involved(direction: NDArray[np.float64]) -> tuple[int, ...]:
    """The features with a noticeable weight in a direction, numbered from 0."""
    weights = np.abs(direction)
    return tuple(int(j) for j in np.flatnonzero(weights > _NOTICEABLE * weights.max()))


def name_features(features: tuple[int, ...], columns: tuple[str, ...] = ()) -> str:
    """Features for a user, who counts from 1, with their names where they have any."""
    more = f" and {len(features) - _MOST_NAMED} more" if len(features) > _MOST_NAMED else ""
    named = (f"{j + 1} {columns[j]!r}" if columns else str(j + 1) for j in features[:_MOST_NAMED])
    return ", ".join(named) + more


def require_more_rows(transform: str, n_rows: int, dim: int) -> None:
    """Refuse no more rows than features: any features look linearly dependent on so few."""
    if n_rows <= dim:
        raise TransformError(
            f"{transform}: {n_rows:,} rows cannot tell how {dim:,} features are correlated; gather "
            f"more rows than features, or take the transform 'stored'"
        )
