from __future__ import annotations

import itertools
import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from scripts.realdata import command
from scripts.realdata.command import BEGIN, END, ROOT, SCHEMA, main
from scripts.realdata.sets import SETS
from scripts.realdata.trials import FLIPPED, Sampling, flip


def test_flip__makes_labels_agree_with_a_halfspace_beside_the_regression() -> None:
    X, y = SETS["cancer"].rows()
    split = Sampling.of(X, y, 0)
    for direction in range(3):
        flipped = np.flatnonzero(flip(split, direction) != split.y)
        assert len(flipped) == int(FLIPPED * len(split.y))
        Z = split.regression[0].transform(split.X)
        w, y_before = split.regression[-1].coef_[0], split.y[flipped]
        # the mean of flipped rows, seen from their labels, points away from the drawn normal
        pull = -(y_before[:, None] * Z[flipped]).mean(axis=0)
        across = pull - w * (pull @ w) / (w @ w)
        assert np.linalg.norm(across) > 1.0


def test_split__tests_on_rows_that_nobody_learns_from() -> None:
    X, y = SETS["cancer"].rows()
    split = Sampling.of(np.column_stack([X, np.arange(len(y))]), y, 1)
    seen, unseen = split.X[:, -1], split.unseen[0][:, -1]
    assert sorted([*seen, *unseen]) == list(range(len(y)))
    assert len(unseen) == round(0.3 * len(y))


@pytest.mark.slow
def test_command__writes_a_table_and_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(command.SPLITS, "short", 1)
    page, out = tmp_path / "page.md", tmp_path / "found.json"
    page.write_text(f"before\n{BEGIN}stale\n{END}\nafter\n", encoding="utf-8")
    code = main(["--only", "cancer", "--json", str(out), "--page", str(page)])
    document = json.loads(out.read_text(encoding="utf-8"))
    assert document["schema"] == SCHEMA
    assert code == int(not document["met"])
    (row,) = document["rows"]
    assert (row["data"], row["rows"], row["d"]) == ("cancer", 569, 30)
    # other splits give errors of up to 0.06; the constant guess errs on 0.37
    assert max(row["test error"], row["regression"]) < 0.1
    assert [one["direction"] for one in document["trials"]["cancer"]] == [None, 0]
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "stale" not in text
    assert "| cancer | 569 |" in text
    assert "| cancer | 569 |" in capsys.readouterr().out


def test_readme__shows_the_figures_of_the_page() -> None:
    page = _table(ROOT / "docs" / "real-data.md", "data | rows |")
    readme = _table(ROOT / "README.md", "data | rows × features |")
    assert [row[0] for row in page] == list(SETS)
    assert readme == [
        [row[0], f"{int(row[1]):,} × {row[2]}", row[4], *(f"{Decimal(figure):.3f}" for figure in row[10:14])]
        for row in page
    ]


def _table(path: Path, head: str) -> list[list[str]]:
    """The rows of the table whose head begins like this, cell by cell."""
    rest = path.read_text(encoding="utf-8").partition(f"| {head}")[2]
    lines = itertools.takewhile(lambda line: line.startswith("|"), rest.splitlines()[2:])
    return [line.strip("| ").split(" | ") for line in lines]
