from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import streamhalf
from streamhalf import RunConfig, UsageError
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


def of_file(value: Any) -> Any:
    """Return a value of YAML, which has lists and no tuples, as a setting holds it."""
    return tuple(value) if isinstance(value, list) else value


def test_default__is_the_default_field_by_field() -> None:
    loaded = load_config(CONFIGS / "default.yaml")
    defaults = {name: one.default for name, one in SETTINGS.items()}
    assert {name: of_file(value) for name, value in loaded.parameters.items()} == defaults
    assert list(loaded.parameters) == list(SETTINGS)
    assert loaded.storage_options is None


@pytest.mark.parametrize("path", NAMED, ids=lambda path: path.stem)
def test_configs__load_and_hold_valid_values(path: Path) -> None:
    loaded = load_config(path)
    config = RunConfig(**loaded.parameters)
    assert loaded.parameters.get("seed", "auto") == "auto"  # one that is published voids the promise
    given = {name: value for name, value in loaded.parameters.items() if name != "seed"}
    assert all(getattr(config, name) == of_file(value) for name, value in given.items())


def test_load__reads_sizes_and_numbers(write: Any) -> None:
    loaded = load_config(write("memory_limit: 512MiB\neps: 5e-2\ntau: 1E-3\nmoment_tolerance: 0.2"))
    config = RunConfig(**loaded.parameters)
    assert config.memory_limit == 512 << 20
    assert (config.eps, config.tau, config.moment_tolerance) == (0.05, 0.001, 0.2)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Arguments of `fit` and `test`; they do nothing else."""
    noted: list[dict[str, Any]] = []

    def note(store: str, *, observer: Any, **parameters: Any) -> Any:
        own = {name: parameters.pop(name) for name in ("checkpoint", "resume", "state") & parameters.keys()}
        assert not any(own.values())
        noted.append(parameters)
        raise UsageError("enough")

    for name in ("fit", "test"):
        monkeypatch.setattr(streamhalf, name, note)
    return noted


@pytest.mark.parametrize("command", ["fit", "test"])
def test_flags__override_the_file(write: Any, calls: list[dict[str, Any]], command: str) -> None:
    path = write("tau: 0.05\ndegree: 2\nseed: 7\nmemory_limit: 1GiB\nscheduler: serial")
    flags = ["--degree", "6", "--memory-limit", "3GiB", "--whiten"]
    assert main([command, "store", "--config", str(path), *flags, "--quiet"]) == 2
    (call,) = calls
    assert call.pop("storage_options") is None
    assert call == {"tau": 0.05, "degree": 6, "seed": 7, "memory_limit": 3 << 30, "scheduler": "serial", "whiten": True}


@pytest.mark.parametrize(
    ("flag", "value", "expected"),
    [
        (("--eps", "0.1"), {"eps": 0.1}, None),
        (("--eps", "auto"), {"eps": "auto"}, None),
        (("--sampling", "reuse"), {"sampling": "reuse"}, None),
        (("--schedule", "halving"), {"schedule": "halving"}, None),
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


def test_plan__prints_the_papers_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--dim", "10", "--strict"]) == 0
    assert "No data set can meet them" in " ".join(capsys.readouterr().out.split())
    assert streamhalf.plan(dim=10, strict=True).log10_rows > 1e9
