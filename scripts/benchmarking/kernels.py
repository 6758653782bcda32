"""Kernels on one thread against BLAS on one thread."""

from __future__ import annotations

import numpy as np

from scripts.benchmarking.tables import Criterion, Table
from scripts.benchmarking.timing import Ratio, take_turns
from streamhalf.kernels.monomials import count_monomials, sum_monomials
from streamhalf.kernels.slabs import assign_slabs, sum_slab_products

_GEMM = 1024
_LEAST = {16: 0.45, 32: 0.70, 64: 0.80}


def measure_gram(rounds: int) -> Table:
    """The degree-4 sketch, features included, in the flops of a full product per second."""
    rng = np.random.default_rng(0)
    square = rng.standard_normal((_GEMM, _GEMM), dtype=np.float32)
    rows, criteria = [], []
    for dim in (8, 16, 32, 64):
        p = count_monomials(dim, 2)
        n = max(4096, int(2e10 / (2 * p * p)))
        X = rng.standard_normal((n, dim), dtype=np.float32)
        features = rng.standard_normal((p, min(n, 4096)), dtype=np.float32)
        seconds = take_turns(
            {
                "gram": lambda X=X: _done(sum_monomials(X, 4)),
                "gemm": lambda: _done([square @ square for _ in range(8)]),
                "syrk": lambda F=features: _done(F @ F.T),
            },
            rounds=rounds,
        )
        gemm = [8 * 2 * _GEMM**3 / t for t in seconds["gemm"]]
        gram = [2 * p * p * n / t for t in seconds["gram"]]
        syrk = [2 * p * p * features.shape[1] / t for t in seconds["syrk"]]
        share = Ratio.of(gram, gemm)
        rows.append((dim, p, share, Ratio.of(syrk, gemm), float(np.median(gemm)) / 1e9))
        if dim in _LEAST:
            criteria.append(Criterion(f"degree-4 Gram, d = {dim}", share.median, _LEAST[dim], at_most=False))
    return Table(
        "gram",
        "Degree-4 Gram kernel against float32 gemm, one thread",
        ("d", "monomials", "kernel / gemm", "bare symmetric product / gemm", "gemm GFLOP/s"),
        rows,
        criteria,
        "Flops are counted as those of a full product of all monomials of degree 2, 2 p² a row. "
        "The kernel makes its features and needs half of them (a symmetric product) or less (each "
        "moment once, from d = 20 on): hence shares above 1.",
    )


def measure_slabs(rounds: int) -> Table:
    """Second moments in 600 slabs."""
    rng = np.random.default_rng(1)
    n, rows, criteria = 1 << 18, [], []
    for dim in (8, 16, 32, 64):
        X = rng.standard_normal((n, dim), dtype=np.float32)
        slab = assign_slabs(X[:, 0], 0.01 * np.arange(-299, 300))
        seconds = take_turns(
            {
                "kernel": lambda X=X, slab=slab: _done(sum_slab_products(X, slab[None], 600)),
                "plain": lambda X=X, slab=slab: _done(_plain_products(X, slab)),
            },
            rounds=rounds,
        )
        ratio = Ratio.of(seconds["kernel"], seconds["plain"])
        rows.append((dim, 1e9 * float(np.median(seconds["kernel"])) / n, ratio))
        if dim in _LEAST:
            criteria.append(Criterion(f"slab matrices, d = {dim}", ratio.median, 1.0))
    return Table(
        "slab-matrices",
        "Second moments in 600 slabs, one thread",
        ("d", "ns per row", "time / plain sort and one product per slab"),
        rows,
        criteria,
    )


def _done(result: object) -> None:
    """Only the time counts."""


def _plain_products(X: np.ndarray, slab: np.ndarray) -> list[np.ndarray]:
    order = np.argsort(slab.astype(np.int16), kind="stable")
    bounds = np.concatenate([[0], np.cumsum(np.bincount(slab, minlength=600))])
    ordered = X[order]
    pieces = (ordered[bounds[i] : bounds[i + 1]] for i in np.flatnonzero(np.diff(bounds)))
    return [piece.T @ piece for piece in pieces]
