"""A parser that names what was probably meant."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn


class HintingParser(argparse.ArgumentParser):
    """An `ArgumentParser` whose errors name the nearest command, option or choice."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse what is unknown here, where the options are known that it may stand for."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and what was probably meant, and end with exit code 2."""
        super().error(message + self._hint(message))

    def _hint(self, message: str) -> str:
        if unknown := re.match(r"unrecognized arguments: (.*)", message):
            words = (word.partition("=")[0] for word in unknown[1].split())
            return _nearest((w for w in words if w.startswith("-")), [*self._option_string_actions])
        if choice := re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message):
            return _nearest((choice[1],), re.findall(r"[^\s,']+", choice[2]))
        return ""


def _nearest(words: Iterable[str], known: Sequence[str]) -> str:
    """Words for the first that is near to one that is known."""
    for word in words:
        if close := difflib.get_close_matches(word, known, n=1, cutoff=0.5):
            return f"; did you mean {close[0]}?"
    return ""
