"""What somebody meets on the first day: slips are told in words, and cost nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zarr
from sklearn.tree import DecisionTreeClassifier

import streamhalf
from streamhalf import UsageError
from streamhalf.api import report
from streamhalf.cli import main
from streamhalf.report.tables import transform_table
from streamhalf.report.words import (
    fit_advice,
    fit_headline,
    fit_sentence,
    moment_sentence,
    plan_sentence,
)
from streamhalf.results import DataRecord, Notice, NoticeCode, Verdict
from streamhalf.results.document import write_json
from tests.conftest import StoreWriter, make_rows
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


def test_command__says_which_argument_is_missing_and_suggests_only_what_is_alike(
    capsys: Captured,
) -> None:
    for arguments, said in (
        (["audit", "rows.zarr"], "model: not given; audit needs --model: what fit or certify"),
        (["fit"], "STORE: not given; fit needs STORE: path or URL of a Zarr store, a CSV"),
        (["fit", "rows.zarr", "--json"], "--json requires an argument"),
        (["fit", "rows.zarr", "--lable", "x"], "Did you mean --label?"),
    ):
        assert main(arguments) == 2
        assert said in capsys.readouterr().err
    assert main(["fit", "rows.zarr", "--bogus", "3"]) == 2
    assert "Did you mean" not in capsys.readouterr().err


def test_features__that_are_too_large_are_named() -> None:
    X, y = make_rows(200, 3)
    wide = X.astype(np.float64)
    wide[7, 1] = -1e200
    with pytest.raises(
        streamhalf.DataError, match=r"row 7 .* holds -1e\+200 in feature 2.*1e\+150"
    ):
        streamhalf.fit((wide, y))


def test_report__names_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(streamhalf.StreamhalfError, match="name a file in an existing folder"):
        report(make_model(), tmp_path / "none" / "x.html")


def test_model__that_is_no_result_file_is_told_what_is_needed(
    tmp_path: Path, capsys: Captured
) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    assert main(["audit", "rows.zarr", "--model", str(tmp_path / "x.csv")]) == 3
    assert "give the file that fit or certify wrote with --json" in capsys.readouterr().err


@pytest.mark.parametrize("constant", [True, False])
def test_advice__names_features_that_leave_no_position(constant: bool) -> None:
    """It is the cause that somebody can remove, whatever else is off."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.lognormal(10, 0.5, (3000, 3)), columns=["pay", "rent", "same"])
    frame["same"] = 0.1 if constant else 2 * frame["pay"] + frame["rent"]
    y = np.where(frame["pay"] > frame["rent"], "yes", "no")
    said = "same is constant" if constant else "pay, rent and same tell the same"
    fitted = streamhalf.fit((frame, y), certificate_degree=0)
    tested = streamhalf.test((frame, y))
    for text in (fit_sentence(fitted), moment_sentence(tested), *fit_advice(fitted)):
        assert said in text
        assert "--feature-transform auto" not in text
    listed = [row[-1] for row in transform_table(fitted).rows]
    assert any("same" in cell and "remove" in cell for cell in listed[1:])


def test_repr__has_both_ends_of_the_certificate() -> None:
    X, y = make_rows(3000, 2)
    result = streamhalf.fit((X, y), seed=1)
    found = result.certificate
    assert found is not None
    assert result.error is not None
    said = repr(result)
    assert f"held-out error {result.error.empirical:.4g} (at most {result.error.upper:.4g})" in said
    both = f"on 3,000 rows error {found.error:.4g} and no halfspace (through: any) below"
    assert f"{both} {found.opt.lower_empirical:.4g}" in said
    certified = streamhalf.certify((X, y), weights=[1.0, 0.0])
    assert "on 3,000 rows error" in repr(certified)


def test_plan__with_too_few_rows_is_that_of_as_many_as_it_takes(capsys: Captured) -> None:
    record = streamhalf.plan(rows=500, dim=4)
    enough = streamhalf.plan(rows=record.rows_needed, dim=4)
    assert record.passes == enough.passes
    assert main(["plan", "--rows", "500", "--dim", "4"]) == 11
    said = " ".join(capsys.readouterr().out.split())
    assert f"below is a run of {record.rows_needed:,} rows" in said


def test_plan__of_too_few_rows_at_hand_is_what_a_run_makes_of_them() -> None:
    X, y = make_rows(500, 4)
    record = streamhalf.plan((X, y))
    assert [one.name for one in record.passes] == ["sample", "final", "certificate"]
    assert max(one.rows for one in record.passes) == 500
    assert "below is what a run makes of these" in plan_sentence(record)


def test_headline__guesses_in_the_words_of_the_labels(tmp_path: Path) -> None:
    guess, few = (
        Notice.of(NoticeCode.NO_BETTER_THAN_GUESS, label=-1, error=0.3),
        Notice.of(NoticeCode.NEARLY_ONE_CLASS, label=1, share=0.002),
    )
    data = DataRecord(100, 3, "abc", classes=("stayed", "left"))
    result = make_model(Verdict.INCONCLUSIVE, data=data, notices=(guess, few))
    report(result, tmp_path / "r.html")
    for said in (fit_headline(result), fit_sentence(result), (tmp_path / "r.html").read_text()):
        assert "no better than always guessing stayed, which" in said
        assert "have label left: always guessing stayed is" in said
        assert "guessing -1" not in said


def test_positions__judged_on_a_sample_keep_the_names_of_features() -> None:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.lognormal(1, 1, (3000, 3)), columns=["pay", "rent", "age"])
    fitted = streamhalf.fit((frame, rng.choice([-1, 1], 3000)), seed=1, certificate_degree=0)
    sampled = [row[-1] for row in transform_table(fitted).rows if row[2] == "a sample"]
    assert len(sampled) > 1
    for said in sampled:
        assert any(name in said for name in frame)
        assert "x₁" not in said.replace("x₂", "x₁").replace("x₃", "x₁")
