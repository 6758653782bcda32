"""The command line of the evaluation."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from scripts.evaluation import completeness, elliptical, refine, robustness, soundness, thresholds, wide
from scripts.evaluation.picture import draw_picture
from scripts.evaluation.tables import Table

SCHEMA = "streamhalf-evaluation-1"
PARTS = {
    "completeness": completeness.GAUSSIAN,
    "robustness": robustness.PART,
    "soundness": soundness.PART,
    "thresholds": thresholds.PART,
    "threshold-completeness": completeness.WITH_THRESHOLDS,
    "elliptical": elliptical.PART,
    "completeness-auto": completeness.ANY_TRANSFORM,
    "refine": refine.PART,
    "wide": wide.PART,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Make all tables; 0 if every criterion is met, else 1."""
    options = _parse(arguments)
    tables = make_tables(options.form, options.only or list(PARTS))
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    markdown = "\n".join(table.to_markdown() for table in tables)
    print(markdown)
    (out / "evaluation.md").write_text(_preface(options) + markdown, encoding="utf-8")
    document = {
        "schema": SCHEMA,
        "form": options.form,
        "met": all(table.met for table in tables),
        "tables": {table.name: table.to_json() for table in tables},
    }
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    (out / "evaluation.json").write_text(text + "\n", encoding="utf-8")
    draw_picture(tables, out / "evaluation.png")
    print(f"written: {os.path.relpath(out)}/evaluation.md, .json and .png")
    return 0 if document["met"] else 1


def make_tables(form: str, names: Sequence[str]) -> list[Table]:
    """Run the named parts under one progress bar each."""
    columns = (TextColumn("{task.description:>22}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    tables = []
    with Progress(*columns) as progress:
        tasks = {name: progress.add_task(name, total=PARTS[name].count_runs(form), start=False) for name in names}
        for name, task in tasks.items():
            progress.start_task(task)
            tables.append(PARTS[name].run(form, lambda task=task: progress.advance(task)))
    return tables


def _preface(options: argparse.Namespace) -> str:
    only = f" --only {' '.join(options.only)}" if options.only else ""
    return (
        "# Evaluation\n\n"
        "Everything on this page is the output of one command:\n\n"
        f"```sh\n./scripts/evaluate --form {options.form}{only}\n```\n\n"
        "![The tables as a picture](evaluation.png)\n\n"
    )


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="evaluate", description="Completeness, robustness, soundness, thresholds, transforms; with criteria."
    )
    parser.add_argument("--form", choices=("short", "long"), default="short")
    parser.add_argument("--out", type=Path, default=Path(".cache/evaluation"), metavar="DIR")
    parser.add_argument("--only", nargs="+", choices=tuple(PARTS), help="tables to make; all by default")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
