"""The worked notebook and the page about monitoring: they run as they stand."""

from __future__ import annotations

import asyncio
import re
import shlex
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from streamhalf import Verdict
from streamhalf.cli import main

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "scripts" / "monitoring.ipynb"
PAGE = ROOT / "docs" / "monitoring.md"


def test_notebook__is_stored_without_outputs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None


def test_notebook__runs(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    runner = NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources)
    with ThreadPoolExecutor(1) as pool:  # a browser test may keep a loop running in this thread
        pool.submit(lambda: asyncio.run(runner.async_execute())).result()
    html: dict[str, list[str]] = {
        cell.id: [output.get("data", {}).get("text/html", "") for output in cell.outputs]
        for cell in notebook.cells
        if cell.cell_type == "code"
    }
    assert "ACCEPTED" in html["fit"][0]
    assert "update-1" in html["fit"][0]
    assert "ACCEPTED" in html["result"][0]
    live, refused = html["rejected"]
    assert "REJECTED" in live
    assert "REJECTED" in refused
    assert "candidate_error" in html["diagnostics"][0]


def test_page__blocks_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for language, block in re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL):
        if language == "python":
            exec(compile(block, PAGE.name, "exec"), names)
        elif language == "bash":
            for line in block.splitlines():
                _, *arguments = shlex.split(line)
                assert main(arguments) == 0
    assert names["result"].verdict is Verdict.ACCEPTED
    assert names["page"].url.endswith("/streamhalf")
    said = capsys.readouterr().out
    assert said.count("pass final:") == 2
    assert "moments 120000 rows" in said
