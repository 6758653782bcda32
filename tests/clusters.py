"""Real Dask clusters for tests: `dask scheduler` and `dask worker` as programs, ended by pid."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.waiting import wait_until

# threads of the engine's tasks are the parallelism; a worker's BLAS must not add its own
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@dataclass
class Cluster:
    """A scheduler and its workers; every process it started is ended with it."""

    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    protocol: str = "tcp"
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    scheduler: subprocess.Popen[bytes] = field(init=False)

    @property
    def file(self) -> Path:
        """The scheduler file."""
        return self.folder / "scheduler.json"

    @property
    def address(self) -> str:
        """Where the scheduler listens."""
        address: str = json.loads(self.file.read_text())["address"]
        return address

    def start_scheduler(self, *options: str, bare: bool = False) -> None:
        """Start a scheduler on a free port and wait until it listens; if bare, with these alone."""
        self.file.unlink(missing_ok=True)
        listening = ["--host", "127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0"]
        listening = ["--host", "127.0.0.1", *options] if bare else [*listening, *options]
        if self.protocol != "tcp":
            listening = ["--protocol", self.protocol, *listening]
        self.scheduler = self._start("scheduler", *listening, "--scheduler-file", str(self.file))
        wait_until(lambda: self.file.exists() and self.file.stat().st_size > 0, "the scheduler's start")

    def add_worker(
        self, *options: str, environment: Mapping[str, str] | None = None, nanny: bool = False, bare: bool = False
    ) -> subprocess.Popen[bytes]:
        """Start a worker of one thread; without a nanny, the process is the worker itself.

        If bare, with these options alone.
        """
        if bare:
            joining = ("--scheduler-file", str(self.file), "--host", "127.0.0.1")
            return self._start("worker", *joining, *options, environment=environment)
        return self._start(
            "worker",
            *("--scheduler-file", str(self.file), "--host", "127.0.0.1", "--nthreads", "1"),
            *("--no-dashboard", "--local-directory", str(self.folder / "scratch")),
            "--nanny" if nanny else "--no-nanny",
            *options,
            environment=environment,
        )

    def workers(self) -> list[subprocess.Popen[bytes]]:
        """The workers that live."""
        return [p for p in self.processes if p is not self.scheduler and p.poll() is None]

    def logs(self) -> str:
        """All that its processes said."""
        return "\n".join(file.read_text() for file in sorted(self.folder.glob("*.log")))

    def close(self) -> None:
        """End every process."""
        for process in self.processes:
            kill(process)

    def _start(self, *arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        number = len(self.processes)
        with open(self.folder / f"{number:02d}-{arguments[0]}.log", "wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", *arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env={**os.environ, **_ENVIRONMENT, **self.environment, **(environment or {})},
            )
        self.processes.append(process)
        return process


@contextlib.contextmanager
def open_cluster(
    folder: Path, *, n_workers: int = 2, environment: Mapping[str, str] | None = None, protocol: str = "tcp"
) -> Iterator[Cluster]:
    """A scheduler and workers from the command line."""
    cluster = Cluster(folder, environment or {}, protocol)
    try:
        cluster.start_scheduler()
        for _ in range(n_workers):
            cluster.add_worker()
        yield cluster
    finally:
        cluster.close()


def kill(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL: no goodbye, no cleaning up."""
    process.send_signal(signal.SIGKILL)
    process.wait()
