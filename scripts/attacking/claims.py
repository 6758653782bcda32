"""Attacks on single statements: each runs, judges what was said, and returns a finding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from streamhalf.api import certify, fit
from streamhalf.errors import StreamhalfError
from streamhalf.results import Halfspace

REFUSED = "refused"
INTEGERS = {"int64": 2**60, "uint64": 2**63, "time stamps": 1_700_000_000 * 10**9}
"""Where the values begin; time stamps are in nanoseconds."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One run: its verdict, and which of its statements are false.

    `excess` is (error - eps) / opt of an accepted run, 0 where the error is below eps, and `ratio`
    error / opt.
    """

    verdict: str
    is_bound_wrong: bool = False
    is_promise_broken: bool = False
    excess: float | None = None
    ratio: float | None = None


def large_integers(rng: np.random.Generator, n: int = 3_000, *, kind: str) -> Finding:
    """Integers that float64 cannot tell apart; a threshold between two of them makes no error."""
    dtype = np.uint64 if kind == "uint64" else np.int64
    values = rng.permutation(n)
    X = np.stack([values, rng.integers(0, 100, n)], axis=1).astype(dtype)
    X[:, 0] += dtype(INTEGERS[kind])
    y = np.where(values >= n // 2, 1, -1).astype(np.int8)
    try:
        result = fit((X, y), scheduler="serial", seed=int(rng.integers(2**62)))
    except StreamhalfError:
        return Finding(REFUSED)
    claimed = 0.0 if result.opt is None else result.opt.lower_empirical
    return Finding(str(result.verdict), is_bound_wrong=claimed > 0)


def few_bad_segments(rng: np.random.Generator, *, count: int, size: int, share: float = 0.015) -> Finding:
    """Few of the segments have coin tosses for labels; the source makes so many of them bad.

    Where the rows at hand show no clusters (none of their segments is bad), the bound is for
    independent rows, as the result says, and nothing is claimed of such a source.
    """
    n = count * size
    X = rng.standard_normal((n, 3))
    bad = np.repeat(rng.random(count) < share, size)
    y = np.where((X[:, 0] >= 0) != (bad & (rng.random(n) < 0.5)), 1, -1).astype(np.int8)
    options: dict[str, Any] = {"certificate_degree": 2, "certificate_effort": 1e-3}
    result = certify(
        (X, y), weights=Halfspace((1.0, 0.0, 0.0)), scheduler="serial", seed=int(rng.integers(2**62)), **options
    )
    claimed = result.error.segments is not None and result.error.segments > 1
    return Finding("–", is_bound_wrong=claimed and result.error.upper < share / 2)


def heavy_tails(rng: np.random.Generator, n: int = 3_000) -> Finding:
    """A lognormal feature beside a normal one, labels by its threshold, 1% noise.

    What is certified must be within the factor of a halfspace that anybody can name, and no L of
    halfspaces with any threshold may be above its error.
    """
    X = np.stack([np.exp(5 * rng.standard_normal(n)), rng.standard_normal(n)], axis=1)
    y = np.where((X[:, 0] >= 1) != (rng.random(n) < 0.01), 1, -1).astype(np.int8)
    result = fit((X, y), scheduler="serial", seed=int(rng.integers(2**62)))
    best = float(np.mean((X[:, 0] >= 1) != (y > 0)))
    wrong = False
    if result.opt is not None and result.opt.through == "any":
        wrong = result.opt.lower_empirical > best * (1 + 1e-9)
    if result.verdict == "certified" and result.certificate is not None and result.ratio:
        wrong = wrong or result.certificate.error > result.ratio * best * (1 + 1e-9)
    return Finding(str(result.verdict), is_bound_wrong=wrong)
