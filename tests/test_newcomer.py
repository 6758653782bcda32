"""What somebody meets on the first day: slips are told in words, and cost nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr
from sklearn.tree import DecisionTreeClassifier

import streamhalf
from streamhalf import UsageError
from streamhalf.cli import main
from streamhalf.documents import write_json
from streamhalf.records import Verdict
from tests.conftest import StoreWriter, make_rows
from tests.test_predict import make_model

Captured = pytest.CaptureFixture[str]


def gaussian(path: Path, n_rows: int, dim: int = 2) -> Path:
    """A store of Gaussian rows without noise."""
    streamhalf.synth(path, rows=n_rows, dim=dim, marginal="gaussian", noise="none")
    return path


def test_plan__takes_a_number_of_rows() -> None:
    assert streamhalf.plan(rows=1000, dim=3) == streamhalf.plan(n_rows=1000, dim=3)
    assert streamhalf.plan(rows="reuse", n_rows=1000, dim=3).rows == 1000
    with pytest.raises(UsageError, match="rows, n_rows: 5 and 6 given"):
        streamhalf.plan(rows=5, n_rows=6, dim=3)


def test_plan__names_the_one_that_is_wrong(capsys: Captured) -> None:
    assert main(["plan", "--dim=-3", "--rows", "1e6"]) == 2
    assert capsys.readouterr().err == "streamhalf: error: dim: -3 given; must be at least 1\n"


@pytest.mark.parametrize("text", ["1.5", "many", "nan", "inf", "1e400", ""])
def test_plan__refuses_other_words(text: str, capsys: Captured) -> None:
    assert main(["plan", "--dim", "3", "--rows", text]) == 2
    assert "is not a whole number" in capsys.readouterr().err


def test_certify__says_what_it_takes() -> None:
    X, y = make_rows(200, 3)
    tree = DecisionTreeClassifier().fit(X, y)
    with pytest.raises(UsageError, match="weights: DecisionTreeClassifier is no linear classifier"):
        streamhalf.certify((X, y), weights=tree)


def test_fit__knows_a_result_file(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "result.json"
    write_json(file, make_model())
    assert main(["fit", str(file), "--quiet"]) == 3
    assert f"{file}: this is a result file, not data" in capsys.readouterr().err


def test_checkpoint__is_a_folder(tmp_path: Path, capsys: Captured) -> None:
    store, file = gaussian(tmp_path / "rows.zarr", 100_000), tmp_path / "file"
    file.write_text("mine")
    assert main(["fit", str(store), "--checkpoint", str(file), "--quiet"]) == 2
    assert f"checkpoint: {file} is a file; name a folder" in capsys.readouterr().err
    assert file.read_text() == "mine"


def test_resume__says_what_it_goes_on_from(tmp_path: Path, capsys: Captured) -> None:
    store, folder = gaussian(tmp_path / "rows.zarr", 100_000), tmp_path / "kept"
    command = ["fit", str(store), "--checkpoint", str(folder), "--resume", "--eps", "0.25"]
    assert main(command) == 0
    err = capsys.readouterr().err
    assert f"checkpoint: nothing to resume in {folder}; starting anew" in " ".join(err.split())
    assert "from the checkpoint" not in err
    assert main(command) == 0
    err = capsys.readouterr().err
    passes = [line for line in err.splitlines() if line.startswith("pass ")]
    assert passes
    assert all(line.endswith("from the checkpoint") for line in passes)


def test_output__whose_reader_has_gone_keeps_the_exit_code(tmp_path: Path) -> None:
    store = gaussian(tmp_path / "rows.zarr", 300)
    command = f"{sys.executable} -m streamhalf fit {store} --quiet"
    script = f"set -o pipefail; {command} | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (Verdict.INCONCLUSIVE.exit_code, "")


def test_verify__says_that_the_document_was_changed(tmp_path: Path, capsys: Captured) -> None:
    store, file = gaussian(tmp_path / "rows.zarr", 300), tmp_path / "result.json"
    assert main(["fit", str(store), "--json", str(file), "--quiet"]) == 11
    assert main(["verify", str(file), str(store), "--quiet"]) == 0  # its error is a claim
    capsys.readouterr()
    file.write_text(json.dumps(json.loads(file.read_text()) | {"verdict": "accepted"}))
    assert main(["verify", str(file), str(store), "--quiet"]) == 12
    captured = capsys.readouterr()
    assert "1 claim does not hold" in captured.out
    assert "the document was changed after it was written" in captured.out
    assert captured.err == ""


def test_store__without_features_is_told_as_such(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "none.zarr"
    group = zarr.create_group(str(path))
    group.create_array("X", shape=(100, 0), dtype="float32", chunks=(100, 1))
    group.create_array("y", data=np.ones(100, dtype="int8"))
    assert main(["fit", str(path), "--quiet"]) == 3
    assert "there are no features" in capsys.readouterr().err


def test_rows__say_from_where_they_are_counted(write_store: StoreWriter, capsys: Captured) -> None:
    X, y = make_rows(200, 3)
    X[123, 1] = np.nan
    assert main(["test", str(write_store(X, y)), "--quiet"]) == 3
    err = capsys.readouterr().err
    assert "row 123 (counting from 0; " in err
    assert "in feature 2" in err


def test_whitening__names_the_features_that_depend_on_each_other() -> None:
    X = np.random.default_rng(3).standard_normal((5000, 5))
    X[:, 4] = X[:, 1]
    with pytest.raises(streamhalf.DataError, match="look at features 2, 5 and remove one of them"):
        streamhalf.test((X, np.ones(len(X))), whiten=True)


def test_memory_limit__is_refused_in_words(tmp_path: Path, capsys: Captured) -> None:
    store = gaussian(tmp_path / "rows.zarr", 10)
    assert main(["test", str(store), "--memory-limit", "1kB", "--quiet"]) == 2
    assert "memory_limit: 1024 is out of range; use 1MiB to" in capsys.readouterr().err


def test_words__one_is_not_many(tmp_path: Path, capsys: Captured) -> None:
    assert main(["synth", str(tmp_path / "one.zarr"), "--rows", "1", "--dim", "1"]) == 0
    assert "wrote 1 row of 1 feature to" in capsys.readouterr().out
    assert main(["plan", "--rows", "1", "--dim", "1"]) == 11
    assert "1 row of 1 feature " in capsys.readouterr().out


def test_help__lists_the_exit_code_of_an_interrupted_run(capsys: Captured) -> None:
    assert main(["fit", "--help"]) == 0
    assert "130 interrupted" in capsys.readouterr().out


def test_synth__names_what_is_not_given(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="marginal: not given; synth needs rows, dim, marginal"):
        streamhalf.synth(tmp_path / "rows.zarr", rows=10, dim=2, noise="none")
    assert not any(tmp_path.iterdir())
