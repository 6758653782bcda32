"""docs/python.md: its blocks run, one after the other, and say what the text says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import xarray as xr

from streamhalf import Verdict

PAGE = Path(__file__).parents[1] / "docs" / "python.md"


def test_python_page__blocks_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    try:
        for block in re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL):
            exec(compile(block, PAGE.name, "exec"), names)
    finally:
        if hasattr(xr.Dataset, "streamhalf"):
            del xr.Dataset.streamhalf
    assert names["model"].verdict_ is Verdict.ACCEPTED
    assert names["few"].verdict_ is Verdict.INCONCLUSIVE
    assert names["result"].verdict is Verdict.ACCEPTED
    assert names["tested"].verdict is Verdict.PASSED
    assert names["far"] < 0.05
    assert "the run was inconclusive" in capsys.readouterr().out
