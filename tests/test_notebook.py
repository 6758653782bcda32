"""The worked notebooks run as they stand."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
NOTEBOOKS = ("monitoring.ipynb", "suspects.ipynb")


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook__is_stored_without_outputs(name: str) -> None:
    notebook = nbformat.read(ROOT / "scripts" / name, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None


def execute(name: str, folder: Path) -> dict[str, Any]:
    """Run a notebook in a kernel of its own; returns the outputs of every cell by its name."""
    notebook = nbformat.read(ROOT / "scripts" / name, as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    runner = NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources)
    with ThreadPoolExecutor(1) as pool:  # a browser test may keep a loop running in this thread
        pool.submit(lambda: asyncio.run(runner.async_execute())).result()
    return {cell.id: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}


def html(outputs: list[Any]) -> list[str]:
    """Text of outputs, those that show nothing left out."""
    shown = (output.get("data", {}).get("text/html", "") for output in outputs)
    return [one for one in shown if one]


def printed(outputs: list[Any]) -> str:
    """Text that a cell printed."""
    return "".join(one.text for one in outputs if one.output_type == "stream")


@pytest.mark.slow
def test_monitoring__runs(tmp_path: Path) -> None:
    outputs = execute("monitoring.ipynb", tmp_path)
    (card,) = html(outputs["result"])
    assert "Accepted" in card
    assert "the run was cancelled" in printed(outputs["cancel"])
    watched, refused = html(outputs["rejected"])
    assert "REJECTED" in watched
    assert "No promise against chosen label flips (rejected)" in refused
    # the monitor has the passes, and the card the testers
    assert ("update-1" in watched, "update-1</td>" in refused) == (True, False)
    assert ("largest moment" in watched, "largest moment" in refused) == (False, True)
    assert "candidate_error" in html(outputs["diagnostics"])[0]


@pytest.mark.slow
def test_suspects__runs(tmp_path: Path) -> None:
    outputs = execute("suspects.ipynb", tmp_path)
    (card,) = html(outputs["result"])
    assert "worst area" in card
    (suspects,) = html(outputs["audit"])
    assert "malignant" in suspects
    hits, first = (int(line.split()[0]) for line in printed(outputs["hits"]).splitlines())
    assert hits >= 20
    assert first >= 15
