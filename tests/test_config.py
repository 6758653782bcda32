"""Settings: their declarations, ranges, flags and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamhalf
from scripts.settings import render_all
from streamhalf import RunConfig, UsageError
from streamhalf._session import make_config
from streamhalf.cli import main
from streamhalf.config import SETTINGS, Setting, check_names, load_config, parse_size

CONFIGS = Path(__file__).parent.parent / "configs"
NAMED = sorted(CONFIGS.glob("*.yaml"))
RANGES: dict[str, tuple[Any, Any, tuple[Any, ...]]] = {
    "tau": (1e-12, 0.5, (0, 1e-13, 0.51, float("nan"), float("inf"))),
    "degree": (2, 8, (0, -2, 10)),
    "moment_tolerance": (1e-6, 1.0, (0.0, 1.1)),
    "spectral_tolerance": (1e-6, 1.0, (-0.1, 2)),
    "seed": (0, 2**63 - 1, (-1, 2**63)),
    "n_workers": (1, 4096, (0, -3, 4097)),
    "memory_limit": (1 << 20, 1 << 50, (0, 2**51)),
    "certificate_memory": (1 << 20, 1 << 50, (0, 2**51)),
    "split_every": (2, 256, (1, 257)),
}
SIZES = ("memory_limit", "certificate_memory")


@pytest.mark.parametrize("name", RANGES)
def test_config__takes_both_limits_and_names_them(name: str) -> None:
    low, high, outside = RANGES[name]
    assert getattr(make_config({name: low}), name) == low
    assert getattr(make_config({name: high}), name) == high
    limits = "1MiB to 1024TiB, as in 2GiB" if name in SIZES else f"{low:g} to {high:g}"
    limits += ", or auto" if name in ("seed", "memory_limit") else ""
    for value in outside:
        with pytest.raises(UsageError) as caught:
            make_config({name: value})
        assert str(caught.value) == f"{name}: {value!r} is out of range; use {limits}"


@pytest.mark.parametrize("name", SIZES)
def test_config__takes_sizes_as_they_are_written(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for text, size in (("2GiB", 2 << 30), ("512 MB", 512 << 20), (1 << 30, 1 << 30)):
        assert getattr(RunConfig(**{name: text}), name) == size
        monkeypatch.setenv(f"STREAMHALF_{name.upper()}", str(text))
        assert getattr(make_config({}), name) == size
    with pytest.raises(UsageError, match=f"{name}: 'lots' is not a size; write 2GiB or 500MiB"):
        RunConfig(**{name: "lots"})
    for value in (True, [2], 1j, None):
        with pytest.raises(UsageError, match=f"{name}: .* is not a whole number; use one from"):
            RunConfig(**{name: value})
    assert RunConfig().memory_limit == RunConfig(memory_limit="auto").memory_limit == "auto"


def test_config__takes_numpy_numbers() -> None:
    config = make_config({"degree": np.int64(6), "tau": np.float32(0.25)})
    assert (config.degree, config.tau) == (6, 0.25)


def declare(default: Any, kind: type, **declared: Any) -> Setting:
    return Setting(default=default, kind=kind, group="tests", help="of no use", **declared)


def test_docs__say_what_the_declarations_say() -> None:
    for path, text in render_all().items():
        assert path.read_text("utf-8") == text, f"{path}: renew it: ./scripts/settings"


def test_settings__hold_defaults_that_they_take() -> None:
    for name, setting in SETTINGS.items():
        setting.check(name, setting.default)
        assert name == "seed" or getattr(RunConfig(), name) == setting.default
        assert setting.help in " ".join((RunConfig.__doc__ or "").split())


def test_identity__leaves_out_where_it_runs() -> None:
    left_out = set(SETTINGS) - set(RunConfig().identity())
    waits = {"worker_timeout", "stall_timeout"}
    assert left_out == {"scheduler", "n_workers", "memory_limit", "cache", "dashboard_page"} | waits
    assert RunConfig(seed=3).identity()["seed"] == 3


@pytest.mark.parametrize(
    ("setting", "text", "value"),
    [
        (declare(1.0, float, within=(0, 9)), "1e-3", 0.001),
        (declare(1, int, within=(0, 9)), "1e6", 10**6),
        (declare(1, int, within=(0, 9)), "1_000", 1000),
        (declare(1, int, within=(0, 9)), "1.5", "1.5"),
        (declare("all", int, words=("all",)), "all", "all"),
        (declare(1 << 20, int, is_size=True), "2MiB", 2 << 20),
        (declare("X", str), "1e6", "1e6"),
    ],
)
def test_read__takes_text_for_what_it_stands_for(setting: Setting, text: str, value: Any) -> None:
    found = setting.read("name", text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        (declare(1.0, float, within=(0, 9)), 10, "10 is out of range; use 0 to 9"),
        (declare(1.0, float, within=(0, 9)), None, "None is not a number; use one from 0 to 9"),
        (declare(2, int, within=(2, 8), even=True), 3, "3 is odd; use an even degree from 2 to 8"),
        (declare("a", int, within=(0, 9), words=("a", "b")), "c", "from 0 to 9, or a, or b"),
        (declare("a", str, words=("a", "b")), "c", "'c' is unknown; use one of a, b"),
        (declare("a", str, words=("a", "b")), ["a"], "['a'] is unknown; use one of a, b"),
        (declare("a", str), 3, "3 is not text; give a string"),
        (declare(False, bool), 1, "1 is not True or False; use one of them"),
    ],
)
def test_check__names_value_limit_and_remedy(setting: Setting, value: Any, said: str) -> None:
    with pytest.raises(UsageError, match=r"^name: ") as caught:
        setting.check("name", value)
    assert str(caught.value).endswith(said)


def test_check_names__hints_at_the_nearest() -> None:
    check_names(["eps"], ("eps", "tau"), "here")
    with pytest.raises(UsageError, match=r"here: unknown parameter 'epss'; did you mean 'eps'\?"):
        check_names(["epss"], ("eps", "tau"), "here")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1000000", 1_000_000),
        ("1e6", 1_000_000),
        ("512b", 512),
        ("2KiB", 2048),
        ("1.5M", 3 << 19),
        ("500 MiB", 500 << 20),
        ("2GiB", 2 << 30),
        ("2gb", 2 << 30),
        ("1T", 1 << 40),
    ],
)
def test_parse_size__reads_units(text: str, size: int) -> None:
    assert parse_size("memory-limit", text) == size


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
    """Arguments of `fit`, which does nothing else."""
    noted: list[dict[str, Any]] = []

    def note(store: str, *, observer: Any, **parameters: Any) -> Any:
        own = {name: parameters.pop(name) for name in ("checkpoint", "resume", "state") & parameters.keys()}
        assert not any(own.values())
        noted.append(parameters)
        raise UsageError("enough")

    monkeypatch.setattr(streamhalf, "fit", note)
    return noted


def test_flags__override_the_file(write: Any, calls: list[dict[str, Any]]) -> None:
    path = write("tau: 0.05\ndegree: 2\nseed: 7\nmemory_limit: 1GiB\nscheduler: serial")
    flags = ["--degree", "6", "--memory-limit", "3GiB", "--whiten"]
    assert main(["fit", "store", "--config", str(path), *flags, "--quiet"]) == 2
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
