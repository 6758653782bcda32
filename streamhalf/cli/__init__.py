"""The command line: arguments in, one call of the API, words and an exit code out."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Sequence

import streamhalf
from streamhalf.cli import data, reports, runs
from streamhalf.cli.options import EXIT_CODES, check_places, silence_output
from streamhalf.cli.parsing import HintingParser
from streamhalf.errors import StreamhalfError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = build_parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = options.run
    code = 1
    try:
        check_places(options)
        code = run(options)
        sys.stdout.flush()
        return code
    except StreamhalfError as error:
        print(f"streamhalf: error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(f"streamhalf: interrupted{_how_to_resume(options)}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        silence_output()
        return code
    except Exception as error:
        if os.environ.get("STREAMHALF_DEBUG"):
            traceback.print_exc()
        text = " ".join(str(error).split())
        print(
            f"streamhalf: unexpected {type(error).__name__}: {text} "
            "(set STREAMHALF_DEBUG=1 for the traceback)",
            file=sys.stderr,
        )
        return 1


def _how_to_resume(options: argparse.Namespace) -> str:
    """Words for somebody who stopped a run that can be resumed."""
    if options.run is not runs.run_fit:
        return ""
    if folder := getattr(options, "checkpoint", None):
        return f"; finished passes are in {folder}: run the same command with --resume to go on"
    return "; nothing was kept (with --checkpoint FOLDER a run can be resumed)"


def build_parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    parser = HintingParser(
        prog="streamhalf",
        description="Tester-learner for halfspaces on chunked data.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=streamhalf.__version__)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for add in (*data.COMMANDS, *runs.COMMANDS, *reports.COMMANDS):
        add(commands)
    return parser
