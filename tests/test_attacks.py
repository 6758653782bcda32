from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from scripts.attacking.command import BEGIN, END, SCHEMA, main, with_section
from scripts.attacking.moments import hermite, list_coefficients
from scripts.attacking.plane import Fineness
from scripts.attacking.program import Program
from scripts.attacking.rows import LAST, knows_seed, law_of_program, sorted_by_label, worst_law
from scripts.attacking.runs import ATTACKS
from scripts.evaluation.search import error_of
from scripts.evaluation.tables import Table

TOLERANCE = 0.2


def quadratics(Z: np.ndarray) -> float:
    """Operator norm of mean H H^T - I, written down anew."""
    a, b = Z.T
    H = np.stack([np.ones_like(a), a, b, (a**2 - 1) / 2**0.5, a * b, (b**2 - 1) / 2**0.5])
    return float(np.abs(np.linalg.eigvalsh(H @ H.T / len(Z) - np.eye(6))).max())


def test_worst_law__passes_the_tests_it_was_made_against_and_is_bad() -> None:
    """On 400,000 rows; noise of the quadratics at the finest scale is 0.04 (4.5 sigma)."""
    rng = np.random.default_rng(0)
    trial = law_of_program(rng, 400_000, dim=2, tolerance=TOLERANCE)
    law = worst_law(2, TOLERANCE)
    X, y = trial.X.astype(np.float64), trial.y
    v = np.mean(y[:, None] * X, axis=0)
    v /= np.linalg.norm(v)
    assert error_of(X, y, trial.best) == pytest.approx(law.opt, abs=0.002)
    assert error_of(X, y, v) == pytest.approx(law.error, abs=0.02)
    assert law.error > 4 * law.opt + LAST / 2
    u = np.array([-v[1], v[0]])
    along, across = X @ v, X @ u
    delta = 1.0
    while delta >= LAST:
        kept = rng.random(len(X)) < np.exp(-(along**2) * (delta**-2 - 1) / 2)
        Z = np.stack([along[kept] / delta, across[kept]], axis=1)
        assert quadratics(Z) <= TOLERANCE + 0.04 / math.sqrt(delta / LAST) + 0.01
        assert abs(np.mean(y[kept] * Z[:, 1])) < 0.03
        delta /= 2


def test_program__looser_tests_allow_worse_laws() -> None:
    program = Program(0.6, last=1 / 4, fineness=Fineness(inner=2, ratio=1.7, heights=8))
    loose, tight = (program.solve([one] * 3).constant for one in (0.3, 0.15))
    assert loose > 1.2 * tight > 3


def test_program__a_chow_vector_off_v_allows_worse_laws() -> None:
    fineness = Fineness(inner=2, ratio=1.7, heights=8)
    exact, off = (
        Program(0.6, last=1 / 4, fineness=fineness, slack=slack).solve([0.2] * 3).constant
        for slack in (0.0, 0.1)
    )
    assert off > exact


def test_program__a_path_that_drifts_to_v_is_no_easier_to_attack() -> None:
    fineness = Fineness(inner=2, ratio=1.7, heights=8)
    resting, drifting = (
        Program(0.6, last=1 / 4, fineness=fineness, drift=drift).solve([0.2] * 3).constant
        for drift in (0.0, 0.3)
    )
    assert 1 < drifting < 1.1 * resting


@pytest.mark.parametrize("m", [2, 4])
def test_list_coefficients__are_those_of_turned_coordinates(m: int) -> None:
    rng = np.random.default_rng(1)
    z, angle = rng.standard_normal((50, 2)), 0.3
    plane = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    x = z @ plane
    inside = np.array([hermite(k, z[:, 0]) * hermite(m - k, z[:, 1]) for k in range(m + 1)])
    outside = [hermite(m - k, x[:, 0]) * hermite(k, x[:, 1]) for k in range(m + 1)]
    np.testing.assert_allclose(list_coefficients(plane, m) @ inside, outside, atol=1e-10)


def test_sorted_by_label__within_pieces_only() -> None:
    trial = sorted_by_label(np.random.default_rng(2), 3_200, pieces=32)
    steps = np.diff(trial.y.astype(int)).reshape(-1)
    falls = np.flatnonzero(steps < 0) + 1
    assert len(falls) == 31
    assert (falls % 100 == 0).all()


def test_knows_seed__flips_few_rows_and_only_for_its_halfspace() -> None:
    trial = knows_seed(np.random.default_rng(3), is_used=True)
    assert 0.001 < error_of(trial.X, trial.y, trial.best) < 0.15
    assert trial.parameters == {"seed": 0}


def test_with_section__replaces_its_own_table_and_keeps_all_else() -> None:
    first, second, again = (
        Table(name, "c", True, said, ("a",), ((1,),))
        for name, said in (("attacks", "one"), ("the constant", "two"), ("attacks", "three"))
    )
    page = with_section("# Evaluation\n\ntext\n", [first], "short")
    page = with_section(page, [second], "long")
    page = with_section(page + "\ntail\n", [again], "long")
    assert page.startswith("# Evaluation\n\ntext\n\n" + BEGIN)
    assert page.rstrip().endswith(END + "\ntail")
    assert "one" not in page
    assert page.index("three") < page.index("two")
    assert page.count("## ") == 2


@pytest.mark.slow
def test_short_form__shows_every_attack(tmp_path: Path) -> None:
    page, found = tmp_path / "page.md", tmp_path / "attacks.json"
    code = main(["--form", "short", "--out", str(page), "--json", str(found)])
    document = json.loads(found.read_text(encoding="utf-8"))
    assert document["schema"] == SCHEMA
    table = document["tables"]["attacks"]
    shown = [row["attack"] for row in table["rows"]]
    assert shown == [name for name, one in ATTACKS.items() if one.repeats[0]]
    assert table["met"]
    assert code == 0
    assert f"{BEGIN}\n## Attacks\n" in page.read_text(encoding="utf-8")
