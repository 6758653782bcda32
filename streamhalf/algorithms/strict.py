"""The paper's own parameters, which no data set can meet."""

from __future__ import annotations

import math

from streamhalf.config import RunConfig
from streamhalf.results import StrictPlanRecord

_ETA = 1 / 20000
"""Algorithm 4, with all constants 1."""


def strict_plan(config: RunConfig, dim: int) -> StrictPlanRecord:
    """Return the paper's parameters for an eps (0.01 where none is given), constants C = C_A = 1.

    k = log(1/eta)/eta^2, and rows d^(k log k) (Algorithm 1).
    """
    eps = 0.01 if config.eps == "auto" else float(config.eps)
    k = math.ceil(math.log(1 / _ETA) / _ETA**2)
    monomials = math.lgamma(dim + k + 1) - math.lgamma(k + 1) - math.lgamma(dim + 1)
    return StrictPlanRecord(
        eps=eps,
        dim=dim,
        eta=_ETA,
        degree=k,
        log10_monomials=monomials / math.log(10),
        log10_rows=k * math.log(k) * math.log10(max(2, dim)),
        updates=math.ceil(math.log2(1 / eps)) + 1,
    )
