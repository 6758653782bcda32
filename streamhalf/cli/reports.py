"""`report`: the HTML page of a result file; and `--report` of the commands that make results."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console

from streamhalf import api
from streamhalf.cli.options import add_command, check_writable
from streamhalf.documents import read_result
from streamhalf.errors import UsageError
from streamhalf.records import CertifyResult, FitResult

Reported = TypeVar("Reported", FitResult, CertifyResult)


def add_report(parser: argparse.ArgumentParser) -> None:
    """Where the page goes."""
    parser.add_argument("--report", metavar="FILE", help="write the result as an HTML page")


def show_with_report(
    options: argparse.Namespace, show: Callable[[Console, Reported], None]
) -> Callable[[Console, Reported], None]:
    """Write the page that `--report` asks for, then show the result, whatever became of it."""

    def write_and_show(console: Console, result: Reported) -> None:
        try:
            if path := getattr(options, "report", None):
                api.report(result, path)
        finally:
            show(console, result)

    return write_and_show


def add_report_command(commands: Any) -> None:
    """`streamhalf report`."""
    parser = add_command(
        commands,
        "report",
        run_report,
        "Write a result file as one HTML page with figures that opens anywhere.",
        "streamhalf report result.json --out result.html",
    )
    parser.add_argument("result", metavar="RESULT", help="what fit or certify wrote")
    parser.add_argument(
        "--out", metavar="FILE", help="the page (default: RESULT with the ending .html)"
    )


def run_report(options: argparse.Namespace) -> int:
    """The page of a result file."""
    source = Path(options.result)
    target = Path(getattr(options, "out", source.with_suffix(".html")))
    check_writable(str(target), "out")
    if target.exists() and source.exists() and target.samefile(source):
        raise UsageError(f"out: {str(target)!r} is the result file itself; name another file")
    api.report(read_result(source), target)
    print(f"wrote {target}")
    return 0


COMMANDS = (add_report_command,)
