"""The memory of a run: it does not grow with the rows, and stays within its plan on any threads.

usage: scripts/memory [--rows 2000000] [--factors 1 10] [--dim 16] [--command test]
       scripts/memory --threads 2 16 64 [--memory-limit 2GiB] [--rows 2000000] [--dim 16]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile

import streamhalf


def peak_mebibytes(*arguments: str) -> float:
    """Run a streamhalf command in a process of its own; returns its peak resident memory."""
    command = [sys.executable, "-m", "streamhalf", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 10, 11, 12):
        sys.exit(f"{' '.join(command)} failed")
    scale = 2**20 if sys.platform == "darwin" else 2**10
    return usage.ru_maxrss / scale


def write(folder: str, rows: int, dim: int) -> str:
    """A store of so many rows, with noise."""
    store = os.path.join(folder, f"{rows}.zarr")
    layout = ["--rows", str(rows), "--dim", str(dim), "--chunk-rows", "65536"]
    noise = ["--noise", "random", "--rate", "0.05"]
    peak_mebibytes("synth", store, *layout, *noise, "--quiet")
    return store


def by_rows(options: argparse.Namespace, folder: str) -> None:
    """Peak memory for more and more rows."""
    print("| rows | stored MB | peak memory of the process, MiB |\n|---|---|---|")
    for factor in options.factors:
        rows = factor * options.rows
        store = write(folder, rows, options.dim)
        peak = peak_mebibytes(options.command, store, "--seed", "0", "--quiet")
        print(f"| {rows:,} | {rows * (4 * options.dim + 1) / 1e6:,.0f} | {peak:,.0f} |")
        shutil.rmtree(store)


def by_threads(options: argparse.Namespace, folder: str) -> None:
    """Peak memory of a fit against its plan, on more and more threads."""
    store = write(folder, options.rows, options.dim)
    print("| threads | at once | planned, MiB | peak memory, MiB | peak / plan |")
    print("|---|---|---|---|---|")
    for threads in options.threads:
        given = {"memory_limit": options.memory_limit, "n_workers": threads, "seed": 0}
        found = streamhalf.dry_run(store, scheduler="threads", **given)
        at_once = min(threads, found.memory_limit // found.plan.memory_nbytes)
        planned = found.process_nbytes / 2**20
        where = ["--scheduler", "threads", "--workers", str(threads)]
        limit = ["--memory-limit", options.memory_limit]
        peak = peak_mebibytes("fit", store, "--seed", "0", "--quiet", *where, *limit)
        ratio = peak / planned
        print(f"| {threads} | {at_once} | {planned:,.0f} | {peak:,.0f} | {ratio:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="memory", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--factors", type=int, nargs="+", default=[1, 10])
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--command", choices=["test", "fit"], default="test")
    parser.add_argument("--threads", type=int, nargs="+")
    parser.add_argument("--memory-limit", default="2GiB")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="streamhalf-memory-")
    try:
        (by_threads if options.threads else by_rows)(options, folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
