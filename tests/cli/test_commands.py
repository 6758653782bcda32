"""Commands as a shell calls them: interrupted early, with a closed reader, and recorded in results."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import streamhalf
from streamhalf._flags import public_command
from streamhalf.cli import main
from streamhalf.results import is_as_written
from streamhalf.results.document import read_result

SLOW_IMPORT = """
import os, signal, sys, threading
import streamhalf.__main__ as cli

signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background ignore it

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "streamhalf._flags":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
sys.exit(cli.main())
"""


def test_interrupt__while_modules_are_loaded_is_one_line() -> None:
    done = subprocess.run([sys.executable, "-c", SLOW_IMPORT], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 130
    assert done.stderr == "streamhalf: interrupted\n"


@pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"]])
def test_help__that_nobody_reads_is_no_failure(arguments: list[str]) -> None:
    reader = subprocess.Popen(["true"], stdin=subprocess.PIPE)
    reader.wait()
    command = [sys.executable, "-m", "streamhalf", *arguments]
    done = subprocess.run(command, stdout=reader.stdin, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    assert reader.stdin is not None
    assert (done.returncode, done.stderr) == (0, "")
    reader.stdin.close()


@pytest.mark.parametrize("flag", ["--json", "--report", "--log-json", "--checkpoint", "--state", "--config"])
def test_empty_name__is_refused(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "nowhere.zarr", flag, ""]) == 2
    assert f"{flag.removeprefix('--')}: '' is not a name; give one" in capsys.readouterr().err


def test_public_command__hides_secrets() -> None:
    given = ["fit", "s3://me:pass@host/x?sig=abc", "--storage-option", "secret=s3cr3t"]
    given += ["--storage-option=key=k3y", "--json", "a b.json"]
    assert public_command(given) == (
        "streamhalf fit s3://host/x --storage-option secret=HIDDEN --storage-option=key=HIDDEN --json 'a b.json'"
    )


def test_result__says_by_which_command_it_was_made(tmp_path: Path) -> None:
    store, out = str(tmp_path / "rows.zarr"), tmp_path / "result.json"
    streamhalf.synth(store, rows=2000, dim=2, marginal="gaussian", noise="random", rate=0.1)
    main(["fit", store, "--json", str(out), "--quiet", "--certificate-degree", "0", "--seed", "1"])
    run = json.loads(out.read_text())["run"]
    assert run["command"].startswith(f"streamhalf fit {store} --json ")
    assert run["settings"]["certificate_degree"] == 0
    assert run["started"].endswith("+00:00")
    assert is_as_written(read_result(out))
