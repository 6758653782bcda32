"""Show that the memory of a pass does not grow with the number of rows: 1x, 10x (and more) rows.

usage: scripts/memory [--rows 2000000] [--factors 1 10] [--dim 16] [--command test]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile


def peak_mebibytes(*arguments: str) -> float:
    """Run a streamhalf command in a process of its own; returns its peak resident memory."""
    command = [sys.executable, "-m", "streamhalf", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 10, 11):
        sys.exit(f"{' '.join(command)} failed")
    scale = 2**20 if sys.platform == "darwin" else 2**10
    return usage.ru_maxrss / scale


def main() -> None:
    parser = argparse.ArgumentParser(prog="memory", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--factors", type=int, nargs="+", default=[1, 10])
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--command", choices=["test", "fit"], default="test")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="streamhalf-memory-")
    print("| rows | stored MB | peak memory of the process, MiB |\n|---|---|---|")
    try:
        for factor in options.factors:
            rows = factor * options.rows
            store = os.path.join(folder, f"{rows}.zarr")
            layout = ["--rows", str(rows), "--dim", str(options.dim), "--chunk-rows", "65536"]
            peak_mebibytes("synth", store, *layout, "--quiet")
            peak = peak_mebibytes(options.command, store, "--seed", "0", "--quiet")
            print(f"| {rows:,} | {rows * (4 * options.dim + 1) / 1e6:,.0f} | {peak:,.0f} |")
            shutil.rmtree(store)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
