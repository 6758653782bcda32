"""README and docs: every command and code block runs, in order, as printed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import xarray as xr

from streamhalf import Verdict
from streamhalf.cli import COMMANDS, main
from tests.s3_server import INSTALL

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
OWN_RUNS = ("./scripts/",)
"""Blocks that set up the checkout itself; the scripts have tests of their own."""
NOT_RUN = ("clusters.md",)
"""Its blocks need clusters and buckets, which tests of engine and object storage have."""

Blocks = list[tuple[str, str]]


def blocks(page: str) -> Blocks:
    """(language, content) of every block of a page that can be run."""
    text = (ROOT / page).read_text("utf-8")
    found = re.findall(r"^```(bash|python)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [(kind, content) for kind, content in found if not content.startswith(OWN_RUNS)]


def run(kind: str, content: str, folder: Path) -> str:
    command = [sys.executable, "-c"] if kind == "python" else ["bash", "-euo", "pipefail", "-c"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [*command, content],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{content}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        *("docs/guide.md", "docs/real-data.md", "docs/thresholds.md", "docs/audit.md"),
        *("docs/configuration.md", "docs/upgrading.md", "docs/tables.md", "docs/watch.md"),
    ],
)
def test_page__blocks_run_as_printed(page: str, tmp_path: Path) -> None:
    found = blocks(page)
    assert found
    for kind, content in found:
        run(kind, content, tmp_path)


@pytest.mark.slow
def test_tutorial__blocks_run_one_after_the_other(tmp_path: Path) -> None:
    found = blocks("docs/tutorial.md")
    python, shell = ("\n".join(content for kind, content in found if kind == wanted) for wanted in ("python", "bash"))
    said = run("python", python, tmp_path)
    assert "1586 of 1586 suspects were tampered with, of 1586 in all" in said
    run("bash", shell, tmp_path)
    assert (tmp_path / "customers.html").stat().st_size > 10_000


@pytest.mark.slow
def test_python_page__blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    try:
        for kind, content in blocks("docs/python.md"):
            if kind == "python":
                exec(compile(content, "python.md", "exec"), names)
    finally:
        if hasattr(xr.Dataset, "streamhalf"):
            del xr.Dataset.streamhalf
    assert names["model"].verdict_ is Verdict.ACCEPTED
    assert names["pipeline"][-1].verdict_ is Verdict.INCONCLUSIVE
    assert names["result"].verdict is Verdict.ACCEPTED
    assert names["tested"].verdict is Verdict.PASSED
    assert names["far"] < 0.05


@pytest.mark.slow
def test_monitoring_page__blocks_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for kind, content in blocks("docs/monitoring.md"):
        if kind == "python":
            exec(compile(content, "monitoring.md", "exec"), names)
        else:
            for line in content.splitlines():
                assert main(shlex.split(line)[1:]) == 0
    assert names["result"].verdict is Verdict.ACCEPTED
    assert names["page"].url.endswith("/streamhalf")
    said = capsys.readouterr().out
    assert said.count("pass final:") == 2
    assert "moments 120000 rows" in said


@pytest.mark.slow
def test_site__is_built_without_a_warning(tmp_path: Path) -> None:
    options = ["--builder", "html", "--fail-on-warning", "--keep-going", "--nitpicky", "--quiet"]
    command = [sys.executable, "-m", "sphinx", *options, str(ROOT / "docs"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "architecture.html").exists()


def test_pages__with_python_are_all_run() -> None:
    """A page with blocks of Python is named in a test; its file name is how they are found."""
    tests = "".join(path.read_text("utf-8") for path in (ROOT / "tests").glob("test_*.py"))
    for page in PAGES[2:]:
        if "```python" in page.read_text("utf-8") and page.name not in NOT_RUN:
            assert page.name in tests or page.name == "contributing.md", page.name


def test_pages__name_only_files_that_exist() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[\w-]+)?\)", page.read_text("utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


@pytest.mark.parametrize("page", PAGES[:2], ids=["README", "CONTRIBUTING"])
def test_pages__name_all_packages_of_the_s3_server(page: Path) -> None:
    packages = INSTALL.split("--no-install-recommends ")[1].split()
    assert [name for name in packages if name not in page.read_text("utf-8")] == []


def test_commands__page_has_them_all_in_the_clone() -> None:
    page = (ROOT / "docs" / "commands.md").read_text("utf-8")
    for command in COMMANDS:
        assert f"| `streamhalf {command.__name__}` | {command.__doc__.strip()} |" in page
