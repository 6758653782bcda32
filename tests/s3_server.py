"""A real S3 server on loopback for tests: Ceph's monitor, one OSD in memory, and radosgw.

`start_server` gives an endpoint with one user and one bucket; everything it makes is in one folder
and every process is ended by pid.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import socket
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.waiting import wait_until

PROGRAMS = ("ceph-mon", "ceph-osd", "radosgw", "radosgw-admin", "ceph", "monmaptool")
INSTALL = "apt-get install --no-install-recommends ceph-mon ceph-osd radosgw ceph-common"
BUCKET = "rows"
KEY, SECRET = "TESTKEY0TESTKEY0TEST", "q9Zr-never-to-be-printed-7Kx2"

_CONFIG = """[global]
fsid = {fsid}
mon host = [v1:127.0.0.1:{mon_port}]
ms bind ipv6 = false
public addr = 127.0.0.1
cluster addr = 127.0.0.1
auth cluster required = none
auth service required = none
auth client required = none
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
# one monitor waits for no other; by default every new pool takes it a second or two
paxos propose interval = 0.02
paxos min wait = 0.01
osd objectstore = memstore
memstore device bytes = 1073741824
run dir = {folder}/run
admin socket = {folder}/run/$name.$pid.asok
pid file = {folder}/run/$name.pid
log file = {folder}/$name.log
mon data = {folder}/mon
osd data = {folder}/osd
rgw data = {folder}/rgw
rgw frontends = beast endpoint=127.0.0.1:{port}
rgw enable usage log = false
rgw enable gc threads = false
rgw enable lc threads = false
rgw enable quota threads = false
rgw run sync thread = false
rgw dynamic resharding = false
"""


@dataclass(frozen=True, slots=True)
class S3Server:
    """Where the server listens, and who may use it."""

    port: int

    @property
    def endpoint(self) -> str:
        """URL of the server."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def options(self) -> dict[str, Any]:
        """Storage options that s3fs takes."""
        return {"key": KEY, "secret": SECRET, "endpoint_url": self.endpoint}

    @property
    def flags(self) -> list[str]:
        """The same for the command line."""
        return [word for k, v in self.options.items() for word in ("--storage-option", f"{k}={v}")]


def what_is_missing() -> str:
    """The programs that are not installed and how to install them, or nothing."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"{', '.join(missing)} not found; install: {INSTALL}" if missing else ""


def require_programs() -> None:
    """Fail in continuous integration, skip elsewhere, if the server is not installed."""
    import pytest  # here: scripts start the server without it

    reason = what_is_missing()
    if not reason:
        return
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@contextlib.contextmanager
def start_server(folder: Path) -> Iterator[S3Server]:
    """Start the three programs, make a user and a bucket, end the programs again."""
    port, mon_port = free_port(), free_port()
    fsid = str(uuid.uuid4())
    for name in ("run", "mon", "osd", "rgw"):
        (folder / name).mkdir()
    values = {"fsid": fsid, "mon_port": mon_port, "port": port, "folder": folder}
    (folder / "ceph.conf").write_text(_CONFIG.format(**values))
    with contextlib.ExitStack() as started:
        _prepare_monitor(folder, fsid, mon_port)

        def start(name: str, *arguments: str) -> _Program:
            return started.enter_context(contextlib.closing(_Program(folder, name, *arguments)))

        start("ceph-mon", "-i", "a", "-f")
        osd = str(uuid.uuid4())
        _call(folder, "ceph", "osd", "new", osd, "0")
        _call(folder, "ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", osd)
        programs = start("ceph-osd", "-i", "0", "-f"), start("radosgw", "-n", "client.rgw", "-f")
        server = S3Server(port)

        def is_up() -> bool:
            for program in programs:
                program.revive()
            return _answers(server)

        wait_until(is_up, "the S3 server's start")
        user = ["user", "create", "--uid=tester", "--display-name=tester"]
        keys = [f"--access-key={KEY}", f"--secret-key={SECRET}"]
        _call(folder, "radosgw-admin", *user, *keys)
        make_bucket(server, BUCKET)
        yield server


def make_bucket(server: S3Server, name: str) -> None:
    """Make a bucket."""
    import s3fs

    s3fs.S3FileSystem(**server.options).mkdir(name)


def free_port() -> int:
    """A port of loopback without a listener."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _prepare_monitor(folder: Path, fsid: str, port: int) -> None:
    monmap = str(folder / "monmap")
    address = f"[v1:127.0.0.1:{port}]"
    create = ["monmaptool", "--create", "--addv", "a", address, "--fsid", fsid, monmap]
    subprocess.run(create, check=True, capture_output=True, timeout=60)
    _call(folder, "ceph-mon", "-i", "a", "--mkfs", "--monmap", monmap)


def _call(folder: Path, program: str, *arguments: str) -> None:
    command = [program, "-c", str(folder / "ceph.conf"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode:
        raise RuntimeError(f"{program} failed: {done.stderr[-2000:]}")


class _Program:
    """A program that runs until it is closed, and is started again if it ends before."""

    def __init__(self, folder: Path, name: str, *arguments: str) -> None:
        self._command = [name, "-c", str(folder / "ceph.conf"), *arguments]
        self._log = folder / f"{name}.out"
        self._process = self._start()

    def revive(self) -> None:
        """Start it again if it has ended: an OSD may meet a monitor that is not ready for it."""
        if self._process.poll() is not None:
            self._process = self._start()

    def close(self) -> None:
        """End it; nothing of it is kept, so it needs no goodbye."""
        self._process.kill()
        self._process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        with open(self._log, "ab") as log:
            return subprocess.Popen(self._command, stdout=log, stderr=subprocess.STDOUT)


def _answers(server: S3Server) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    try:
        connection.request("GET", "/")
        connection.getresponse().read()
    except OSError:
        return False
    finally:
        connection.close()
    return True
