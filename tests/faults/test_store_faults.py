"""Stores that are damaged while they are read, and disks that are full while they are written."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import streamhalf
from streamhalf import DataError
from streamhalf.cli import main
from streamhalf.data import source
from streamhalf.events import PassProgress, PassStarted
from tests.comparing import comparable
from tests.waiting import PATIENCE

OPTIONS: dict[str, Any] = {
    "eps": 0.25,
    "certificate_degree": 0,
    "n_workers": 2,
    "sampling": "reuse",  # every pass reads every chunk
}
FLAGS = ("--eps", "0.25", "--certificate-degree", "0", "--sampling", "reuse", "--workers", "2", "--quiet")
LAST = 59

pytestmark = pytest.mark.usefixtures("small_blocks")  # a pass has a middle

_LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
from streamhalf.cli import main
from streamhalf.data import source
source.BLOCK_NBYTES = 1
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("faults") / "rows.zarr"
    spec: dict[str, Any] = {"rows": (LAST + 1) * 1024, "dim": 2, "marginal": "gaussian"}
    streamhalf.synth(path, chunk_rows=1024, noise="chow", rate=0.05, **spec)
    return path


@pytest.fixture(scope="module")
def undisturbed(store: Path) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "BLOCK_NBYTES", 1)
        return comparable(streamhalf.fit(store, **OPTIONS))


def cut(chunk: Path) -> None:
    os.truncate(chunk, chunk.stat().st_size // 2)


def empty(chunk: Path) -> None:
    os.truncate(chunk, 0)


def flip(chunk: Path) -> None:
    content = bytearray(chunk.read_bytes())
    content[100] ^= 1
    chunk.write_bytes(content)


DAMAGE: dict[Callable[[Path], None], str] = {
    Path.unlink: rf"X: chunk {LAST} \(rows \d+ to \d+\) is missing from the store",
    cut: rf"X: cannot read rows .* \(object X/c/{LAST}/0\)",
    empty: rf"X: cannot read rows .* \(object X/c/{LAST}/0\)",
    flip: rf"X: cannot read rows .* \(object X/c/{LAST}/0\).*checksum",
}


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_chunk__damaged_while_running_is_named_and_the_run_resumes(
    store: Path, undisturbed: str, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    path = tmp_path / "rows.zarr"
    shutil.copytree(store, path)
    chunk = path / "X" / "c" / str(LAST) / "0"
    acted: list[str] = []

    def observer(event: Any) -> None:
        if isinstance(event, PassProgress) and event.name == "final" and not acted:
            acted.append(event.name)
            damage(chunk)

    saved = tmp_path / "saved"
    with pytest.raises(DataError, match=DAMAGE[damage]):
        streamhalf.fit(path, checkpoint=saved, observer=observer, **OPTIONS)
    shutil.copy(store / "X" / "c" / str(LAST) / "0", chunk)
    started: list[str] = []

    def note(event: Any) -> None:
        if isinstance(event, PassStarted):
            started.append(event.name)

    result = streamhalf.fit(path, checkpoint=saved, resume=True, observer=note, **OPTIONS)
    assert comparable(result) == undisturbed
    assert started == ["final", "calibration"]


def test_checkpoint__that_finds_no_room_is_an_error_and_the_run_resumes(
    store: Path, undisturbed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    saved, result = tmp_path / "saved", tmp_path / "result.json"
    command = ["fit", str(store), *FLAGS, "--checkpoint", str(saved), "--json", str(result)]
    flush, n_flushed = os.fsync, itertools.count()

    def find_no_room(handle: int) -> None:
        if next(n_flushed) >= 5:  # two passes and their manifests, and the file of a third
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flush(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", find_no_room)
        assert main(command) == 1
    output = capsys.readouterr()
    (line,) = output.err.splitlines()
    assert f"{saved}/manifest.json: cannot be written: No space left on device" in line
    assert output.out == ""
    assert not result.exists()
    names = sorted(file.name for file in saved.iterdir())
    assert names == ["manifest.json", "pass-000.npz", "pass-001.npz", "pass-002.npz"]
    assert main([*command, "--resume"]) == 0
    assert comparable(result) == undisturbed


def test_checkpoint__that_may_not_grow_is_an_error(store: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    program = [sys.executable, "-c", _LIMITED.format(limit=1000), "fit", str(store), *FLAGS]
    command = [*program, "--checkpoint", str(saved)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert f"{saved}/pass-000.npz: cannot be written: File too large" in line
    assert done.stdout == ""
    assert list(saved.iterdir()) == []


def test_result__that_finds_no_room_is_shown_all_the_same(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", str(store), *FLAGS, "--json", "/dev/full"]) == 1
    output = capsys.readouterr()
    assert "Error" in output.out
    assert "fresh rows" in output.out
    assert "confidence" in output.out
    (line,) = output.err.splitlines()
    assert line == "streamhalf: error: /dev/full: cannot be written: No space left on device"


def test_store__that_finds_no_room_is_an_error_at_once(tmp_path: Path) -> None:
    shape = ["--rows", "100000", "--dim", "4", "--scheduler", "serial", "--quiet"]
    path = tmp_path / "rows.zarr"
    program = [sys.executable, "-c", _LIMITED.format(limit=100_000), "synth", str(path), *shape]
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "cannot write rows 0 to 99999 of X: OSError" in line
    with pytest.raises(DataError, match="never finished"):
        streamhalf.test(path)
