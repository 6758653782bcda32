"""Prometheus metrics of runs on a cluster, beside those of the Dask scheduler.

They are on the scheduler's /metrics where `prometheus_client` is installed, as Dask's own are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from streamhalf import events
from streamhalf.engine.live_messages import RunClosed, decode
from streamhalf.report.live import Board
from streamhalf.results import Drift

_registered: list[Totals] = []


class Totals:
    """Rows and passes that were read, and runs by what became of them, since the page came up."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._under_way: dict[str, set[str]] = {}
        self.rows = 0
        self.passes = 0
        self.runs: Counter[str] = Counter()
        self.watched: events.Watched | None = None

    def take(self, message: Any) -> None:
        """Count what a message says, after the board has taken it in."""
        run, happenings = decode(message)
        for _, event in happenings:
            match event:
                case events.PassStarted(name):
                    self._under_way.setdefault(run, set()).add(name)
                case events.PassEnded(record) if record.name in self._under_way.get(run, ()):
                    self.rows += record.rows_read  # not those that come from a checkpoint
                    self.passes += 1
                case events.Watched():
                    self.watched = event
                case RunClosed() if run in self._board.runs:
                    self.runs[self._board.runs[run].status] += 1
                    self._under_way.pop(run, None)

    def collect(self) -> Iterator[Any]:
        """Yield the metrics for Prometheus."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        yield CounterMetricFamily("streamhalf_rows", "Rows that passes have read", value=self.rows)
        yield CounterMetricFamily("streamhalf_passes", "Passes that are complete", value=self.passes)
        runs = CounterMetricFamily("streamhalf_runs", "Runs that are over", labels=["verdict"])
        for verdict, count in sorted(self.runs.items()):
            runs.add_metric([verdict], count)
        yield runs
        if self.watched is not None:
            yield from _drift(self.watched)
        under_way = len(self._board.under_way())
        yield GaugeMetricFamily("streamhalf_runs_under_way", "Runs under way", value=under_way)

    def register(self) -> None:
        """Have Prometheus ask this one of all in the process, unless its library is not there."""
        try:
            from prometheus_client import REGISTRY
        except ModuleNotFoundError:
            return
        for other in tuple(_registered):
            other.unregister()
        REGISTRY.register(self)
        _registered.append(self)

    def unregister(self) -> None:
        """Be asked no more."""
        if self in _registered:
            from prometheus_client import REGISTRY

            _registered.remove(self)
            REGISTRY.unregister(self)


def _drift(watched: events.Watched) -> Iterator[Any]:
    """Yield what the latest watch found, by kind of quantity."""
    from prometheus_client.core import GaugeMetricFamily

    outcome = GaugeMetricFamily("streamhalf_watch_outcome", "Outcome of the latest watch", labels=["outcome"])
    for one in Drift:
        outcome.add_metric([str(one)], float(watched.outcome is one))
    yield outcome
    apart = GaugeMetricFamily(
        "streamhalf_watch_distance", "Distance from the rows behind the result over its tolerance", labels=["kind"]
    )
    drifted = GaugeMetricFamily("streamhalf_watch_drifted", "Quantities that have drifted", labels=["kind"])
    for found in watched.statements:
        apart.add_metric([found.kind], found.distance / found.tolerance)
        drifted.add_metric([found.kind], found.n_drifted)
    yield from (apart, drifted)
    errors = next((one for one in watched.statements if one.kind == "errors"), None)
    if errors is not None:
        yield GaugeMetricFamily("streamhalf_watch_error", "Error on the rows of the latest watch", value=errors.new)
