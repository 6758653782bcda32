"""The command line of the benchmarks."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from scripts.benchmarking import effort, fits, growth, kernels, model, passes, peers, remote, width
from scripts.benchmarking.picture import draw_picture
from scripts.benchmarking.stores import Folder
from scripts.benchmarking.tables import Table, to_markdown
from tests.s3_server import what_is_missing

SCHEMA = "streamhalf-benchmark-1"
_FILE = "benchmark.json"
_PREFACE = """# Benchmarks

Made by `./scripts/benchmark --large`, table by table with `--only`; figures are medians over the
rounds of one run, in brackets the smallest and the largest. What they mean, and the formulas behind
them: [cost.md](cost.md).

"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; 0 if every criterion is met, else 1."""
    options = _parse(arguments)
    with tempfile.TemporaryDirectory(prefix="streamhalf-benchmark-") as scratch:
        folder = Folder(options.stores or Path(scratch))
        folder.path.mkdir(parents=True, exist_ok=True)
        known = _read(options.out)
        for name, measure in _parts(folder, options, known).items():
            if options.only and name not in options.only:
                continue
            if name == "remote" and (missing := what_is_missing()):
                print(f"remote is left out: {missing}", file=sys.stderr, flush=True)
            else:
                known[name] = measure().to_json()
                print(to_markdown(known[name]), flush=True)
                _write(known, options.out)
    return 0 if all(one["met"] for table in known.values() for one in table["criteria"]) else 1


def _parts(folder: Folder, options: argparse.Namespace, known: dict[str, Any]) -> dict[str, Callable[[], Table]]:
    rows, rounds = options.rows, options.rounds
    sizes = [rows // 10, rows] + ([10 * rows] if options.large else [])
    return {
        "peers": lambda: peers.measure(folder, sizes=sizes[1:], rounds=rounds),
        "gram": lambda: kernels.measure_gram(rounds),
        "slab-matrices": lambda: kernels.measure_slabs(rounds),
        "passes": lambda: passes.measure(folder, rows=rows, rounds=rounds),
        "fits": lambda: fits.measure(folder, sizes=sizes[1:], rounds=rounds),
        "width": lambda: width.measure(folder, rows=rows // 10, rounds=rounds),
        "effort": lambda: effort.measure(folder, rows=rows // 10, rounds=rounds),
        "growth": lambda: growth.measure_rows(folder, sizes=sizes, rounds=rounds),
        "workers": lambda: growth.measure_workers(folder, rows=sizes[-1], rounds=rounds),
        "chunks": lambda: growth.measure_chunks(folder, rows=rows, rounds=rounds),
        "remote": lambda: remote.measure(folder, rows=rows, rounds=rounds),
        "tasks": lambda: growth.measure_tasks(counts=[options.tasks // k for k in (100, 10, 1)]),
        "model": lambda: model.check(known),
        "extrapolation": lambda: model.extrapolate(known),
    }


PARTS = (
    *("peers", "gram", "slab-matrices", "passes", "fits", "width", "effort", "growth", "workers"),
    *("chunks", "remote", "tasks", "model", "extrapolation"),
)


def _read(out: Path) -> dict[str, Any]:
    """The tables of earlier runs: a part can be measured again by itself."""
    file = out / _FILE
    return json.loads(file.read_text(encoding="utf-8"))["tables"] if file.exists() else {}


def _write(tables: dict[str, Any], out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    ordered = {name: tables[name] for name in PARTS if name in tables}
    machine = {"system": platform.system(), "cores": os.cpu_count()}
    document = {"schema": SCHEMA, "machine": machine, "tables": ordered}
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    (out / _FILE).write_text(text + "\n", encoding="utf-8")
    pages = (to_markdown(table) for table in ordered.values())
    (out / "benchmark.md").write_text(_PREFACE + "\n".join(pages), encoding="utf-8")
    draw_picture(ordered, out / "benchmark.png")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/benchmark",
        description="Side by side with bare reads, BLAS and other learners; ratios with spread.",
    )
    parser.add_argument("--rows", type=int, default=10**7, help="of the usual store (1e7)")
    parser.add_argument("--large", action="store_true", help="also ten times as many rows")
    parser.add_argument("--rounds", type=int, default=5, help="repetitions (5)")
    parser.add_argument("--tasks", type=int, default=10**5, help="empty tasks at most (1e5)")
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--stores", type=Path, help="keep the data here for the next time")
    parser.add_argument("--out", type=Path, default=Path("benchmark"), help="folder for results")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
