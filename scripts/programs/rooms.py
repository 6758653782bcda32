"""Print modules and lines of the package by room, and draw the walk of a row into the docs.

usage: scripts/rooms [--check] [--write]

--check fails where the package is larger than its ceilings. --write renews the tables and pictures
of docs/architecture.md and docs/contributing.md from the docstrings of the rooms, the layers in
pyproject.toml and a traced fit.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "streamhalf"
PAGES = tuple(ROOT / "docs" / name for name in ("architecture.md", "contributing.md"))

MOST_LINES, MOST_MODULES = 36_000, 150
"""Ceilings of the package, which only go down: to 26,000 and 150."""
MOST_CALLS = 12
"""From `Run.reduce` to a kernel."""

Call = tuple[str, str]
"""A module below streamhalf, and the qualified name of a function in it."""


@dataclass(frozen=True, slots=True)
class Room:
    """A package or module directly below streamhalf."""

    name: str
    n_modules: int
    n_lines: int
    purpose: str

    @classmethod
    def of(cls, path: Path) -> Room:
        """Count a room's files; its purpose is the first line of its docstring."""
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        home = path / "__init__.py" if path.is_dir() else path
        said = ast.get_docstring(ast.parse(home.read_text("utf-8"))) or ""
        n_lines = sum(len(file.read_text("utf-8").splitlines()) for file in files)
        return cls(path.stem, len(files), n_lines, said.split("\n\n")[0].replace("\n", " "))


def layers() -> list[tuple[str, ...]]:
    """The layers of import-linter's contract, top to bottom."""
    content = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    found = content["tool"]["importlinter"]["contracts"][0]["layers"]
    return [tuple(re.split(r"\s*[|:]\s*", layer)) for layer in found]


def rooms() -> list[Room]:
    """All rooms, in the order of the layers."""
    order = [name for layer in layers() for name in layer]
    paths = [path for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()]
    paths = [path for path in paths if path.suffix or (path / "__init__.py").exists()]
    place = {name: number for number, name in enumerate(order)}
    found = [Room.of(path) for path in paths]
    return sorted(found, key=lambda room: (place.get(room.name, len(order)), room.name))


def walks(pass_name: str = "final") -> set[tuple[Call, ...]]:
    """Every chain of calls from `Run.reduce` through a statistic's `map` to a kernel, in one pass.

    Generator expressions and comprehensions are not counted as calls of their own.
    """
    import numpy as np

    import streamhalf

    rng = np.random.default_rng(0)
    X = rng.standard_normal((60_000, 4))
    y = np.where(X[:, 0] >= 0.1, 1, -1)
    y[rng.random(len(y)) < 0.03] *= -1
    found: set[tuple[Call, ...]] = set()

    def look(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and "/streamhalf/kernels/" in frame.f_code.co_filename:
            chain = _chain(frame, pass_name)
            if chain is not None:
                found.add(chain)

    sys.setprofile(look)
    try:
        streamhalf.fit((X, y), scheduler="serial", seed=0, certificate_degree=0)
    finally:
        sys.setprofile(None)
    return found


def _chain(frame: FrameType | None, pass_name: str) -> tuple[Call, ...] | None:
    """The calls from `Run.reduce` of the pass down to the first kernel, if there is a task."""
    calls: list[Call] = []
    while frame is not None:
        name, file = frame.f_code.co_qualname, Path(frame.f_code.co_filename)
        if file.is_relative_to(PACKAGE) and not name.endswith(">"):
            calls.append((".".join(file.relative_to(PACKAGE).with_suffix("").parts), name))
        if name == "Run.reduce":
            break
        frame = frame.f_back
    if frame is None or frame.f_locals.get("name") != pass_name:
        return None
    if not any("map_blocks" in name for _, name in calls):
        return None
    calls.reverse()
    first = next(n for n, (module, _) in enumerate(calls) if module.startswith("kernels."))
    return tuple(calls[: first + 1]) if calls[first - 1][1].endswith(".map") else None


def picture(chain: tuple[Call, ...]) -> str:
    """A chain of calls as a staircase: one line a call, one step to the right a room."""
    names = list(dict.fromkeys(module.partition(".")[0] for module, _ in chain))
    lines, last = [], ""
    for module, name in chain:
        room, _, rest = module.partition(".")
        indent = "    " * names.index(room)
        lines.append(f"{room if room != last else '':<12}{indent}{rest}.{name}")
        last = room
    return "```text\n" + "\n".join(lines) + "\n```"


def the_walk(found: set[tuple[Call, ...]]) -> tuple[Call, ...]:
    """The chain that the docs show: to the moments, by the most calls."""
    return max((one for one in found if one[-2][1] == "Moments.map"), key=lambda one: (len(one), one))


def render(text: str, blocks: dict[str, str]) -> str:
    """A page with its blocks between `<!-- NAME -->` and `<!-- end of NAME -->` renewed."""
    for name, content in blocks.items():
        text = re.sub(
            rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)",
            lambda m, content=content: f"{m[1]}\n{content}\n\n{m[2]}",  # type: ignore[misc]
            text,
            flags=re.DOTALL,
        )
    return text


def blocks() -> dict[str, str]:
    """Content of the file that `--write` writes."""
    purposes = {room.name: room.purpose for room in rooms()}
    table = ["| layer | room | what is in it |", "|---|---|---|"]
    table += [
        f"| {number} | {name} | {purposes[name]} |"
        for number, layer in enumerate(layers(), 1)
        for name in layer
        if not name.startswith("_")
    ]
    return {"rooms": "\n".join(table), "walk": picture(the_walk(walks()))}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="fail above the ceilings")
    parser.add_argument("--write", action="store_true", help="renew tables and pictures in docs/")
    given = parser.parse_args()
    found = rooms()
    n_lines, n_modules = sum(r.n_lines for r in found), sum(r.n_modules for r in found)
    if not given.check:
        for room in found:
            print(f"{room.name:<14}{room.n_modules:>5} modules {room.n_lines:>8,} lines")
    print(f"{n_modules} modules, {n_lines:,} lines (at most {MOST_MODULES} and {MOST_LINES:,})")
    if given.write:
        new = blocks()
        for page in PAGES:
            page.write_text(render(page.read_text("utf-8"), new), encoding="utf-8")
    return 1 if given.check and (n_lines > MOST_LINES or n_modules > MOST_MODULES) else 0


if __name__ == "__main__":
    sys.exit(main())
