"""README and guide: every command and code block runs, in order, as printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OWN_RUNS = ("./scripts/",)
"""Blocks that set up the checkout itself; the scripts have tests of their own."""


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
        "docs/audit.md",
        "docs/configuration.md",
    ],
)
def test_page__blocks_run_as_printed(page: str, tmp_path: Path) -> None:
    found = blocks(page)
    assert found
    for kind, content in found:
        done = run(kind, content, tmp_path)
        assert done.returncode == 0, f"{content}\n{done.stdout}\n{done.stderr}"


def test_pages__name_only_files_that_exist() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    for page in pages:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
