"""docs/contributing.md: its toy row map and toy tester work as printed."""

from __future__ import annotations

import pkgutil
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from streamhalf import Outcome, Verdict
from tests.s3_server import INSTALL
from tests.saying import said

PAGE = Path(__file__).parents[1] / "docs" / "contributing.md"


def test_contributing__blocks_run(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("contributing")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # where pickle finds the classes
    names: dict[str, Any] = module.__dict__
    found = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert len(found) >= 3
    for block in found:
        exec(compile(block, PAGE.name, "exec"), names)
    result = names["result"]
    assert result.verdict is Verdict.REJECTED
    outcomes = {one.tester: one.outcome for one in result.testers}
    assert outcomes["heavy rows"] is Outcome.REJECTED
    assert outcomes["largest moment"] is Outcome.PASSED
    assert result.transform.kind == "mirrored"
    assert "rejects the rows" in said(result)


def test_contributing__the_walk_names_what_exists() -> None:
    walk = PAGE.read_text("utf-8").split("## The walk of a row")[1].split("\n## ")[0]
    calls = re.findall(r"`(streamhalf(?:\.\w+)+)`", walk)
    assert len(calls) > 10
    assert all(callable(pkgutil.resolve_name(call)) for call in calls)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_contributing__names_all_packages_of_the_s3_server(page: str) -> None:
    text = (PAGE.parents[1] / page).read_text("utf-8")
    packages = INSTALL.split("--no-install-recommends ")[1].split()
    assert [name for name in packages if name not in text] == []
