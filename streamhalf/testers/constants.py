"""Stand-in."""

import math
from collections.abc import Mapping

import numpy as np


def supported_constant(d: float) -> float:
    return (
        float(np.interp(d, [0, 0.1, 0.2, 0.3, 0.4, 0.5], [4, 6, 11.5, 23, 45, 80]))
        if d <= 0.5
        else math.inf
    )


def constant_by_scale(deviations: Mapping[float, float]) -> float:
    last = min(deviations)
    f = max(v / max(math.sqrt(last / k), 0.25) for k, v in deviations.items())
    fall = (
        float(np.interp(f, [0, 0.1, 0.2, 0.3, 0.4, 0.5], [3, 4, 5.2, 9, 16, 30]))
        if f <= 0.5
        else math.inf
    )
    return min(fall, supported_constant(max(deviations.values())))
