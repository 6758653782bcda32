"""A whole fit, certificate included, in bare reads; and what other learners take and reach."""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import zarr

import streamhalf
from scripts.benchmarking.stores import BareReader, Folder
from scripts.benchmarking.tables import Criterion, Table
from scripts.benchmarking.timing import Ratio, take_turns

DIM = 8
_MOST = {10**7: 10.0, 10**8: 5.0}


def measure(folder: Folder, *, sizes: list[int], rounds: int) -> Table:
    """Fits with eps chosen by the planner, two threads."""
    lines, criteria = [], []
    for rows in sizes:
        store = folder.store(rows, DIM)
        found: list[streamhalf.FitResult] = []
        read: list[int] = []

        def fit(store: str = store, found: list[Any] = found, read: list[int] = read) -> None:
            before = _bytes_read()
            found.append(streamhalf.fit(store, scheduler="threads", n_workers=2, seed=0))
            read.append(_bytes_read() - before)

        with BareReader() as bare:
            seconds = take_turns(
                {
                    "bare": lambda store=store: bare.seconds(store),
                    "fit": fit,
                },
                rounds=rounds,
            )
        ratio = Ratio.of(seconds["fit"], seconds["bare"])
        result = found[-1]
        passes = result.passes
        stored = sum(file.stat().st_size for file in Path(store).rglob("*") if file.is_file())
        reads = round(min(read) / stored, 2)
        inside = sum(one.seconds for one in passes) / float(np.median(seconds["fit"]))
        lines.append(
            (
                rows,
                result.verdict.value,
                result.eps,
                float(np.median(seconds["fit"])),
                ratio,
                reads,
                inside,
                result.error.empirical if result.error else None,
                result.ratio,
            )
        )
        if rows in _MOST:
            criteria.append(Criterion(f"fit in bare reads, {rows:.0e}", ratio.median, _MOST[rows]))
            criteria.append(Criterion(f"bytes read in full reads, {rows:.0e}", reads, 2.0))
    return Table(
        "fits",
        f"A whole fit with certificate, d = {DIM}, 5% chow noise, two threads",
        (
            "rows",
            "verdict",
            "eps",
            "seconds",
            "time / bare read",
            "full reads",
            "share of time in passes",
            "error",
            "U/L",
        ),
        lines,
        criteria,
    )


def _bytes_read() -> int:
    """Bytes that this process has read from files so far, as the system counts them."""
    with open("/proc/self/io", encoding="ascii") as counts:
        return int(next(line.split()[1] for line in counts if line.startswith("rchar")))


def compare(folder: Folder, *, rows: int) -> Table:
    """Other learners on the same rows, once each: they take long."""
    store = folder.store(rows, DIM)
    with BareReader() as reader:
        bare = statistics.median(reader.seconds(store) for _ in range(5))
    planted = np.array(zarr.open_group(store, mode="r").attrs["streamhalf"]["planted_vector"])
    lines = []
    for name, learn in _learners(store).items():
        seconds, w = _seconds(learn)
        cosine = float(w @ planted / np.linalg.norm(w) / np.linalg.norm(planted))
        lines.append((name, seconds, seconds / bare, _error(store, w), float(np.arccos(cosine))))
    return Table(
        "others",
        f"Other learners on {rows:,} rows, d = {DIM}, 5% chow noise (planted error 0.050)",
        ("learner", "seconds", "in bare reads", "error", "angle to the planted one"),
        lines,
    )


def _learners(store: str) -> dict[str, Callable[[], np.ndarray]]:
    found = {"streamhalf fit, certificate included": lambda: _streamhalf(store)}
    if importlib.util.find_spec("sklearn"):
        found["scikit-learn SGDClassifier.partial_fit, one epoch"] = lambda: _sgd(store)
        found["scikit-learn LogisticRegression, in memory"] = lambda: _logistic(store)
    if importlib.util.find_spec("dask_ml"):
        for solver in ("newton", "lbfgs", "admm"):
            found[f"dask-ml LogisticRegression, {solver}"] = lambda solver=solver: _dask_ml(
                store, solver
            )
    return found


def _streamhalf(store: str) -> np.ndarray:
    result = streamhalf.fit(store, scheduler="threads", n_workers=2, seed=0)
    assert result.halfspace is not None
    return np.array(result.halfspace.normal)


def _sgd(store: str) -> np.ndarray:
    from sklearn.linear_model import SGDClassifier

    group = zarr.open_group(store, mode="r")
    model = SGDClassifier(loss="log_loss", random_state=0)
    step = group["X"].chunks[0]
    for start in range(0, group["X"].shape[0], step):
        rows = slice(start, start + step)
        model.partial_fit(group["X"][rows], group["y"][rows], classes=[-1, 1])
    return model.coef_[0]


def _logistic(store: str) -> np.ndarray:
    from sklearn.linear_model import LogisticRegression

    group = zarr.open_group(store, mode="r")
    return LogisticRegression().fit(group["X"][:], group["y"][:]).coef_[0]


def _dask_ml(store: str, solver: str) -> np.ndarray:
    import dask
    import dask.array as da
    from dask_ml.linear_model import LogisticRegression

    X = da.from_zarr(store, component="X")
    y = (da.from_zarr(store, component="y") + 1) // 2
    with dask.config.set(scheduler="threads", num_workers=2):
        model = LogisticRegression(solver=solver, fit_intercept=False).fit(X, y)
    return np.ravel(model.coef_)


def _seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    value = call()
    return time.perf_counter() - started, value


def _error(store: str, w: np.ndarray) -> float:
    group = zarr.open_group(store, mode="r")
    step, wrong = group["X"].chunks[0], 0
    for start in range(0, group["X"].shape[0], step):
        rows = slice(start, start + step)
        positive = group["X"][rows] @ w.astype(np.float32) >= 0
        wrong += int(np.count_nonzero(positive != (group["y"][rows] > 0)))
    return wrong / group["X"].shape[0]
