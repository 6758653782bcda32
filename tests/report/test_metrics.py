"""Totals of a cluster's runs, as Prometheus reads them."""

from __future__ import annotations

from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry, generate_latest

from streamhalf.engine.live_messages import RunClosed, encode
from streamhalf.events import PassEnded, PassStarted, RunEnded, RunStarted, Watched
from streamhalf.report.dashboard import Metrics
from streamhalf.report.live import Board
from streamhalf.results import Drift, DriftStatement, PassRecord, Verdict

RECORD = PassRecord("initial", 400, 8000, 300, 2.0)


def told(*runs: tuple[str, Any]) -> str:
    board = Board()
    for run, event in runs:
        board.take(encode(run, [(1.0, event)]))
    registry = CollectorRegistry()
    registry.register(Metrics(board))
    return generate_latest(registry).decode()


def test_metrics__count_rows_passes_and_runs() -> None:
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


def test_metrics__tell_what_the_latest_watch_found() -> None:
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


def test_metrics__of_the_latest_scheduler_in_a_process_are_asked_for() -> None:
    def asked() -> str:
        return generate_latest(REGISTRY).decode()

    boards = Board(), Board()
    boards[0].rows, boards[1].rows = 1, 2
    before, latest = map(Metrics, boards)
    before.register()
    latest.register()
    latest.register()
    before.unregister()
    assert "\nstreamhalf_rows_total 2.0\n" in asked()
    latest.unregister()
    assert "streamhalf" not in asked()


def test_board__counts_nothing_of_a_run_that_is_forgotten() -> None:
    board = Board()
    board.take("nonsense")
    board.take(encode("forgotten", [(1.0, RunClosed())]))
    assert (board.rows, board.passes, board.ended) == (0, 0, {})
