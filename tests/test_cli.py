"""Commands as a shell calls them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import streamhalf
from streamhalf import UsageError, api
from streamhalf._flags import public_command
from streamhalf.cli import main
from streamhalf.results import is_as_written
from streamhalf.results.document import read_result
from tests.conftest import StoreWriter, make_rows

COMMANDS = (
    *("synth", "inspect", "convert", "predict", "test", "plan", "fit", "update"),
    *("certify", "verify", "watch", "audit", "report"),
)
Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stores that pass, are rejected, and are too small; written by the command itself."""
    folder = tmp_path_factory.mktemp("stores")
    for name, *options in (
        ("gaussian", "--rows", "20000"),
        ("correlated", "--rows", "20000", "--marginal", "correlated"),
        ("small", "--rows", "300"),
    ):
        code = main(["synth", str(folder / name), "--dim", "3", "--seed", "1", "--quiet", *options])
        assert code == 0
    return folder


def words(text: str) -> str:
    """Text with the terminal's line breaks and frames undone."""
    return " ".join(text.replace("│", " ").split())


def assert_one_line(capsys: Captured) -> None:
    """Nothing was said but what is wrong and where help is."""
    output = capsys.readouterr()
    (line,) = output.err.splitlines()
    assert line.startswith("streamhalf: error: ")
    assert output.out == ""


def test_synth__writes_a_store_and_says_so(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "rows.zarr"
    layout = ["--rows", "2500", "--dim", "4", "--chunk-rows", "1000", "--dtype", "float64"]
    noise = ["--noise", "random", "--rate", "0.2", "--seed", "5", "--scheduler", "serial"]
    assert main(["synth", str(path), *layout, *noise]) == 0
    out = words(capsys.readouterr().out)
    assert f"wrote 2,500 rows of 4 features to {path}" in out
    group = zarr.open_group(str(path), mode="r")
    assert group["X"].shape == (2500, 4)
    assert group["X"].chunks == (1000, 4)
    assert group["X"].dtype == np.float64
    marks = group.attrs["streamhalf"]
    assert marks["complete"] is True
    assert f"planted error {marks['planted_error']:.6f} (marginal gaussian, noise random)" in out


def test_plan__with_a_rare_label(tmp_path: Path, capsys: Captured) -> None:
    flags = ["plan", "--dim", "4", "--rows", "1000000", "--json", str(tmp_path / "plan.json")]
    assert main([*flags, "--positive", "0.1"]) == 0
    said = words(capsys.readouterr().out)
    assert "1,000,000 rows of 4 features, 10% of them labelled +1, can judge eps = 0.0" in said
    record = json.loads((tmp_path / "plan.json").read_text())
    assert record["positive"] == 0.1
    assert "of the rarer label" in said
    assert main([*flags, "--positive", "0.001"]) == 11
    assert "0.1% of them labelled +1, are too few" in words(capsys.readouterr().out)
    assert main([*flags, "--positive", "0.1", "--through", "centre"]) == 2
    assert_one_line(capsys)


def test_synth__plants_a_threshold(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "rows.zarr"
    layout = ["--rows", "5000", "--dim", "3", "--positive", "0.1", "--scheduler", "serial"]
    assert main(["synth", str(path), *layout, "--noise", "tilt", "--rate", "0.02"]) == 0
    assert "planted error 0.020000 (marginal gaussian, noise tilt, positive 0.1)" in words(capsys.readouterr().out)
    group = zarr.open_group(str(path), mode="r")
    # 8% of 5,000 rows are left: six standard errors, failure probability below 2e-9
    assert np.mean(group["y"][:] > 0) == pytest.approx(0.08, abs=0.025)
    assert group.attrs["streamhalf"]["synthetic"]["positive"] == 0.1
    assert main(["inspect", str(path)]) == 0
    assert "planted_threshold 1.28155" in words(capsys.readouterr().out)
    assert main(["synth", str(path), *layout, "--noise", "minor", "--rate", "0.1"]) == 2
    assert "rate: 0.1 given" in capsys.readouterr().err


def test_test__passes_gaussian_rows(stores: Path, capsys: Captured) -> None:
    # true N(0, I): not passed with probability below tau = 0.01, for this fixed seed not
    assert main(["test", str(stores / "gaussian")]) == 0
    output = capsys.readouterr()
    out = words(output.out)
    assert "20,000 rows of 3 features" in out
    lines = [line.split(" in ")[0] for line in output.err.splitlines()]
    assert lines == ["pass sample: 20,000 rows", "pass moments: 20,000 rows"]


def test_test__names_the_product_of_correlated_features(stores: Path, capsys: Captured) -> None:
    assert main(["test", str(stores / "correlated"), "--feature-transform", "stored", "--quiet"]) == 10
    out = words(capsys.readouterr().out)
    assert any(pair in out for pair in ("x₁·x₂", "x₁·x₃", "x₂·x₃"))
    assert "rejected" in out


def test_test__needs_no_labels(stores: Path, tmp_path: Path, capsys: Captured) -> None:
    store = tmp_path / "features.zarr"
    shutil.copytree(stores / "gaussian", store)
    shutil.rmtree(store / "y")
    assert main(["test", str(store)]) == 0
    assert "notice: no labels named y" in capsys.readouterr().err
    assert main(["test", str(store), "--labels", "y"]) == 3
    assert "no array named 'y'" in capsys.readouterr().err
    assert main(["fit", str(store)]) == 3


def test_version__names_ours_and_what_it_runs_on(capsys: Captured) -> None:
    assert main(["--version"]) == 0
    first, *others = capsys.readouterr().out.splitlines()
    assert first == f"streamhalf {streamhalf.__version__}"
    for name in ("dask", "distributed", "zarr", "fsspec", "s3fs", "obstore"):
        assert f"{name} {version(name)}" in others


@pytest.mark.parametrize("command", COMMANDS)
def test_help__holds_exit_codes_and_an_example_that_parses(
    command: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main([command, "--help"]) == 0
    out = capsys.readouterr().out
    assert "10 rejected, 11 inconclusive" in out
    example = out.split("example:\n  streamhalf ")[1].splitlines()[0]
    reached: list[str] = []

    def note(*data: Any, **parameters: Any) -> Any:
        reached.extend(str(one) for one in data if one is not None or command == "update")
        raise UsageError("enough")

    monkeypatch.setattr(api if command == "report" else streamhalf, command, note)
    for reader in ("read_fit", "read_model", "read_result", "read_verifiable", "read_weights", "read_classifier"):
        monkeypatch.setattr(f"streamhalf.results.document.{reader}", lambda path, **options: None)
    assert main(example.split()) == 2
    own = {"plan": [], "report": ["result.html"], "predict": ["new.csv"]}
    own |= {"convert": ["rows.parquet", "rows.zarr"], "update": ["None", "data.zarr"], "watch": ["new.zarr"]}
    assert reached == own.get(command, ["data.zarr"])


def test_quiet__is_silent_on_standard_error(write_store: StoreWriter, tmp_path: Path, capsys: Captured) -> None:
    X, y = make_rows(300, 2)
    assert main(["test", str(write_store(X, y > 0)), "--quiet"]) == 0
    assert main(["synth", str(tmp_path / "a"), "--rows", "9", "--dim", "2", "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def fail_with(error: BaseException) -> Any:
    def fail(*arguments: Any, **parameters: Any) -> None:
        raise error

    return fail


@pytest.mark.parametrize("command", ["test", "inspect"])
def test_main__returns_130_when_interrupted(command: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr(streamhalf, command, fail_with(KeyboardInterrupt()))
    assert main([command, "a"]) == 130
    assert capsys.readouterr().err == "streamhalf: interrupted\n"


def test_main__shows_the_traceback_when_asked(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setenv("STREAMHALF_DEBUG", "1")
    monkeypatch.setattr(streamhalf, "test", fail_with(RuntimeError("why")))
    assert main(["test", "a"]) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_storage_options__reach_the_storage(capsys: Captured) -> None:
    url = "memory://test-cli/rows.zarr"
    options = ["--storage-option", "skip_instance_cache=true", "--quiet"]
    assert main(["synth", url, "--rows", "300", "--dim", "2", *options]) == 0
    assert main(["test", url, *options]) == 0
    assert f"to {url}" in capsys.readouterr().out


def test_module__runs_as_a_program(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "streamhalf", "inspect", str(tmp_path / "nothing")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=dict(os.environ))
    assert done.returncode == 3
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line == f"streamhalf: error: {tmp_path / 'nothing'}: no such store; check the path"


def test_install_completion__names_commands_flags_and_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    script = tmp_path / "streamhalf.bash"
    assert main(["--install-completion", "--shell", "bash", "--output", str(script)]) == 0
    assert str(script) in capsys.readouterr().out

    def complete(*words: str) -> list[str]:
        """Proposals of bash in the place of the last word."""
        line = " ".join(f"'{word}'" for word in words)
        ask = f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _streamhalf"
        command = ["bash", "-c", f'{ask}; printf "%s\\n" "${{COMPREPLY[@]}}"']
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        return done.stdout.split()

    assert complete("streamhalf", "") == list(COMMANDS)
    assert complete("streamhalf", "ver") == ["verify"]
    assert complete("streamhalf", "fit", "x.zarr", "--mem") == ["--memory-limit"]
    assert complete("streamhalf", "fit", "x.zarr", "--schedule", "h") == ["halving"]
    assert complete("streamhalf", "fit", f"{tmp_path}/str") == [str(script)]


@pytest.fixture(scope="module")
def rows_to_fit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stores with rows enough for a fit at eps = 0.25."""
    folder = tmp_path_factory.mktemp("fits")
    noise = ["--noise", "random", "--rate", "0.05", "--seed", "1", "--quiet"]
    for marginal in ("gaussian", "laplace"):
        options = ["--rows", "110000", "--dim", "3", "--marginal", marginal, *noise]
        assert main(["synth", str(folder / marginal), *options]) == 0
    return folder


FIT = ("--eps", "0.25", "--certificate-degree", "0", "--quiet")


def test_fit__says_what_it_learned_and_predict_takes_it(rows_to_fit: Path, tmp_path: Path, capsys: Captured) -> None:
    store, model = str(rows_to_fit / "gaussian"), str(tmp_path / "model.json")
    assert main(["fit", store, *FIT, "--json", model]) == 0
    out = words(capsys.readouterr().out)
    assert "Quality" in out or "Error" in out
    document = json.loads(Path(model).read_text())
    assert document["verdict"] == "accepted"
    assert document["error"]["empirical"] == pytest.approx(0.05, abs=0.01)
    predictions = tmp_path / "predictions.zarr"
    command = ["predict", store, "--model", model, "--out", str(predictions), "--quiet"]
    assert main(command) == 0
    found = zarr.open_group(str(predictions), mode="r")["prediction"][:]
    labels = zarr.open_group(store, mode="r")["y"][:]
    assert np.mean(found != labels) == pytest.approx(document["error"]["empirical"], abs=0.01)


def test_fit__rejects_with_evidence_and_predict_warns(rows_to_fit: Path, tmp_path: Path, capsys: Captured) -> None:
    store, model = str(rows_to_fit / "laplace"), str(tmp_path / "model.json")
    command = ["fit", store, *FIT, "--feature-transform", "stored", "--json", model]
    assert main(command) == 0
    assert main([*command, "--require", "certified"]) == 10
    out = words(capsys.readouterr().out)
    assert "No promise against chosen label flips (rejected)" in out
    assert "too heavy" in out  # the tails of the features
    assert main(["predict", store, "--model", model, "--out", str(tmp_path / "out")]) == 0
    assert "warning" not in capsys.readouterr().err  # its error is bounded


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("fitt x", 'Unknown command "fitt". Did you mean "fit"? Available commands: synth,'),
        ("fit x --epsilon 0.1", "Unknown option: --epsilon. Did you mean --eps? (streamhalf fit"),
        ("fit x --certificate_degre=4", "Did you mean --certificate-degree?"),
        ("fit x --samplin reuse", "Unknown option: --samplin. Did you mean --sampling?"),
        ("fit x --sampling ruse", 'Invalid value "ruse" for --sampling. Choose from: "auto",'),
        ("fit x --sampling ruse", 'Did you mean "reuse"?'),
        ("synth x --rows 9 --dim 2 --noise cho", 'Did you mean "chow"?'),
        ("synth x --rows 9.5 --dim 2", "--rows: '9.5' is not a whole number; write 1000000 or"),
        ("synth x --rows 9", "dim: not given; synth needs --dim: features"),
        ("fit x --tau small", "tau: 'small' is not a number; use one from 1e-12 to 0.5"),
        ("fit x --eps small", "eps: 'small' is not a number; use one from 1e-06 to 0.25, or auto"),
        ("fit x --degree 4.5", "degree: '4.5' is not a whole number; use one from 2 to 8"),
        ("fit x --certificate-degree six", "is not a whole number; use one from 0 to 8, or auto"),
        ("fit x --certificate-rows 9", "use 65536 to 4.61169e+18, or auto, or all"),
        ("inspect x --zzz", "Unknown option: --zzz. (streamhalf inspect --help says more)"),
        ("fit x --eps 0.1 --eps 0.2", "Parameter --eps specified multiple times."),
        ("fit x y", "Unused Tokens: ['y']. (streamhalf fit --help says more)"),
        ("synth x --rows 9 --dim 2 --marginal cauchy", 'Invalid value "cauchy" for --marginal'),
        ("predict x --out y", "model: not given; predict needs --model"),
        ("", "no command given; streamhalf --help lists them all"),
    ],
)
def test_main__names_what_is_wrong_and_what_was_probably_meant(command: str, said: str, capsys: Captured) -> None:
    assert main(command.split()) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("streamhalf: error: ")
    assert said in line


@pytest.mark.parametrize("name", ["fit", "test", "certify"])
def test_api__takes_arrays_as_a_pair(name: str) -> None:
    X, y = make_rows(10, 2)
    with pytest.raises(UsageError, match=rf"as a pair: {name}\(\(X, y\), ...\)"):
        getattr(streamhalf, name)(X, y)
    with pytest.raises(UsageError, match=r"HalfspaceTesterLearner\(\).fit\(X, y\)"):
        streamhalf.fit(X, y)  # type: ignore[misc]


SLOW_IMPORT = """
import os, signal, sys, threading
import streamhalf.__main__ as cli

signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background ignore it

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "streamhalf._flags":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
sys.exit(cli.main())
"""


def test_interrupt__while_modules_are_loaded_is_one_line() -> None:
    done = subprocess.run([sys.executable, "-c", SLOW_IMPORT], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 130
    assert done.stderr == "streamhalf: interrupted\n"


@pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"]])
def test_help__that_nobody_reads_is_no_failure(arguments: list[str]) -> None:
    reader = subprocess.Popen(["true"], stdin=subprocess.PIPE)
    reader.wait()
    command = [sys.executable, "-m", "streamhalf", *arguments]
    done = subprocess.run(command, stdout=reader.stdin, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    assert reader.stdin is not None
    assert (done.returncode, done.stderr) == (0, "")
    reader.stdin.close()


@pytest.mark.parametrize("flag", ["--json", "--report", "--log-json", "--checkpoint", "--state", "--config"])
def test_empty_name__is_refused(flag: str, capsys: Captured) -> None:
    assert main(["fit", "nowhere.zarr", flag, ""]) == 2
    assert f"{flag.removeprefix('--')}: '' is not a name; give one" in capsys.readouterr().err


def test_public_command__hides_secrets() -> None:
    given = ["fit", "s3://me:pass@host/x?sig=abc", "--storage-option", "secret=s3cr3t"]
    given += ["--storage-option=key=k3y", "--json", "a b.json"]
    assert public_command(given) == (
        "streamhalf fit s3://host/x --storage-option secret=HIDDEN --storage-option=key=HIDDEN --json 'a b.json'"
    )


def test_result__says_by_which_command_it_was_made(tmp_path: Path) -> None:
    store, out = str(tmp_path / "rows.zarr"), tmp_path / "result.json"
    streamhalf.synth(store, rows=2000, dim=2, marginal="gaussian", noise="random", rate=0.1)
    main(["fit", store, "--json", str(out), "--quiet", "--certificate-degree", "0", "--seed", "1"])
    run = json.loads(out.read_text())["run"]
    assert run["command"].startswith(f"streamhalf fit {store} --json ")
    assert run["settings"]["certificate_degree"] == 0
    assert run["started"].endswith("+00:00")
    assert is_as_written(read_result(out))
