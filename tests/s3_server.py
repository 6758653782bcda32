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
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

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
osd pool default pg num = 4
osd crush chooseleaf type = 0
mon allow pool size one = true
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


def require_programs() -> None:
    """Fail in continuous integration, skip elsewhere, if the server is not installed."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if not missing:
        return
    reason = f"{', '.join(missing)} not found; install: {INSTALL}"
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
        started.enter_context(_running(folder, "ceph-mon", "-i", "a", "-f"))
        osd = str(uuid.uuid4())
        _call(folder, "ceph", "osd", "new", osd, "0")
        _call(folder, "ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", osd)
        started.enter_context(_running(folder, "ceph-osd", "-i", "0", "-f"))
        started.enter_context(_running(folder, "radosgw", "-n", "client.rgw", "-f"))
        server = S3Server(port)
        _wait_for(server)
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
    """A port of loopback that nobody listens on."""
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


@contextlib.contextmanager
def _running(folder: Path, program: str, *arguments: str) -> Iterator[None]:
    command = [program, "-c", str(folder / "ceph.conf"), *arguments]
    with open(folder / f"{program}.out", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield
    finally:
        process.kill()  # nothing of it is kept, so it needs no goodbye
        process.wait()


def _wait_for(server: S3Server) -> None:
    deadline = time.monotonic() + 180
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
        try:
            connection.request("GET", "/")
            connection.getresponse().read()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        finally:
            connection.close()
