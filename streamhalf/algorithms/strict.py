"""The paper's own parameters, which no data set can meet."""

from __future__ import annotations

import math

from streamhalf.errors import UsageError


def strict_parameters(eps: float, dim: int) -> dict[str, float]:
    """The paper's parameters for its constants C = C_A = 1, as base-10 logarithms where huge.

    eta = 1/20000 (Algorithm 4), k = log(1/eta)/eta^2, log10 of the number of monomials and of
    the rows d^(k log k) (Algorithm 1).
    """
    eta = 1 / 20000
    k = math.ceil(math.log(1 / eta) / eta**2)
    log_monomials = (
        math.lgamma(dim + k + 1) - math.lgamma(k + 1) - math.lgamma(dim + 1)
    ) / math.log(10)
    return {
        "eta": eta,
        "degree": float(k),
        "log10_monomials": log_monomials,
        "log10_rows": k * math.log(k) * math.log10(max(2, dim)),
        "updates": math.ceil(math.log2(1 / eps)) + 1,
    }


def refuse_strict(eps: float, dim: int) -> UsageError:
    """The error that a strict run ends with, the paper's parameters in it."""
    found = strict_parameters(eps, dim)
    return UsageError(
        f"mode: 'strict' cannot run: at eta = 1/20000 (Algorithm 4, all constants 1) the degree is "
        f"k = {found['degree']:.3g}, with 10^{found['log10_monomials']:.3g} monomials of {dim} "
        f"features and 10^{found['log10_rows']:.3g} rows; use mode: practical"
    )
