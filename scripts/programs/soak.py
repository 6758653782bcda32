"""Break fits in every way for a while and compare each result with the undisturbed one.

usage: scripts/soak [--seconds 60] [--seed 0] [--rows 122880]   clients, workers, schedulers die
       scripts/soak --kill-points 100                           SIGKILL of the client, resumed
       scripts/soak --storm 3 --rows 3000000                    a worker dies every 3 seconds

Exit code 1 if any result differs.
"""

from __future__ import annotations

import argparse
import collections
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamhalf
from streamhalf.data import source
from streamhalf.results.document import write_json
from tests.clusters import Cluster, kill
from tests.comparing import comparable

# passes, and little else
OPTIONS: dict[str, Any] = {"eps": 0.25, "certificate_degree": 0, "seed": 0}
MOST_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Bench:
    """A store, the undisturbed result and the time it took."""

    folder: Path
    store: Path
    expected: str
    seconds: float
    n_passes: int


def start_fit(store: Path, folder: Path, scheduler: str) -> int:
    """Fit in a forked process, which needs no imports of its own; returns its pid."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        result = streamhalf.fit(store, checkpoint=folder / "saved", resume=True, scheduler=scheduler, **OPTIONS)
        write_json(folder / "result.json", result)
        code = 0
    except streamhalf.StreamhalfError as error:
        print(f"  {error}", file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def has_ended(pid: int, seconds: float) -> int | None:
    """The exit code of a process that ends within some seconds, else None."""
    deadline = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            return None
        time.sleep(0.002)


def finish(bench: Bench, folder: Path, scheduler: Callable[[], str]) -> bool:
    """Resume until there is a result; whether it is the undisturbed one."""
    for _ in range(MOST_ATTEMPTS):
        if (folder / "result.json").exists():
            return comparable(folder / "result.json") == bench.expected
        pid = start_fit(bench.store, folder, scheduler())
        if has_ended(pid, 600) is None:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            print("  a run did not end within 600 s", file=sys.stderr)
            return False
    return False


def prepare(folder: Path, rows: int) -> Bench:
    source.BLOCK_NBYTES = 1  # every stored chunk is a block, so that small data have many tasks
    store = folder / "rows.zarr"
    command = ["synth", str(store), "--rows", str(rows), "--dim", "2", "--chunk-rows", "1024"]
    command += ["--noise", "chow", "--rate", "0.05", "--quiet"]
    if os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-m", "streamhalf", *command]):
        sys.exit("the store could not be written")
    clean = folder / "undisturbed"
    clean.mkdir()
    started = time.monotonic()
    if has_ended(start_fit(store, clean, "threads"), 3600) != 0:
        sys.exit("the undisturbed fit failed")
    seconds = time.monotonic() - started
    return Bench(folder, store, comparable(clean / "result.json"), seconds, n_saved(clean))


def n_saved(folder: Path) -> int:
    """Passes in the checkpoint."""
    return len(list((folder / "saved").glob("pass-*")))


def kill_points(bench: Bench, n_trials: int, draw: random.Random) -> int:
    """SIGKILL the client at random moments and resume; returns how many results differ."""
    saved: collections.Counter[int] = collections.Counter()
    n_killed = n_same = 0
    for trial in range(n_trials):
        folder = bench.folder / f"trial-{trial}"
        folder.mkdir()
        pid = start_fit(bench.store, folder, "threads")
        # a moment of a random pass: passes differ in length, and each should be hit
        n_awaited = draw.randrange(bench.n_passes)
        code = None
        while code is None and n_saved(folder) < n_awaited:
            code = has_ended(pid, 0.001)
        if code is None and has_ended(pid, draw.uniform(0, bench.seconds / bench.n_passes)) is None:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            n_killed += 1
            saved[n_saved(folder)] += 1
        n_same += finish(bench, folder, lambda: "threads")
        print(f"\r{n_same} of {trial + 1} identical", end="", file=sys.stderr, flush=True)
        shutil.rmtree(folder)
    print(file=sys.stderr)
    print(f"{n_killed} of {n_trials} clients killed before their end; passes saved by then:")
    print("  " + ", ".join(f"{passes}: {count}" for passes, count in sorted(saved.items())))
    print(f"{n_same} of {n_trials} identical")
    return n_trials - n_same


class Breaker:
    """A cluster of two workers and the ways in which it breaks."""

    def __init__(self, folder: Path, draw: random.Random) -> None:
        folder.mkdir()
        self.cluster = Cluster(folder)
        self.draw = draw
        self.repair()

    def repair(self) -> str:
        """Replace what is dead; returns the scheduler's address."""
        cluster = self.cluster
        if not cluster.processes or cluster.scheduler.poll() is not None:
            for worker in cluster.workers():
                kill(worker)
            cluster.start_scheduler()
        for _ in range(2 - len(cluster.workers())):
            cluster.add_worker()
        return cluster.address

    def break_worker(self, client: int) -> None:
        """A worker dies, and another is started."""
        kill(self.draw.choice(self.cluster.workers()))
        self.repair()

    def break_workers(self, client: int) -> None:
        """All workers die, and others are started."""
        for worker in self.cluster.workers():
            kill(worker)
        self.repair()

    def break_scheduler(self, client: int) -> None:
        """The scheduler dies, and another is started when the run is resumed."""
        kill(self.cluster.scheduler)

    def break_client(self, client: int) -> None:
        """The client dies."""
        os.kill(client, signal.SIGKILL)


def soak(bench: Bench, seconds: float, draw: random.Random) -> int:
    """Break clusters for a while; returns how many results differ."""
    breaker = Breaker(bench.folder / "cluster", draw)
    ways = [breaker.break_worker, breaker.break_workers, breaker.break_scheduler]
    ways.append(breaker.break_client)
    counts: collections.Counter[str] = collections.Counter()
    n_same = trial = 0
    deadline = time.monotonic() + seconds
    try:
        while time.monotonic() < deadline:
            folder = bench.folder / f"trial-{trial}"
            folder.mkdir()
            trial += 1
            way = draw.choice(ways)
            pid = start_fit(bench.store, folder, breaker.repair())
            while not (folder / "saved" / "manifest.json").exists():
                if has_ended(pid, 0.05) is not None:  # it failed before its first pass
                    break
            else:
                if has_ended(pid, draw.uniform(0, bench.seconds)) is None:
                    way(pid)
                    counts[way.__name__.removeprefix("break_") + " killed"] += 1
                    if has_ended(pid, 600) is None:
                        sys.exit(f"trial {trial}: neither a result nor an error within 600 s")
            same = finish(bench, folder, breaker.repair)
            n_same += same
            print(f"trial {trial}: {way.__name__}: {'identical' if same else 'DIFFERENT'}", flush=True)
    finally:
        breaker.cluster.close()
    print(", ".join(f"{name}: {count}" for name, count in sorted(counts.items())))
    print(f"{n_same} of {trial} identical")
    return trial - n_same


def storm(bench: Bench, every: float, draw: random.Random) -> int:
    """One fit on two workers, of which one dies every few seconds; returns 1 if it differs."""
    breaker = Breaker(bench.folder / "cluster", draw)
    folder = bench.folder / "storm"
    folder.mkdir()
    n_killed = 0
    try:
        pid = start_fit(bench.store, folder, breaker.repair())
        while not (folder / "saved" / "manifest.json").exists() and has_ended(pid, 0.05) is None:
            pass
        while has_ended(pid, every) is None:
            breaker.break_worker(pid)
            n_killed += 1
    except ChildProcessError:
        pass  # it ended while its first pass was awaited
    else:
        print(f"{n_killed} workers killed, one every {every:g} s")
    finally:
        same = finish(bench, folder, breaker.repair)
        breaker.cluster.close()
    print(f"{int(same)} of 1 identical")
    return int(not same)


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=int, default=120 * 1024)
    parser.add_argument("--kill-points", type=int, metavar="N")
    parser.add_argument("--storm", type=float, metavar="SECONDS")
    options = parser.parse_args()
    draw = random.Random(options.seed)
    if options.storm:
        OPTIONS["sampling"] = "reuse"  # every pass reads all rows, so that there is time for a storm
    with tempfile.TemporaryDirectory(prefix="streamhalf-soak-") as name:
        bench = prepare(Path(name), options.rows)
        print(f"undisturbed: {bench.seconds:.1f} s")
        if options.kill_points:
            return int(kill_points(bench, options.kill_points, draw) > 0)
        if options.storm:
            return storm(bench, options.storm, draw)
        return int(soak(bench, options.seconds, draw) > 0)


if __name__ == "__main__":
    sys.exit(main())
