"""A run on as many rows as the disk holds: synth, fit with certificate, figures, and tidying up.

usage: scripts/large_run [--rows 1000000000] [--dim 4] [--folder FOLDER] [--workers 2]

The rows take 4 d + 1 bytes each: a billion of four features, 17 GB. The store is removed at the
end, also after a failure or Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def run(*arguments: str) -> tuple[float, float]:
    """Run a streamhalf command; returns seconds and the peak memory of its process in MiB."""
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "streamhalf", *arguments])
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 10, 11):
        sys.exit(f"streamhalf {' '.join(arguments)} failed")
    scale = 2**20 if sys.platform == "darwin" else 2**10
    return time.perf_counter() - started, usage.ru_maxrss / scale


def main() -> None:
    parser = argparse.ArgumentParser(prog="large_run", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10**9)
    parser.add_argument("--dim", type=int, default=4)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="threads")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    options = parser.parse_args()
    nbytes = options.rows * (4 * options.dim + 1)
    free = shutil.disk_usage(options.folder).free
    if nbytes > 0.9 * free:
        sys.exit(
            f"rows: {options.rows:,} of {options.dim} features take {nbytes / 1e9:,.1f} GB, "
            f"{options.folder} has {free / 1e9:,.1f} GB free; use fewer rows or another --folder"
        )
    work = Path(tempfile.mkdtemp(prefix="streamhalf-large-", dir=options.folder))
    try:
        measure(options, work, nbytes)
    finally:
        shutil.rmtree(work)


def measure(options: argparse.Namespace, work: Path, nbytes: int) -> None:
    """Make the store, fit, and print a table."""
    store, file = str(work / "rows.zarr"), work / "result.json"
    shape = ["--rows", str(options.rows), "--dim", str(options.dim)]
    noise = ["--noise", "chow", "--rate", "0.05"]
    where = ["--workers", str(options.workers), "--quiet"]
    made, _ = run("synth", store, *shape, *noise, *where)
    taken, peak = run("fit", store, "--json", str(file), *where)
    result = json.loads(file.read_text(encoding="utf-8"))
    passes = result["passes"]
    read = sum(one["bytes_read"] for one in passes)
    inside = sum(one["seconds"] for one in passes)
    error, opt = result["error"], result["opt"]
    lines = {
        "rows, features": f"{options.rows:,}, {options.dim} ({nbytes / 1e9:,.1f} GB)",
        "synth": f"{made:,.0f} s, {options.rows / made / 1e6:,.1f} million rows/s",
        "fit": f"{taken:,.0f} s, {options.rows / taken / 1e6:,.1f} million rows/s",
        "of it in passes": f"{inside:,.0f} s",
        "bytes read": f"{read / 1e9:,.1f} GB, {read / nbytes:.2f} times the data",
        "peak memory": f"{peak:,.0f} MiB",
        "verdict": str(result["verdict"]),
        "tests support": "; ".join(
            f"{one['constant']:.2f} opt + {one['eps']:.3g}" for one in result["promises"] if one["constant"]
        ),
        "error": f"{error['empirical']:.5f}, at most {error['upper']:.5f}",
        "no halfspace below": f"{opt['lower_empirical']:.5f} ({opt['lower']:.5f} of the source)",
        "ratio U/L": f"{result['ratio']:.3f}" if result["ratio"] else "none",
    }
    print("| | |\n|---|---|")
    for name, text in lines.items():
        print(f"| {name} | {text} |")
    print("\n| pass | rows read | seconds | million rows/s |\n|---|---|---|---|")
    for one in passes:
        rate = one["rows_read"] / one["seconds"] / 1e6
        print(f"| {one['name']} | {one['rows_read']:,} | {one['seconds']:.1f} | {rate:.1f} |")


if __name__ == "__main__":
    main()
