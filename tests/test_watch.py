"""watch: new rows beside those behind a result."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import zarr
from distributed import Client

import streamhalf
from streamhalf import DataError, FitResult, UsageError
from streamhalf.cli import main
from streamhalf.kernels.binomial import look_tau
from streamhalf.report.notebook import watch_html
from streamhalf.report.watching import details, verdict
from streamhalf.results import Drift, replace
from streamhalf.results.document import read_watch

DIM, BEHIND = 4, 120_000
Rows = tuple[Any, Any]


def draw(
    n_rows: int, seed: int, *, noise: float = 0.05, shift: float = 0.0, turn: float = 0.0, scale: float = 1.0
) -> Rows:
    """Gaussian rows about a mean of 3; the second feature is shifted, the boundary turned towards it."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, DIM))
    y = np.where(math.cos(turn) * X[:, 0] + math.sin(turn) * X[:, 1] >= 0, 1, -1)
    y[rng.random(n_rows) < noise] *= -1
    X[:, 1] = scale * X[:, 1] + shift
    return (X + 3.0).astype(np.float32), y.astype(np.int8)


@pytest.fixture(scope="module")
def result() -> FitResult:
    found = streamhalf.fit(draw(BEHIND, 0), seed=1, certificate_degree=0, scheduler="threads")
    assert found.reference is not None
    return found


def watch(result: FitResult, data: Any, **parameters: Any) -> streamhalf.WatchResult:
    return streamhalf.watch(result, data, scheduler="serial", **parameters)


def said(found: streamhalf.WatchResult) -> str:
    return "\n".join([verdict(found), *details(found)])


def outcomes(found: streamhalf.WatchResult) -> dict[str, Drift]:
    return {one.kind: one.outcome for one in found.statements}


def test_watch__steady_rows__are_steady_when_they_are_many_enough(result: FitResult) -> None:
    """A false statement has probability 1% (tau); the seed is fixed."""
    found = watch(result, draw(120_000, 1), tolerance=0.03)
    assert found.outcome is Drift.STEADY
    assert not found.drifted_stretches
    few = watch(result, draw(2_000, 1))
    assert few.outcome is Drift.INCONCLUSIVE
    assert "rows would tell" in said(few) or "a result of more rows" in said(few)
    assert watch(result, draw(1, 2)).outcome is Drift.INCONCLUSIVE


@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        ({"shift": 0.1}, {"means"}),
        ({"scale": 1.2}, {"spreads", "moments"}),
        ({"noise": 0.08}, {"errors"}),
        ({"turn": math.radians(6)}, {"errors"}),
    ],
    ids=["shift", "scale", "noise", "turn"],
)
def test_watch__names_what_changed(result: FitResult, change: dict[str, float], kinds: set[str]) -> None:
    """Each change is beyond its tolerance by 8 standard errors or more; nothing else moved (tau = 1%)."""
    found = watch(result, draw(100_000, 3, **change))
    assert found.outcome is Drift.DRIFTED
    drifted = {kind for kind, outcome in outcomes(found).items() if outcome is Drift.DRIFTED}
    assert kinds <= drifted <= kinds | {"moments", "means", "spreads"}
    if kinds == {"means"}:
        (one,) = (one for one in found.statements if one.kind == "means")
        assert one.subject == "x2"
        assert (one.behind, one.new) == (pytest.approx(3.0, abs=0.02), pytest.approx(3.1, abs=0.02))


def test_watch__a_change_below_the_tolerance__never_drifts(result: FitResult) -> None:
    """Of so many rows chance alone would find a shift of 0.015; T - q > 0.025 has probability below 1e-6."""
    found = watch(result, draw(1_000_000, 4, shift=0.015))
    assert outcomes(found)["means"] is not Drift.DRIFTED


def test_watch__rows_in_new_units__drift_as_they_are_never_scaled_anew(result: FitResult) -> None:
    X, y = draw(5_000, 5)
    assert watch(result, (10 * X + 50, y)).outcome is Drift.DRIFTED


def test_watch__without_labels__compares_features_and_bounds_nearby_halfspaces(result: FitResult) -> None:
    X, _ = draw(20_000, 6)
    found = watch(result, X)
    assert not found.labelled
    assert set(outcomes(found)) == {"means", "spreads", "moments", "slabs", "acceptance", "predictions"}
    assert found.beta == pytest.approx(found.beta_behind, rel=0.05)
    pressed = watch(result, np.column_stack([3 + 0.05 * (X[:, 0] - 3), X[:, 1:]]).astype(np.float32))
    assert pressed.beta > 1.5 * found.beta  # all rows are near the boundary


def test_watch__labels_that_go_wrong_for_a_while__are_found_in_their_rows(result: FitResult) -> None:
    """Errors of 23% beside 5% in 1,562 rows: 30 standard errors."""
    X, y = draw(50_000, 7)
    bad = slice(20_000, 24_000)
    y[bad][np.random.default_rng(8).random(4_000) < 0.2] *= -1
    found = watch(result, (X, y))
    assert outcomes(found)["errors"] is Drift.DRIFTED
    (one,) = found.drifted_stretches
    assert 18_500 < one.start < 22_000  # stretches are a 32nd of the rows
    assert 23_400 < one.stop < 25_500
    assert "Labels went wrong in rows" in said(found)


def test_watch__the_order_of_rows_excuses_nothing(result: FitResult) -> None:
    X, y = draw(60_000, 9, shift=0.2)
    order = np.argsort(X[:, 1])
    for rows in ((X, y), (X[order], y[order])):
        assert outcomes(watch(result, rows))["means"] is Drift.DRIFTED


def test_watch__clusters_behind_the_result__make_its_means_less_sure() -> None:
    """Rows come in blocks with means of their own: new blocks are no drift."""

    def blocks(n_rows: int, seed: int) -> Rows:
        X, y = draw(n_rows, seed)
        X[:, 2] += np.repeat(np.random.default_rng(seed).standard_normal(n_rows // 500), 500).astype(np.float32)
        return X, y

    clustered = streamhalf.fit(blocks(60_000, 0), seed=1, certificate_degree=0, scheduler="serial")
    assert clustered.reference is not None
    assert clustered.reference.factors[2] > 50
    assert outcomes(watch(clustered, blocks(20_000, 2)))["means"] is not Drift.DRIFTED


def test_watch__looks_share_tau__and_are_kept(result: FitResult, tmp_path: Path) -> None:
    state = tmp_path / "looks"
    for look in (1, 2, 3):
        found = watch(result, draw(3_000, 10 + look), state=state)
        assert found.look == look
        assert found.tau_spent == look_tau(found.tau, look)
        assert [one.look for one in found.history] == list(range(1, look + 1))
        one = found.history[-1]
        assert one.error_low is not None
        assert one.error is not None
        assert one.error_high is not None
        assert one.error_low < one.error < one.error_high
    assert sorted(path.name for path in state.iterdir()) == [f"look-{look:06d}.json" for look in (1, 2, 3)]
    chance = [watch(result, draw(3_000, 20), state=place).statements[0].chance for place in (None, state)]
    assert chance[0] < chance[1]
    assert result.halfspace is not None
    other = replace(result, halfspace=replace(result.halfspace, offset=1.0), digest="")
    with pytest.raises(UsageError, match="holds looks at rows behind another halfspace"):
        watch(other, draw(3_000, 20), state=state)
    (state / "look-000002.json").write_text("{")
    with pytest.raises(DataError, match=r"look-000002.json: not JSON"):
        watch(result, draw(3_000, 20), state=state)


def test_watch__page_and_card__draw_looks_and_stretches(result: FitResult, tmp_path: Path) -> None:
    for look in range(3):
        found = watch(result, draw(4_000, 30 + look, shift=0.2 * look), state=tmp_path / "looks")
    page = found.to_html()
    assert page.count("<figure>") == 3
    assert "Drift by feature over looks" in page
    assert "Rows have drifted: mean of x2" in watch_html(found)
    assert found.history[2].shifts[1] == pytest.approx(0.4, abs=0.06)


def test_watch__threads_and_a_cluster__say_the_same(result: FitResult, client: Client, tmp_path: Path) -> None:
    store = tmp_path / "new.zarr"
    X, y = draw(40_000, 11)
    group = zarr.open_group(store, mode="w")
    group.create_array("X", data=X, chunks=(4_000, DIM))
    group.create_array("y", data=y, chunks=(4_000,))
    here = streamhalf.watch(result, store, scheduler="threads")
    there = streamhalf.watch(result, store, client=client)
    assert (there.statements, there.stretches, there.beta) == (here.statements, here.stretches, here.beta)


def test_watch__tables__encodes_new_rows_as_the_fit_did() -> None:
    rng = np.random.default_rng(12)

    def table(n_rows: int, towns: list[str], gaps: float) -> pd.DataFrame:
        age, town = rng.normal(40, 10, n_rows), rng.choice(towns, n_rows)
        bought = np.where((age > 40) ^ (rng.random(n_rows) < 0.05), "yes", "no")
        age[rng.random(n_rows) < gaps] = np.nan
        return pd.DataFrame({"age": age, "town": town, "bought": bought})

    given = {"label": "bought", "scheduler": "serial", "missing": "fill"}
    fitted = streamhalf.fit(table(40_000, ["Aachen", "Bonn"], 0.02), seed=1, certificate_degree=0, **given)
    same = streamhalf.watch(fitted, table(20_000, ["Aachen", "Bonn"], 0.02), **given)
    assert same.outcome is not Drift.DRIFTED
    new = streamhalf.watch(fitted, table(20_000, ["Aachen", "Bonn", "Celle"], 0.2), **given)
    assert {"means"} <= {one.kind for one in new.statements if one.outcome is Drift.DRIFTED}
    assert any("town" in one.subject or "age" in one.subject for one in new.columns)
    one_class = table(20_000, ["Aachen", "Bonn"], 0.02).assign(bought="yes")
    found = streamhalf.watch(fitted, one_class, scheduler="serial")  # label and gaps as the result has them
    assert next(one for one in found.statements if one.kind == "labels").new == 1.0


@pytest.mark.parametrize(
    ("spoil", "error", "words"),
    [
        (lambda one: replace(one, reference=None, digest=""), UsageError, "holds nothing to compare"),
        (lambda one: replace(one, tau=0.5), DataError, "was changed after fit returned it"),
    ],
)
def test_watch__refuses_results_without_a_reference_and_changed_ones(
    result: FitResult, spoil: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        watch(spoil(result), draw(1_000, 13))


@pytest.mark.parametrize(
    ("data", "parameters", "words"),
    [
        (lambda: draw(1_000, 13)[0][:, :3], {}, "3 features; the result is of 4"),
        (lambda: (draw(1_000, 13)[0], np.tile([7, 9], 500)), {}, "labels 7 and 9; the result knows -1 and 1"),
        (lambda: draw(1_000, 13), {"tolerance": 0.0}, "tolerance: 0 given; must be a share of rows"),
    ],
)
def test_watch__refuses_other_data(result: FitResult, data: Any, parameters: dict[str, float], words: str) -> None:
    with pytest.raises((DataError, UsageError), match=words):
        watch(result, data(), **parameters)


def test_watch__one_label_alone__is_read_as_the_fit_read_it(result: FitResult) -> None:
    X, y = draw(4_000, 14)
    found = watch(result, (X[y > 0], y[y > 0]))
    (labelled,) = (one for one in found.statements if one.kind == "labels")
    assert labelled.new == 1.0
    coded = streamhalf.fit((draw(20_000, 0)[0], draw(20_000, 0)[1] > 0), seed=1, certificate_degree=0)
    found = watch(coded, (X[y > 0], (y[y > 0] > 0).astype(np.int8)))
    assert next(one for one in found.statements if one.kind == "labels").new == 1.0


def test_command__exit_codes_json_and_page(
    result: FitResult, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, saved, out, page = (tmp_path / name for name in ("new.zarr", "result.json", "watch.json", "watch.html"))
    X, y = draw(20_000, 15, noise=0.12)
    group = zarr.open_group(store, mode="w")
    group.create_array("X", data=X, chunks=(4_000, DIM))
    group.create_array("y", data=y, chunks=(4_000,))
    result.save(saved)
    begin = ["watch", str(saved), str(store), "--quiet"]
    assert main([*begin, "--json", str(out), "--report", str(page), "--state", str(tmp_path / "looks")]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) <= 20
    assert max(map(len, shown)) <= 80
    assert any("DRIFTED" in line for line in shown)
    assert read_watch(out).outcome is Drift.DRIFTED
    assert "Rows have drifted" in page.read_text("utf-8")
    with_section = tmp_path / "result.html"
    assert main(["report", str(saved), "--watch", str(out), "--out", str(with_section)]) == 0
    assert '<section id="watch"' in with_section.read_text("utf-8")
    assert main([*begin, "--require", "steady"]) == 10
    assert main([*begin, "--require", "steady", "--tolerance", "0.3"]) == 0
    assert main(["watch", str(saved), str(store), "--quiet", "--state", str(store / "looks")]) == 2
