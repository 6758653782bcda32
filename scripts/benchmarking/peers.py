"""Whole commands side by side: a fit with its certificate, and the classifiers used instead.

Each is a process of its own, imports and reading included, in turns, with as many threads. Without
the rest of the benchmark: python -m scripts.benchmarking.peers STORE.zarr [--rounds 5] [--threads 2]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from scripts.benchmarking.stores import Folder, read_bare
from scripts.benchmarking.tables import Criterion, Table, to_markdown
from scripts.benchmarking.timing import Ratio, take_turns

DIM, ROOT = 8, Path(__file__).parents[2]
_FIT, _MEMORY, _EPOCH = "streamhalf fit", "LogisticRegression, in memory", "SGD, one epoch"
_MOST = {10**7: {"peers": 0.9}, 10**8: {_EPOCH: 0.3, "bare read": 8.0}}
"""Fit against the faster of the two, or against one of them, by the number of rows."""
_HEADER = ("rows", "command", "seconds", "fit / this", "CPU s", "error on all rows")


def measure(folder: Folder, *, sizes: list[int], rounds: int, threads: int = 2) -> Table:
    """Stores of `sizes` rows, 5% of the labels flipped by an adversary."""
    lines: list[tuple[Any, ...]] = []
    criteria: list[Criterion] = []
    for rows in sizes:
        found, limits = compare(folder.store(rows, DIM), rounds=rounds, threads=threads)
        lines += [(rows, *line) for line in found]
        criteria += [
            Criterion(f"fit / {name}, {rows:.0e} rows", limits[name], most)
            for name, most in _MOST.get(rows, {}).items()
        ]
    return Table(
        "peers",
        f"Whole commands in turns, d = {DIM}, 5% chow noise (planted error 0.050)",
        _HEADER,
        lines,
        criteria,
        "Each command is a process of its own, imports included; the fit has its certificate.",
    )


def compare(store: str, *, rounds: int, threads: int) -> tuple[list[tuple[Any, ...]], dict[str, float]]:
    """Lines of the table for one store; and what the fit takes in each of the others."""
    told: dict[str, dict[str, Any]] = {}

    def work(name: str) -> Callable[[], float]:
        def run() -> float:
            told[name] = _run(name, store, threads)
            seconds: float = told[name]["whole"]
            return seconds

        return run

    names = [name for name, (package, _) in LEARNERS.items() if importlib.util.find_spec(package)]
    seconds = take_turns({name: work(name) for name in names}, rounds=rounds)
    ratios = {name: Ratio.of(seconds[_FIT], seconds[name]) for name in names}
    # a read has no imports to wait for: the time of the reading alone
    if "bare read" in names:
        ratios["bare read"] = Ratio.of(seconds[_FIT], [told["bare read"]["inside"]] * rounds)
    lines = [
        (name, float(np.median(seconds[name])), ratios[name], told[name]["cpu"], told[name]["error"]) for name in names
    ]
    limits = {name: ratio.median for name, ratio in ratios.items()}
    limits["peers"] = max(limits.get(_MEMORY, 0.0), limits.get(_EPOCH, 0.0))
    return lines, limits


def _run(name: str, store: str, threads: int) -> dict[str, Any]:
    options = ("--threads", str(threads), "--since", repr(time.time()))
    done = subprocess.run(
        [sys.executable, "-m", "scripts.benchmarking.peers", store, "--learner", name, *options],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _fit(store: str, threads: int) -> Any:
    import streamhalf

    result = streamhalf.fit(store, scheduler="threads", n_workers=threads, seed=0)
    assert result.halfspace is not None
    return np.array(result.halfspace.normal), result.halfspace.offset


def _pieces(store: str) -> Iterator[tuple[Any, Any]]:
    import zarr

    group = zarr.open_group(store, mode="r")
    X, y = group["X"], group["y"]
    for start in range(0, X.shape[0], X.chunks[0]):  # type: ignore[union-attr]
        rows = slice(start, start + X.chunks[0])  # type: ignore[union-attr]
        yield X[rows], y[rows]  # type: ignore[index]


def _sgd(store: str, threads: int) -> Any:
    from sklearn.linear_model import SGDClassifier

    model = SGDClassifier(loss="log_loss", random_state=0)
    for X, y in _pieces(store):
        model.partial_fit(X, y, classes=[-1, 1])
    return model.coef_[0], model.intercept_[0]


def _logistic(store: str, threads: int) -> Any:
    import zarr
    from sklearn.linear_model import LogisticRegression

    group = zarr.open_group(store, mode="r")
    model = LogisticRegression().fit(group["X"][:], group["y"][:])  # type: ignore[index]
    return model.coef_[0], model.intercept_[0]


def _dask_ml(store: str, threads: int) -> Any:
    import dask
    import dask.array as da
    from dask_ml.linear_model import LogisticRegression

    X = da.from_zarr(store, component="X")
    y = (da.from_zarr(store, component="y") + 1) // 2
    with dask.config.set(scheduler="threads", num_workers=threads):
        model = LogisticRegression(solver="lbfgs").fit(X, y)
    return np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])


def _bare(store: str, threads: int) -> None:
    read_bare(store, threads)


LEARNERS: dict[str, tuple[str, Callable[[str, int], Any]]] = {
    _FIT: ("streamhalf", _fit),
    _MEMORY: ("sklearn", _logistic),
    _EPOCH: ("sklearn", _sgd),
    "dask-ml LogisticRegression": ("dask_ml", _dask_ml),
    "bare read": ("zarr", _bare),
}
"""By name: the package that it needs, and the learner."""


def learn(name: str, store: str, threads: int, since: float) -> dict[str, Any]:
    """Seconds inside and since the command began, CPU seconds, and the error on all rows."""
    started = time.time()
    found = LEARNERS[name][1](store, threads)
    ended, used = time.time(), os.times()
    error = None if found is None else _error(store, *found)  # takes no part in the times
    cpu = used.user + used.system
    return {"inside": ended - started, "whole": ended - since, "cpu": cpu, "error": error}


def _error(store: str, normal: Any, offset: float) -> float:
    wrong = n_rows = 0
    for X, y in _pieces(store):
        wrong += int(np.count_nonzero((X @ normal.astype(X.dtype) + offset >= 0) != (y > 0)))
        n_rows += len(y)
    return wrong / n_rows


def main() -> int:
    """Compare on one store, ratios first, or run one learner in this process."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("store", help="a Zarr store with X and y (labels -1 and +1)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--learner", choices=LEARNERS, help="run this one, in this process")
    parser.add_argument("--since", type=float, default=time.time(), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.learner:
        print(json.dumps(learn(given.learner, given.store, given.threads, given.since)))
        return 0
    lines, limits = compare(given.store, rounds=given.rounds, threads=given.threads)
    print(f"fit / faster of LogisticRegression and one SGD epoch: {limits.pop('peers'):.2f}")
    print(*(f"fit / {name}: {ratio:.2f}" for name, ratio in limits.items() if name != _FIT), "", sep="\n")
    title = f"{given.store}, medians of {given.rounds} rounds"
    print(to_markdown(Table("peers", title, _HEADER[1:], lines).to_json()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
