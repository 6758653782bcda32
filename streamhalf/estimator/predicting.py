"""Classes of rows: a function of NumPy rows that pickles, for data out of core."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.kernels.plane import Plane


def predict_rows(X: NDArray[Any], *, plane: Plane, classes: NDArray[Any]) -> NDArray[Any]:
    """The class of every row."""
    chosen: NDArray[Any] = classes[(plane.signs(np.asarray(X)) > 0).astype(np.intp)]
    return chosen
