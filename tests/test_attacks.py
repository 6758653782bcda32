from __future__ import annotations

import functools
import itertools
import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from scripts.attacking import claims
from scripts.attacking.command import BEGIN, END, SCHEMA, main, with_section
from scripts.attacking.constants import tolerances_of
from scripts.attacking.moments import hermite, list_coefficients
from scripts.attacking.plane import Fineness, inside_slabs
from scripts.attacking.program import Program
from scripts.attacking.rows import LAST, law_of_program, sorted_by_label, worst_law
from scripts.attacking.runs import ATTACKS
from scripts.evaluation.search import error_of
from scripts.evaluation.tables import Table
from streamhalf.errors import DataError

TOLERANCE = 0.2


def quadratics(Z: np.ndarray) -> float:
    """Operator norm of mean H H^T - I, written down anew."""
    a, b = Z.T
    H = np.stack([np.ones_like(a), a, b, (a**2 - 1) / 2**0.5, a * b, (b**2 - 1) / 2**0.5])
    return float(np.abs(np.linalg.eigvalsh(H @ H.T / len(Z) - np.eye(6))).max())


@pytest.mark.slow
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


@pytest.mark.slow
def test_program__slab_masses_that_may_be_off_allow_worse_laws() -> None:
    """The law of (0.2, falling) at 1/8, of which 6.3 was printed whatever the slab masses were."""
    program = Program(0.1, last=1 / 8, fineness=Fineness(inner=2, ratio=1.5, heights=10))
    found = [program.solve(tolerances_of("falling", 0.2, 1 / 8), masses_off=off) for off in (0.11, 0.06, None)]
    worst, middle, normal = (law.constant for law in found)
    assert worst > 11.7
    assert middle > 8.5
    assert normal < 6.3 / 1.1
    inside, masses = inside_slabs(program.grid)
    off = [float(np.abs(inside @ law.masses - masses).sum()) for law in found]
    assert off == pytest.approx([0.11, 0.06, 0.0], abs=1e-6)
    assert all(law.masses.sum() == pytest.approx(1) for law in found)


@pytest.mark.slow
@pytest.mark.parametrize("m", [2, 4])
def test_list_coefficients__are_those_of_turned_coordinates(m: int) -> None:
    rng = np.random.default_rng(1)
    z, angle = rng.standard_normal((50, 2)), 0.3
    plane = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    x = z @ plane
    inside = np.array([hermite(k, z[:, 0]) * hermite(m - k, z[:, 1]) for k in range(m + 1)])
    outside = [hermite(m - k, x[:, 0]) * hermite(k, x[:, 1]) for k in range(m + 1)]
    np.testing.assert_allclose(list_coefficients(plane, m) @ inside, outside, atol=1e-10)


@pytest.mark.slow
def test_sorted_by_label__within_pieces_only() -> None:
    trial = sorted_by_label(np.random.default_rng(2), 3_200, pieces=32)
    steps = np.diff(trial.y.astype(int)).reshape(-1)
    falls = np.flatnonzero(steps < 0) + 1
    assert len(falls) == 31
    assert (falls % 100 == 0).all()


@pytest.mark.slow
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
def test_large_integers__refused_or_no_bound_above_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[np.ndarray] = []

    def run(data: Any, *, lower: float | None, **_: Any) -> Any:
        given.append(data[0])
        if lower is None:
            raise DataError("integers beyond 2^53")
        return SimpleNamespace(verdict="inconclusive", opt=SimpleNamespace(lower_empirical=lower))

    for kind, lower in itertools.product(claims.INTEGERS, (None, 0.0, 0.3)):
        monkeypatch.setattr(claims, "fit", functools.partial(run, lower=lower))
        found = claims.large_integers(np.random.default_rng(0), kind=kind)
        assert found.is_bound_wrong is (lower == 0.3)
        assert (found.verdict == claims.REFUSED) is (lower is None)
        assert np.issubdtype(given[-1].dtype, np.integer)
        assert int(given[-1][:, 0].min()) > 2**53
        # float64 cannot tell them apart
        assert len(np.unique(given[-1][:, 0].astype(np.float64))) < len(given[-1])


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
