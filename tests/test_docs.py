"""README and guide: every command and code block runs, in order, as printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from streamhalf.cli import COMMANDS

ROOT = Path(__file__).parents[1]
OWN_RUNS = ("./scripts/",)
"""Blocks that set up the checkout itself; the scripts have tests of their own."""
NOT_RUN = ("clusters.md",)
"""Its blocks need clusters and buckets, which tests of engine and object storage have."""


def blocks(page: str) -> list[tuple[str, str]]:
    """(language, content) of every block of a page that can be run."""
    text = (ROOT / page).read_text("utf-8")
    found = re.findall(r"^```(bash|python)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [(kind, content) for kind, content in found if not content.startswith(OWN_RUNS)]


def run(kind: str, content: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c"] if kind == "python" else ["bash", "-euo", "pipefail", "-c"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        [*command, content],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/guide.md",
        "docs/real-data.md",
        "docs/thresholds.md",
        "docs/tables.md",
        "docs/audit.md",
        "docs/configuration.md",
        "docs/upgrading.md",
    ],
)
def test_page__blocks_run_as_printed(page: str, tmp_path: Path) -> None:
    found = blocks(page)
    assert found
    for kind, content in found:
        done = run(kind, content, tmp_path)
        assert done.returncode == 0, f"{content}\n{done.stdout}\n{done.stderr}"


@pytest.mark.slow
def test_tutorial__blocks_run_one_after_the_other(tmp_path: Path) -> None:
    found = blocks("docs/tutorial.md")
    python = "\n".join(content for kind, content in found if kind == "python")
    shell = "\n".join(content for kind, content in found if kind == "bash")
    for kind, content in (("python", python), ("bash", shell)):
        done = run(kind, content, tmp_path)
        assert done.returncode == 0, f"{content}\n{done.stdout}\n{done.stderr}"
        if kind == "python":
            assert "1586 of 1587 suspects were tampered with, of 1586 in all" in done.stdout
    assert (tmp_path / "customers.html").stat().st_size > 10_000


def test_pages__are_all_run_somewhere() -> None:
    """A page with blocks of Python is named in a test; its file name is how they are found."""
    tests = "".join(path.read_text("utf-8") for path in (ROOT / "tests").glob("test_*.py"))
    for page in sorted((ROOT / "docs").glob("*.md")):
        if "```python" in page.read_text("utf-8") and page.name not in NOT_RUN:
            assert page.name in tests, page.name


def test_pages__name_only_files_that_exist() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    for page in pages:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_commands__page_has_them_all_in_the_clone() -> None:
    page = (ROOT / "docs" / "commands.md").read_text("utf-8")
    for command in COMMANDS:
        assert f"| `streamhalf {command.__name__}` | {command.__doc__.strip()} |" in page
