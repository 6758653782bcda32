"""Totals of a cluster's runs, as Prometheus reads them."""

from __future__ import annotations

from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry, generate_latest

from streamhalf.engine.live_messages import RunClosed, encode
from streamhalf.events import PassEnded, PassStarted, RunEnded, RunStarted, Watched
from streamhalf.report.dashboard import Totals
from streamhalf.report.live import Board
from streamhalf.results import Drift, DriftStatement, PassRecord, Verdict

RECORD = PassRecord("initial", 400, 8000, 300, 2.0)


def told(*runs: tuple[str, Any]) -> str:
    board = Board()
    totals = Totals(board)
    for run, event in runs:
        message = encode(run, [(1.0, event)])
        board.take(message)
        totals.take(message)
    registry = CollectorRegistry()
    registry.register(totals)
    return generate_latest(registry).decode()


def test_totals__count_rows_passes_and_runs() -> None:
    text = told(
        ("a", RunStarted("fit", "rows.zarr", 400, 2)),
        ("b", RunStarted("fit", "rows.zarr", 400, 2)),
        ("c", RunStarted("test", "rows.zarr", 400, 2)),
        ("a", PassStarted("initial", 400, 4)),
        ("a", PassEnded(RECORD)),
        ("b", PassEnded(RECORD)),  # from a checkpoint: nothing was read
        ("a", RunEnded(Verdict.REJECTED)),
        ("a", RunClosed()),
        ("b", RunClosed("no such rows")),
    )
    assert "\nstreamhalf_rows_total 400.0\n" in text
    assert "\nstreamhalf_passes_total 1.0\n" in text
    assert '\nstreamhalf_runs_total{verdict="rejected"} 1.0\n' in text
    assert '\nstreamhalf_runs_total{verdict="failed"} 1.0\n' in text
    assert "\nstreamhalf_runs_under_way 1.0\n" in text


def test_totals__tell_what_the_latest_watch_found() -> None:
    drifted = DriftStatement("errors", "", Drift.DRIFTED, 0.05, 0.09, 0.04, 0.01, 0.01, 1, 1)
    steady = DriftStatement("means", "x1", Drift.STEADY, 0.0, 0.0, 0.005, 0.01, 0.025, 4)
    text = told(
        ("a", RunStarted("watch", "new.zarr", 400, 4)),
        ("a", Watched(Drift.DRIFTED, 3, (steady, drifted))),
        ("a", RunClosed()),
    )
    assert '\nstreamhalf_runs_total{verdict="drifted"} 1.0\n' in text
    assert '\nstreamhalf_watch_outcome{outcome="drifted"} 1.0\n' in text
    assert '\nstreamhalf_watch_outcome{outcome="steady"} 0.0\n' in text
    assert '\nstreamhalf_watch_distance{kind="errors"} 4.0\n' in text
    assert '\nstreamhalf_watch_drifted{kind="means"} 0.0\n' in text
    assert "\nstreamhalf_watch_error 0.09\n" in text


def test_totals__of_the_latest_scheduler_in_a_process_are_asked_for() -> None:
    def asked() -> str:
        return generate_latest(REGISTRY).decode()

    before = Totals(Board())
    before.rows = 1
    before.register()
    latest = Totals(Board())
    latest.rows = 2
    latest.register()
    latest.register()
    before.unregister()
    assert "\nstreamhalf_rows_total 2.0\n" in asked()
    latest.unregister()
    assert "streamhalf" not in asked()


def test_totals__pass_over_what_is_none_of_ours() -> None:
    totals = Totals(Board())
    totals.take("nonsense")
    totals.take(encode("forgotten", [(1.0, RunClosed())]))
    assert (totals.rows, totals.passes, totals.runs) == (0, 0, {})
