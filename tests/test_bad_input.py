"""Malformed input of every kind: an exit code, one line that names the trouble, no traceback."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
from numpy.typing import NDArray

from streamhalf.cli import main
from streamhalf.results import FitResult, from_json, seal, to_json
from tests.conftest import make_rows, write_arrays

Captured = pytest.CaptureFixture[str]
Act = Callable[[Path], Any]
FIT = ("--quiet", "--eps", "0.25", "--certificate-degree", "0", "--scheduler", "serial")
COMMON = ["--rows", "120000", "--dim", "2", "--chunk-rows", "30000", "--quiet"]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store, its result and its checkpoint, all as they should be."""
    folder = tmp_path_factory.mktemp("good")
    assert main(["synth", str(folder / "rows.zarr"), *COMMON]) == 0
    outputs = ["--json", str(folder / "result.json"), "--checkpoint", str(folder / "saved")]
    assert main(["fit", str(folder / "rows.zarr"), *FIT, *outputs]) == 0
    return folder


def refused(arguments: list[str], code: int, words: str, capsys: Captured) -> None:
    """The command returns this code and says one line with these words, separated by '|'."""
    capsys.readouterr()
    assert main(arguments) == code, capsys.readouterr().err
    output = capsys.readouterr()
    (line,) = output.err.splitlines()
    assert line.startswith("streamhalf: error: "), line
    for word in words.split("|"):
        assert word in line
    assert len(line) < 1200
    assert line.isprintable()
    assert output.out == ""


# ---------------------------------------------------------------------------------------- stores


def arrays(X: Any, y: Any, **layout: Any) -> Act:
    return lambda path: write_arrays(str(path), np.asarray(X), np.asarray(y), **layout)


def damaged(act: Act) -> Act:
    """A store with checksums, as `synth` writes it, that something happened to."""

    def build(path: Path) -> None:
        main(["synth", str(path), "--rows", "2000", "--dim", "2", "--chunk-rows", "500", "--quiet"])
        act(path)

    return build


def edit(name: str, **changes: Any) -> Act:
    """Change the metadata of an array."""

    return damaged(lambda path: edit_in_place(path / name / "zarr.json", **changes))


def edit_in_place(file: Path, **changes: Any) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def claim_rows(path: Path) -> None:
    """More rows than any storage holds, in the metadata of both arrays."""
    edit_in_place(path / "X" / "zarr.json", shape=[10**18, 2])
    edit_in_place(path / "y" / "zarr.json", shape=[10**18])


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 16
    file.write_bytes(content)


def rows_of(n_rows: int, dim: int) -> NDArray[np.float32]:
    return make_rows(n_rows, dim)[0]


ONES = np.ones(10, dtype=np.int8)
GRID = {"name": "regular", "configuration": {"chunk_shape": [0, 2]}}
HOSTILE = "evil\n\x1b[31mname"

STORES: dict[str, tuple[Act, str]] = {  # beside those of tests/data/test_damage.py
    "link to itself": (lambda path: path.symlink_to(path), "no such store"),
    "metadata deep": (
        damaged(lambda path: (path / "zarr.json").write_text("[" * 100_000)),
        "not a readable Zarr group",
    ),
    "hostile names": (arrays(rows_of(10, 2), ONES, names=(HOSTILE, "y")), r"no array named 'X'|evil\n\x1b[31mname"),
    "features a cube": (arrays(np.ones((10, 2, 2)), ONES, zarr_format=2), "X: shape (10, 2, 2)"),
    "features complex": (arrays(np.ones((10, 2), complex), ONES), "X: dtype complex128"),
    "labels 2 and 3": (arrays(rows_of(10, 2), 2 + ONES), "y|3"),
    "chunk a folder": (damaged(lambda path: (path / "X/c/1/0").unlink() or (path / "X/c/1/0").mkdir()), "X"),
    "format unknown": (edit("X", zarr_format=9), "cannot open its array 'X'"),
    "shape negative": (edit("X", shape=[-5, 2]), "X"),
    "chunk shape zero": (edit("X", chunk_grid=GRID), "array 'X'|chunks of shape (0, 2)"),
    "rows without end": (damaged(claim_rows), "X"),
}


@pytest.mark.filterwarnings("ignore::UserWarning:zarr")
@pytest.mark.parametrize("name", STORES)
def test_store__that_is_no_labelled_rows_is_named(name: str, tmp_path: Path, capsys: Captured) -> None:
    build, words = STORES[name]
    path = tmp_path / "bad.zarr"
    build(path)
    refused(["test", str(path), "--quiet", "--scheduler", "serial"], 3, words, capsys)


# ------------------------------------------------------------------------------ flags and configs

FLAGS: dict[tuple[str, ...], tuple[int, str]] = {
    ("--eps", "0.5"): (2, "eps: 0.5 is out of range"),
    ("--eps", "nan"): (2, "eps: nan is out of range"),
    ("--tau", "0"): (2, "tau: 0.0 is out of range"),
    ("--degree", "5"): (2, "degree: 5 is odd"),
    ("--certificate-degree", "3"): (2, "certificate_degree: 3 is odd"),
    ("--seed", "-1"): (2, "seed: -1 is out of range"),
    ("--workers", "-3"): (2, "n_workers: -3 is out of range"),
    ("--memory-limit", "much"): (2, "memory_limit: 'much' is not a size"),
    ("--scheduler", "cluster"): (2, "scheduler: 'cluster' is unknown"),
    ("--scheduler", "tcp://127.0.0.1:1"): (1, "scheduler: cannot reach tcp://127.0.0.1:1"),
    ("--scheduler", "ftp://127.0.0.1:1"): (1, "scheduler: cannot reach"),
    ("--storage-option", "anon"): (2, "storage-option|KEY=VALUE"),
    ("--features", "../rows.zarr/X"): (3, "cannot open its array '../rows.zarr/X'"),
    ("--labels", "nothing"): (3, "no array named 'nothing'"),
    ("--resume",): (2, "resume: needs the checkpoint folder"),
    ("--json", "/proc/nowhere/result.json"): (2, "json: '/proc/nowhere/result.json' cannot"),
    ("--config", "/nowhere.yaml"): (2, "/nowhere.yaml: cannot be read"),
}


def test_store__with_a_hostile_path_is_named_on_one_line(tmp_path: Path, capsys: Captured) -> None:
    refused(["test", str(tmp_path / HOSTILE), "--quiet"], 3, r"evil\n\x1b[31mname: no ", capsys)


@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
def test_flags__out_of_range_are_named(flags: tuple[str, ...], good: Path, capsys: Captured) -> None:
    code, words = FLAGS[flags]
    with dask.config.set({"distributed.comm.timeouts.connect": "2s"}):
        refused(["fit", str(good / "rows.zarr"), "--quiet", *flags], code, words, capsys)


CONFIGS = {
    "tab: [": "not YAML",
    "just text": "expected 'name: value' lines, got str",
    "epsilon: 0.1": "unknown parameter 'epsilon'; did you mean 'eps'?",
    "eps: small": "eps: 'small' is not a number",
    "seed: 1.5": "seed: 1.5 is not a whole number",
    "storage_options: [anon]": "storage_options: expected 'name: value' lines",
    "eps: !!python/object/apply:os.system ['echo no']": "not YAML",
    "memory_limit: lots": "memory_limit: 'lots' is not a size",
    "seed: " + "9" * 5000: "not YAML",
    "eps: &a [*a]": "eps",
    "# " + "x" * (1 << 20): "not a configuration",
}


@pytest.mark.parametrize("text", CONFIGS, ids=lambda text: text[:40])
def test_config__that_is_wrong_is_named(text: str, good: Path, tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    command = ["fit", str(good / "rows.zarr"), "--quiet", "--config", str(file)]
    refused(command, 2, CONFIGS[text], capsys)


def test_scheduler_file__without_an_address_is_named(good: Path, tmp_path: Path, capsys: Captured) -> None:
    for text in ("", "{}", "[]", '{"address": 7}', '{"address": "nonsense"}', "\x00"):
        file = tmp_path / "scheduler.json"
        file.write_text(text)
        command = ["test", str(good / "rows.zarr"), "--quiet", "--scheduler", str(file)]
        refused(command, 1, f"scheduler: cannot reach {file}", capsys)


# ------------------------------------------------------------------------------- result documents


def changed(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda document: {**document, **changes}


def resealed(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda document: to_json(seal(from_json(FitResult, document | changes)))


def without(key: str) -> Callable[[dict[str, Any]], Any]:
    return lambda document: {k: v for k, v in document.items() if k != key}


RESULTS: dict[str, tuple[Callable[[dict[str, Any]], Any], int, str]] = {
    "null": (lambda document: None, 3, "expected object"),
    "another schema": (changed(schema="other-1"), 3, "schema: invalid enum value 'other-1'"),
    "no verdict": (without("verdict"), 3, "object missing required field verdict"),
    "unknown key": (changed(colour="red"), 3, "object contains unknown field colour"),
    "eps text": (changed(eps="0.1"), 3, "eps: expected float, got '0.1'"),
    "passes an object": (changed(passes={}), 3, "passes: expected array, got {}"),
    "normal of text": (changed(halfspace={"normal": ["a"]}), 3, "normal[0]: expected float"),
    "edited": (changed(verdict="rejected"), 3, "bad.json: the file was changed after fit wrote"),
    "no halfspace": (resealed(halfspace=None), 2, "bad.json: the run was accepted and has no"),
    "of other features": (resealed(halfspace={"normal": [1.0] * 5, "offset": 0.0}), 3, "2 features|model has 5"),
}


@pytest.mark.parametrize("name", RESULTS)
def test_result__that_is_no_result_is_named(name: str, good: Path, tmp_path: Path, capsys: Captured) -> None:
    change, code, words = RESULTS[name]
    file = tmp_path / "bad.json"
    file.write_text(json.dumps(change(json.loads((good / "result.json").read_text()))))
    out = tmp_path / "out.zarr"
    command = ["predict", str(good / "rows.zarr"), "--model", str(file), "--out", str(out)]
    refused([*command, "--quiet"], code, words, capsys)
    assert not out.exists()


RAW = {
    "empty": (b"", "not JSON"),
    "half": (b'{"schema": "streamhalf-fit-1", "verd', "not JSON"),
    "binary": (b"\x80\x04\x95pickle", "not JSON"),
    "deep": (b"[" * 100_000, "not JSON"),
    "long number": (b"9" * 5000, "not JSON"),
    "NaN": (b'{"schema": "streamhalf-fit-1", "eps": NaN}', "not JSON: NaN is no"),
}


@pytest.mark.parametrize("name", RAW)
def test_result__that_is_no_json_is_named(name: str, good: Path, tmp_path: Path, capsys: Captured) -> None:
    content, words = RAW[name]
    file = tmp_path / "bad.json"
    file.write_bytes(content)
    store = str(good / "rows.zarr")
    refused(["verify", str(file), store, "--quiet"], 3, words, capsys)
    refused(["certify", store, "--weights", str(file), "--quiet"], 3, words, capsys)


# --------------------------------------------------------------------------------------- weights


class Explosive:
    """A pickle that would run anything when it is read."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("exploded",)


def npy(array: Any, *, allow_pickle: bool = False) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=allow_pickle)
    return buffer.getvalue()


def header(shape: str, descr: str = "<f8") -> bytes:
    """A .npy header that promises what does not follow."""
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


WEIGHTS: dict[str, tuple[str, bytes, int, str]] = {
    "pickle": ("w.npy", npy(np.array([Explosive()], object), allow_pickle=True), 3, "not an array of numbers"),
    "bare pickle": ("w.npy", b"\x80\x04\x95\x00.", 3, "not an array of numbers"),
    "cut": ("w.npy", npy(np.ones(2))[:-3], 3, "not an array of numbers"),
    "vast": ("w.npy", header("(10000000000000000,)"), 3, "not an array of numbers"),
    "archive": ("w.npy", b"PK\x03\x04" + bytes(100), 3, "not an array of numbers"),
    "table": ("w.npy", npy(np.ones((2, 2))), 3, "expected one vector"),
    "complex": ("w.npy", npy(np.ones(2, complex)), 3, "not an array of real numbers"),
    "text": ("w.npy", npy(np.array(["a", "b"])), 3, "not an array of real numbers"),
    "short": ("w.npy", npy(np.ones(1)), 2, ": shape (1,); the data have 2"),
    "NaN": ("w.npy", npy(np.array([1.0, np.nan])), 2, ": must be finite"),
    "zeros": ("w.npy", npy(np.zeros(2)), 2, ": must be finite and not all 0"),
    "JSON text": ("w.json", b'["a", "b"]', 3, "normal[0]: expected float"),
    "JSON number": ("w.json", b"7", 3, "expected object"),
    "JSON infinite": ("w.json", b"[1e999, 1]", 2, ": must be finite"),
    "JSON offset": ("w.json", b'{"normal": [1, 2], "offset": "x"}', 3, "offset: expected float"),
    "JSON vast": ("w.json", b"[1" + b"0" * 4000 + b", 1]", 3, "a number of 4001 digits"),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights__that_are_none_are_named(
    name: str, good: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file_name, content, code, words = WEIGHTS[name]
    file = tmp_path / file_name
    file.write_bytes(content)
    command = ["certify", str(good / "rows.zarr"), "--weights", str(file), "--quiet"]
    refused(command, code, words, capsys)
    assert not (tmp_path / "exploded").exists()


def test_weights__of_too_many_bytes_are_not_read(good: Path, tmp_path: Path, capsys: Captured) -> None:
    for name, words in (("w.npy", "not a vector of weights"), ("w.json", "not a result file")):
        file = tmp_path / name
        file.touch()
        os.truncate(file, 65 << 20)  # sparse: it takes no room
        command = ["certify", str(good / "rows.zarr"), "--weights", str(file), "--quiet"]
        refused(command, 3, words, capsys)


# ----------------------------------------------------------------------------------- checkpoints


def manifest(folder: Path, **changes: Any) -> None:
    edit_in_place(folder / "manifest.json", **changes)


def identity(folder: Path, old: str, new: str) -> None:
    """Change what the manifest says of the run."""
    text = json.dumps(json.loads((folder / "manifest.json").read_text())["identity"])
    assert old in text
    manifest(folder, identity=json.loads(text.replace(old, new)))


def first_pass(folder: Path, **changes: Any) -> None:
    """Change what the manifest says of the first pass."""
    passes = json.loads((folder / "manifest.json").read_text())["passes"]
    manifest(folder, passes=[{**passes[0], **changes}, *passes[1:]])


def replace_pass(content: bytes) -> Act:
    """Another file for the first pass, with the digest that belongs to it."""

    def act(folder: Path) -> None:
        (folder / "pass-000.npz").write_bytes(content)
        first_pass(folder, digest=hashlib.sha256(content).hexdigest())

    return act


def archive(change: Callable[[dict[str, bytes]], dict[str, bytes]]) -> Act:
    """Change the members of the first pass's archive; its digest is set right."""

    def act(folder: Path) -> None:
        with zipfile.ZipFile(folder / "pass-000.npz") as old:
            members = {name: old.read(name) for name in old.namelist()}
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new:
            for name, content in change(members).items():
                new.writestr(name, content)
        replace_pass(buffer.getvalue())(folder)

    return act


def member(content: bytes) -> Act:
    return archive(lambda members: {**members, "arr_0.npy": content})


BOMB = npy(np.zeros(1 << 24))  # 128 MiB of zeros, which deflate to 128 KiB
PICKLED = npy(np.array([Explosive()], object), allow_pickle=True)

CHECKPOINTS: dict[str, tuple[Act, int, str]] = {
    "manifest a list": (lambda f: (f / "manifest.json").write_text("[]"), 3, "expected object, got"),
    "manifest vast": (lambda f: os.truncate(f / "manifest.json", 1 << 34), 3, "manifest.json: more than"),
    "manifest a folder": (
        lambda f: (f / "manifest.json").unlink() or (f / "manifest.json").mkdir(),
        3,
        "manifest.json: not a plain file",
    ),
    "another schema": (lambda f: manifest(f, schema="x"), 3, "schema: invalid enum value 'x'"),
    "identity damaged": (lambda f: manifest(f, identity="x"), 3, "identity: expected"),
    "identity of another": (
        lambda f: identity(f, '"degree": 4', '"degree": 2'),
        2,
        "is of another run: degree (was 2, is 4)",
    ),
    "seed negative": (lambda f: identity(f, '"seed": 0', '"seed": -5'), 2, "seed: -5 is out of"),
    "path upwards": (lambda f: first_pass(f, file="../pass-000.npz"), 3, "'../pass-000.npz'"),
    "path of another": (lambda f: first_pass(f, file="pass-001.npz"), 3, "'pass-001.npz'"),
    "name of another": (
        lambda f: first_pass(f, record=json.loads((f / "manifest.json").read_text())["passes"][1]["record"]),
        3,
        "is of pass 'initial', but 'sample' is next",
    ),
    "rows of another": (lambda f: first_pass(f, n_rows=5), 3, "pass 'sample' holds 5 rows of"),
    "pass missing": (lambda f: (f / "pass-000.npz").unlink(), 3, "missing or damaged"),
    "pass flipped": (lambda f: flip(f / "pass-000.npz"), 3, "missing or damaged"),
    "pass vast": (lambda f: os.truncate(f / "pass-000.npz", 1 << 34), 3, "pass-000.npz: more than"),
    "pass a pickle": (replace_pass(b"\x80\x04\x95\x00."), 3, "does not hold the arrays"),
    "arrays pickled": (member(PICKLED), 3, "does not hold the arrays"),
    "arrays vast": (member(header("(10000000000000000,)")), 3, "does not hold the arrays"),
    "arrays a bomb": (member(BOMB), 3, "pass-000.npz"),
    "arrays more": (archive(lambda members: {**members, "more.npy": npy(np.ones(1))}), 3, "does not hold the arrays"),
    "arrays renamed": (
        archive(lambda members: {f"x{name}": value for name, value in members.items()}),
        3,
        "does not hold the arrays",
    ),
}


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_checkpoint__that_is_no_run_of_ours_is_named(
    name: str, good: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    act, code, words = CHECKPOINTS[name]
    folder = tmp_path / "saved"
    shutil.copytree(good / "saved", folder)
    act(folder)
    command = ["fit", str(good / "rows.zarr"), *FIT, "--checkpoint", str(folder), "--resume"]
    refused(command, code, words, capsys)
    assert not (tmp_path / "exploded").exists()


def test_checkpoint__that_holds_a_run_is_not_overwritten(good: Path, tmp_path: Path, capsys: Captured) -> None:
    command = ["fit", str(good / "rows.zarr"), *FIT, "--checkpoint"]
    refused([*command, str(good / "saved")], 2, "holds a run already; add --resume", capsys)
    (tmp_path / "file").touch()
    refused([*command, str(tmp_path / "file")], 2, "file is a file; name a folder", capsys)
    refused([*command, str(good / "saved"), "--resume", "--tau", "0.2"], 2, "tau (was", capsys)


def test_checkpoint__goes_on_with_another_memory_limit(good: Path, tmp_path: Path) -> None:
    shutil.copytree(good / "saved", tmp_path / "saved")
    command = ["fit", str(good / "rows.zarr"), *FIT, "--checkpoint", str(tmp_path / "saved")]
    again = ["--resume", "--memory-limit", "3GiB", "--json", str(tmp_path / "result.json")]
    assert main([*command, *again]) == 0
    results = [json.loads((one / "result.json").read_text()) for one in (good, tmp_path)]
    assert results[0]["halfspace"] == results[1]["halfspace"]
