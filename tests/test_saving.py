"""Results that are kept: on a disk, in object storage, as pages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import streamhalf
from streamhalf import DataError, UsageError, read_result
from streamhalf.cli import main
from tests.conftest import make_rows, write_arrays
from tests.s3_server import BUCKET, SECRET, S3Server, require_programs, start_server

ROWS = make_rows(3000, 2)
Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def certificate() -> Any:
    return streamhalf.certify(ROWS, weights=[1.0, 0.0], certificate_degree=2, scheduler="serial")


def test_save__is_read_again(certificate: Any, tmp_path: Path) -> None:
    fitted = streamhalf.fit(ROWS, scheduler="serial")
    for number, result in enumerate((certificate, fitted)):
        path = tmp_path / f"{number}.json"
        result.save(path)
        assert read_result(path) == result
        assert result.to_html().lower().startswith("<!doctype html>")
    tested = streamhalf.test(ROWS, scheduler="serial")
    tested.save(tmp_path / "test.json")
    assert json.loads((tmp_path / "test.json").read_text())["verdict"] == tested.verdict


def test_save__does_not_harm_the_data(tmp_path: Path) -> None:
    path = tmp_path / "rows.zarr"
    write_arrays(str(path), *ROWS)
    result = streamhalf.test(path, scheduler="serial")
    with pytest.raises(UsageError, match="lies inside the data"):
        result.save(path / "zarr.json")


@pytest.mark.parametrize("url", ["memory://", "memory://folder/"])
def test_save__refuses_a_url_without_a_name(certificate: Any, url: str) -> None:
    with pytest.raises(UsageError, match="names no object"):
        certificate.save(url)


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    require_programs()
    with start_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


# s3fs closes its sessions in finalizers, which the interpreter may run too late for aiohttp
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*[Uu]nclosed:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_outputs__go_to_object_storage(s3: S3Server, certificate: Any, tmp_path: Path, capsys: Captured) -> None:
    import s3fs

    path, there = tmp_path / "rows.zarr", f"s3://{BUCKET}/out"
    write_arrays(str(path), *ROWS)
    url = f"{there}/saved.json"
    certificate.save(url, storage_options=s3.options)
    assert read_result(url, storage_options=s3.options) == certificate

    outputs = ["--json", f"{there}/a.json", "--report", f"{there}/a.html"]
    log = ["--log-json", f"{there}/a.jsonl", "--quiet"]
    weights = tmp_path / "weights.json"
    weights.write_text("[1.0, 0.0]")
    command = ["certify", str(path), "--weights", str(weights), "--certificate-degree", "2"]
    assert main([*command, *outputs, *log, *s3.flags]) == 0
    assert main(["verify", f"{there}/a.json", str(path), "--quiet", *s3.flags]) == 0
    assert main(["report", f"{there}/a.json", *s3.flags]) == 0
    files = s3fs.S3FileSystem(**s3.options)
    assert files.cat_file(f"{there}/a.html").lower().startswith(b"<!doctype html>")
    events = [json.loads(line) for line in files.cat_file(f"{there}/a.jsonl").splitlines()]
    assert events[0]["event"] == "RunStarted"
    with pytest.raises(DataError, match=f"{there}/none.json: there is no such object"):
        read_result(f"{there}/none.json", storage_options=s3.options)
    capsys.readouterr()
    assert main([*command, "--json", "s3://nowhere/a.json", "--quiet", *s3.flags]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "json: this process finds no bucket 'nowhere'" in line
    assert SECRET not in line
