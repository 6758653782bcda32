"""Flags made of settings, and what is done with shared ones."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from streamhalf import UsageError, api
from streamhalf import cli as runs
from streamhalf._flags import calling, check_writable, finish, naming, parse_storage
from streamhalf.cli import COMMANDS, build_app
from streamhalf.config import SETTINGS
from streamhalf.errors import DataError


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


def test_parse_storage__reads_words_and_numbers() -> None:
    pairs = ["anon=true", "secure=False", "retries=3", "key=a=b", "empty="]
    assert parse_storage(pairs) == {"anon": True, "secure": False, "retries": 3, "key": "a=b", "empty": ""}
    assert parse_storage([]) is None


def test_parse_storage__text_that_looks_like_a_number_stays_text() -> None:
    pairs = ["port=00123", "key=123", "SECRET=456", "token=7", "account_name=8", "depth=²"]
    assert parse_storage(pairs) == dict(pair.split("=") for pair in pairs)
    assert parse_storage(["retries=0", "timeout=30"]) == {"retries": 0, "timeout": 30}


def test_calling__writes_events_where_it_is_told(tmp_path: Path, capsys: Any) -> None:
    with calling({"quiet": True, "log_json": str(tmp_path / "log"), "tau": 0.1}) as call:
        assert call.keys() == {"tau", "storage_options", "observer"}
    assert (tmp_path / "log").read_text() == ""
    assert capsys.readouterr().err == ""
    with (
        pytest.raises(UsageError, match=r"log-json: .* cannot be written: No such file"),
        calling({"log_json": str(tmp_path / "none" / "log")}),
    ):
        pass


def test_check_writable__names_option_and_path(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"report: .* cannot be written; name a file in an exis"):
        check_writable(str(tmp_path), "report")
    check_writable(str(tmp_path / "new"), "report")
    check_writable(None, "report")


def test_naming__puts_the_file_for_the_parameter() -> None:
    with pytest.raises(DataError, match=r"^w\.npy: too short"), naming("weights", "w.npy"):
        raise DataError("weights: too short")
    with pytest.raises(DataError, match=r"^X: no rows"), naming("weights", "w.npy"):
        raise DataError("X: no rows")


def test_finish__shows_the_result_whatever_becomes_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[Any] = []

    def fail(record: Any, path: str, **given: Any) -> None:
        done.append("report")
        raise UsageError("no report")

    monkeypatch.setattr(api, "report", fail)
    given = {"json": str(tmp_path / "none" / "result.json"), "report": "page.html"}
    record = api.plan(dim=3, n_rows=1000)
    with pytest.raises(UsageError, match="no report"):
        finish(given, record, lambda console, shown: done.append(shown.dim))
    assert done == ["report", 3]
