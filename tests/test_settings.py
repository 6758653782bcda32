from __future__ import annotations

from typing import Any

import pytest

from scripts.settings import render_all
from streamhalf import RunConfig, UsageError
from streamhalf.config import SETTINGS, Setting, check_names, parse_size


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
