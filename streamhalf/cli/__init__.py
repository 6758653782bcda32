"""The command line: arguments in, one call of the API, words and an exit code out."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # without typing: the less there is before main, the less Ctrl-C can break
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    _settle_output()
    try:
        from streamhalf.cli.commands import run  # takes a moment, and Ctrl-C may come in it

        return run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        print("streamhalf: interrupted", file=sys.stderr)
        return 130


def _settle_output() -> None:
    """Let no character and no closed stream end a command: '?' where the encoding has no letter."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
