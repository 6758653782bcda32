"""Measure what `watch` finds, from how many rows on, and how often it raises a false alarm.

usage: python -m scripts.programs.watching [--repeats N]

Prints the figures of docs/watch.md. New rows are drawn row by row; of resampled real rows sums are drawn instead, which
are those of a multinomial number of times that each row comes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer

import streamhalf
from streamhalf.data.block import Block
from streamhalf.kernels.binomial import look_tau
from streamhalf.monitoring import PER_SHARE, Comparison, Reference
from streamhalf.reductions.segment_means import RowProfile, SegmentSums
from streamhalf.results import FitResult

DIM, BEHIND, NOISE, LOOKS = 10, 1_000_000, 0.05, 365
SIZES = [round(1000 * 2 ** (k / 2)) for k in range(22)]
Rows = tuple[NDArray[np.float32], NDArray[np.int8]]


def draw(n_rows: int, rng: np.random.Generator, *, noise: float = NOISE, shift: float = 0.0, turn: float = 0.0) -> Rows:
    """Gaussian rows; the second feature is shifted, the boundary turned towards it by degrees."""
    X = rng.standard_normal((n_rows, DIM), dtype=np.float32)
    angle = np.radians(turn)
    y = np.where(np.cos(angle) * X[:, 0] + np.sin(angle) * X[:, 1] >= 0, 1, -1).astype(np.int8)
    y[rng.random(n_rows) < noise] *= -1
    X[:, 1] += shift
    return X, y


def fit(data: Rows) -> FitResult:
    """A result with a reference."""
    return streamhalf.fit(data, seed=1, certificate_degree=0, scheduler="threads")


def profile_for(result: FitResult, n_rows: int) -> RowProfile:
    """The statistic of so many new rows."""
    assert result.reference is not None
    return Reference.behind(result, result.reference, n_rows, labelled=True).profile


def alarm(
    result: FitResult, profile: RowProfile, partial: SegmentSums, look: int, tau: float, tolerance: float
) -> bool:
    """Return True if a look says drifted."""
    assert result.reference is not None
    comparison = Comparison(
        profile=profile,
        reference=result.reference,
        found=profile.finalize(partial),
        tolerance=tolerance,
        tau=look_tau(tau, look),
        n_candidates=len(result.candidates),
    )
    distance, chance, unit = comparison.distances
    most = np.full(len(distance), tolerance)
    for kind in ("means", "spreads", "moments"):
        part = profile.parts(result.data.dim)[kind]
        most[part] = PER_SHARE * tolerance * unit[part]
    return bool((distance - chance > most).any()) or any(one.drifted for one in comparison.stretches())


def partial_of(profile: RowProfile, rows: Rows) -> SegmentSums:
    """The sums of rows."""
    return profile.map(Block(*rows, np.arange(len(rows[1]))))


def rows_needed(result: FitResult, change: dict[str, float], look: int, repeats: int) -> int | None:
    """The smallest number of rows with which at least 95% of samples are found to have drifted."""
    rng = np.random.default_rng(look)
    for n_rows in SIZES:
        profile = profile_for(result, n_rows)
        found = missed = 0
        while found + missed < repeats and missed <= repeats // 20:
            hit = alarm(result, profile, partial_of(profile, draw(n_rows, rng, **change)), look, 0.01, 0.01)
            found, missed = found + hit, missed + (not hit)
        if missed <= repeats // 20:
            return n_rows
    return None


def gaussian_looks(result: FitResult, n_rows: int, rng: np.random.Generator) -> Iterator[SegmentSums]:
    """Sums of steady rows, look by look."""
    profile = profile_for(result, n_rows)
    while True:
        yield partial_of(profile, draw(n_rows, rng))


def resampled_looks(result: FitResult, rows: Rows, n_rows: int, rng: np.random.Generator) -> Iterator[SegmentSums]:
    """Sums of rows drawn from a table with replacement, look by look."""
    profile = profile_for(result, n_rows)
    single = replace(profile, total_rows=1)
    each = [single.map(Block(rows[0][[i]], rows[1][[i]], np.zeros(1, np.int64))) for i in range(len(rows[1]))]
    sums, squares = np.stack([one.sums[0] for one in each]), np.stack([one.powers for one in each])
    segments = profile.segments
    edges = [-(-i * n_rows // segments.count) for i in range(segments.count + 1)]
    sizes, shares = np.diff(edges), np.full(len(each), 1 / len(each))
    while True:
        times = rng.multinomial(sizes, shares).astype(np.float64)
        yield SegmentSums(sizes, times @ sums, np.tensordot(times.sum(axis=0), squares, axes=1))


def false_alarms(
    result: FitResult, looks: Callable[[], Iterator[SegmentSums]], n_rows: int, tolerance: float, repeats: int
) -> int:
    """How many of so many years of daily looks at steady rows raised an alarm; tau is 0.05."""
    profile = profile_for(result, n_rows)
    return sum(
        any(
            alarm(result, profile, partial, look, 0.05, tolerance)
            for look, partial in zip(range(1, LOOKS + 1), looks(), strict=False)
        )
        for _ in range(repeats)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=40, help="samples for each figure")
    repeats = parser.parse_args().repeats
    rng = np.random.default_rng(0)
    result = fit(draw(BEHIND, rng))
    assert result.reference is not None
    print(f"{result.reference.n_rows:,} rows of {DIM} features behind the result; tolerance 0.01, tau 0.01")
    changes: dict[str, dict[str, float]] = {
        "label noise 5% -> 7%": {"noise": 0.07},
        "mean of one feature + 0.05": {"shift": 0.05},
        "boundary turned by 3 degrees": {"turn": 3.0},
    }
    for name, change in changes.items():
        needed = [rows_needed(result, change, look, repeats) for look in (1, LOOKS)]
        print(f"{name:30} found in 95% of samples from {needed[0]:,} rows (look 1), {needed[1]:,} (look {LOOKS})")
    X, target = load_breast_cancer(return_X_y=True)
    table = X.astype(np.float32), np.where(target > 0, 1, -1).astype(np.int8)
    chosen = rng.integers(len(X), size=100_000)
    real = fit((table[0][chosen], table[1][chosen]))
    for tolerance in (0.01, 1e-9):
        gaussian = false_alarms(result, lambda: gaussian_looks(result, 500, rng), 500, tolerance, repeats)
        resampled = false_alarms(real, lambda: resampled_looks(real, table, 2_000, rng), 2_000, tolerance, repeats)
        print(
            f"tolerance {tolerance:g}, tau 0.05: false alarms in {gaussian} of {repeats} years of {LOOKS} looks at 500 "
            f"Gaussian rows, in {resampled} of {repeats} at 2,000 resampled rows of breast_cancer"
        )


if __name__ == "__main__":
    main()
