"""All commands: how they are found, called, and what becomes of their errors."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from cyclopts import (
    App,
    ArgumentCollection,
    CycloptsError,
    MissingArgumentError,
    Parameter,
    UnknownOptionError,
)

from streamhalf.cli import audit, data, runs
from streamhalf.cli.options import (
    COMMAND,
    ResultConsole,
    check_outputs,
    public_command,
    silence_output,
)
from streamhalf.errors import StreamhalfError, UsageError
from streamhalf.redact import printable

EXIT_CODES = """exit codes: 0 accepted, certified or passed, 10 rejected, 11 inconclusive, 12 a
claim does not hold, 2 wrong usage, 3 bad data, 130 interrupted, 1 anything else"""

_ALIKE = 0.75
"""How alike an option must be to what was typed, to be suggested (difflib's ratio)."""

COMMANDS = (
    *(data.synth, data.inspect, data.convert, data.predict),
    *(runs.test, runs.plan, runs.fit, runs.certify, runs.verify, audit.audit, runs.report),
)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    code, on_interrupt = 1, ""
    try:
        command, bound = _parse(arguments)
        COMMAND.set(public_command(arguments))
        code = int(command in COMMANDS)  # help whose reader has gone (`| head`) is no failure
        on_interrupt = _how_to_resume(bound.arguments) if command is runs.fit else ""
        check_outputs(bound.arguments)
        code = command(*bound.args, **bound.kwargs) or 0
        sys.stdout.flush()
        return code
    except StreamhalfError as error:
        print(f"streamhalf: error: {printable(str(error))}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(f"streamhalf: interrupted{printable(on_interrupt)}", file=sys.stderr)
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


def versions() -> str:
    """What --version says: ours first, then what it runs on and reads with."""
    from streamhalf.results import installed_versions  # takes a moment

    found = installed_versions()
    others = (f"{name} {version}" for name, version in found.items() if name != "streamhalf")
    return "\n".join((f"streamhalf {found['streamhalf']}", *others))


def build_app() -> App:
    """All commands and their flags."""
    app = App(
        name="streamhalf",
        help="Learn linear classifiers from labels that somebody may have tampered with, and say "
        "what can be proved of them.",
        help_format="plaintext",
        help_epilogue=EXIT_CODES,
        version=versions,
        default_parameter=Parameter(negative=()),
        console=ResultConsole(),
        print_error=False,
        exit_on_error=False,
    )
    for number, command in enumerate(COMMANDS):
        epilogue = f"example:\n  streamhalf {command.example}\n\n{EXIT_CODES}"
        app.command(command, help_epilogue=epilogue, sort_key=number)
    app.register_install_completion_command(help="Let the shell complete commands and flags.")
    return app


def _parse(arguments: Sequence[str]) -> Any:
    """The function to call and its bound arguments."""
    if not arguments:
        raise UsageError("no command given; streamhalf --help lists them all")
    try:
        return build_app().parse_args(arguments)[:2]
    except CycloptsError as error:
        _prefer_likely(error)
        missed = error.argument if isinstance(error, MissingArgumentError) else None
        if missed is not None and not set(missed.names) & set(arguments):
            command, said = " ".join(error.command_chain or ()), missed.parameter.help
            field = missed.name.removeprefix("--")
            raise UsageError(
                f"{field}: not given; {command} needs {missed.name}: {said}"
            ) from error
        wrong = printable(" ".join(str(error).split()))
        help_of = " ".join(["streamhalf", *(error.command_chain or ())])
        raise UsageError(f"{wrong} ({help_of} --help says more)") from error


def _prefer_likely(error: CycloptsError) -> None:
    """Of an unknown option, have those suggested that it begins with (--eps for --epsilon).

    Else those that are spelled much alike, or none.
    """
    if isinstance(error, UnknownOptionError):
        given = error.token.keyword or error.token.value
        flags = error.argument_collection
        begun = [one for one in flags if any(given.startswith(name) for name in one.names)]
        alike = [one for one in flags if get_close_matches(given, one.names, 1, _ALIKE)]
        error.argument_collection = ArgumentCollection(begun or alike)


def _how_to_resume(given: Mapping[str, Any]) -> str:
    """Words for somebody who stopped a run that can be resumed."""
    if folder := given.get("checkpoint"):
        return f"; finished passes are in {folder}: run the same command with --resume to go on"
    return "; nothing was kept (with --checkpoint FOLDER a run can be resumed)"
