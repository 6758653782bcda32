"""CSV and Parquet files in place of a store."""

from __future__ import annotations

import gzip
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import streamhalf
from streamhalf import DataError, UsageError
from streamhalf.cli import main
from streamhalf.data import tables
from streamhalf.data.opening import open_source
from streamhalf.data.tables import open_files
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
        (FRAME.assign(age=FRAME["age"].where(FRAME.index != 7, np.inf)), "row 7 .*replace infin"),
    ],
    ids=["label", "infinite"],
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


PLAIN = "age,city,since,visits,bought\n" + "".join(
    f"{i % 90 + 0.25},{('Köln', 'Ulm', 'Bonn')[i % 3]},2021-{i % 12 + 1:02}-{i % 28 + 1:02},"
    f"{i * i * 37 % 4001},{'ny'[i % 90 > 40]}\n"
    for i in range(400)
)
LINES = [line.split(",") for line in PLAIN.splitlines()]


def written(separator: str = ",", **cells: Any) -> str:
    """The plain table, separated and written otherwise."""
    rows = [LINES[0]] + [
        [cells.get(name, str)(cell) for name, cell in zip(LINES[0], line, strict=True)] for line in LINES[1:]
    ]
    return "".join(separator.join(row) + "\n" for row in rows)


def dated(form: str) -> Any:
    return lambda cell: f'"{date.fromisoformat(cell).strftime(form)}"'


WRITTEN: dict[str, bytes] = {
    "semicolons, decimal commas": written(";", age=lambda cell: cell.replace(".", ",")).encode(),
    "tabs": written("\t").encode(),
    "spaces": written(", ").encode(),
    "thousands": written(visits=lambda cell: f'"{int(cell):,}"').encode(),
    "dollars": written(visits=lambda cell: f"${cell}").encode(),
    "percents": written(visits=lambda cell: f"{cell} %").encode(),
    "a mark": b"\xef\xbb\xbf" + PLAIN.encode(),
    "Windows": PLAIN.replace("\n", "\r\n").encode("cp1252"),
    "empty lines": PLAIN.replace("\n", "\n\n").encode(),
    "a comment": b"# rows of a shop, of 2021\n" + PLAIN.encode(),
    "gzip": gzip.compress(PLAIN.encode()),
    "American dates": written(since=dated("%m/%d/%Y")).encode(),
    "British dates": written(since=dated("%d/%m/%Y")).encode(),
    "German dates": written(since=dated("%d.%m.%Y")).encode(),
    "dates in words": written(since=dated("%b %d, %Y")).encode(),
    "dates of databases": written(since=dated("%d-%b-%Y")).encode(),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_csv__is_read_however_it_is_written(name: str, tmp_path: Path) -> None:
    (tmp_path / "plain.csv").write_text(PLAIN, encoding="utf-8")
    path = tmp_path / "rows.csv"
    path.write_bytes(WRITTEN[name])
    expected, found = (open_source(one, labels="bought") for one in (tmp_path / "plain.csv", path))
    np.testing.assert_array_equal(found.read(found.blocks[0]).X, expected.read(expected.blocks[0]).X)
    assert found.feature_names == expected.feature_names
    assert found.record.classes == ("n", "y")
    model = streamhalf.fit(expected, seed=1, certificate_degree=0)
    again = open_source(path, labels="bought", encoding=found.encoding)
    assert again.fingerprint == found.fingerprint
    assert set(model.predict(pd.read_csv(tmp_path / "plain.csv"))) <= {"n", "y"}


def test_csv__that_is_packed_is_one_block_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (path := tmp_path / "rows.csv.gz").write_bytes(gzip.compress(PLAIN.encode()))
    monkeypatch.setattr(tables, "_CSV_NBYTES", 1000)
    found = open_files(str(path), None)
    assert found is not None
    assert (found.n_pieces, found.n_rows) == (1, 400)
    monkeypatch.setattr(tables, "_MOST_PACKED", 10_000)
    with pytest.raises(DataError, match=r"text in gzip; unpack it \(gunzip\)"):
        open_files(str(path), None)


def test_csv__marks_of_gaps_are_gaps_of_numbers_and_no_labels(tmp_path: Path) -> None:
    rows = "".join(f"{'-' if i % 10 == 3 else i * 0.5},{'+-'[i % 2]}\n" for i in range(200))
    (tmp_path / "rows.csv").write_text(f"age,y\n{rows}")
    source = open_source(tmp_path / "rows.csv")
    assert source.encoding is not None
    assert [(one.use, one.gaps) for one in source.encoding.columns] == [("number", 20)]
    assert source.record.classes == ("-", "+")


def test_csv__digits_of_other_scripts_are_words(tmp_path: Path) -> None:
    rows = "".join(f"{'٣٤٥'[i % 3]},{'+-'[i % 2]}\n" for i in range(60))
    (tmp_path / "rows.csv").write_text(f"grade,y\n{rows}", encoding="utf-8")
    assert open_source(tmp_path / "rows.csv").feature_names == ("grade=٤", "grade=٥")


def test_encoding__of_written_numbers_refuses_other_marks(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [f"{i},5" for i in range(100)], "b": [f"{i * i % 900 + 1},000" for i in range(1, 101)]})
    encoding = open_source(frame.assign(y=np.resize([0, 1], 100))).encoding
    assert encoding is not None
    assert [one.form for one in encoding.columns] == [",", "."]
    with pytest.raises(DataError, match=r"column 'a': .*found where numbers were fitted \('1.5'\)"):
        open_source(frame.assign(a="1.5", y=np.resize([0, 1], 100)), encoding=encoding)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (PLAIN.encode("utf-16"), "UTF-16 text; save it as UTF-8"),
        (bytes(range(256)), "binary data; give a CSV or Parquet file"),
        (PLAIN.replace("\n", "\r").encode(), "lines end with carriage returns alone"),
        (b"a,a,b,b,y\n1,2,3,4,0\n", "two columns are called 'a' and two columns are called 'b'"),
        (b"", "no rows and no names of columns"),
    ],
    ids=["UTF-16", "binary", "carriage returns", "names twice", "empty"],
)
def test_csv__that_cannot_be_read_has_one_sentence(content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(content)
    with pytest.raises(DataError, match=words) as caught:
        streamhalf.fit(tmp_path / "rows.csv", label="bought")
    assert len(str(caught.value).splitlines()) == 1


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
