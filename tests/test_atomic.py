from __future__ import annotations

import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from streamhalf import StreamhalfError
from streamhalf.paths import write_text_to as write_text

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
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    error: BaseException,
    seen: type[BaseException] | None,
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
