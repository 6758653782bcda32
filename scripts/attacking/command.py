"""The command line of the attacks."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from scripts.attacking import constants, runs
from scripts.evaluation.tables import Table

SCHEMA = "streamhalf-attacks-1"
ROOT = Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- attacks -->", "<!-- /attacks -->"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the attacks, or make the tables of the program; 0 if every criterion is met, else 1."""
    options = _parse(arguments)
    names = options.only or list(runs.ATTACKS)
    count = constants.count_runs(options.form)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(TextColumn("{task.description:>10}"), *columns) as progress:
        if options.constants:
            task = progress.add_task("constants", total=count)
            tables = constants.run(options.form, lambda: progress.advance(task), write=options.write)
        else:
            task = progress.add_task("attacks", total=runs.count_runs(options.form, names))
            tables = [runs.run(options.form, names, lambda: progress.advance(task))]
    print("\n".join(table.to_markdown() for table in tables))
    document = {
        "schema": SCHEMA,
        "form": options.form,
        "met": all(table.met for table in tables),
        "tables": {table.name: table.to_json() for table in tables},
    }
    if options.json is not None:
        text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
        options.json.write_text(text + "\n", encoding="utf-8")
    page: Path = options.out
    before = page.read_text(encoding="utf-8") if page.exists() else ""
    page.write_text(with_section(before, tables, options.form), encoding="utf-8")
    return 0 if document["met"] else 1


def with_section(page: str, tables: Sequence[Table], form: str) -> str:
    """The page with these tables in its section about attacks; other tables there stay."""
    before, _, rest = page.partition(BEGIN)
    section, _, after = rest.partition(END)
    parts = {part.split("\n", 1)[0]: part for part in re.split(r"(?m)^## ", section)[1:]}
    for table in tables:
        flag = "" if table.name == "attacks" else " --constants"
        title, _, text = table.to_markdown().removeprefix("## ").partition("\n")
        made = f"\nOutput of `./scripts/attacks{flag} --form {form}`.\n"
        parts[title] = f"{title}\n{made}{text}\n"
    body = "".join(f"## {part.strip()}\n\n" for part in parts.values())
    return f"{before.rstrip()}\n\n{BEGIN}\n{body}{END}\n{after.lstrip()}".lstrip()


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="attacks", description="Attacks on the statements of a run, with criteria.")
    parser.add_argument("--form", choices=("short", "long"), default="short")
    parser.add_argument("--only", nargs="+", choices=tuple(runs.ATTACKS), metavar="NAME", help="attacks to run")
    parser.add_argument("--constants", action="store_true", help="the tables of the linear program instead")
    parser.add_argument(
        "--write", action="store_true", help="with --constants --form long: write the table that runs print from"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="the tables as JSON")
    parser.add_argument(
        "--out",
        type=Path,
        default=ROOT / "docs" / "evaluation.md",
        metavar="FILE",
        help="page whose section about attacks is written",
    )
    options = parser.parse_args(arguments)
    if options.write and not (options.constants and options.form == "long"):
        parser.error("--write: the table takes --constants --form long")
    return options


if __name__ == "__main__":
    raise SystemExit(main())
