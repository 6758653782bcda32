"""Check the certificate against enumeration on many small data sets, half of them wild.

Counts how often the lower bound exceeds the error of some halfspace, or the wedge bound falls
below some disagreement. Both counts must be 0; the exit code is 1 otherwise. With --through any the
halfspaces have thresholds, rows lie on a line or in a plane, and all halfspaces are enumerated.
With --method sets the bound is the number of sets of rows that no halfspace gets right.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter

import numpy as np

from streamhalf.certificate.lower_bound import lower_bound
from streamhalf.certificate.packing import pack_rows
from streamhalf.certificate.search import SearchConfig
from streamhalf.data.block import Block
from streamhalf.kernels.plane import Plane
from streamhalf.reductions import WedgeSums
from tests.certificate.brute_force import (
    Problem,
    any_problem,
    boxed_problem,
    friendly_any_problem,
    friendly_problem,
    largest_disagreement,
    random_problem,
    smallest_error,
    smallest_error_found,
    smallest_error_in_space,
    smallest_error_of_any,
    tiny_problem,
)

ROUNDING = 1e-12


def wedge(problem: Problem, eta: float) -> float:
    """Upper bound on the disagreement of v with any unit vector within eta of it."""
    reduction = WedgeSums((Plane(problem.v),), eta)
    block = Block(problem.X, problem.y, np.arange(len(problem.y)))
    return float(reduction.finalize(reduction.map(block)).betas()[0])


def try_any(trial: int) -> dict[str, int]:
    """One trial of the bound over all thresholds, a third of them on wild rows."""
    rng = np.random.default_rng(trial)
    problem = (any_problem if trial % 3 == 0 else friendly_any_problem)(rng)
    degree = int(rng.choice([4, 4, 4, 4, 6] if trial % 3 else [2, 4, 6, 8]))
    statistics = problem.statistics(degree=degree, ratio=float(rng.choice([1.3, 1.6])), by_label=True)
    effort = SearchConfig(refits=2, effort=float(rng.choice([1e8, 2e8])))
    best = smallest_error_of_any(problem)
    value = lower_bound(statistics, search=effort).value
    through, central = 0.0, 1.0
    if trial % 4 == 0:
        through = lower_bound(statistics.central(), search=effort).value
        central = smallest_error(problem, rng)
    counts = {
        "lower bound too high": value > best + ROUNDING,
        "lower bound of those through the origin too high": through > central + ROUNDING,
        "L above 0": value > 0,
        "L above half of the best": 2 * value > best > 0,
        "of these with two features": 2 * value > best > 0 and statistics.dim == 2,
    }
    if counts["lower bound too high"] or through > central + ROUNDING:
        print(f"trial {trial}: L = {value} of {best}, {through} of {central}", flush=True)
    return {name: int(count) for name, count in counts.items()}


def try_origin(trial: int) -> dict[str, int]:
    """One trial of the bound over halfspaces through the origin and of the wedge bound."""
    rng = np.random.default_rng(trial)
    problem = (random_problem, friendly_problem)[trial % 2](rng)
    degree = int(rng.choice([2, 4, 6, 8]))
    ratio = float(rng.choice([1.15, 1.6]))
    statistics = problem.statistics(degree=degree, ratio=ratio)
    effort = SearchConfig(refits=2, effort=float(rng.choice([5e7, 1e8])))
    value = lower_bound(statistics, search=effort).value
    eta = float(rng.choice([1e-3, 0.05, 0.3, 0.7, 1.3]))
    beta = wedge(problem, eta)
    gamma = math.tan(2 * math.asin(eta / 2))
    too_high = value > smallest_error(problem, rng) + ROUNDING
    too_low = beta < largest_disagreement(problem, gamma, rng) - ROUNDING
    if too_high or too_low:
        print(f"trial {trial}: L = {value}, eta = {eta}, beta = {beta}", flush=True)
    # with one feature both are exact counts, which says nothing about the bounds
    return {
        "lower bound too high": int(too_high),
        "wedge bound too low": int(too_low),
        "L above 0, d > 1": int(value > 0 and statistics.dim > 1),
        "beta below 1, d > 1": int(beta < 1 and statistics.dim > 1),
    }


def try_boxes(trial: int) -> dict[str, int]:
    """One trial with a second direction and three features, over thresholds and without."""
    rng = np.random.default_rng(trial)
    problem, across = boxed_problem(rng), rng.standard_normal(3)
    degree, ratio = int(rng.choice([2, 4, 6])), float(rng.choice([1.2, 1.5]))
    slabs = problem.statistics(degree=degree, ratio=ratio, by_label=True)
    boxes = problem.statistics(degree=min(4, degree), ratio=ratio, by_label=True, across=across)
    effort = SearchConfig(refits=2, effort=float(rng.choice([1e8, 4e8])))
    value = lower_bound(slabs, boxes, search=effort).value
    through = lower_bound(slabs.central(), boxes.central(), search=effort).value
    best = smallest_error_found(problem, rng)
    central = smallest_error_found(problem, rng, central=True)
    if value > best + ROUNDING or through > central + ROUNDING:
        print(f"trial {trial}: L = {value} of {best}, {through} of {central}", flush=True)
    return {
        "lower bound too high": int(value > best + ROUNDING),
        "lower bound of those through the origin too high": int(through > central + ROUNDING),
        "L above 0": int(value > 0),
        "L above half of the best": int(2 * value > best > 0),
        "through the origin above half of the best": int(2 * through > central > 0),
    }


def try_sets(trial: int) -> dict[str, int]:
    """One trial of the count of sets, over all thresholds and through the origin."""
    rng = np.random.default_rng(trial)
    problem = (tiny_problem, tiny_problem, any_problem, friendly_any_problem)[trial % 4](rng)
    plane, effort = Plane(problem.v, problem.threshold), int(rng.choice([10**5, 10**7]))
    n, dim = problem.X.shape
    wide, turn = problem.X.astype(np.float64), int(rng.integers(3))
    found = pack_rows(wide, problem.y, plane, effort=effort, turn=turn).n_sets
    best = round(n * (smallest_error_in_space if dim > 2 else smallest_error_of_any)(problem))
    central, least = 0, n
    if dim <= 2:
        central = pack_rows(wide, problem.y, plane, effort=effort, central=True).n_sets
        least = round(n * smallest_error(problem, rng))
    counts = {
        "sets too many": found > best,
        "sets through the origin too many": central > least,
        "sets found": found > 0,
        "as many as the best errs on": found == best > 0,
        "of these with more than one feature": found == best > 0 and dim > 1,
        "through the origin as many": central == least > 0,
    }
    if found > best or central > least:
        print(f"trial {trial}: {found} sets of {best} errors, {central} of {least}", flush=True)
    return {name: int(count) for name, count in counts.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first trial")
    parser.add_argument("--through", choices=["any", "origin"], default="origin")
    parser.add_argument("--method", choices=["moments", "boxes", "sets"], default="moments")
    options = parser.parse_args()
    attempt = try_any if options.through == "any" else try_origin
    attempt = {"sets": try_sets, "boxes": try_boxes}.get(options.method, attempt)
    counts: Counter[str] = Counter()
    begun = time.monotonic()
    for trial in range(options.first, options.first + options.trials):
        counts.update(attempt(trial))
    print(f"{options.trials} trials in {time.monotonic() - begun:.0f} s")
    for name, count in counts.items():
        print(f"{name:>50}: {count}")
    return int(any(count for name, count in counts.items() if " too " in name))


if __name__ == "__main__":
    raise SystemExit(main())
