"""Other systems than Linux with a UTF-8 terminal, and the versions that are declared."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]

ELSEWHERE = """
import builtins, os, pathlib, sys
import psutil  # has modules of its own for every system
for name in ("fork", "forkpty", "sched_getaffinity", "getuid", "geteuid",
             "getloadavg"):
    if hasattr(os, name):
        delattr(os, name)
if hasattr(os, "process_cpu_count"):  # which looks for the affinity on its own
    os.process_cpu_count = os.cpu_count
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None  # its import fails
plain = builtins.open
def open_elsewhere(file, *arguments, **options):
    ours = sys._getframe(1).f_globals.get("__name__", "").startswith(("streamhalf", "pathlib"))
    if ours and str(file).startswith(("/proc", "/sys", "/dev/shm")):
        raise FileNotFoundError(file)
    return plain(file, *arguments, **options)
builtins.open = open_elsewhere
"""
"""Without what only POSIX systems have, /proc and a shell."""

FIT = """
import json
import numpy as np
import streamhalf
rng = np.random.default_rng(0)
X = rng.normal(size=(6_000, 3))
y = np.where(X[:, 0] >= 0.2, 1, -1)
result = streamhalf.fit((X, y), seed=1, scheduler="threads")
print(json.dumps([str(result.verdict), list(result.halfspace.normal), result.error.upper]))
"""


def run_python(code: str, **changed: str) -> str:
    known = {name: os.environ[name] for name in ("SYSTEMROOT", "TMPDIR") if name in os.environ}
    environment = {**known, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0", **changed}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_fit__needs_no_posix_names_no_proc_and_no_shell() -> None:
    elsewhere = json.loads(run_python(ELSEWHERE + FIT, PATH=""))
    assert elsewhere == json.loads(run_python(FIT, PATH=os.environ["PATH"]))


@pytest.mark.parametrize(
    "encoding", ["ascii", *(pytest.param(one, marks=pytest.mark.slow) for one in ("cp1252", "utf-8"))]
)
def test_commands__work_in_any_locale_folder_and_home_without_a_terminal(tmp_path: Path, encoding: str) -> None:
    folder = tmp_path / "rows of Łódź 数据"
    folder.mkdir()
    plain = {
        "PATH": "",
        "HOME": os.path.join(os.devnull, "home"),  # cannot be made by any user
        "LC_ALL": "C",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONUTF8": "0",
        "PYTHONIOENCODING": encoding,
        "PYTHONPATH": str(ROOT),
    }
    store, result, report = "größe 1.zarr", "rés.json", "rés.html"
    for arguments in (
        ["synth", store, "--rows", "4000", "--dim", "3"],
        ["fit", store, "--seed", "1", "--json", result, "--report", report],
        ["verify", result, store],
        ["audit", store, "--model", result],
        ["plan", store],
        ["fit", "--help"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "streamhalf", *arguments],
            cwd=folder,
            env=plain,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=300,
        )
        said = done.stderr.decode(encoding, errors="replace")
        assert done.returncode in (0, 10, 11), said
        assert "unexpected" not in said
    made = {path.name for path in folder.iterdir()}
    assert {store, result, report} <= made


@pytest.mark.skipif(os.name == "nt", reason="a shell that closes streams")
def test_commands__write_nothing_where_streams_are_closed(tmp_path: Path) -> None:
    command = f'"{sys.executable}" -m streamhalf plan --rows 100000 --dim 4 >&- 2>&-'
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, shell=True, cwd=tmp_path, env=environment, timeout=120)
    assert done.returncode == 0


def declared() -> dict[str, str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    given: list[Any] = [*project["project"]["dependencies"], *project["dependency-groups"]["tests"]]
    pairs = (re.fullmatch(r"([\w.-]+)>=([\d.]+)", entry) for entry in given)
    return {pair[1].lower(): pair[2] for pair in pairs if pair is not None}


def test_lowest__versions_are_those_that_are_declared() -> None:
    text = (ROOT / "scripts" / "lowest.txt").read_text(encoding="utf-8")
    pinned = dict(line.lower().split("==") for line in text.splitlines())
    wrong = {
        name: (version, pinned.get(name))
        for name, version in declared().items()
        if not pinned.get(name, "").startswith(version)
    }
    assert wrong == {}
