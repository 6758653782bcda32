"""Names of places, texts of errors and counted things: on one line, and without secrets."""

from __future__ import annotations

import re


def public_name(url: str) -> str:
    """The URL without user names, passwords and signatures."""
    return printable(re.sub(r"://[^/]*@", "://", url).split("?")[0] if "://" in url else url)


def plural(count: int, noun: str, ending: str = "s") -> str:
    """A count and its noun: 1 row, 12,345 rows."""
    return f"{count:,} {noun}{'' if count == 1 else ending}"


def printable(text: str) -> str:
    """The text with control characters spelled out: a name must not move a terminal's cursor."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def one_line(error: BaseException) -> str:
    """The error's text on a single line, with its kind and without secrets of URLs it quotes."""
    told = str(error).partition("\n\nDebug source:")[0]  # obstore's own affairs follow
    text = re.sub(r"://[^/\s]*@", "://", " ".join(told.split()))
    text = printable(re.sub(r"(://[^\s?]*)\?[^\s'\")]*", r"\1", text))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def without_secrets(text: str, url: str) -> str:
    """A text without the user name and password it may quote from the URL."""
    for secret in re.findall(r"(?<=://)[^/]*@", url):
        text = text.replace(secret, "")
    return text
