"""docs/architecture.md and docs/contributing.md: rooms, the walk of a row, and code that runs."""

from __future__ import annotations

import pkgutil
import re
import sys
import types
from typing import Any

import pytest

from scripts.programs.rooms import MOST_CALLS, PAGES, Call, blocks, layers, render, rooms, walks
from streamhalf import Outcome, Verdict
from tests.saying import said

ARCHITECTURE, CONTRIBUTING = PAGES


@pytest.fixture(scope="module")
def chains() -> set[tuple[Call, ...]]:
    return walks()


def test_walk__is_short_and_goes_down(chains: set[tuple[Call, ...]]) -> None:
    assert len(chains) > 3
    place = {name: number for number, layer in enumerate(layers()) for name in layer}
    for chain in chains:
        depths = [place[module.partition(".")[0]] for module, _ in chain]
        assert depths == sorted(depths), chain
        assert len(chain) - 1 <= MOST_CALLS, chain


def test_pages__show_rooms_and_walk_as_they_are() -> None:
    new = blocks()
    for page in PAGES:
        assert render(page.read_text("utf-8"), new) == page.read_text("utf-8"), "scripts/rooms"


def test_rooms__have_a_purpose_and_a_layer() -> None:
    known = {name for layer in layers() for name in layer} | {"__init__", "_version"}
    for room in rooms():
        assert room.name in known
        assert room.purpose


def test_contributing__names_what_exists() -> None:
    calls = re.findall(r"`(streamhalf(?:\.\w+)+)`", CONTRIBUTING.read_text("utf-8"))
    assert len(calls) > 10
    assert all(callable(pkgutil.resolve_name(call)) for call in calls)


def test_contributing__blocks_run(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("contributing")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # where pickle finds the classes
    names: dict[str, Any] = module.__dict__
    found = re.findall(r"```python\n(.*?)```", CONTRIBUTING.read_text("utf-8"), re.DOTALL)
    assert len(found) >= 3
    for block in found:
        exec(compile(block, CONTRIBUTING.name, "exec"), names)
    result = names["result"]
    assert result.verdict is Verdict.REJECTED
    outcomes = {one.tester: one.outcome for one in result.testers}
    assert outcomes["heavy rows"] is Outcome.REJECTED
    assert outcomes["largest moment"] is Outcome.PASSED
    assert result.transform.kind == "mirrored"
    assert "rejects the rows" in said(result)
