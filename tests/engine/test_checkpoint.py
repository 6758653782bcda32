"""Checkpoints: what is saved comes back, what is damaged is told, and memory may change."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamhalf
from streamhalf import DataError, FitResult, UsageError
from streamhalf.data import source as source_module
from streamhalf.data.block import Block
from streamhalf.engine.checkpoint import MANIFEST, Checkpoint
from streamhalf.engine.job import Counted
from streamhalf.events import PassStarted, RunStarted
from streamhalf.paths import Folder
from streamhalf.reductions import REDUCTIONS, LabelCounts, RowDigest, SlabCovariance
from streamhalf.results import Notice, NoticeCode, PassRecord
from streamhalf.testing import assert_identical, make_block
from tests.comparing import comparable
from tests.reductions.test_laws import EXAMPLES

IDENTITY = {"data": "abc", "seed": 3}
DIM = 3
BLOCK = make_block(60, DIM, seed=1)


def open_folder(path: Path, *, resume: bool = False, **changes: Any) -> Checkpoint:
    return Checkpoint(Folder(str(path)), IDENTITY | changes, resume=resume)


def record_of(name: str) -> PassRecord:
    return PassRecord(name, 60, 1, 60, 0.5)


def save(checkpoint: Checkpoint, reduction: Any, name: str = "one", block: Block = BLOCK) -> Any:
    partial = reduction.map(block)
    checkpoint.save(Counted(block.n_rows, partial), record_of(name))
    return partial


@pytest.mark.parametrize("cls", REDUCTIONS, ids=lambda cls: cls.__name__)
def test_round_trip__every_partial_comes_back_bit_by_bit(cls: type, tmp_path: Path) -> None:
    reduction = EXAMPLES[cls](DIM)
    partial = save(open_folder(tmp_path), reduction)
    again = open_folder(tmp_path, resume=True)
    assert len(again.passes) == 1
    counted, record = again.load(0, "one", reduction, DIM)
    assert counted.n_rows == 60
    assert record == record_of("one")
    assert type(counted.partial) is type(partial)
    assert_identical(counted.partial, partial)
    assert_identical(reduction.finalize(counted.partial), reduction.finalize(partial))
    assert again.load(1, "two", reduction, DIM) is None


def test_round_trip__a_digest_may_have_its_highest_bit_set(tmp_path: Path) -> None:
    checkpoint, reduction = open_folder(tmp_path), RowDigest()
    blocks = [make_block(20, DIM, seed=seed) for seed in range(8)]
    partials = [save(checkpoint, reduction, f"pass {i}", block) for i, block in enumerate(blocks)]
    again = open_folder(tmp_path, resume=True)
    for i, partial in enumerate(partials):
        counted, _ = again.load(i, f"pass {i}", reduction, DIM)
        assert_identical(counted.partial, partial)


def test_folder__that_holds_a_run_is_not_used_by_accident(tmp_path: Path) -> None:
    save(open_folder(tmp_path), LabelCounts())
    with pytest.raises(UsageError, match="holds a run already; add --resume to go on with it"):
        open_folder(tmp_path)
    with pytest.raises(UsageError, match=r"is of another run: seed \(was 3, is 4\)"):
        open_folder(tmp_path, resume=True, seed=4)


def test_folder__files_are_plain_and_nothing_else(tmp_path: Path) -> None:
    checkpoint = open_folder(tmp_path)
    save(checkpoint, LabelCounts())
    save(checkpoint, EXAMPLES[SlabCovariance](DIM), "two")
    assert sorted(path.name for path in tmp_path.iterdir()) == [MANIFEST, "pass-000.npz", "pass-001.npz"]
    for file in ("pass-000.npz", "pass-001.npz"):
        with np.load(tmp_path / file, allow_pickle=False) as arrays:
            assert all(arrays[name].dtype.kind in "iuf" for name in arrays)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def change_manifest(path: Path, **changes: Any) -> None:
    manifest = json.loads((path / MANIFEST).read_text())
    manifest["passes"][0] |= changes
    (path / MANIFEST).write_text(json.dumps(manifest))


DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "flipped": (lambda path: flip(path / "pass-000.npz"), "pass-000.npz is missing or damaged"),
    "missing": (lambda path: (path / "pass-000.npz").unlink(), "is missing or damaged"),
    "empty": (lambda path: (path / "pass-000.npz").write_bytes(b""), "is missing or damaged"),
    "manifest cut": (lambda path: (path / MANIFEST).write_text("{"), "manifest.json is not JSON"),
    "rows of text": (lambda path: change_manifest(path, n_rows="all"), r"passes\[0\]\.n_rows"),
    "another file": (lambda path: change_manifest(path, file="../x"), "file '../x' is not pass 0"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage__is_told_and_nothing_is_made_up(name: str, tmp_path: Path) -> None:
    act, message = DAMAGE[name]
    save(open_folder(tmp_path), LabelCounts())
    act(tmp_path)
    with pytest.raises(DataError, match=message):
        open_folder(tmp_path, resume=True).load(0, "one", LabelCounts(), DIM)


def test_pass__of_another_name_is_refused(tmp_path: Path) -> None:
    save(open_folder(tmp_path), LabelCounts(), "other")
    with pytest.raises(DataError, match="is of pass 'other', but 'one' is next"):
        open_folder(tmp_path, resume=True).load(0, "one", LabelCounts(), DIM)


def test_arrays__of_another_shape_are_refused(tmp_path: Path) -> None:
    save(open_folder(tmp_path), LabelCounts())
    with pytest.raises(DataError, match="does not hold the arrays of its pass"):
        open_folder(tmp_path, resume=True).load(0, "one", EXAMPLES[SlabCovariance](DIM), DIM)


# ------------------------------------------------------------------------------ whole runs

DIMENSION, LIMITS = 12, (2 << 30, 512 << 20)


@pytest.fixture
def data(small_blocks: None, monkeypatch: pytest.MonkeyPatch) -> tuple[np.ndarray, np.ndarray]:
    """Rows in many small blocks, so that what a pass needs is its partials."""
    monkeypatch.setattr(source_module, "GRID_ROWS", 4_000)
    rng = np.random.default_rng(3)
    X = rng.standard_normal((60_000, DIMENSION)).astype(np.float32)
    y = np.where(X[:, 0] >= 0, 1, -1).astype(np.int8)
    y[rng.random(len(y)) < 0.05] *= -1
    return X, y


def fit(data: Any, memory_limit: int = LIMITS[0], *, stop: str = "", **options: Any) -> tuple[FitResult, list[Any]]:
    """The result, and events: of the start, and the names of passes that were made."""
    seen: list[Any] = []

    def note(event: Any) -> None:
        if isinstance(event, RunStarted):
            seen.append(event)
        if isinstance(event, PassStarted):
            if event.name == stop:
                raise StoppedError
            seen.append(event.name)

    chosen = {"eps": 0.25, "sampling": "reuse", "certificate_degree": 2, "scheduler": "serial"}
    return streamhalf.fit(data, memory_limit=memory_limit, observer=note, **chosen, **options), seen


class StoppedError(Exception):
    pass


def test_resume__a_finished_run_reads_nothing_and_says_so(data: Any, tmp_path: Path) -> None:
    first, (_, *made) = fit(data, checkpoint=tmp_path / "saved")
    assert made == [record.name for record in first.passes]
    again, (started, *made) = fit(data, checkpoint=tmp_path / "saved", resume=True)
    assert made == []
    assert comparable(again) == comparable(first)
    place, passes = str(tmp_path / "saved"), len(first.passes)
    assert started.notices == (Notice.of(NoticeCode.RESUMED, place=place, passes=passes),)


def test_resume__with_another_memory_goes_on(data: Any, tmp_path: Path) -> None:
    first, _ = fit(data, checkpoint=tmp_path / "saved")
    resumed, (_, *made) = fit(data, LIMITS[1], checkpoint=tmp_path / "saved", resume=True)
    assert made == []
    assert comparable(resumed) == comparable(first) == comparable(fit(data, LIMITS[1])[0])


def test_resume__an_interrupted_run_goes_on_where_it_stopped(data: Any, tmp_path: Path) -> None:
    with pytest.raises(StoppedError):
        fit(data, checkpoint=tmp_path / "saved", stop="update-1")
    resumed, (_, *made) = fit(data, checkpoint=tmp_path / "saved", resume=True)
    assert made[0] == "update-1"
    assert comparable(resumed) == comparable(fit(data)[0])


def test_manifest__of_another_version_is_told(tmp_path: Path) -> None:
    save(open_folder(tmp_path), LabelCounts(), "one")
    manifest = tmp_path / "manifest.json"
    manifest.write_text(manifest.read_text().replace("checkpoint-4", "checkpoint-1"))
    with pytest.raises(UsageError, match="another version of streamhalf; go on with that one, or"):
        open_folder(tmp_path, resume=True)
