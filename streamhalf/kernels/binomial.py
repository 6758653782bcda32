"""Exact confidence bounds for an error rate (Clopper and Pearson)."""

from __future__ import annotations

from scipy.special import betaincinv


def binomial_upper(errors: int, n_rows: int, tau: float) -> float:
    """Largest rate that gives so few errors with probability at least tau."""
    if errors >= n_rows:
        return 1.0
    return float(betaincinv(errors + 1, n_rows - errors, 1 - tau))


def binomial_lower(errors: int, n_rows: int, tau: float) -> float:
    """Smallest rate that gives so many errors with probability at least tau."""
    if errors <= 0:
        return 0.0
    return float(betaincinv(errors, n_rows - errors + 1, tau))
