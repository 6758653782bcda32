from __future__ import annotations

import inspect
from typing import Any

import pytest

from streamhalf import cli as runs
from streamhalf.cli import COMMANDS, build_app
from streamhalf.config import SETTINGS


def parse(line: str) -> dict[str, Any]:
    """Arguments of a command's call."""
    _, bound, _ = build_app().parse_args(line.split())
    return dict(bound.arguments)


def test_takes__every_setting_is_a_flag_of_fit() -> None:
    parameters = inspect.signature(runs.fit).parameters
    assert set(SETTINGS) <= set(parameters)
    assert all(parameters[name].default == SETTINGS[name].default for name in SETTINGS)


def test_takes__certify_has_no_flag_without_a_use() -> None:
    assert not {"eps", "rows", "sampling"} & {*inspect.signature(runs.certify).parameters}


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__name__)
def test_takes__every_flag_has_help(command: Any) -> None:
    app = build_app()[command.__name__]
    arguments = app.assemble_argument_collection(parse_docstring=True)
    assert arguments
    assert all(argument.parameter.help for argument in arguments)


def test_flags__are_absent_unless_given() -> None:
    assert parse("fit data.zarr") == {"store": "data.zarr"}
    assert parse("fit data.zarr --eps auto --no-whiten --log-json -") == {
        "store": "data.zarr",
        "eps": "auto",
        "whiten": False,
        "log_json": "-",
    }


def test_flags__are_read_as_their_settings_say() -> None:
    line = "fit s3://bucket/data.zarr --seed 1e3 --workers 2 --memory-limit 1GiB --whiten --tau=1e-3"
    found = parse(f"{line} --certificate-rows all --json result.json")
    assert found == {
        "store": "s3://bucket/data.zarr",
        "seed": 1000,
        "n_workers": 2,
        "memory_limit": 1 << 30,
        "whiten": True,
        "tau": 0.001,
        "certificate_rows": "all",
        "json": "result.json",
    }
    assert type(found["store"]) is type(found["json"]) is str
