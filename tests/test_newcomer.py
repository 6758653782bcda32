"""Slips of a first day: each gets one clear sentence and costs nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import streamhalf
from streamhalf import UsageError
from streamhalf.cli import main
from streamhalf.report.tables import transform_table
from streamhalf.report.terminal import plan_sentences
from streamhalf.results import Transform, Verdict
from streamhalf.results.document import write_json
from tests.conftest import make_rows
from tests.saying import said as words_of
from tests.test_predict import make_model

Captured = pytest.CaptureFixture[str]


def gaussian(path: Path, n_rows: int, dim: int = 2) -> Path:
    """A store of Gaussian rows without noise."""
    streamhalf.synth(path, rows=n_rows, dim=dim, marginal="gaussian", noise="none")
    return path


def test_plan__takes_a_number_of_rows() -> None:
    assert streamhalf.plan(rows=1000, dim=3) == streamhalf.plan(n_rows=1000, dim=3)
    assert streamhalf.plan(sampling="reuse", n_rows=1000, dim=3).rows == 1000
    with pytest.raises(UsageError, match="rows, n_rows: 5 and 6 given"):
        streamhalf.plan(rows=5, n_rows=6, dim=3)


def test_fit__knows_a_result_file(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "result.json"
    write_json(file, make_model())
    assert main(["fit", str(file), "--quiet"]) == 3
    assert f"{file}: this is a result file, not data" in capsys.readouterr().err


def test_output__whose_reader_has_gone_keeps_the_exit_code(tmp_path: Path) -> None:
    store = gaussian(tmp_path / "rows.zarr", 300)
    command = f"{sys.executable} -m streamhalf fit {store} --require certified --quiet"
    script = f"set -o pipefail; {command} | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (Verdict.INCONCLUSIVE.exit_code, "")


def test_whitening__names_the_features_that_depend_on_each_other() -> None:
    X = np.random.default_rng(3).standard_normal((5000, 5))
    X[:, 4] = X[:, 1]
    with pytest.raises(streamhalf.DataError, match="look at features 2, 5 and remove one of them"):
        streamhalf.test((X, np.ones(len(X))), whiten=True)


def test_command__says_which_argument_is_missing_and_suggests_only_what_is_alike(capsys: Captured) -> None:
    for arguments, said in (
        (["audit", "rows.zarr"], "model: not given; audit needs --model: what fit or certify"),
        (["audit", "--model", "result.json"], "STORE: not given; audit needs STORE: path or URL"),
        (["fit"], "STORE: not given; fit needs STORE: path or URL of a Zarr store, a CSV"),
        (["fit", "rows.zarr", "--json"], "--json requires an argument"),
        (["fit", "rows.zarr", "--lable", "x"], "Did you mean --label?"),
    ):
        assert main(arguments) == 2
        assert said in capsys.readouterr().err
    assert main(["fit", "rows.zarr", "--bogus", "3"]) == 2
    assert "Did you mean" not in capsys.readouterr().err


@pytest.mark.parametrize("constant", [True, False])
def test_advice__names_features_that_leave_no_position(constant: bool) -> None:
    """The cause that a user can remove comes first."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.lognormal(10, 0.5, (3000, 3)), columns=["pay", "rent", "same"])
    frame["same"] = 0.1 if constant else 2 * frame["pay"] + frame["rent"]
    y = np.where(frame["pay"] > frame["rent"], "yes", "no")
    cause = "same is constant" if constant else "pay, rent and same repeat each other"
    fitted = streamhalf.fit((frame, y), certificate_degree=0, encode="none")
    tested = streamhalf.test((frame, y), encode="none")
    for text in (words_of(fitted), words_of(tested)):
        assert cause in text
        assert "--feature-transform auto" not in text
    listed = [row[-1] for row in transform_table(fitted).rows]
    assert any("same" in cell for cell in listed[1:])
    # a table that is encoded leaves the column out, and says so
    encoded = streamhalf.fit((frame, y), certificate_degree=0)
    assert "2 columns became 2 features; left out: same." in words_of(encoded)
    assert encoded.transform.kind != Transform.STORED


def test_plan__of_too_few_rows_at_hand_is_what_a_run_makes_of_them() -> None:
    X, y = make_rows(500, 4)
    record = streamhalf.plan((X, y))
    assert [one.name for one in record.passes] == ["sample", "final", "certificate"]
    assert max(one.rows for one in record.passes) == 500
    assert "The table is what a run makes of these." in list(plan_sentences(record))


def test_positions__judged_on_a_sample_keep_the_names_of_features() -> None:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.lognormal(1, 1, (3000, 3)), columns=["pay", "rent", "age"])
    fitted = streamhalf.fit((frame, rng.choice([-1, 1], 3000)), seed=1, certificate_degree=0)
    sampled = [row[-1] for row in transform_table(fitted).rows if row[2] == "a sample"]
    assert len(sampled) > 1
    for said in sampled:
        assert any(name in said for name in frame)
        assert "x₁" not in said.replace("x₂", "x₁").replace("x₃", "x₁")


def test_verify__says_that_the_document_was_changed(tmp_path: Path, capsys: Captured) -> None:
    store, file = gaussian(tmp_path / "rows.zarr", 300), tmp_path / "result.json"
    main(["fit", str(store), "--json", str(file), "--quiet"])
    file.write_text(json.dumps(json.loads(file.read_text()) | {"eps": 0.125}))
    capsys.readouterr()
    assert main(["verify", str(file), str(store), "--quiet"]) == 12
    captured = capsys.readouterr()
    assert "1 claim does not hold" in captured.out
    assert "the document was changed after it was written" in captured.out
