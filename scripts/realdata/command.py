"""The command line of the real data."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scripts.evaluation.tables import Cell, Table
from scripts.realdata.sets import SETS
from scripts.realdata.trials import DIRECTIONS, FLIPPED, Sampling, Trial, attempt

SCHEMA = "streamhalf-real-data-1"
ROOT = Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- table: made by scripts/real_data -->\n", "<!-- end of table -->"
FEW, MANY = 5_000, 10_000
SPLITS = {"short": 3, "long": 20}
"""Of sets with few rows; the others have one."""
SLACK, SLACK_FEW, LEAST_CLASS = 0.005, 0.004, 0.1
COLUMNS = (
    *("data", "rows", "d", "smaller class", "verdict", "transform", "winner", "error", "L", "through"),
    *("test error", "regression", "flipped", "regression, flipped", "seconds", "holds"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Try all sets; 0 if every criterion is met, else 1."""
    options = _parse(arguments)
    rows, details = _known(options)
    for name in options.only or SETS:
        X, y = SETS[name].rows()
        trials = try_set(X, y, options.form)
        rows[name] = _row(name, X, y, trials)
        details[name] = [_tell(one) for one in trials]
        print(dict(zip(COLUMNS, rows[name], strict=True)), flush=True)
        table = _table([rows[one] for one in SETS if one in rows], details)
        _write(table, options)
    print(table.to_markdown())
    return 0 if table.met else 1


def _known(options: argparse.Namespace) -> tuple[dict[str, tuple[Cell, ...]], dict[str, list[dict[str, Cell]]]]:
    """Results of an earlier run of the same form for sets that are not tried now."""
    if not options.only or not options.json.exists():
        return {}, {}
    document = json.loads(options.json.read_text(encoding="utf-8"))
    if (document["schema"], document["form"]) != (SCHEMA, options.form):
        return {}, {}
    rows = {row["data"]: tuple(row[name] for name in COLUMNS) for row in document["rows"]}
    return rows, document["trials"]


def try_set(X: NDArray[np.float64], y: NDArray[np.int8], form: str) -> list[Trial]:
    """Labels as given and flipped; of few rows many splits, with one direction each."""
    if len(y) >= FEW:
        split = Sampling.of(X, y, 0)
        directions = [None, *range(DIRECTIONS if form == "long" else 1)]
        return [attempt(split, one, seed=0, certify=one is None) for one in directions]
    trials = []
    for number in range(SPLITS[form]):
        split = Sampling.of(X, y, number)
        trials += [
            attempt(split, one, seed=number, certify=one is None and number == 0) for one in (None, number % DIRECTIONS)
        ]
    return trials


def _row(name: str, X: NDArray[np.float64], y: NDArray[np.int8], trials: Sequence[Trial]) -> tuple[Cell, ...]:
    clean = [one for one in trials if one.direction is None]
    flipped = [one for one in trials if one.direction is not None]
    first = clean[0].result
    ours, theirs, ours_flipped, theirs_flipped = (
        float(np.mean([getattr(one, side) for one in group]))
        for group in (clean, flipped)
        for side in ("ours", "theirs")
    )
    smaller = float(min(np.mean(y > 0), np.mean(y < 0)))
    holds = all(one.result.halfspace is not None for one in trials)
    holds &= ours <= theirs + (SLACK if len(y) >= FEW else SLACK_FEW)
    if len(y) > MANY and smaller > LEAST_CLASS:
        holds &= ours_flipped < theirs_flipped
    winner = None if first.chosen is None else first.candidates[first.chosen].method
    return (
        *(name, len(y), X.shape[1], round(smaller, 3), str(first.verdict)),
        *(str(first.transform.kind), "–" if winner is None else str(winner)),
        None if first.error is None else round(first.error.empirical, 4),
        None if first.opt is None else round(first.opt.lower_empirical, 4),
        None if first.opt is None else str(first.opt.through),
        *(round(one, 4) for one in (ours, theirs, ours_flipped, theirs_flipped)),
        round(clean[0].seconds, 1),
        holds,
    )


def _tell(one: Trial) -> dict[str, Cell]:
    chosen, found = one.result.chosen, one.result
    return {
        "direction": one.direction,
        "ours": one.ours,
        "regression": one.theirs,
        "verdict": str(found.verdict),
        "transform": str(found.transform.kind),
        "winner": None if chosen is None else str(found.candidates[chosen].method),
        "seconds": one.seconds,
    }


def _table(rows: list[tuple[Cell, ...]], details: dict[str, list[dict[str, Cell]]]) -> Table:
    failed = [str(row[0]) for row in rows if not row[-1]]
    bounded = sum(bool(row[8]) for row in rows)
    return Table(
        name="real data",
        criterion=(
            f"there is always a halfspace, and its test error is at most that of logistic "
            f"regression + {SLACK:g}, or + {SLACK_FEW:g} on the mean of many splits where there "
            f"are fewer than {FEW:,} rows; with {FLIPPED:.0%} of the training labels flipped it is "
            f"ahead on average wherever there are more than {MANY:,} rows and the smaller class "
            f"exceeds {LEAST_CLASS:.0%}; L is above 0 on more than half of the sets"
        ),
        met=not failed and bounded > len(rows) / 2,
        summary=(
            f"{len(rows) - len(failed)} of {len(rows)} sets hold, L above 0 on {bounded}"
            + (f"; not: {', '.join(failed)}" if failed else "")
        ),
        columns=COLUMNS,
        rows=tuple(rows),
        details={"trials": details},
    )


def _write(table: Table, options: argparse.Namespace) -> None:
    document = {"schema": SCHEMA, "form": options.form, **table.to_json()}
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(text + "\n", encoding="utf-8")
    if options.page is not None:
        before, _, rest = options.page.read_text(encoding="utf-8").partition(BEGIN)
        made = table.to_markdown().partition("\n\n")[2]
        after = rest.partition(END)[2]
        options.page.write_text(f"{before}{BEGIN}{made}{END}{after}", encoding="utf-8")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="real_data", description="Real data with default settings, beside logistic regression."
    )
    parser.add_argument("--form", choices=("short", "long"), default="short")
    parser.add_argument(
        "--only", nargs="+", choices=tuple(SETS), metavar="SET", help="sets to try; the others in FILE stay"
    )
    parser.add_argument("--json", type=Path, default=Path(".cache/real-data.json"), metavar="FILE", help="results")
    parser.add_argument("--page", type=Path, metavar="FILE", help="page whose table is written, docs/real-data.md")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
