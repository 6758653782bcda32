from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import streamhalf
from streamhalf.label_issues import audit as audits
from tests.conftest import make_rows

X, Y = make_rows(4_000, 3, seed=8)
RIGHT = np.where(X[:, 0] >= 0, 1, -1)
WHO = np.random.default_rng(2).choice(["ann", "bob", "cid"], len(X))
MODEL: dict[str, Any] = {"model": [1.0, 0.0, 0.0]}


def flipped(chance: Any, seed: int) -> np.ndarray:
    """Labels of which some, far from the boundary, are flipped."""
    lost = (np.random.default_rng(seed).random(len(X)) < chance) & (np.abs(X[:, 0]) > 0.3)
    return np.where(lost, -RIGHT, RIGHT)


@pytest.mark.parametrize("compared", [1 << 18, 2_000])
def test_gatherings__name_the_values_and_segments_that_were_tampered_with(
    monkeypatch: pytest.MonkeyPatch, compared: int
) -> None:
    """Against all rows, and against some."""
    monkeypatch.setattr(audits, "_COMPARED_ROWS", compared)
    monkeypatch.setattr(audits, "_COMPARED_KEPT", compared)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(who=WHO, id=[f"n{i}" for i in range(len(X))])
    chance = np.where(WHO == "bob", 0.25, 0.01) + 0.3 * (X[:, 1] > 1) + 0.5 * (np.arange(len(X)) // 100 == 7)
    frame["y"] = np.where(flipped(chance, 1) > 0, "up", "down")
    given: dict[str, Any] = {"columns": ["a", "b", "c"], "keep": ["who", "id"], **MODEL}
    found = streamhalf.audit(frame, **given).result
    named = [(one.column, one.value) for one in found.gatherings]
    assert ("who", "bob") in named
    assert any(column == "" and value.startswith(("rows 68", "rows 7")) for column, value in named)
    assert {"", "b", "who"} <= {column for column, _ in named} <= {"", "a", "b", "who"}  # issues are far along a
    bob = found.gatherings[named.index(("who", "bob"))]
    assert bob.all_issues == found.n_issues
    assert bob.expected < bob.n_issues <= bob.all_issues
    assert abs(bob.share - (WHO == "bob").mean()) < 0.05


def test_gatherings__chance_alone_names_none() -> None:
    """40 audits at 1% each: 5 and more have probability below 1e-4."""
    named = 0
    for seed in range(40):
        lost = np.random.default_rng(seed).random(len(X)) < 0.05
        clear = X + np.outer(RIGHT * 5, [1, 0, 0])
        named += bool(
            [
                one
                for one in streamhalf.audit((clear, np.where(lost, -RIGHT, RIGHT)), **MODEL).result.gatherings
                if one.column != "x1"
            ]
        )
    assert named <= 4
