from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec

import streamhalf
from streamhalf import DataError, UsageError, open_source
from streamhalf.cli import main
from streamhalf.data import inspection
from streamhalf.data.inspection import inspect
from tests.conftest import StoreWriter, make_rows

X, Y = make_rows(1000, 3)
CHECKED = {"compressors": (Crc32cCodec(),)}


def run_inspect(path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str, str]:
    """Exit code and output, with the terminal's line breaks undone."""
    code = main(["inspect", str(path), *options])
    output = capsys.readouterr()
    return code, " ".join(output.out.split()), output.err


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_inspect__tells_contents_and_layout(write_store: StoreWriter, zarr_format: int) -> None:
    path = write_store(X, Y, zarr_format=zarr_format, label_chunk_rows=250)
    report = streamhalf.inspect(path)
    assert (report.source, report.zarr_format) == (str(path), zarr_format)
    assert (report.rows, report.dim, report.labels) == (1000, 3, "-1/+1")
    assert report.fingerprint == open_source((X, Y)).fingerprint
    features, labels = report.arrays
    assert (features.name, features.shape, features.dtype) == ("X", (1000, 3), "float32")
    assert (features.chunks, features.shards, features.n_objects) == ((100, 3), None, 10)
    assert (labels.name, labels.chunks, labels.n_objects) == ("y", (250,), 4)
    assert (features.n_missing, labels.n_missing) == (0, 0)
    assert (features.nbytes, labels.nbytes) == (12_000, 1_000)
    assert report.missing == report.notices == ()
    assert report.planted is None


def test_inspect__counts_shards_as_objects(write_store: StoreWriter) -> None:
    path = write_store(X, Y, shard_rows=200)
    (path / "X/c/2/0").unlink()
    features, labels = streamhalf.inspect(path).arrays
    assert (features.shards, features.n_objects, features.n_missing) == ((200, 3), 5, 1)
    assert (labels.shards, labels.n_objects, labels.n_missing) == ((200,), 5, 0)


def test_inspect__tells_notices_and_what_was_planted(tmp_path: Path) -> None:
    path = tmp_path / "rows.zarr"
    streamhalf.synth(path, rows=500, dim=2, marginal="gaussian", noise="random", rate=0.1)
    report = streamhalf.inspect(path)
    assert report.planted is not None
    assert report.planted["complete"] is True
    assert len(report.planted["planted_vector"]) == 2
    copy = tmp_path / "copy.zarr"
    streamhalf.convert(pd.DataFrame(X, columns=list("abc")).assign(y=Y), copy)
    assert streamhalf.inspect(copy).planted is None


@pytest.mark.parametrize("layout", [{}, {"zarr_format": 2}], ids=["v3", "v2"])
def test_inspect__names_missing_chunks(write_store: StoreWriter, small_blocks: None, layout: dict[str, Any]) -> None:
    path = write_store(X, Y, **layout)
    for name in ("X/5.0", "X/8.0", "y/7") if layout else ("X/c/5/0", "X/c/8/0", "y/c/7"):
        (path / name).unlink()
    report = streamhalf.inspect(path)
    assert [array.n_missing for array in report.arrays] == [2, 1]
    assert [text.split(" is missing")[0] for text in report.missing] == [
        "X: chunk 5 (rows 500 to 599)",
        "y: chunk 7 (rows 700 to 799)",
        "X: chunk 8 (rows 800 to 899)",
    ]


def test_inspect__shows_only_the_first_missing_chunks(write_store: StoreWriter, small_blocks: None) -> None:
    path = write_store(X, Y, chunk_rows=10)
    for i in range(10, 40):
        (path / f"X/c/{i}/0").unlink()
    report = streamhalf.inspect(path)
    assert report.arrays[0].n_missing == 30
    assert len(report.missing) == 21
    assert report.missing[-1] == "and more; the counts above are of all"


def test_inspect__names_every_missing_chunk_of_one_block(write_store: StoreWriter) -> None:
    path = write_store(X, Y, label_chunk_rows=400)
    for name in ("X/c/2/0", "X/c/3/0", "y/c/1"):
        (path / name).unlink()
    assert [text.split(" is missing")[0] for text in streamhalf.inspect(path).missing] == [
        "X: chunk 2 (rows 200 to 299)",
        "X: chunk 3 (rows 300 to 399)",
        "y: chunk 1 (rows 400 to 799)",
    ]


def test_inspect__wrong_rows_that_it_meets_are_an_error(write_store: StoreWriter) -> None:
    path = write_store(np.where(np.arange(1000)[:, None] == 3, np.nan, X).astype("f4"), Y)
    with pytest.raises(DataError, match=r"X: row 3 \(counting from 0; 1 among .*\) holds NaN"):
        streamhalf.inspect(path)


def test_inspect__refuses_what_it_cannot_open(write_store: StoreWriter) -> None:
    path = write_store(X, Y)
    with pytest.raises(DataError, match="no array named 'features'"):
        streamhalf.inspect(path, features="features")
    with pytest.raises(UsageError, match="store: Group given; inspect takes a path or URL"):
        inspect(zarr.open_group(str(path), mode="r"))


def advice_of(path: Path) -> str:
    return "\n".join(streamhalf.inspect(path).advice)


ADVICE = {
    "no checksum": (X, {"compressors": None}, "X: no checksum codec"),
    "zstd": (X, {}, "X: compression saves little"),
    "blosc": (X, {"compressors": (BloscCodec(), Crc32cCodec())}, "X: compression saves little"),
    "v2": (X, {"zarr_format": 2}, "X: compression saves little"),
    "float64": (X.astype(np.float64), CHECKED, "X: float64; float32 halves the bytes"),
    "small": (X, CHECKED | {"chunk_rows": 10}, "X: objects of 0.00 MiB are small; chunks of about"),
    "labels coarser": (
        X,
        CHECKED | {"chunk_rows": 10, "label_chunk_rows": 1000},
        "y: one chunk of labels spans many chunks of X",
    ),
}


@pytest.mark.parametrize(("features", "layout", "words"), ADVICE.values(), ids=ADVICE)
def test_advice__names_what_would_serve_better(
    write_store: StoreWriter, features: np.ndarray, layout: dict[str, Any], words: str
) -> None:
    assert words in advice_of(write_store(features, Y, **layout))


def test_advice__warns_of_large_objects(write_store: StoreWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "_LARGE_OBJECT", 1000)
    assert "X: objects of 0 MiB are read whole by one task" in advice_of(write_store(X, Y, **CHECKED))


def test_cli_inspect__prints_the_report(write_store: StoreWriter, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_store(X, Y > 0, shard_rows=300, names=("traits", "class"))
    code, out, err = run_inspect(path, capsys, "--features", "traits", "--labels", "class")
    assert (code, err) == (0, "")
    for words in (
        "(Zarr v3)",
        "rows 1,000",
        "features 3",
        "labels False/True",
        "chunks (100, 3) in shards (300, 3)",
        "in 4 objects, missing: 0",
        open_source((X, Y)).fingerprint,
        "traits float32 (1000, 3)",
        "notice: labels class are False and True",
        "advice: traits: no checksum codec",
    ):
        assert words in out


def test_cli_inspect__exits_with_3_when_a_probed_chunk_is_missing(
    write_store: StoreWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_store(X, Y)
    (path / "y/c/0").unlink()
    (path / "y/c/4").unlink()
    code, out, err = run_inspect(path, capsys)
    assert (code, err) == (3, "")
    assert "in 10 objects, missing: 2" in out
    assert "missing: y: chunk 0 (rows 0 to 99) is missing from the store" in out
    assert "missing: y: chunk 4 (rows 400 to 499) is missing from the store" in out
    assert "unknown: chunks are missing" in out
