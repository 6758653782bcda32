"""The command line: arguments in, one call of the API, words and an exit code out."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # without typing: the less there is before main, the less Ctrl-C can break
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        from streamhalf.cli.commands import run  # takes a moment, and Ctrl-C may come in it

        return run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        print("streamhalf: interrupted", file=sys.stderr)
        return 130
