"""The scripts of README and docs: each sets up what it needs, from nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NEEDS_NOTHING = (
    *("quickstart", "test", "versions", "gates", "docs", "release"),
    *("cluster_job", "slurm_job", "check_image", "rooms"),
)
"""Scripts that tell their use without an environment."""
IN_ORDER = {
    "settings": (),
    "digests": ("tests",),
    "large_run": (),
    "memory": (),
    "scaling": (),
    "streams": (),
    "soak": (),
    "attacks": ("measuring",),
    "certificates": ("measuring",),
    "evaluate": ("measuring",),
    "compare": ("comparing", "real-data"),
    "compare_audit": ("comparing", "real-data"),
    "real_data": ("real-data",),
    "tables": ("real-data",),
    "benchmark": ("benchmark",),
}
"""The others with their groups, those that need least first: nothing is there by luck."""

APART = ("compare", "compare_audit", "real_data", "tables", "benchmark")
"""Those whose packages no test is to meet."""


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tracked files in another folder, without an environment; downloads are shared."""
    folder = tmp_path_factory.mktemp("fresh") / "streamhalf"
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, done.stdout.split("\0")):
        if not name.startswith(("tests/documents/", "docs/")) and (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    cache = ROOT / ".cache" / "pip"
    cache.mkdir(parents=True, exist_ok=True)
    (folder / ".cache").mkdir()
    (folder / ".cache" / "pip").symlink_to(cache)
    return folder


def ask(folder: Path, name: str) -> str:
    """Help of a script, started from elsewhere and without our environment."""
    keep = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    paths = [path for path in keep["PATH"].split(os.pathsep) if ".venv" not in path]
    environment = {**keep, "PATH": os.pathsep.join(paths), "PYTHON": getattr(sys, "_base_executable", sys.executable)}
    environment.pop("VIRTUAL_ENV", None)
    done = subprocess.run(
        [str(folder / "scripts" / name), "--help"],
        cwd=folder.parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_scripts__are_all_tried() -> None:
    found = {path.name for path in (ROOT / "scripts").iterdir() if os.access(path, os.X_OK)}
    assert {name for name in found if (ROOT / "scripts" / name).is_file()} == {*NEEDS_NOTHING, *IN_ORDER}


@pytest.mark.parametrize("name", NEEDS_NOTHING)
def test_script__tells_its_use_at_once(name: str, clone: Path) -> None:
    assert len(ask(clone, name)) > 40
    assert not (clone / ".venv").exists()


@pytest.mark.slow
def test_scripts__run_from_a_clean_environment(clone: Path) -> None:
    """One environment for all, which grows by what each of them asks for; some have their own.

    Packages from elsewhere may bring modules called as ours, such as `tests`.
    """
    for name, groups in IN_ORDER.items():
        text = (ROOT / "scripts" / name).read_text("utf-8")
        asked = re.search(r'^(?:apart=([\w-]+) )?needs="(.*)" \. ', text, re.MULTILINE)
        assert asked is not None
        assert tuple(asked[2].split()) == groups
        assert (asked[1] is not None) == (name in APART)
        assert re.match(rf"usage: (scripts/)?{name}\b", ask(clone, name))
        assert (clone / ".cache" / f".venv-{asked[1]}").exists() == (name in APART)


def test_pages__name_only_scripts_that_exist() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    for page in pages:
        for name in re.findall(r"`(?:\./)?scripts/([\w.]+)", page.read_text("utf-8")):
            assert (ROOT / "scripts" / name).exists(), f"{page.name}: scripts/{name}"
