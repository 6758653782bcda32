"""Figures of docs/streams.md: a Gaussian stream with 5% chow noise.

usage: scripts/streams [--rows 1000000] [--dim 10] [--batch 50000]

Prints rows until the result is accepted, the error beside the planted one, rows per second of processor time (of all
rows, and of those that come when no path is learned or tested), and the peak memory of the process.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time

from streamhalf import StreamLearner, Verdict
from streamhalf.data.block import RowRange
from streamhalf.synthetic.spec import SyntheticSpec, generate, plant


def main() -> None:
    """Draw, learn and print."""
    parser = argparse.ArgumentParser(prog="scripts/streams", description="Figures of docs/streams.md.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=10)
    parser.add_argument("--batch", type=int, default=50_000)
    options = parser.parse_args()
    spec = SyntheticSpec(
        rows=options.rows, dim=options.dim, marginal="gaussian", noise="chow", rate=0.05, seed=4, positive=0.5
    )
    planted, learner, accepted = plant(spec), StreamLearner(seed=3), None
    spent, quiet, quiet_rows, peak = 0.0, 0.0, 0, 0.0
    for start in range(0, options.rows, options.batch):
        rows = generate(spec, planted, RowRange(start, min(start + options.batch, options.rows)))
        is_quiet = learner.is_learned
        began = time.process_time()
        learner.add(rows.X, rows.y)
        taken = time.process_time() - began
        spent += taken
        if is_quiet and learner.is_learned:
            quiet, quiet_rows = quiet + taken, quiet_rows + len(rows.y)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
        if accepted is None and learner.result(certificate=False).verdict is Verdict.ACCEPTED:
            accepted = learner.n_rows
    found, wrong, of_planted = learner.result(certificate=False), 0, 0
    for start in range(0, min(options.rows, 1_000_000), 100_000) if found.halfspace else ():
        rows = generate(spec, planted, RowRange(start, start + 100_000))
        wrong += found.halfspace.plane.errors(rows.X, rows.y)
        of_planted += planted.plane.errors(rows.X, rows.y)
    shown = "never" if accepted is None else f"{accepted:,}"
    ratio = wrong / max(1, of_planted)
    upper = found.error.upper if found.error else 1.0
    print("| rows | accepted after | error / planted | upper bound | rows/s | rows/s, quiet | peak memory, MiB |")
    print("|---|---|---|---|---|---|---|")
    print(
        f"| {options.rows:,} | {shown} | {ratio:.3f} | {upper:.4f} | {options.rows / spent:,.0f} | "
        f"{quiet_rows / max(quiet, 1e-9):,.0f} | {peak:,.0f} |"
    )


if __name__ == "__main__":
    main()
