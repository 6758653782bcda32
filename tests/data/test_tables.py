"""CSV and Parquet files in place of a store."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import streamhalf
from streamhalf import DataError, UsageError
from streamhalf.cli import main
from streamhalf.data.opening import open_source
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


def test_commands__go_from_a_table_to_suspects(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result, suspects = str(tmp_path / "result.json"), str(tmp_path / "suspects.csv")
    given = [str(table), "--label", "bought", "--quiet"]
    assert main(["fit", *given, "--certificate-degree", "0", "--json", result]) in (0, 10, 11)
    assert "600 rows" in " ".join(capsys.readouterr().out.split())
    assert main(["audit", *given, "--model", result, "--out", suspects]) == 0
    assert set(pd.read_csv(suspects)["given_label"]) <= {"yes", "no"}
    assert main(["test", *given[:1], "--quiet", "--label", "bought"]) in (0, 10, 11)


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (FRAME.rename(columns={"bought": "sold"}), "found: age, score, sold, visits.*--label"),
        (FRAME.assign(bought=FRAME["bought"].where(FRAME.index != 7)), "no label in 1 row of 600"),
        (FRAME.assign(age=FRAME["age"].where(FRAME.index != 7, np.inf)), "row 7 .*replace infin"),
        (
            FRAME.assign(age=FRAME["age"].astype(object).where(FRAME.index != 7, "old")),
            r"column 'age' holds text among numbers: 'old' in row 7 .*1 such cell",
        ),
        (FRAME[:0], "no rows, only names of columns"),
    ],
    ids=["label", "missing label", "infinite", "stray text", "no rows"],
)
def test_table__names_what_is_wrong_in_it(frame: pd.DataFrame, words: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    frame.to_csv(path, index=False)
    with pytest.raises(DataError, match=words):
        streamhalf.fit(path, label="bought", certificate_degree=0)


def test_table__that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    with pytest.raises(DataError, match="no such file"):
        streamhalf.fit(path)
    path.write_text("no parquet")
    with pytest.raises(DataError, match="not a readable table"):
        streamhalf.fit(path)
    with pytest.raises(DataError, match="only a Zarr store has a layout"):
        streamhalf.inspect(path)


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("rows.csv", "age;bought\n1,5;yes\n", "'age;bought', whose name has semicolons.*commas"),
        ("rows.csv", "größe,bought\n1,yes\n", "not UTF-8 text; save it as UTF-8"),
        ("rows.tsv", "age\tbought\n1\tyes\n", r"write it as \.csv .*or \.parquet"),
    ],
)
def test_table__of_another_kind_is_told_how_to_be_one(file: str, content: str, words: str, tmp_path: Path) -> None:
    (tmp_path / file).write_bytes(content.encode("latin-1"))
    with pytest.raises(DataError, match=words):
        streamhalf.fit(tmp_path / file, label="bought")


def test_plan__of_a_table_asks_for_the_column_of_labels(table: Path) -> None:
    with pytest.raises(DataError, match="--label COLUMN"):
        streamhalf.plan(table)
    assert streamhalf.plan(table, label="bought").dim == 3


def test_audit__takes_the_columns_of_the_model_by_name(table: Path) -> None:
    """As predict does: columns beside them, and another order, make no difference."""
    result = streamhalf.fit(table, label="bought", seed=1, certificate_degree=0)
    more = FRAME.assign(city="Ulm")[["city", "score", "bought", "age", "visits"]]
    for data in (more, (more.drop(columns="bought"), more["bought"])):
        found = streamhalf.audit(data, model=result, label="bought")
        assert found.result.data.features == ("age", "visits", "score")
        assert found.result.data.fingerprint == result.data.fingerprint
    with pytest.raises(DataError, match="columns: visits not found among"):
        streamhalf.audit(more.drop(columns="visits"), model=result, label="bought")


@pytest.mark.parametrize("features", ["X", "a"])
def test_features__are_refused_for_tables(features: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = pd.DataFrame({"a": [0.5, 1.5, 2.5], "X": [1.0, 2.0, 0.0], "y": [0, 1, 1]})
    frame.to_csv(path := tmp_path / "rows.csv", index=False)
    assert main(["fit", str(path), "--features", features, "--quiet"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"features: '{features}' given for a table, whose features are all columns but" in said
    with pytest.raises(UsageError, match="given for a table"):
        streamhalf.fit(frame, features=features)
    with pytest.raises(UsageError, match="given for a table"):
        open_source(str(path), features="a", labelled=False)
