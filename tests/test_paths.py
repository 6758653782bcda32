"""Outputs appear whole or not at all, and harm no inputs."""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
import zarr

import streamhalf
from streamhalf import StreamhalfError, UsageError, api
from streamhalf.cli import main
from streamhalf.paths import is_within, normalised
from streamhalf.paths import write_text_to as write_text
from streamhalf.results.document import write_json
from tests.conftest import StoreWriter, make_rows
from tests.test_predict import make_model

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def store(write_store: StoreWriter) -> Path:
    return write_store(*make_rows(200, 3))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.json"
    write_json(path, make_model())
    return path


def content(folder: Path) -> dict[str, str]:
    """Every file of a folder and the digest of what is in it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize("spelling", ["plain", "dots", "link", "url", "inside", "around"])
def test_predict__never_replaces_its_input(
    store: Path, model: Path, tmp_path: Path, capsys: Captured, spelling: str
) -> None:
    (tmp_path / "link").symlink_to(store)
    out = {
        "plain": str(store),
        "dots": f"{store.parent}/./x/../{store.name}/",
        "link": str(tmp_path / "link"),
        "url": f"file://{store}",
        "inside": str(store / "predictions"),
        "around": str(store.parent),
    }[spelling]
    before = content(store)
    flags = ["--model", str(model), "--out", out, "--overwrite", "--quiet"]
    assert main(["predict", str(store), *flags]) == 2
    err = capsys.readouterr().err
    assert err.startswith("streamhalf: error: --out: ")
    assert "the data" in err
    assert "choose another path" in err
    with pytest.raises(UsageError, match="out: "):
        streamhalf.predict(store, model=make_model(), out=out, overwrite=True)
    assert content(store) == before


@pytest.mark.parametrize("option", ["--json", "--report", "--log-json", "--checkpoint"])
def test_fit__writes_nothing_into_its_data(store: Path, capsys: Captured, option: str) -> None:
    before = content(store)
    assert main(["fit", str(store), option, str(store / "zarr.json"), "--quiet"]) == 2
    assert f"{option}: {store}/zarr.json lies inside the data {store}" in capsys.readouterr().err
    assert content(store) == before


def test_fit__keeps_its_checkpoint_out_of_the_data(store: Path) -> None:
    before = content(store)
    for data in (store, zarr.open_group(str(store), mode="r")):
        with pytest.raises(UsageError, match=r"checkpoint: .* lies inside the data"):
            streamhalf.fit(data, checkpoint=store / "passes")
    assert content(store) == before


def test_outputs__each_have_a_path_of_their_own(tmp_path: Path, capsys: Captured) -> None:
    same = str(tmp_path / "same")
    flags = ["--json", same, "--report", f"{tmp_path}/./same"]
    assert main(["fit", str(tmp_path / "not there"), *flags]) == 2
    assert "--report: " in (err := capsys.readouterr().err)
    assert "is also what --json names" in err
    assert main(["certify", "not there", "--weights", same, "--json", same]) == 2
    assert "is also what --weights names" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["notes.txt", "pictures/cat.png", ".git/HEAD"])
def test_synth__never_deletes_what_is_no_part_of_a_store(store: Path, capsys: Captured, name: str) -> None:
    (store / name).parent.mkdir(exist_ok=True)
    (store / name).write_text("mine")
    before = content(store)
    assert main(["synth", str(store), "--rows", "10", "--dim", "2", "--overwrite"]) == 2
    assert "which is no part of a Zarr store" in capsys.readouterr().err
    assert content(store) == before


def test_normalised__urls() -> None:
    one = "s3://bucket/a/data.zarr"
    for other in ("s3a://bucket/a/data.zarr/", "S3://key:secret@bucket/a/./b/../data.zarr?x=1"):
        assert normalised(other) == one
    assert is_within("s3://bucket/a/data.zarr/X", one)
    assert not is_within("s3://bucket/a/data.zarr2", one)
    assert not is_within("gs://bucket/a/data.zarr", one)


OLD = "what was there before"


def test_write_text__writes_and_replaces(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    write_text(target, "ä")
    write_text(str(target), "β\n")
    assert target.read_text(encoding="utf-8") == "β\n"
    assert os.listdir(tmp_path) == ["out.txt"]


def test_write_text__gives_the_permissions_of_a_plain_file(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        write_text(tmp_path / "out.txt", "x")
    finally:
        kept = os.umask(mask)
    assert stat.S_IMODE((tmp_path / "out.txt").stat().st_mode) == 0o640
    assert kept == 0o027


def fail_with(error: BaseException) -> Any:
    def fail(*arguments: Any, **options: Any) -> None:
        raise error

    return fail


@pytest.mark.parametrize("step", ["fsync", "chmod", "replace"])
@pytest.mark.parametrize(
    ("error", "seen"),
    [(OSError(28, "No space left on device"), StreamhalfError), (KeyboardInterrupt(), None)],
    ids=["full", "interrupted"],
)
def test_write_text__keeps_the_old_file_and_no_other_on_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException, seen: type[BaseException] | None
) -> None:
    target = tmp_path / "out.txt"
    target.write_text(OLD)
    with monkeypatch.context() as patch:
        patch.setattr(os, step, fail_with(error))
        with pytest.raises(seen or type(error)) as caught:
            write_text(target, "new")
    assert target.read_text() == OLD
    assert os.listdir(tmp_path) == ["out.txt"]
    if seen is not None:
        assert str(caught.value) == f"{target}: cannot be written: No space left on device"


def test_write_text__names_a_folder_that_is_not_there(tmp_path: Path) -> None:
    target = tmp_path / "nowhere" / "out.txt"
    with pytest.raises(StreamhalfError, match=r"out\.txt: cannot be written: there is no folder"):
        write_text(target, "x")


def test_write_text__follows_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "out.txt", tmp_path / "link.txt"
    link.symlink_to(target)
    write_text(link, "x")
    assert link.is_symlink()
    assert target.read_text() == "x"


def test_write_text__writes_through_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[str] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()))
    reader.start()
    write_text(pipe, "through")
    reader.join(timeout=10)
    assert received == ["through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("name", ["notes", "folder/cat.png"])
def test_synth__never_deletes_a_folder(tmp_path: Path, capsys: Captured, name: str) -> None:
    folder = tmp_path / "folder"
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_text("mine")
    assert main(["synth", str(folder), "--rows", "10", "--dim", "2", "--overwrite"]) == 2
    assert "is not a Zarr store" in capsys.readouterr().err
    assert (folder / name).read_text() == "mine"


def test_synth__overwrites_only_when_told(store: Path, capsys: Captured) -> None:
    command, before = ["synth", str(store), "--rows", "50", "--dim", "2", "--quiet"], content(store)
    assert main(command) == 2
    assert "a store exists here; choose another path or add --overwrite" in capsys.readouterr().err
    assert content(store) == before
    assert main([*command, "--overwrite"]) == 0


def test_report__is_not_written_into_the_data(store: Path) -> None:
    result, before = streamhalf.fit(store, certificate_degree=0), content(store)
    with pytest.raises(UsageError, match=r"path: .* lies inside the data"):
        api.report(result, store / "zarr.json")
    assert content(store) == before


def test_checkpoint__is_a_folder(store: Path, tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    assert main(["fit", str(store), "--checkpoint", str(file), "--quiet"]) == 2
    assert f"checkpoint: {file} is a file; name a folder" in capsys.readouterr().err
    assert file.read_text() == "mine"
