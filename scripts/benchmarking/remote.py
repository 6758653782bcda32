"""A fit from object storage against the same fit from a local disk, near and far away."""

from __future__ import annotations

import contextlib
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import streamhalf
from scripts.benchmarking.slow_line import SlowLine, open_line
from scripts.benchmarking.stores import Folder
from scripts.benchmarking.tables import Criterion, Table
from streamhalf.engine import memory
from tests.comparing import comparable
from tests.s3_server import start_server  # a real one, from the packages of Ceph

DIM = 8
_BUCKET = "rows"
LINES = {"S3": {}, "S3, 40 ms, 60 MB/s a connection": {"delay": 0.04, "rate": 60e6}}
_MOST = {"S3": 1.5, "S3, 40 ms, 60 MB/s a connection": 2.5}
_WINDOWS: dict[str, Any] = {"scheduler": "threads", "n_workers": 2, "seed": 0, "sampling": "windows"}


def measure(folder: Folder, *, rows: int, rounds: int) -> Table:
    """Fits with all that was fetched kept in memory, and with nothing kept."""
    store = folder.store(rows, DIM)
    files = [file for file in Path(store).rglob("*") if file.is_file()]
    n_chunks = sum("c" in file.relative_to(store).parts for file in files)
    nbytes = sum(file.stat().st_size for file in files)
    lines, criteria = [], []
    with tempfile.TemporaryDirectory() as scratch, start_server(Path(scratch)) as server:
        _upload(store, server.options)
        for name, line_options in LINES.items():
            for kept in (True, False):
                with open_line(server.port, **line_options) as line, _keeping(kept):
                    address = {"endpoint_url": f"http://127.0.0.1:{line.port}"}
                    found = _take_turns(store, {**server.options, **address}, line, rounds)
                moved = found["nbytes"] / nbytes
                asked = found["GET"] / (n_chunks * moved)
                cells = (moved, found["GET"], found["HEAD"], asked)
                same = "yes" if found["same"] else "NO"
                other = float(not found["same"])
                words = "in memory" if kept else "nothing"
                lines.append((name, words, *cells, found["final"], found["all"], same))
                criteria.append(Criterion(f"{name}, {words} kept: moved", moved, 2.1))
                criteria.append(Criterion(f"{name}, {words} kept: requests", asked, 1.1))
                criteria.append(Criterion(f"{name}, {words} kept: HEAD", found["HEAD"], 0))
                criteria.append(Criterion(f"{name}, {words} kept: results that differ", other, 0))
                criteria.append(Criterion(f"{name}, {words} kept: final pass", found["final"], _MOST[name]))
    return Table(
        "remote",
        f"A fit with certificate of {rows:,} rows, d = {DIM}, from a real S3 server on loopback, "
        f"by obstore, two threads; {n_chunks} chunks",
        (
            "storage",
            "kept",
            "store moved, times",
            "GET",
            "HEAD",
            "requests a chunk and read",
            "final pass / local",
            "all passes / local",
            "same bits",
        ),
        lines,
        criteria,
        "Server and line run on the same cores as the fit. All that was fetched is kept while it "
        "fits in half of the memory that tasks leave; with nothing kept every pass fetches anew, "
        "and windows of rows less than 1 MiB apart come in one request.",
    )


def _take_turns(store: str, options: dict[str, Any], line: SlowLine, rounds: int) -> dict[str, Any]:
    """Ratios of the passes' times, local and far in turns, and what the last fit moved."""
    final, everything = [], []
    for _ in range(rounds):
        local = streamhalf.fit(store, **_WINDOWS)
        line.reset()
        url = f"s3://{_BUCKET}/{Path(store).name}"
        away = streamhalf.fit(url, storage_options=options, **_WINDOWS)
        final.append(_seconds(away, "final") / _seconds(local, "final"))
        everything.append(_seconds(away) / _seconds(local))
    return {
        **line.requests,
        "nbytes": line.nbytes,
        "final": statistics.median(final),
        "all": statistics.median(everything),
        "same": comparable(local) == comparable(away),
    }


def _seconds(result: streamhalf.FitResult, name: str = "") -> float:
    return sum(one.seconds for one in result.passes if one.name.startswith(name))


@contextlib.contextmanager
def _keeping(kept: bool) -> Iterator[None]:
    before, memory.KEPT_SHARE = memory.KEPT_SHARE, memory.KEPT_SHARE if kept else 0.0
    try:
        yield
    finally:
        memory.KEPT_SHARE = before


def _upload(store: str, options: dict[str, Any]) -> None:
    import s3fs

    filesystem = s3fs.S3FileSystem(**options)
    filesystem.put(store, f"{_BUCKET}/{Path(store).name}", recursive=True)
