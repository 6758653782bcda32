"""Result files: written whole, read as data only; damage is named with its place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamhalf
from streamhalf import CertifyResult, DataError, FitResult, Halfspace
from streamhalf.results import to_json
from streamhalf.results.document import read_classifier, read_fit, read_model, read_result, read_weights, write_json
from tests.conftest import make_rows

SERIAL = {"scheduler": "serial", "seed": 1}
ROWS = make_rows(3_000, 2)


@pytest.fixture(scope="module")
def fitted() -> FitResult:
    return streamhalf.fit(ROWS, certificate_degree=0, **SERIAL)


@pytest.fixture(scope="module")
def certified() -> CertifyResult:
    return streamhalf.certify(ROWS, weights=[1.0, 0.2], certificate_degree=2, **SERIAL)


def write(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content))
    return path


def test_read__a_folder_and_a_missing_file_are_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="this is a folder; a result file"):
        read_result(tmp_path)
    with pytest.raises(DataError, match=r"none\.json: cannot be read: No such file"):
        read_result(tmp_path / "none.json")


def test_read__another_kind_is_told(certified: CertifyResult, tmp_path: Path) -> None:
    certified.save(tmp_path / "c.json")
    with pytest.raises(DataError, match=r"this is a certificate .*; give the file that fit wrote"):
        read_fit(tmp_path / "c.json")


def test_read__a_number_that_is_none_is_refused(fitted: FitResult, tmp_path: Path) -> None:
    for value in (float("nan"), float("inf")):
        path = write(tmp_path / "new.json", to_json(fitted) | {"eps": value})
        with pytest.raises(DataError, match="is no number that a result holds"):
            read_model(path)


@pytest.mark.parametrize(("read", "words"), [(read_model, "after fit wrote it"), (read_classifier, "it was written")])
def test_read__a_changed_document_is_refused(read: Any, words: str, fitted: FitResult, tmp_path: Path) -> None:
    path = write(tmp_path / "changed.json", to_json(fitted) | {"eps": 0.01})
    with pytest.raises(DataError, match=f"the file was changed .*{words}.* restore"):
        read(path)


def test_save__writes_the_schema_and_nothing_beside_the_file(certified: CertifyResult, tmp_path: Path) -> None:
    certified.save(tmp_path / "out.json")
    text = (tmp_path / "out.json").read_text()
    assert text.endswith("}\n")
    assert '"schema": "streamhalf-certificate-1"' in text
    assert read_result(tmp_path / "out.json") == certified
    assert os.listdir(tmp_path) == ["out.json"]


@pytest.mark.parametrize("what", [{"x": object()}, Halfspace((1.0, float("nan")))])
def test_write_json__keeps_the_old_file_where_it_cannot_write(what: Any, tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    target.write_text("what was there before")
    with pytest.raises((TypeError, ValueError)):
        write_json(target, what)
    assert target.read_text() == "what was there before"
    assert os.listdir(tmp_path) == ["out.json"]


def test_read_weights__forms(fitted: FitResult, tmp_path: Path) -> None:
    for name, content, expected in (
        ("list.json", [1, 2.5], Halfspace((1.0, 2.5))),
        ("object.json", {"normal": [1.0], "offset": 2}, Halfspace((1.0,), 2.0)),
        ("result.json", to_json(fitted), fitted.halfspace),
    ):
        assert read_weights(write(tmp_path / name, content)) == expected
    np.save(tmp_path / "column.npy", np.ones((3, 1), dtype=np.int32))
    assert read_weights(tmp_path / "column.npy") == Halfspace((1.0, 1.0, 1.0))


def test_read_result__two_threads_at_once__in_a_fresh_process(tmp_path: Path) -> None:
    """Types are prepared at the first use, which crashed the process where two threads made it."""
    path = tmp_path / "result.json"
    path.write_text("{}")
    code = (
        "import concurrent.futures as f, streamhalf\n"
        "def read(_):\n"
        f"    try: streamhalf.read_result({str(path)!r})\n"
        "    except streamhalf.DataError: return 1\n"
        "with f.ThreadPoolExecutor(8) as pool: assert sum(pool.map(read, range(64))) == 64\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
