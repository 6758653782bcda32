"""Results of runs with fixed seeds stay: half of them here, all in the slow tier."""

from __future__ import annotations

import json

import pytest

from scripts.programs.digests import CASES, FILE, differences, record

EXPECTED = json.loads(FILE.read_text())


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if number % 2 else name for number, name in enumerate(CASES)]
)
def test_results__stay(name: str) -> None:
    assert differences(EXPECTED[name]["figures"], record(name)) == []


def test_differences__names_the_figure_that_moved() -> None:
    before = {"L": 0.25, "normal": [0.5, 1.0]}
    moved = {"L": 0.25 * (1 + 1e-3), "normal": [0.5, 1.0]}
    assert differences(before, moved) == []
    assert len(differences(before, moved, rtol=1e-9)) == 1
    assert differences(before, {"L": 0.25, "normal": [0.5, 1.1]}) == ["normal[1]: 1.0 -> 1.1"]
