"""Figures of docs/streams.md: a Gaussian stream with 5% chow noise, and how often its statements hold.

usage: scripts/streams [--rows 1000000] [--dim 10] [--batch 50000]
       scripts/streams --coverage 100

Prints rows until the result is accepted, the error beside the planted one, rows per second of processor time (of all
rows, and of those that come when no path is learned or tested), and the peak memory of the process after 1, 4, 16, ...
million rows.

With --coverage it learns so many streams of 2 features in each of several orders, looks 50 times at each, and counts
the streams in which a statement was ever false: the error, L and guessing on the rows that the result names, which must
always be true; upper and L of the source at confidence 1 - tau, for rows that come independently, and for upper where
errors come in bursts as well. 500 streams of error counts alone are drawn, too.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import resource
import sys
import time

import numpy as np
from numpy.typing import NDArray
from scipy.stats import multivariate_normal, norm

from streamhalf import Halfspace, StreamLearner, Verdict
from streamhalf.algorithms.plan import ERROR_TAU
from streamhalf.algorithms.stream import BLOCK_ROWS
from streamhalf.data.block import RowRange
from streamhalf.kernels.binomial import anytime_lower, anytime_upper
from streamhalf.synthetic.spec import SyntheticSpec, generate, plant

Rows = tuple[NDArray[np.float64], NDArray[np.int8]]
RATE, LOOKS, TAU, BURST = 0.05, 50, 0.1, 1000
ORDERS = ("independent", "bursts", "sorted labels", "drift", "turned", "late noise")
SEGMENTED = 1 << 16
"""Held-out rows from which clusters of errors are found."""


def main() -> None:
    """Draw, learn and print."""
    parser = argparse.ArgumentParser(prog="scripts/streams", description="Figures of docs/streams.md.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=10)
    parser.add_argument("--batch", type=int, default=50_000)
    parser.add_argument("--coverage", type=int, metavar="STREAMS")
    options = parser.parse_args()
    if options.coverage:
        show_coverage(options.coverage)
    else:
        show_figures(options.rows, options.dim, options.batch)


def show_figures(n_rows: int, dim: int, batch: int) -> None:
    """Print one row of the table."""
    spec = SyntheticSpec(rows=n_rows, dim=dim, marginal="gaussian", noise="chow", rate=RATE, seed=4, positive=0.5)
    planted, learner, accepted = plant(spec), StreamLearner(seed=3), None
    spent, quiet, quiet_rows, shown = 0.0, 0.0, 0, 1_000_000
    for start in range(0, n_rows, batch):
        rows = generate(spec, planted, RowRange(start, min(start + batch, n_rows)))
        is_quiet = learner.is_learned
        began = time.process_time()
        learner.add(rows.X, rows.y)
        taken = time.process_time() - began
        spent += taken
        if is_quiet and learner.is_learned:
            quiet, quiet_rows = quiet + taken, quiet_rows + len(rows.y)
        if accepted is None and learner.result(certificate=False).verdict is Verdict.ACCEPTED:
            accepted = learner.n_rows
        if learner.n_rows >= shown:
            print(f"{learner.n_rows:,} rows: peak memory {peak():,.0f} MiB", flush=True)
            shown *= 4
    found, wrong, of_planted = learner.result(certificate=False), 0, 0
    for start in range(0, min(n_rows, 1_000_000), 100_000) if found.halfspace else ():
        rows = generate(spec, planted, RowRange(start, start + 100_000))
        wrong += found.halfspace.plane.errors(rows.X, rows.y)
        of_planted += planted.plane.errors(rows.X, rows.y)
    print("| rows | accepted after | error / planted | upper bound | rows/s | rows/s, quiet | peak memory, MiB |")
    print("|---|---|---|---|---|---|---|")
    print(
        f"| {n_rows:,} | {'never' if accepted is None else f'{accepted:,}'} | {wrong / max(1, of_planted):.3f} | "
        f"{found.error.upper if found.error else 1.0:.4f} | {n_rows / spent:,.0f} | "
        f"{quiet_rows / max(quiet, 1e-9):,.0f} | {peak():,.0f} |"
    )


def peak() -> float:
    """The most memory of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def show_coverage(n_streams: int) -> None:
    """Print in how many streams a statement was false at some look."""
    print(f"confidence {1 - TAU:.0%} over {LOOKS} looks; streams with a false statement, of all:")
    print(f"500 of counts alone, 12 candidates: upper or lower end {_missed_counts()}")
    for order in ORDERS:
        missed = [false_statements(order, number) for number in range(n_streams)]
        told = {name: sum(name in one for one in missed) for name in ("rows", "upper", "lower")}
        print(f"{n_streams} {order}: " + ", ".join(f"{name} {count}" for name, count in told.items()), flush=True)


def _missed_counts(n_streams: int = 500) -> int:
    """Streams of error counts with twelve candidates, the best so far being the answer, whose ends were ever false."""
    rng, rates = np.random.default_rng(1), np.linspace(RATE, 2 * RATE, 12)
    looks = np.unique(np.geomspace(100, 3e7, LOOKS).astype(int))
    each, missed = TAU * ERROR_TAU / len(rates) / 2, 0
    for _ in range(n_streams):
        errors = np.cumsum(rng.binomial(np.diff(looks, prepend=0)[:, None], rates), axis=0)
        chosen = np.argmin(errors, axis=1)
        wrong = errors[np.arange(len(looks)), chosen]
        low, high = anytime_lower(wrong, looks, each), anytime_upper(wrong, looks, each)
        missed += bool(((low > rates[chosen]) | (high < rates[chosen])).any())
    return missed


def draw(order: str, number: int, n_rows: int) -> Rows:
    """Gaussian rows of two features with 5% wrong labels, in an order."""
    rng = np.random.default_rng([number, ORDERS.index(order)])
    X = rng.standard_normal((n_rows, 2))
    when = np.linspace(0, 1, n_rows)
    if order == "drift":
        X[:, 0] += when
    angle = when * (math.pi / 6) if order == "turned" else 0.0
    y = np.where(np.cos(angle) * X[:, 0] + np.sin(angle) * X[:, 1] >= 0, 1, -1).astype(np.int8)
    rate = np.full(n_rows, RATE)
    if order == "bursts":
        bad = rng.random(-(-n_rows // BURST)) < 0.1
        rate = np.repeat(np.where(bad, 5 * RATE, (RATE - 0.5 * RATE) / 0.9), BURST)[:n_rows]
    if order == "late noise":
        rate = np.where(when < 0.6, 0.0, 0.3)
    y[rng.random(n_rows) < rate] *= -1
    if order == "sorted labels":  # in stretches of ten blocks
        stretch = np.arange(n_rows) // (10 * BLOCK_ROWS)
        kept = np.lexsort((y, stretch))
        X, y = X[kept], y[kept]
    return X, y


def false_statements(order: str, number: int, *, n_looks: int = LOOKS) -> set[str]:
    """Which statements of one stream were false at any look."""
    X, y = draw(order, number, n_looks * BLOCK_ROWS)
    learner, found = StreamLearner(seed=number, tau=TAU, certificate_degree=4), set[str]()
    for look in range(n_looks):
        window = slice(look * BLOCK_ROWS, (look + 1) * BLOCK_ROWS)
        one = learner.add(X[window], y[window]).result()
        if one.halfspace is None or one.error is None or one.quality is None or one.stream is None:
            continue
        held = slice(*one.stream.errors)
        wrong = one.halfspace.plane.errors(X[held], y[held])
        positive = np.mean(y[held] > 0)
        of_rows = [one.error.empirical == wrong / one.error.n_rows == one.quality.error]
        of_rows.append(math.isclose(one.quality.guess, min(positive, 1 - positive)))
        if one.stream.certificate is not None and one.certificate is not None:
            counted = slice(*one.stream.certificate)
            planted = dataclasses.replace(one.halfspace.plane, normal=np.array([1.0, 0.0]), threshold=0.0)
            of_rows.append(one.certificate.n_errors == one.halfspace.plane.errors(X[counted], y[counted]))
            best = planted.errors(X[counted], y[counted]) / one.certificate.n_rows
            of_rows.append(one.certificate.opt.lower_empirical <= min(best, one.certificate.error) + 1e-12)
            if order == "independent" and one.certificate.opt.lower > RATE:
                found.add("lower")
        if not all(of_rows):
            found.add("rows")
        settled = order == "independent" or (order == "bursts" and one.error.n_rows > SEGMENTED)
        if settled and one.quality.upper is not None and one.quality.upper < true_error(one.halfspace):
            found.add("upper")
    return found


def true_error(halfspace: Halfspace) -> float:
    """The error on the source, of rows of two features."""
    length = float(np.linalg.norm(halfspace.plane.normal))
    normal, threshold = halfspace.plane.normal / length, halfspace.plane.threshold / length
    both = multivariate_normal([0, 0], [[1, normal[0]], [normal[0], 1]], allow_singular=True).cdf([0.0, threshold])
    apart = 0.5 + float(norm.cdf(threshold)) - 2 * float(both)
    return RATE + (1 - 2 * RATE) * apart


if __name__ == "__main__":
    main()
