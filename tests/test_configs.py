from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from streamhalf import RunConfig, UsageError, api
from streamhalf.cli import main
from streamhalf.config import SETTINGS, load_config

CONFIGS = Path(__file__).parent.parent / "configs"
NAMED = sorted(CONFIGS.glob("*.yaml"))


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write_text(text: str) -> Path:
        path = tmp_path / "run.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write_text


def test_default__is_the_default_field_by_field() -> None:
    loaded = load_config(CONFIGS / "default.yaml")
    assert dict(loaded.parameters) == {
        field.name: SETTINGS[field.name].default for field in fields(RunConfig)
    }
    assert list(loaded.parameters) == list(RunConfig.names())
    assert loaded.storage_options is None


def test_configs__are_there() -> None:
    assert {path.stem for path in NAMED} >= {
        "cluster",
        "default",
        "object-store",
        "quickstart",
        "strict",
    }


@pytest.mark.parametrize("path", NAMED, ids=lambda path: path.stem)
def test_configs__load_and_hold_valid_values(path: Path) -> None:
    loaded = load_config(path)
    config = RunConfig(**loaded.parameters)
    assert (
        loaded.parameters.get("seed", "auto") == "auto"
    )  # one that is published voids the promise
    given = {name: value for name, value in loaded.parameters.items() if name != "seed"}
    assert all(getattr(config, name) == value for name, value in given.items())


def test_object_store__has_storage_options() -> None:
    assert load_config(CONFIGS / "object-store.yaml").storage_options == {"anon": True}


def test_load__reads_sizes_and_numbers(write: Any) -> None:
    loaded = load_config(write("memory_limit: 512MiB\neps: 5e-2\ntau: 1E-3\nmoment_tolerance: 0.2"))
    config = RunConfig(**loaded.parameters)
    assert config.memory_limit == 512 << 20
    assert (config.eps, config.tau, config.moment_tolerance) == (0.05, 0.001, 0.2)


def test_load__leaves_names_alone(write: Any) -> None:
    assert load_config(write("features: 1e5")).parameters == {"features": "1e5"}


@pytest.mark.parametrize("text", ["", "# nothing but a comment\n", "---\n"])
def test_load__an_empty_file_changes_nothing(write: Any, text: str) -> None:
    loaded = load_config(write(text))
    assert loaded.parameters == {}
    assert loaded.storage_options is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tua: 0.1", "unknown parameter 'tua'; did you mean 'tau'?"),
        ("memory-limit: 2GiB", "unknown parameter 'memory-limit'; did you mean 'memory_limit'?"),
        ("zzz: 1", "unknown parameter 'zzz'; known: eps, tau,"),
        ("3: 1", "unknown parameter 3; known: "),
        ("- eps", "expected 'name: value' lines, got list"),
        ("eps", "expected 'name: value' lines, got str"),
        ("eps: [0.1", "not YAML: "),
        ("eps: 0.1\n\ttau: 1", "not YAML: "),
        ("eps: 2020-13-45", "not YAML: month must be in 1..12"),
        (f"seed: {'9' * 5000}", "not YAML: Exceeds the limit"),
        ("eps: !!python/object/apply:os.getcwd []", "not YAML: could not determine a constructor"),
        ("storage_options: anon", "storage_options: expected 'name: value' lines"),
        ("storage_options: [1]", "storage_options: expected 'name: value' lines"),
    ],
    ids=lambda value: value[:30],
)
def test_load__names_file_and_fault(write: Any, text: str, message: str) -> None:
    path = write(text)
    with pytest.raises(UsageError) as caught:
        load_config(path)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert "\n" not in str(caught.value)


def test_load__refuses_files_that_are_no_text_or_not_there(tmp_path: Path) -> None:
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00\x01")
    large = tmp_path / "large.yaml"
    large.write_text("# " + "x" * (1 << 20))
    for path, message in (
        (binary, "not YAML: "),
        (large, "more than 1048576 characters; not a configuration"),
        (tmp_path / "none.yaml", "cannot be read: No such file or directory"),
        (tmp_path, "cannot be read: Is a directory"),
    ):
        with pytest.raises(UsageError) as caught:
            load_config(path)
        assert str(caught.value).startswith(f"{path}: {message}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("eps: 0.5", "eps: 0.5 is out of range; use 1e-06 to 0.25"),
        ("eps: often", "eps: 'often' is not a number; use one from 1e-06 to 0.25"),
        ("eps: .nan", "eps: nan is out of range"),
        ("tau: 0", "tau: 0 is out of range; use 1e-12 to 0.5"),
        ("degree: 4.5", "degree: 4.5 is not a whole number; use one from 2 to 8"),
        ("memory_limit: lots", "memory_limit: 'lots' is not a size; write 2GiB or 500MiB"),
        ("memory_limit: 10", "memory_limit: 10 is out of range"),
        ("sampling: all", "sampling: 'all' is unknown; use one of auto, windows, rows, reuse"),
        ("mode: true", "mode: True is unknown; use one of practical, strict"),
        ("schedule: [adaptive]", "schedule: ['adaptive'] is unknown; use one of adaptive, halving"),
        ("whiten: maybe", "whiten: 'maybe' is not True or False; use one of them"),
        ("scheduler: 8786", "scheduler: 8786 is not text; give a string"),
    ],
)
def test_values__out_of_range_are_named_on_one_line(
    write: Any, text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # values are judged before the store is looked for
    assert main(["fit", "no-such-store", "--config", str(write(text)), "--quiet"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"streamhalf: error: {message}")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What `fit` and `test` are called with; they do nothing else."""
    noted: list[dict[str, Any]] = []

    def note(store: str, *, observer: Any, **parameters: Any) -> Any:
        own = {name: parameters.pop(name) for name in ("checkpoint", "resume") & parameters.keys()}
        assert not any(own.values())
        noted.append(parameters)
        raise UsageError("enough")

    for name in ("fit", "test"):
        monkeypatch.setattr(api, name, note)
    return noted


@pytest.mark.parametrize("command", ["fit", "test"])
def test_flags__override_the_file(write: Any, calls: list[dict[str, Any]], command: str) -> None:
    path = write("tau: 0.05\ndegree: 2\nseed: 7\nmemory_limit: 1GiB\nscheduler: serial")
    flags = ["--degree", "6", "--memory-limit", "3GiB", "--whiten"]
    assert main([command, "store", "--config", str(path), *flags, "--quiet"]) == 2
    (call,) = calls
    assert call.pop("storage_options") is None
    assert call == {
        "tau": 0.05,
        "degree": 6,
        "seed": 7,
        "memory_limit": 3 << 30,
        "scheduler": "serial",
        "whiten": True,
    }


@pytest.mark.parametrize(
    ("flag", "value", "expected"),
    [
        (("--eps", "0.1"), {"eps": 0.1}, None),
        (("--eps", "auto"), {"eps": "auto"}, None),
        (("--sampling", "reuse"), {"sampling": "reuse"}, None),
        (("--schedule", "halving"), {"schedule": "halving"}, None),
        (("--mode", "strict"), {"mode": "strict"}, None),
        (("--storage-option", "anon=false"), {}, {"anon": False, "endpoint_url": "http://a"}),
        (("--storage-option", "key=b"), {}, {"anon": True, "endpoint_url": "http://a", "key": "b"}),
    ],
    ids=str,
)
def test_flags__and_storage_options_merge(
    write: Any, calls: list[dict[str, Any]], flag: tuple[str, str], value: Any, expected: Any
) -> None:
    path = write("eps: 0.2\nstorage_options:\n  anon: true\n  endpoint_url: http://a")
    assert main(["fit", "store", "--config", str(path), *flag, "--quiet"]) == 2
    (call,) = calls
    found = call.pop("storage_options")
    assert found == (expected or {"anon": True, "endpoint_url": "http://a"})
    assert call == {"eps": 0.2} | value


def test_flags__alone_leave_every_default(calls: list[dict[str, Any]]) -> None:
    assert main(["fit", "store", "--quiet"]) == 2
    assert calls == [{"storage_options": None}]


def test_plan__takes_a_file(write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(yaml.safe_dump({"eps": 0.2, "tau": 0.02}))
    assert main(["plan", "--dim", "3", "--config", str(path)]) == 0
    assert "0.2" in capsys.readouterr().out


def test_strict__file_refuses_with_the_papers_parameters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ["plan", "--dim", "10", "--rows", "1000000"]
    assert main([*command, "--config", str(CONFIGS / "strict.yaml")]) == 2
    assert "mode: 'strict' cannot run" in capsys.readouterr().err
    assert main([*command, "--config", str(CONFIGS / "strict.yaml"), "--mode", "practical"]) == 11
