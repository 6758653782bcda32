"""The memory of a run: it does not grow with the rows, and stays within its plan on any threads.

usage: scripts/memory [--rows 2000000] [--factors 1 10] [--dim 16] [--command test]
       scripts/memory --threads 2 16 64 [--memory-limit 2GiB] [--rows 2000000] [--dim 16]
       scripts/memory --parquet [--memory-limit 1536MiB] [--rows 50000000] [--dim 8]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile

import pyarrow as pa
import pyarrow.parquet as pq
import zarr

import streamhalf


def measured(*arguments: str) -> tuple[float, float]:
    """Run a streamhalf command in a process of its own; returns its peak memory in MiB and its processor seconds."""
    command = [sys.executable, "-m", "streamhalf", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 10, 11, 12):
        sys.exit(f"{' '.join(command)} failed")
    scale = 2**20 if sys.platform == "darwin" else 2**10
    return usage.ru_maxrss / scale, usage.ru_utime + usage.ru_stime


def peak_mebibytes(*arguments: str) -> float:
    """Run a command; returns its peak resident memory."""
    return measured(*arguments)[0]


def write(folder: str, rows: int, dim: int, chunk_rows: int = 65536) -> str:
    """A store of so many rows, with noise."""
    store = os.path.join(folder, f"{rows}.zarr")
    layout = ["--rows", str(rows), "--dim", str(dim), "--chunk-rows", str(chunk_rows)]
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


def by_format(options: argparse.Namespace, folder: str) -> None:
    """Peak memory and processor time of a fit of the same rows in one store and in a Parquet folder."""
    store = write(folder, options.rows, options.dim, chunk_rows=1 << 18)
    group, parts = zarr.open_group(store, mode="r"), os.path.join(folder, "rows")
    os.mkdir(parts)
    step = 1 << 22
    for start in range(0, options.rows, step):
        X, y = group["X"][start : start + step], group["y"][start : start + step]
        columns = {f"x{j + 1}": X[:, j] for j in range(options.dim)} | {"y": y}
        pq.write_table(pa.table(columns), f"{parts}/{start:012}.parquet", row_group_size=1 << 18)
    print("| data | processor time, s | peak memory, MiB |")
    print("|---|---|---|")
    for data in (store, parts):
        limit = ["--memory-limit", options.memory_limit, "--certificate-degree", "0"]
        peak, seconds = measured("fit", data, "--seed", "0", "--quiet", *limit)
        print(f"| {'Zarr' if data == store else 'Parquet'} | {seconds:.1f} | {peak:,.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="memory", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--factors", type=int, nargs="+", default=[1, 10])
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--command", choices=["test", "fit"], default="test")
    parser.add_argument("--threads", type=int, nargs="+")
    parser.add_argument("--memory-limit", default="2GiB")
    parser.add_argument("--parquet", action="store_true")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="streamhalf-memory-")
    try:
        chosen = by_format if options.parquet else by_threads if options.threads else by_rows
        chosen(options, folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
