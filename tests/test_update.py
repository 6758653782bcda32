"""`fit --state` and `update`: data that grew, of which only the new rows are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import streamhalf
from streamhalf import DataError, FitResult, StreamhalfError, UsageError
from streamhalf.algorithms.kept import KeptState
from streamhalf.cli import run as command
from streamhalf.engine.checkpoint import leaves
from streamhalf.paths import Folder
from streamhalf.results import is_as_written
from tests.conftest import make_rows, slowly

Rows = tuple[NDArray[np.float64], NDArray[np.int8]]
OLD, ALL, DIM = 30_000, 45_000, 3
SERIAL = {"scheduler": "serial", "seed": 5}


def draw(n_rows: int = ALL, dim: int = DIM, tails: bool = False) -> Rows:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n_rows, dim))
    y = np.where(X[:, 0] + X[:, 1] >= 0, 1, -1).astype(np.int8)
    y[rng.random(n_rows) < 0.05] *= -1
    if tails:
        X *= rng.standard_t(2, n_rows)[:, None]
        y[X[:, 0] + X[:, 1] >= 0] = 1
    return X, y


def first(rows: Rows, n_rows: int = OLD) -> Rows:
    return rows[0][:n_rows], rows[1][:n_rows]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"feature_transform": "radial"},
        {"certificate_degree": 0},
        *slowly([{"feature_transform": "isotropic"}]),
        {"dim": 66, "certificate_degree": 0},
    ],
    ids=str,
)
def test_update__equals_a_run_over_all_rows(settings: dict[str, Any], tmp_path: Path) -> None:
    dim = settings.pop("dim", DIM)
    rows = draw(dim=dim, tails=settings.get("feature_transform") == "radial")
    state = tmp_path / "state"
    one = streamhalf.fit(first(rows), state=state, **SERIAL, **settings)
    two = streamhalf.update(one, rows, state=state, scheduler="serial")
    assert two.halfspace == one.halfspace
    assert [(look.start, look.stop) for look in two.looks] == [(0, OLD), (OLD, ALL)]
    assert sum(record.rows_read for record in two.passes) == ALL - OLD
    assert sum(look.tau for look in two.looks) < 0.01
    assert two.tau == two.looks[1].tau
    assert two.looks[1].seed != two.looks[0].seed
    # the error of all rows that no update of the path used
    assert one.error is not None
    assert two.error is not None
    assert one.halfspace is not None
    new_errors = one.halfspace.plane.errors(rows[0][OLD:], rows[1][OLD:])
    counted = round(two.error.empirical * two.error.n_rows) - round(one.error.empirical * one.error.n_rows)
    assert (counted, two.error.n_rows - one.error.n_rows) == (new_errors, ALL - OLD)
    assert KeptState.load(Folder(str(state))).result == two
    if one.certificate is None:
        return
    assert two.certificate is not None
    assert two.certificate.n_errors == one.halfspace.plane.errors(*rows)
    again = streamhalf.certify(rows, weights=one.halfspace, **SERIAL, certificate_degree=2)
    assert two.certificate.digest == again.certificate.digest
    assert streamhalf.verify(two, rows, scheduler="serial").holds


def test_update__sums_are_those_of_any_other_split(tmp_path: Path) -> None:
    """Two updates give the partials of one, but for the seeds that samples are drawn with."""
    rows = draw()
    streamhalf.update(streamhalf.fit(first(rows), state=tmp_path / "a", **SERIAL), rows, state=tmp_path / "a")
    one = streamhalf.fit(first(rows), state=tmp_path / "b", **SERIAL)
    half = streamhalf.update(one, first(rows, 40_000), state=tmp_path / "b")
    streamhalf.update(half, rows, state=tmp_path / "b")
    once, twice = (KeptState.load(Folder(str(tmp_path / name))) for name in "ab")
    for left, right in zip(leaves(once.closing), leaves(twice.closing), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-6)


def test_update__without_new_rows__returns_the_result(tmp_path: Path) -> None:
    rows = draw()
    one = streamhalf.fit(rows, state=tmp_path / "state", **SERIAL)
    assert streamhalf.update(one, rows, state=tmp_path / "state") is one


@pytest.fixture(scope="module")
def updated(tmp_path_factory: pytest.TempPathFactory) -> tuple[FitResult, FitResult, Rows, Path]:
    state, rows = tmp_path_factory.mktemp("kept") / "state", draw()
    one = streamhalf.fit(first(rows), state=state, **SERIAL)
    return one, streamhalf.update(one, first(rows, 40_000), state=state), rows, state


def changed(rows: Rows, row: int) -> Rows:
    y = rows[1].copy()
    y[row] *= -1
    return rows[0], y


@pytest.mark.parametrize(
    ("spoil", "settings", "said"),
    [
        (lambda rows: first(rows), {}, "30,000 rows; the result has 40,000"),
        (lambda rows: (rows[0][:, :2], rows[1]), {}, "2 features; the result has 3 features"),
        (lambda rows: (rows[0][::-1], rows[1][::-1]), {}, "first 40,000 rows are not those of the result"),
        (lambda rows: changed(rows, 12_345), {"check_old": True}, "their digest differs"),
        (lambda rows: rows, {"feature_transform": "radial"}, "feature_transform: an update keeps the settings"),
    ],
)
def test_update__refuses_other_data__and_writes_nothing(
    spoil: Any, settings: dict[str, Any], said: str, updated: tuple[FitResult, FitResult, Rows, Path]
) -> None:
    _, two, rows, state = updated
    before = {one.name: one.read_bytes() for one in state.iterdir()}
    with pytest.raises(StreamhalfError, match=said):
        streamhalf.update(two, spoil(rows), state=state, **settings)
    assert {one.name: one.read_bytes() for one in state.iterdir()} == before


def test_update__refuses_an_older_result_and_a_damaged_state(
    updated: tuple[FitResult, FitResult, Rows, Path], tmp_path: Path
) -> None:
    one, two, rows, state = updated
    with pytest.raises(UsageError, match="2 looks at 40,000 rows"):
        streamhalf.update(one, rows, state=state)
    with pytest.raises(UsageError, match="holds no state"):
        streamhalf.update(one, rows, state=tmp_path)
    with pytest.raises(UsageError, match="holds a state already"):
        streamhalf.fit(rows, state=state)
    manifest = json.loads((state / "state.json").read_text())
    for name in (manifest["file"], "state.json"):
        copy = tmp_path / name
        copy.mkdir()
        for file in state.iterdir():
            content = bytearray(file.read_bytes())
            if file.name == name:
                content[len(content) // 2] ^= 1
            (copy / file.name).write_bytes(content)
        with pytest.raises(DataError, match="damaged"):
            streamhalf.update(two, rows, state=copy)


def test_update__on_the_command_line__of_a_store_that_grew(tmp_path: Path) -> None:
    import zarr

    X, y = draw()
    group = zarr.open_group(tmp_path / "data.zarr", mode="w")
    group.create_array("X", data=X[:OLD], chunks=(4096, DIM))
    group.create_array("y", data=y[:OLD], chunks=(4096,))
    store, state, result, new = (str(tmp_path / name) for name in ("data.zarr", "state", "result.json", "new.json"))
    assert command(["fit", store, "--state", state, "--json", result, "--quiet"]) == 0
    for name, rows in (("X", X), ("y", y)):
        array: Any = group[name]
        array.resize((ALL, DIM) if name == "X" else (ALL,))
        array[OLD:] = rows[OLD:]
    assert command(["update", result, store, "--state", state, "--json", new, "--quiet"]) == 0
    found = streamhalf.read_result(new)
    assert isinstance(found, FitResult)
    assert is_as_written(found)
    assert (found.data.rows, found.passes[0].rows_read) == (ALL, ALL - OLD)
    assert command(["verify", new, store, "--quiet"]) == 0
    assert command(["update", result, store, "--state", state, "--quiet"]) == 2


def test_update__of_a_frame_takes_the_label_and_the_gaps_of_the_fit(tmp_path: Path) -> None:
    X, y = make_rows(1_500, 3)
    frame = pd.DataFrame(X, columns=list("abc")).assign(bought=np.where(y > 0, "no", "yes"))
    frame.loc[::50, "a"] = np.nan
    given: dict[str, Any] = {"label": "bought", "positive": "no", "missing": "drop", "certificate_degree": 0}
    state = tmp_path / "state"
    result = streamhalf.fit(frame[:1_000], seed=1, state=state, **given)
    found = streamhalf.update(result, frame, state=state)
    assert (found.data.rows, found.data.classes) == (1_470, ("yes", "no"))
