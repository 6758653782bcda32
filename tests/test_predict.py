from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import zarr
from distributed import Client

import streamhalf
from streamhalf import DataError, FitResult, Halfspace, UsageError, Verdict
from streamhalf.cli import main
from streamhalf.events import Event, PassStarted
from streamhalf.results import (
    DataRecord,
    ErrorRecord,
    Sampling,
    Stop,
    StopReason,
    TransformRecord,
    Versions,
    replace,
    seal,
    to_json,
)
from streamhalf.results.document import write_json
from tests.conftest import StoreWriter, make_rows

N_ROWS, DIM = 2_300, 3
X, Y = make_rows(N_ROWS, DIM, seed=3)
NORMAL = (0.6, -0.8, 0.1)


def make_model(verdict: Verdict = Verdict.ACCEPTED, **changes: Any) -> FitResult:
    values: dict[str, Any] = {
        "verdict": verdict,
        "halfspace": Halfspace(NORMAL, 0.25),
        "error": ErrorRecord(0.05, 0.06, 1000),
        "eps": 0.1,
        "tau": 0.01,
        "seed": 0,
        "rows_needed": None,
        "split": Sampling.WINDOWS,
        "transform": TransformRecord(),
        "stop": Stop(StopReason.REACHED_EPS),
        "candidates": (),
        "chosen": None,
        "testers": (),
        "passes": (),
        "data": DataRecord(N_ROWS, DIM, "abc"),
        "versions": Versions.current(),
    }
    return seal(FitResult(**(values | changes)))


def expected(rows: np.ndarray = X) -> np.ndarray:
    margin = rows.astype(np.float64) @ np.array(NORMAL) + 0.25
    return np.where(margin >= 0, 1, -1)


@pytest.fixture
def store(write_store: StoreWriter, small_blocks: None) -> Path:
    """Twenty-three blocks and a bit."""
    return write_store(X, Y, chunk_rows=100, label_chunk_rows=57)


@pytest.mark.parametrize("scheduler", ["serial", "threads"])
def test_predict__equals_the_sign_on_every_row(store: Path, tmp_path: Path, scheduler: str) -> None:
    out = tmp_path / "predictions.zarr"
    events: list[Event] = []
    n_positive = streamhalf.predict(store, model=make_model(), out=out, scheduler=scheduler, observer=events.append)
    group = zarr.open_group(out, mode="r")
    found = group["prediction"]
    np.testing.assert_array_equal(found[:], expected())
    assert found.dtype == np.int8
    assert n_positive == np.count_nonzero(expected() > 0)
    assert found.nchunks == 23  # out of core: one stored chunk for each block that was read
    marks = group.attrs["streamhalf"]
    assert marks["complete"] is True
    assert marks["n_positive"] == n_positive
    (started,) = (event for event in events if isinstance(event, PassStarted))
    assert (started.n_rows, started.n_tasks) == (N_ROWS, 23)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_predict__needs_no_labels(tmp_path: Path, dtype: str) -> None:
    group = zarr.create_group(tmp_path / "rows.zarr")
    group.create_array("traits", data=X.astype(dtype), chunks=(500, DIM))
    out = tmp_path / "predictions.zarr"
    streamhalf.predict(tmp_path / "rows.zarr", model=make_model(), out=out, features="traits")
    np.testing.assert_array_equal(zarr.open_group(out, mode="r")["prediction"][:], expected(X.astype(dtype)))


@pytest.mark.parametrize("verdict", [Verdict.REJECTED, Verdict.INCONCLUSIVE])
def test_predict__answers_whatever_the_verdict(store: Path, tmp_path: Path, verdict: Verdict) -> None:
    out = tmp_path / "predictions.zarr"
    model = make_model(verdict)
    streamhalf.predict(store, model=model, out=out)  # its error is bounded: no warning
    np.testing.assert_array_equal(zarr.open_group(out, mode="r")["prediction"][:], expected())


def test_predict__refuses_a_result_that_was_changed(store: Path, tmp_path: Path) -> None:
    model = make_model(Verdict.REJECTED)
    changed = replace(model, verdict=Verdict.ACCEPTED)
    with pytest.raises(DataError, match="changed after fit returned it"):
        streamhalf.predict(store, model=changed, out=tmp_path / "out")


def test_predict__bad_rows_leave_an_unfinished_store(
    write_store: StoreWriter, small_blocks: None, tmp_path: Path
) -> None:
    damaged = X.copy()
    damaged[1_234, 1] = np.nan
    out = tmp_path / "predictions.zarr"
    with pytest.raises(DataError, match="NaN or infinite values"):
        streamhalf.predict(write_store(damaged, Y), model=make_model(), out=out, scheduler="serial")
    assert zarr.open_group(out, mode="r").attrs["streamhalf"]["complete"] is False


def run_predict(store: Path, model: Path, out: Path, *flags: str) -> int:
    command = ["predict", str(store), "--model", str(model), "--out", str(out), "--quiet"]
    return main([*command, *flags])


def test_command__predicts_from_a_file(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, out = tmp_path / "model.json", tmp_path / "predictions.zarr"
    write_json(model, make_model())
    assert run_predict(store, model, out, "--scheduler", "serial") == 0
    np.testing.assert_array_equal(zarr.open_group(out, mode="r")["prediction"][:], expected())
    n_positive = np.count_nonzero(expected() > 0)
    assert f"wrote predictions to {out}: {n_positive:,} rows are +1" in capsys.readouterr().out


def test_command__warns_and_obeys_overwrite(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, out = tmp_path / "model.json", tmp_path / "predictions.zarr"
    write_json(model, make_model(Verdict.REJECTED))
    assert main(["predict", str(store), "--model", str(model), "--out", str(out)]) == 0
    assert "warning" not in capsys.readouterr().err
    assert run_predict(store, model, out) == 2
    assert "add --overwrite" in capsys.readouterr().err
    assert run_predict(store, model, out, "--overwrite") == 0
    assert capsys.readouterr().err == ""  # it is quiet


def test_result__predicts_in_memory_with_the_labels_of_the_data() -> None:
    names = ("a", "b", "c")
    model = make_model(data=DataRecord(N_ROWS, DIM, "abc", "", names, ("no", "yes")))
    wanted = np.where(expected() > 0, "yes", "no")
    frame = pd.DataFrame(X, columns=names).assign(other="text")
    assert model.predict(frame[["c", "other", "b", "a"]]).tolist() == wanted.tolist()
    assert model.predict(X).tolist() == wanted.tolist()
    lazy = model.predict(da.from_array(X, chunks=(500, DIM)))
    assert lazy.compute().tolist() == wanted.tolist()
    assert make_model().predict(X[:9].tolist()).tolist() == expected(X[:9]).tolist()


def test_predict__refuses_features_in_another_order(write_store: StoreWriter, tmp_path: Path) -> None:
    store = write_store(X, Y, chunk_rows=500)
    zarr.open_group(str(store), mode="r+").attrs["feature_names"] = ["c", "b", "a"]
    model = make_model(data=DataRecord(N_ROWS, DIM, "abc", "", ("a", "b", "c")))
    with pytest.raises(UsageError, match="features a, b, c; the data have c, b, a"):
        streamhalf.predict(store, model=model, out=tmp_path / "p.zarr")


def test_command__predicts_a_table_and_names_the_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, model, out = (str(tmp_path / name) for name in ("rows.csv", "model.json", "p.zarr"))
    pd.DataFrame(X, columns=["a", "b", "c"]).assign(bought="yes").to_csv(file, index=False)
    data = DataRecord(N_ROWS, DIM, "abc", "", ("a", "b", "c"), ("no", "yes"))
    write_json(model, make_model(data=data))
    assert main(["predict", file, "--model", model, "--out", out, "--quiet"]) == 0
    assert "(yes; -1 is no)" in capsys.readouterr().out
    group = zarr.open_group(out, mode="r")
    assert np.asarray(group["prediction"]).tolist() == expected().tolist()
    assert group.attrs["streamhalf"]["classes"] == ["no", "yes"]  # type: ignore[call-overload,index]


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_command__writes_a_table_of_labels(
    store: Path, tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of many blocks, in the order of the rows; nothing else is left behind."""
    model, folder = str(tmp_path / "model.json"), tmp_path / "out"
    folder.mkdir()
    write_json(model, make_model(data=DataRecord(N_ROWS, DIM, "abc", classes=("no", "yes"))))
    out = folder / f"p{ending}"
    command = ["predict", str(store), "--model", model, "--out", str(out), "--quiet"]
    assert main(command) == 0
    assert "rows are yes\n" in capsys.readouterr().out
    assert list(folder.iterdir()) == [out]
    table = pd.read_csv(out) if ending == ".csv" else pd.read_parquet(out)
    assert list(table) == ["prediction"]
    assert table["prediction"].tolist() == np.where(expected() > 0, "yes", "no").tolist()
    assert main(command) == 2
    assert "exists; choose another path or add --overwrite" in capsys.readouterr().err
    assert main([*command, "--overwrite"]) == 0


def test_predict__runs_on_a_cluster(store: Path, tmp_path: Path, client: Client) -> None:
    out = tmp_path / "predictions.zarr"
    streamhalf.predict(store, model=Halfspace(NORMAL, 0.25), out=out, client=client)
    np.testing.assert_array_equal(zarr.open_group(out, mode="r")["prediction"][:], expected())


def test_halfspace__zero_is_positive_and_offsets_do_not_cancel() -> None:
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 5.0]], dtype=np.float32)
    np.testing.assert_array_equal(Halfspace((1.0, 0.0)).plane.signs(rows), [1, 1, -1])
    # float32 would lose the unit beside 1e8
    far = np.array([[1e8, 1.0], [1e8, -1.0]], dtype=np.float32)
    np.testing.assert_array_equal(Halfspace((1.0, 1.0), -1e8).plane.signs(far), [1, -1])


@pytest.mark.parametrize(
    ("model", "out", "fault", "words"),
    [
        (Halfspace((1.0, 0.0)), "new.zarr", DataError, "3 features, but the model has 2; predict on data with"),
        (make_model(Verdict.INCONCLUSIVE, halfspace=None), "new.zarr", UsageError, "inconclusive and has no halfspace"),
        (make_model(), "folder", UsageError, "exists and is not a Zarr store"),
        (make_model(), "memory://p.csv", UsageError, r"is a URL; only \.zarr goes there"),
    ],
    ids=["other features", "no halfspace", "a folder of others", "a table at a URL"],
)
def test_predict__refuses_and_writes_nothing(
    store: Path, tmp_path: Path, model: Any, out: str, fault: type[Exception], words: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "letter.txt").write_text("dear")
    with pytest.raises(fault, match=words):
        streamhalf.predict(store, model=model, out=out if "://" in out else tmp_path / out, overwrite=True)
    assert (tmp_path / "folder" / "letter.txt").read_text() == "dear"
    assert not (tmp_path / "new.zarr").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"verdict": "accepted"},
        {"halfspace": {"normal": [1.0] * DIM, "offset": 0.0}},
        {"verdict": "accepted", "digest": ""},
        {"data": {"rows": N_ROWS, "dim": DIM, "fingerprint": "abd"}},
    ],
)
def test_command__refuses_a_file_that_was_changed(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any]
) -> None:
    file, out = tmp_path / "model.json", tmp_path / "out"
    file.write_text(json.dumps(to_json(make_model(Verdict.REJECTED)) | changes))
    assert run_predict(store, file, out) == 3
    err = capsys.readouterr().err
    assert err.startswith(f"streamhalf: error: {file}: the file was changed after fit wrote it")
    assert "restore the file or fit again" in err
    assert not out.exists()


@pytest.mark.parametrize("positive", [None, True, False])
@pytest.mark.parametrize("kind", ["arrays", "frame", "estimator"])
def test_predict__labels_that_are_truth_values__stay_so(kind: str, positive: bool | None, tmp_path: Path) -> None:
    y, high = Y[:500] > 0, positive is not False
    frame = pd.DataFrame(X[:500], columns=list("abc"))
    given: dict[str, Any] = {"certificate_degree": 0, "seed": 1} | ({} if positive is None else {"positive": positive})
    if kind == "estimator":
        result = streamhalf.HalfspaceTesterLearner(seed=1).fit(X[:500], y).result_
        high = True
    else:
        result = streamhalf.fit((X[:500], y) if kind == "arrays" else frame.assign(y=y), **given)
    result.save(tmp_path / "result.json")
    read = streamhalf.read_result(tmp_path / "result.json")
    assert read.data.classes == (not high, high)
    found = read.predict(frame if kind == "frame" else X[:500])
    assert found.dtype == np.bool_
    assert (found == y).mean() > 0.8  # a tenth of the labels is flipped
