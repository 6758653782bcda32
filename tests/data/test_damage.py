"""Damaged, incomplete and wrong data: one line that names the array, the rows and the chunk."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import zarr
from zarr.codecs import Crc32cCodec

import streamhalf
from streamhalf import DataError, open_source
from streamhalf.cli import main
from streamhalf.data import zarr_private
from streamhalf.data.schema import BITS, SIGNS, LabelCoding, find_coding
from tests.conftest import make_rows, write_arrays

X, Y = make_rows(1000, 3)
UNSEEN = 5  # a chunk that opening does not look into: only a pass meets it

Damage = Callable[[Path], object]


def write(path: Path, X: np.ndarray = X, y: np.ndarray = Y, **layout: Any) -> zarr.Group:
    return write_arrays(str(path), X, y, **layout)


def with_value(array: np.ndarray, index: Any, value: Any) -> np.ndarray:
    changed = array.copy()
    changed[index] = value
    return changed


def delete(name: str, **layout: Any) -> Damage:
    def damage(path: Path) -> None:
        write(path, **layout)
        (path / name).unlink()

    return damage


def truncate(name: str, share: float = 0.5, **layout: Any) -> Damage:
    def damage(path: Path) -> None:
        write(path, **layout)
        content = (path / name).read_bytes()
        (path / name).write_bytes(content[: int(share * len(content))])

    return damage


def flip_bit(path: Path) -> None:
    write(path, compressors=(Crc32cCodec(),))
    chunk = path / f"X/c/{UNSEEN}/0"
    content = bytearray(chunk.read_bytes())
    content[17] ^= 1
    chunk.write_bytes(bytes(content))


def leave_out_inner_chunk(path: Path) -> None:
    group = write(path, shard_rows=300)
    group.create_array("X", shape=X.shape, dtype=X.dtype, chunks=(100, 3), shards=(300, 3), overwrite=True)
    group["X"][:500] = X[:500]
    group["X"][600:] = X[600:]


def overwrite_text(name: str, text: str) -> Damage:
    def damage(path: Path) -> None:
        write(path)
        (path / name).write_text(text)

    return damage


def store(X: np.ndarray = X, y: np.ndarray = Y, **layout: Any) -> Damage:
    return lambda path: write(path, X, y, **layout)


def write_strings(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Zarr v3 has no fixed word for these strings yet
        write(path, X, np.where(Y > 9, "no", "yes"))


def leave_unfinished(path: Path) -> None:
    write(path).attrs["streamhalf"] = {"complete": False}


def add_stray_file(path: Path) -> None:
    write(path, names=("Xs", "y"))
    (path / "notes.txt").write_text("not an array")


CASES: dict[str, tuple[Damage, str]] = {
    "chunk of X deleted, v3": (delete("X/c/5/0"), r"X: chunk 5 \(rows 500 to 599\) is missing"),
    "chunk of X deleted, v2": (delete("X/5.0", zarr_format=2), r"X: chunk 5 \(rows 500 to 599\) is missing"),
    "first chunk of X deleted": (delete("X/c/0/0"), r"X: chunk 0 \(rows 0 to 99\) is missing"),
    "half of a chunk's features deleted": (
        delete("X/c/5/1", feature_chunk=2),
        r"X: chunk 5 \(rows 500 to 599\) is missing",
    ),
    "chunk of y deleted, v3": (delete("y/c/5"), r"y: chunk 5 \(rows 500 to 599\) is missing"),
    "chunk of y deleted, v2": (delete("y/5", zarr_format=2), r"y: chunk 5 \(rows 500 to 599\) is missing"),
    "chunk of bool y deleted": (delete("y/c/5", y=Y > 0), r"y: chunk 5 \(rows 500 to 599\) is missing"),
    "chunk of float y deleted": (delete("y/c/5", y=Y.astype(np.float32)), r"y: chunk 5 \(rows 500 to 599\) is missing"),
    "chunk of 0/1 y deleted": (
        delete("y/c/5", y=(Y > 0).astype(np.uint8)),
        r"y: chunk 5 \(rows 500 to 599\) is missing",
    ),
    "shard deleted": (delete("X/c/2/0", shard_rows=200), r"X: chunk 4 \(rows 400 to 499\) is missing"),
    "inner chunk left out": (leave_out_inner_chunk, r"X: chunk 5 \(rows 500 to 599\) is missing"),
    "shard of no bytes": (
        truncate("X/c/2/0", 0, shard_rows=200),
        r"X: chunk 4 \(rows 400 to 499\) is missing|X: cannot read rows 400 to 599",
    ),
    "probed shard of no bytes": (
        truncate("X/c/0/0", 0, shard_rows=200),
        r"X: cannot read rows 0 to 199 \(object X/c/0/0\)",
    ),
    "shard truncated": (truncate("X/c/2/0", shard_rows=200), r"X: cannot read rows 400 to 599 \(object X/c/2/0\)"),
    "chunk truncated, v3": (truncate("X/c/5/0"), r"X: cannot read rows 500 to 599 \(object X/c/5/0\)"),
    "raw chunk truncated, v2": (
        truncate("X/5.0", zarr_format=2, compressors=None),
        r"X: cannot read rows 500 to 599 \(object X/5.0\)",
    ),
    "chunk of no bytes": (truncate("y/c/5", 0, compressors=None), r"y: cannot read rows 500 to 599 \(object y/c/5\)"),
    "bit flipped under a checksum": (
        flip_bit,
        r"X: cannot read rows 500 to 599 \(object X/c/5/0\): its checksum does not fit.*restore",
    ),
    "NaN": (
        store(with_value(X, ([520, 530, 540, 550], 1), np.nan)),
        r"X: row 520, 530, 540, \.\.\. \(.*4 among rows 500 to 599, chunk 5\) .*nan in feature 2, ",
    ),
    "infinite": (
        store(with_value(X, (520, 2), -np.inf)),
        r"X: row 520 \(.*1 among rows 500 to 599, chunk 5\) .*\(first: -inf in feature 3, ",
    ),
    "two infinities that cancel": (
        store(with_value(with_value(X, (5, 0), np.inf), (6, 0), -np.inf)),
        r"X: row 5, 6 \(.*2 among rows 0 to 63, chunk 0\)",
    ),
    "label 2": (
        store(y=with_value(Y, 520, 2)),
        r"y: row 520 \(.*1 among rows 500 to 599, chunk 5\) .*values than -1 and 1 \(first: 2\)",
    ),
    "label NaN": (
        store(y=with_value(Y.astype(np.float64), 520, np.nan)),
        r"y: row 520 \(.*1 among rows 500 to 599, chunk 5\) holds no label \(nan\)",
    ),
    "label 255": (
        store(y=with_value((Y > 0).astype(np.uint8), 520, 255)),
        r"y: row 520 \(.*1 among rows 500 to 599, chunk 5\) .*values than 0 and 1 \(first: 255\)",
    ),
    "labels -1, 0 and 1": (
        store(y=np.resize([-1, 0, 1], len(Y)).astype(np.int8)),
        r"y: values -1, 0, 1 found; expected two, such as -1 and \+1",
    ),
    "a 0 among -1 and +1, late": (store(y=with_value(Y, 520, 0)), r"y: row 520 \(.*1 among rows 500 to 599, chunk 5\)"),
    "lengths differ": (store(y=Y[:-1]), r"X has 1000 rows and y has 999"),
    "no rows": (store(X[:0], Y[:0]), r"X: 0 rows; at least 1 is needed"),
    "no features": (store(X[:, :0], Y, feature_chunk=1), r"X: there are no features"),
    "X of one dimension": (store(X[:, 0]), r"X: shape \(1000,\); expected \(rows, features\)"),
    "y of two dimensions": (store(y=Y[:, None]), r"y: shape \(1000, 1\); expected \(rows,\)"),
    "y of one string": (write_strings, r"y: only one label, yes, was found; two classes"),
    "y complex": (store(y=Y.astype(np.complex64)), r"y: dtype complex64; expected two values"),
    "another name": (store(names=("Xs", "ys")), r"no array named 'X'; found: Xs, ys \(did you mean 'Xs'\?\)"),
    "another name beside a stray file": (add_stray_file, r"no array named 'X'; found: Xs, y \(did you mean 'Xs'\?\)"),
    "a group named X": (lambda path: zarr.create_group(str(path)).create_group("X"), r"no array named 'X'; found: X"),
    "an empty group": (lambda path: zarr.create_group(str(path)), r"no array named 'X'; found: nothing"),
    "an array, not a group": (
        lambda path: zarr.create_array(str(path), shape=(3,), dtype="f4"),
        r"not a readable Zarr group: ContainsArrayError",
    ),
    "garbage metadata of the group": (
        overwrite_text("zarr.json", "{not JSON"),
        r"not a readable Zarr group: JSONDecodeError",
    ),
    "other metadata of the group": (overwrite_text("zarr.json", "[]"), r"not a readable Zarr group"),
    "garbage metadata of X": (
        overwrite_text("X/zarr.json", "{not JSON"),
        r"cannot open its array 'X': JSONDecodeError",
    ),
    "other metadata of X": (overwrite_text("X/zarr.json", "{}"), r"cannot open its array 'X': MetadataValidationError"),
    "never finished": (leave_unfinished, r"the store was never finished; write it again"),
    "an empty directory": (lambda path: path.mkdir(), r"not a readable Zarr group"),
    "a file": (lambda path: path.write_text("x"), r"this is a file and no Zarr store"),
    "nothing": (lambda path: None, r"no such store; check the path"),
}


@pytest.mark.parametrize("case", [name for name in CASES if "shard" in name or "inner" in name])
def test_damage__of_shards_is_found_without_compiled_codecs_too(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zarr_private, "zarrs", None)
    damage, message = CASES[case]
    damage(tmp_path / "rows.zarr")
    with pytest.raises(DataError, match=message):
        streamhalf.test(tmp_path / "rows.zarr", scheduler="serial")


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(("damage", "message"), CASES.values(), ids=CASES)
def test_damage__is_one_line_that_names_the_place_and_exit_code_3(
    damage: Damage, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.zarr"
    damage(path)
    assert main(["test", str(path), "--scheduler", "serial", "--quiet"]) == 3
    output = capsys.readouterr()
    assert output.out == ""
    (line,) = output.err.splitlines()
    assert line.startswith("streamhalf: error: ")
    assert re.search(message, line)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (delete("X/c/5/0"), r"X: chunk 5 \(rows 500 to 599\) is missing"),
        (truncate("X/c/5/0"), r"X: cannot read rows 500 to 599 \(object X/c/5/0\)"),
    ],
    ids=["deleted", "truncated"],
)
def test_damage__is_named_within_a_block_of_many_chunks(tmp_path: Path, damage: Damage, message: str) -> None:
    damage(tmp_path / "rows.zarr")
    source = open_source(tmp_path / "rows.zarr")
    assert len(source.blocks) == 1
    with pytest.raises(DataError, match=message):
        source.read(source.blocks[0])


def test_damage__a_missing_chunk_is_named_before_a_wrong_row(tmp_path: Path) -> None:
    path = tmp_path / "rows.zarr"
    write(path, with_value(X, (420, 0), np.nan))
    (path / "X/c/5/0").unlink()
    source = open_source(path)
    with pytest.raises(DataError, match=r"X: chunk 5 \(rows 500 to 599\) is missing"):
        source.read(source.blocks[0])


def test_damage__large_finite_features_are_no_damage() -> None:
    # their sum overflows, which must only make the check look closer
    huge = np.full((10, 2), 3e38, dtype=np.float32)
    source = open_source((huge, np.ones(10)))
    np.testing.assert_array_equal(source.read(source.blocks[0]).X, huge)


def test_damage__ragged_rows_are_refused_as_data() -> None:
    with pytest.raises(DataError, match="X: not an array"):
        open_source(([[1.0, 2.0], [3.0]], [1, -1]))


@pytest.mark.parametrize("features", [np.ones((2, 1)), da.ones((2, 1))], ids=["NumPy", "Dask"])
def test_damage__labels_of_several_kinds_are_refused_as_data(features: Any) -> None:
    with pytest.raises(DataError, match="y: values of several kinds"):
        open_source((features, np.array(["a", 2], dtype=object)))


@pytest.mark.parametrize(
    ("values", "coding"),
    [
        ([1, -1], SIGNS),
        ([-1], SIGNS),
        ([0, 1], BITS),
        ([0], BITS),
        ([1], None),
        ([], None),
        ([0, 1, 7], BITS),
        ([2, 1, 2], LabelCoding(1, 2)),
        ([0, -1], LabelCoding(-1, 0)),
        ([0.5, np.nan, 2.0], LabelCoding(0.5, 2)),
        (["yes", "no", ""], LabelCoding("no", "yes")),
        (["yes"], None),
    ],
)
def test_find_coding__explains_the_values(values: list[Any], coding: LabelCoding | None) -> None:
    assert find_coding("y", np.array(values)) == coding


def test_find_coding__refuses_several_kinds() -> None:
    with pytest.raises(DataError, match=r"y: values of several kinds \(int, str\)"):
        find_coding("y", np.array([1, "yes"], dtype=object))
