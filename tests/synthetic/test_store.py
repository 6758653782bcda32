from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from streamhalf.data.block import RowRange
from streamhalf.data.zarr_groups import Target
from streamhalf.errors import DataError, UsageError
from streamhalf.kernels.margins import native_margins
from streamhalf.synthetic.spec import SyntheticSpec, create_store, finish_store, plant, write_rows
from tests.synthetic.specs import make_spec, whole


def write_store(url: str, spec: SyntheticSpec, *, chunk_rows: int, storage_options: Any = None) -> None:
    planted = plant(spec)
    target = Target(url, storage_options)
    chunks = create_store(target, spec, chunk_rows=chunk_rows)
    n_flipped = sum(write_rows(target, spec, planted, chunk) for chunk in chunks)
    finish_store(target, spec, planted, n_flipped)


def test_store__two_chunkings_have_identical_contents(tmp_path: Path) -> None:
    spec = make_spec("rademacher", "chow")
    contents = []
    for chunk_rows in (7_001, 10**9):
        url = str(tmp_path / f"{chunk_rows}.zarr")
        write_store(url, spec, chunk_rows=chunk_rows)
        group = zarr.open_group(url, mode="r")
        contents.append((group["X"][:], group["y"][:], dict(group.attrs)))
    _, rows = whole(spec)
    for X, y, _ in contents:
        np.testing.assert_array_equal(X, rows.X)
        np.testing.assert_array_equal(y, rows.y)
    assert contents[0][2] == contents[1][2]


def test_store__records_what_was_planted(tmp_path: Path) -> None:
    spec = make_spec(noise="minor", positive=0.2)
    url = str(tmp_path / "store.zarr")
    write_store(url, spec, chunk_rows=10_000)
    group = zarr.open_group(url, mode="r")
    record = group.attrs["streamhalf"]
    planted, _ = whole(spec)
    assert record["complete"] is True
    assert SyntheticSpec(**record["synthetic"]) == spec
    np.testing.assert_array_equal(record["planted_vector"], planted.v)
    threshold = record["planted_threshold"]
    assert threshold == planted.threshold == pytest.approx(0.8416, abs=1e-4)
    measured = np.mean((native_margins(group["X"][:], planted.v) >= threshold) != (group["y"][:] > 0))
    assert record["planted_error"] == pytest.approx(measured, abs=1e-12)


def test_create_store__layout(tmp_path: Path) -> None:
    spec = make_spec(rows=25_000)
    url = str(tmp_path / "store.zarr")
    chunks = create_store(Target(url), spec, chunk_rows=10_000)
    group = zarr.open_group(url, mode="r")
    X, y = group["X"], group["y"]
    assert chunks == (RowRange(0, 10_000), RowRange(10_000, 20_000), RowRange(20_000, 25_000))
    assert group.metadata.zarr_format == 3
    assert group.attrs["streamhalf"]["complete"] is False
    assert (X.shape, X.chunks, X.dtype) == ((25_000, 3), (10_000, 3), np.float32)
    assert (y.shape, y.chunks, y.dtype) == ((25_000,), (10_000,), np.int8)
    assert (X.metadata.dimension_names, y.metadata.dimension_names) == (("row", "feature"), ("row",))
    assert math.isnan(X.fill_value)
    assert y.fill_value == 0
    for array in (X, y):
        assert [codec["name"] for codec in array.metadata.to_dict()["codecs"]] == ["bytes", "crc32c"]


def test_create_store__refuses_to_overwrite(tmp_path: Path) -> None:
    url = str(tmp_path / "store.zarr")
    write_store(url, make_spec(), chunk_rows=20_000)
    with pytest.raises(UsageError, match=r"store\.zarr: .*--overwrite"):
        create_store(Target(url), make_spec(rows=10))
    assert zarr.open_array(url, path="X", mode="r").shape == (40_000, 3)
    create_store(Target(url), make_spec(rows=10), overwrite=True)
    group = zarr.open_group(url, mode="r")
    assert group["X"].shape == (10, 3)
    assert np.isnan(group["X"][:]).all()


def test_create_store__never_empties_what_is_not_a_store(tmp_path: Path) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("kept")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "zarr.json").write_text("{")
    for target in (tmp_path, precious, tmp_path / "damaged"):
        for overwrite in (False, True):
            with pytest.raises(UsageError, match="choose another path"):
                create_store(Target(str(target)), make_spec(), overwrite=overwrite)
    options = {"auto_mkdir": True}
    create_store(Target(f"file://{tmp_path}", options), make_spec(), overwrite=True)
    assert precious.read_text() == "kept"
    assert (tmp_path / "damaged" / "zarr.json").read_text() == "{"


def test_create_store__bad_chunk_rows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="chunk_rows: 0 given"):
        create_store(Target(str(tmp_path / "store.zarr")), make_spec(), chunk_rows=0)


def test_finish_store__refuses_a_missing_chunk(tmp_path: Path) -> None:
    spec = make_spec()
    url = str(tmp_path / "store.zarr")
    chunks = create_store(Target(url), spec, chunk_rows=10_000)
    planted = plant(spec)
    write_rows(Target(url), spec, planted, RowRange(chunks[0].start, chunks[2].stop))
    with pytest.raises(DataError, match="3 of 4 chunks of X"):
        finish_store(Target(url), spec, planted, 0)
    assert zarr.open_group(url, mode="r").attrs["streamhalf"]["complete"] is False
