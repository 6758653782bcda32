"""Columns of tables as features: what is made of them, and the same of new rows."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import zarr

import streamhalf
from streamhalf import DataError, UsageError, open_source
from streamhalf.cli import main
from streamhalf.results import ColumnUse, DropReason, NoticeCode, from_json, to_json
from streamhalf.results.parts import EncodingRecord

N = 2000
RNG = np.random.default_rng(3)
CITIES = np.array(["Bonn", "Kiel", "Ulm"])
FRAME = pd.DataFrame(
    {
        "id": [f"u{i:05}" for i in range(N)],
        "age": RNG.normal(40, 10, N).round(1),
        "city": RNG.choice(CITIES, N, p=[0.5, 0.3, 0.2]),
        "zip": [f"z{i}" for i in RNG.integers(0, 200, N)],
        "since": pd.date_range("2020-01-01", periods=N, freq="13h"),
        "vip": RNG.random(N) < 0.3,
        "country": "DE",
        "copy": 0.0,
    }
)
FRAME["copy"] = 2 * FRAME["age"] - 1
FRAME["bought"] = np.where(FRAME["age"] + 10 * (FRAME["city"] == "Ulm") > 43, "yes", "no")
GAPPED = FRAME.assign(age=FRAME["age"].where(FRAME.index % 50 != 7), city=FRAME["city"].where(FRAME.index > 9))


def encoding_of(frame: Any, **asked: Any) -> EncodingRecord:
    found = open_source(frame, labels="bought", **asked).encoding
    assert found is not None
    return found


def column(encoding: EncodingRecord, name: str) -> Any:
    return next(one for one in encoding.columns if one.name == name)


def test_encoding__says_what_became_of_every_column() -> None:
    found = encoding_of(GAPPED)
    assert [one.name for one in found.columns] == [*FRAME.columns.drop("bought")]
    assert column(found, "id").reason is DropReason.IDENTIFIER
    assert column(found, "country").reason is DropReason.CONSTANT
    assert column(found, "vip").use is ColumnUse.NUMBER
    age = column(found, "age")
    assert (age.gaps, age.fill) == (40, float(np.nanmedian(GAPPED["age"])))
    assert [one.name for one in age.features] == ["age", "age missing"]
    city = column(found, "city")
    assert (city.base, city.gaps) == ("Bonn", 10)
    assert {one.name for one in city.features} == {"city=Kiel", "city=Ulm", "city missing"}
    rare = column(found, "zip")
    assert len(rare.features) == 31  # 31 values and all others together, one of them left out
    assert "since: days" in {one.name for one in column(found, "since").features}
    assert from_json(EncodingRecord, to_json(found)) == found


def test_encoding__leaves_out_what_other_columns_determine() -> None:
    assert column(encoding_of(FRAME), "copy").reason is DropReason.COLLINEAR
    source = open_source(FRAME, labels="bought")
    X = source.read(source.blocks[0]).X
    assert np.linalg.matrix_rank(np.column_stack([np.ones(len(X)), X])) == X.shape[1] + 1


@pytest.mark.parametrize(
    "make",
    [
        lambda frame, folder: pl.from_pandas(frame),
        lambda frame, folder: pa.Table.from_pandas(frame),
        lambda frame, folder: dd.from_pandas(frame, npartitions=4).clear_divisions(),
        lambda frame, folder: frame.astype({"city": "category"}),
        lambda frame, folder: (frame.to_csv(folder / "a.csv", index=False), folder / "a.csv")[1],
        lambda frame, folder: (frame.to_parquet(folder / "a.parquet", row_group_size=300), folder / "a.parquet")[1],
    ],
    ids=["Polars", "Arrow", "Dask", "categories", "CSV", "Parquet"],
)
def test_encoding__is_the_same_of_every_kind_of_table(make: Any, tmp_path: Path) -> None:
    expected = open_source(GAPPED, labels="bought")
    found = open_source(make(GAPPED, tmp_path), labels="bought")
    assert found.encoding == expected.encoding
    assert found.fingerprint == expected.fingerprint


def test_encoding__takes_new_rows_with_unseen_values_and_gaps() -> None:
    result = streamhalf.fit(FRAME, label="bought", seed=1, certificate_degree=0)
    new = FRAME[:50].assign(city="Rom", zip="none", age=np.nan).drop(columns=["id", "bought"])
    assert set(result.predict(new)) <= {"yes", "no"}
    lazy = result.predict(dd.from_pandas(FRAME, npartitions=3))
    np.testing.assert_array_equal(lazy.compute().to_numpy(), result.predict(FRAME))
    with pytest.raises(DataError, match="columns: zip not found among"):
        result.predict(FRAME.drop(columns="zip"))
    with pytest.raises(DataError, match=r"column 'age': .* found where numbers were fitted"):
        result.predict(FRAME.assign(age="old"))


def test_columns__can_be_chosen_and_dropped() -> None:
    assert encoding_of(FRAME, columns=("city", "age")).used == ("city", "age")
    assert "zip" not in encoding_of(FRAME, drop=("zip",)).used
    with pytest.raises(UsageError, match="open_source: unknown parameter 'colums'; did you mean 'columns'"):
        open_source((FRAME[["age"]], FRAME["bought"]), colums=("age",))
    for asked, words in (
        ({"columns": ("age", "nope")}, "columns: 'nope' not among the columns"),
        ({"drop": ("nope",)}, "drop: 'nope' not among the columns"),
        ({"columns": ("bought", "age")}, "columns: 'bought' is the label"),
        ({"drop": ("bought",)}, "drop: 'bought' is the label"),
    ):
        with pytest.raises(UsageError, match=words):
            open_source(FRAME, labels="bought", **asked)


def test_positive__is_one_class_against_the_rest() -> None:
    frame = FRAME.assign(bought=np.resize(["a", "b", "c"], N))
    with pytest.raises(DataError, match=r"bought: 3 classes found: .*a \(667 rows\).*positive="):
        open_source(frame, labels="bought")
    source = open_source(frame, labels="bought", positive="b")
    assert source.record.classes == ("not b", "b")
    assert (source.read(source.blocks[0]).y > 0).sum() == 667
    arrays = (FRAME[["age", "copy"]].to_numpy(), frame["bought"].to_numpy())
    assert open_source(arrays, positive="b").record.classes == ("not b", "b")
    with pytest.raises(UsageError, match=r"positive: 'd' is no value of 'bought'"):
        open_source(frame, labels="bought", positive="d")


@pytest.mark.parametrize("kind", ["table", "store"])
def test_missing__rows_are_dropped_filled_or_refused(kind: str, tmp_path: Path) -> None:
    if kind == "table":
        data: Any = GAPPED[["age", "vip", "bought"]]
        bad = np.flatnonzero(GAPPED["age"].isna())
        asked: dict[str, Any] = {"labels": "bought"}
    else:
        X = GAPPED[["age", "copy"]].to_numpy()
        group = zarr.open_group(tmp_path / "a.zarr", mode="w")
        group.create_array("X", data=X, chunks=(300, 2))
        group.create_array("y", data=np.where(GAPPED["bought"] == "yes", 1, -1), chunks=(300,))
        data, asked = tmp_path / "a.zarr", {}
        bad = np.flatnonzero(np.isnan(X).any(axis=1))
    dropped = open_source(data, missing="drop", **asked)
    assert dropped.n_rows == N - len(bad)
    np.testing.assert_array_equal(dropped.dropped, bad)
    rows = np.concatenate([block.rows for block in dropped.read_each(dropped.blocks)])
    stored = dropped.stored_numbers(rows)
    np.testing.assert_array_equal(stored, np.setdiff1d(np.arange(N), bad))
    assert NoticeCode.ROWS_DROPPED in {one.code for one in dropped.notices}
    filled = open_source(data, missing="fill", **asked)
    block = filled.read(filled.blocks[0])
    at = list(filled.feature_names).index("age missing" if kind == "table" else "x1 missing")
    np.testing.assert_array_equal(block.rows[block.X[:, at] == 1], bad[bad < block.n_rows])
    with pytest.raises(DataError, match=r"gaps in 1 column \('age' 40\)|row 7\b.*missing='drop'"):
        open_source(data, missing="refuse", **asked)


def test_convert__writes_a_store_that_is_fitted_like_the_table(tmp_path: Path) -> None:
    path, store, result = (str(tmp_path / name) for name in ("a.parquet", "a.zarr", "r.json"))
    GAPPED.to_parquet(path)
    assert main(["convert", path, store, "--label", "bought", "--quiet"]) == 0
    given = {"seed": 1, "certificate_degree": 0}
    table, stored = streamhalf.fit(path, label="bought", **given), streamhalf.fit(store, **given)
    assert (table.halfspace, table.error) == (stored.halfspace, stored.error)
    assert (table.data.features, table.data.encoding) == (stored.data.features, stored.data.encoding)
    assert stored.data.classes == ("no", "yes")
    stored.save(result)
    out = str(tmp_path / "out.csv")
    assert main(["predict", path, "--model", result, "--out", out, "--keep", "id", "--quiet"]) == 0
    written = pd.read_csv(out)
    assert list(written.columns) == ["id", "prediction"]
    np.testing.assert_array_equal(written["id"], FRAME["id"])
    np.testing.assert_array_equal(written["prediction"], table.predict(GAPPED))


def test_predict__says_which_rows_it_left_out(tmp_path: Path) -> None:
    frame = GAPPED[["id", "age", "vip", "bought"]]
    frame.to_csv(tmp_path / "a.csv", index=False)
    model = streamhalf.fit(frame, label="bought", missing="drop", seed=1, certificate_degree=0, drop="id")
    out = tmp_path / "out.parquet"
    streamhalf.predict(tmp_path / "a.csv", model=model, out=out, missing="drop", keep=["id"])
    written = pd.read_parquet(out)
    np.testing.assert_array_equal(written["row"], np.flatnonzero(frame["age"].notna()))
    np.testing.assert_array_equal(written["id"], frame["id"][written["row"]])


BAD: dict[str, tuple[Any, str]] = {
    "no rows": (FRAME[:0], "no rows, only names of columns"),
    "one column": (FRAME[["bought"]], "no column is left for features"),
    "names twice": (FRAME.rename(columns={"age": "zip"}), "two columns are called 'zip'"),
    "several types": (
        FRAME.assign(age=[(1, 2) if i % 2 else {"a"} for i in range(N)]),
        r"column 'age' holds values of several types \(set, tuple\)",
    ),
    "stray text": (
        FRAME.assign(age=FRAME["age"].astype(str).where(FRAME.index != 7, "old")),
        "column 'age' holds text among numbers: 'old' in row 7",
    ),
    "labels with gaps": (
        FRAME.assign(bought=FRAME["bought"].where(FRAME.index > 9)),
        r"no label in 10 rows of 2,000, column 'bought'; .*missing='drop'",
    ),
    "one label": (FRAME.assign(bought="yes"), "only one label, yes"),
    "a million values": (
        FRAME[["id", "bought"]].assign(other=[f"v{i}" for i in range(N)]),
        "no column is left for features .*'id' identifier, 'other' identifier",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_tables__have_one_sentence(name: str) -> None:
    frame, words = BAD[name]
    with pytest.raises(DataError, match=words) as caught:
        open_source(frame, labels="bought")
    assert len(str(caught.value).splitlines()) == 1


def test_bad_tables__all_that_is_wrong_is_in_one_message() -> None:
    frame = FRAME.assign(a=[(1, "x")[i % 2] for i in range(N)], b=[(2, {"y"})[i % 2] for i in range(N)])
    frame["zip"] = frame["age"].astype(str).where(frame.index != 7, "old")
    frame["bought"] = np.resize(["yes", "no", "maybe", None], N)
    words = (
        r"DataFrame: bought: 3 classes found: .*; no label in 500 rows of 2,000, column 'bought'; .*; "
        r"column 'a' holds .*; column 'b' holds .*; column 'zip' holds text among numbers: 'old' .*--drop"
    )
    with pytest.raises(DataError, match=words):
        open_source(frame, labels="bought")
    with pytest.raises(UsageError, match=r"columns: 'ages' not among .*; drop: 'bought' is the label"):
        open_source(frame, labels="bought", columns=("ages",), drop=("bought",))


def test_encoding__of_few_numbers_and_a_word_is_a_category() -> None:
    frame = FRAME.assign(children=np.resize(["0", "1", "2", "3+"], N))
    children = column(encoding_of(frame), "children")
    assert (children.use, len(children.features)) == (ColumnUse.CATEGORY, 3)


def test_columns__that_are_named_are_no_identifiers() -> None:
    frame = FRAME.assign(id=np.arange(N)[::-1])
    assert column(encoding_of(frame), "id").reason is DropReason.IDENTIFIER or "id" not in encoding_of(frame).used
    assert encoding_of(frame, columns=("id", "age")).used == ("id", "age")


def test_csv__larger_than_what_is_kept_is_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from streamhalf.data import table_source, tables

    quoted = GAPPED.assign(city=GAPPED["city"].where(GAPPED.index % 7 != 0, 'a "b",\nc'))
    quoted.to_csv(tmp_path / "a.csv", index=False)
    expected = open_source(quoted, labels="bought")
    monkeypatch.setattr(table_source, "_KEPT_NBYTES", 0)
    monkeypatch.setattr(tables, "_CSV_NBYTES", 1 << 12)
    found = open_source(tmp_path / "a.csv", labels="bought")
    assert len(found.blocks) == 1
    assert isinstance(found.own, table_source.TableColumns)
    assert found.own.table.n_pieces > 10
    assert found.fingerprint == expected.fingerprint
    assert NoticeCode.SLOW_TABLE in {one.code for one in found.notices}


@pytest.mark.parametrize("missing", ["fill", "drop"])
def test_pair__of_a_frame_that_is_too_large_to_keep_opens(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from streamhalf.data import table_source

    data = (GAPPED[["age", "vip"]], GAPPED["bought"])
    expected = open_source(data, missing=missing)
    monkeypatch.setattr(table_source, "_KEPT_NBYTES", 0)
    found = open_source(data, missing=missing)
    assert found.fingerprint == expected.fingerprint
    assert found.n_rows == expected.n_rows


def test_dates__of_several_kinds_become_days() -> None:
    start = date(2021, 3, 1)
    days = [start + timedelta(days=int(i)) for i in RNG.integers(0, 900, N)]
    frame = pd.DataFrame({"day": days, "text": [str(one) for one in days]})
    frame = frame.assign(x=RNG.normal(size=N), bought=FRAME["bought"])
    for name in ("day", "text"):
        found = encoding_of(frame[[name, "x", "bought"]])
        assert column(found, name).use is ColumnUse.DATE
        assert f"{name}: week sin" in found.features
