"""The command line of the benchmarks."""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from scripts.benchmarking import fits, growth, kernels, passes
from scripts.benchmarking.picture import draw_picture
from scripts.benchmarking.stores import Folder
from scripts.benchmarking.tables import Table

SCHEMA = "streamhalf-benchmark-1"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; 0 if every criterion is met, else 1."""
    options = _parse(arguments)
    with tempfile.TemporaryDirectory(prefix="streamhalf-benchmark-") as scratch:
        folder = Folder(options.stores or Path(scratch))
        folder.path.mkdir(parents=True, exist_ok=True)
        tables = []
        for name, measure in _parts(folder, options).items():
            if not options.only or name in options.only:
                tables.append(measure())
                print(tables[-1].to_markdown(), flush=True)
    _write(tables, options.out)
    return 0 if all(one.met for table in tables for one in table.criteria) else 1


def _parts(folder: Folder, options: argparse.Namespace) -> dict[str, Callable[[], Table]]:
    rows, rounds = options.rows, options.rounds
    sizes = [rows // 10, rows] + ([10 * rows] if options.large else [])
    return {
        "gram": lambda: kernels.measure_gram(rounds),
        "slab-matrices": lambda: kernels.measure_slabs(rounds),
        "passes": lambda: passes.measure(folder, rows=rows, rounds=rounds),
        "fits": lambda: fits.measure(folder, sizes=sizes[1:], rounds=rounds),
        "others": lambda: fits.compare(folder, rows=rows),
        "growth": lambda: growth.measure_rows(folder, sizes=sizes, rounds=rounds),
        "workers": lambda: growth.measure_workers(folder, rows=sizes[-1], rounds=rounds),
        "chunks": lambda: growth.measure_chunks(folder, rows=rows, rounds=rounds),
        "tasks": lambda: growth.measure_tasks(counts=[10**3, 10**4, options.tasks]),
    }


PARTS = (
    "gram",
    "slab-matrices",
    "passes",
    "fits",
    "others",
    "growth",
    "workers",
    "chunks",
    "tasks",
)


def _write(tables: list[Table], out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    file = out / "benchmark.json"
    known = json.loads(file.read_text(encoding="utf-8"))["tables"] if file.exists() else {}
    known |= {table.name: table.to_json() for table in tables}
    document = {
        "schema": SCHEMA,
        "machine": {"system": platform.system(), "cores": os.cpu_count()},
        "tables": {name: known[name] for name in PARTS if name in known},
    }
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    file.write_text(text + "\n", encoding="utf-8")
    draw_picture(document["tables"], out / "benchmark.png")
    print(f"written: {os.path.relpath(out)}/benchmark.json and .png")


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
