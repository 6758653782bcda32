"""CSV and Parquet files in place of a store."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import streamhalf
from streamhalf import DataError, UsageError
from streamhalf.cli import main
from tests.conftest import make_rows

X, Y = make_rows(600, 3, seed=8)
FRAME = pd.DataFrame(X.astype(np.float64), columns=["age", "visits", "score"]).assign(
    bought=np.where(Y > 0, "yes", "no")
)


@pytest.fixture(params=[".csv", ".parquet"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"rows{request.param}"
    if request.param == ".csv":
        FRAME.to_csv(path, index=False)
    else:
        FRAME.to_parquet(path)
    return path


def test_open_source__takes_a_table_like_the_frame_in_it(table: Path) -> None:
    found = streamhalf.open_source(table, labels="bought")
    frame = streamhalf.open_source(FRAME, labels="bought")
    assert found.fingerprint == frame.fingerprint
    assert found.record.features == ("age", "visits", "score")
    assert found.record.classes == ("no", "yes")
    assert found.name == str(table)


def test_commands__go_from_a_table_to_suspects(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result, suspects = str(tmp_path / "result.json"), str(tmp_path / "suspects.csv")
    given = [str(table), "--label", "bought", "--quiet"]
    assert main(["fit", *given, "--certificate-degree", "0", "--json", result]) in (0, 10, 11)
    assert "always guessing yes" in capsys.readouterr().out.replace("guessing no", "guessing yes")
    assert main(["audit", *given, "--model", result, "--out", suspects]) == 0
    assert set(pd.read_csv(suspects)["given_label"]) <= {"yes", "no"}
    assert main(["test", *given[:1], "--quiet", "--label", "bought"]) in (0, 10, 11)


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (FRAME.rename(columns={"bought": "sold"}), "found: age, score, sold, visits.*--label"),
        (FRAME.assign(city="Ulm"), "column 'city' has dtype .* drop it"),
        (FRAME.assign(age=FRAME["age"].where(FRAME.index != 7)), "row 7 .*'age'.*dropna"),
        (FRAME.assign(bought=FRAME["bought"].where(FRAME.index != 7)), "row 7 .* no label"),
    ],
    ids=["label", "text", "missing value", "missing label"],
)
def test_table__names_what_is_wrong_in_it(frame: pd.DataFrame, words: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    frame.to_csv(path, index=False)
    with pytest.raises(DataError, match=words):
        streamhalf.fit(path, label="bought", certificate_degree=0)


def test_table__that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.parquet"
    with pytest.raises(DataError, match="no such file"):
        streamhalf.fit(path)
    path.write_text("no parquet")
    with pytest.raises(DataError, match="not a readable table"):
        streamhalf.fit(path)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="takes pandas, which is not installed"):
        streamhalf.fit(path)
    with pytest.raises(DataError, match="only a Zarr store has a layout"):
        streamhalf.inspect(path)
