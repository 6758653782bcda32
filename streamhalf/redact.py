"""Texts for messages: on one line, and without secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any


def public_name(url: str) -> str:
    """Return the URL without user names, passwords and signatures."""
    return printable(re.sub(r"://[^/]*@", "://", url).split("?")[0] if "://" in url else url)


def plural(count: int, noun: str, ending: str = "s") -> str:
    """Return a count and its noun: 1 row, 12,345 rows."""
    return f"{count:,} {noun}{'' if count == 1 else ending}"


def printable(text: str) -> str:
    """Spell out control characters: a name must not move a terminal's cursor."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def one_line(error: BaseException) -> str:
    """Return an error's kind and text on one line, without secrets of URLs that it quotes."""
    told = str(error).partition("\n\nDebug source:")[0]  # obstore's internals follow
    text = re.sub(r"://[^/\s]*@", "://", " ".join(told.split()))
    text = printable(re.sub(r"(://[^\s?]*)\?[^\s'\")]*", r"\1", text))
    text = "" if text == "None" else text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def denial(error: BaseException, url: str, options: Mapping[str, Any] | None) -> str | None:
    """Return that storage denies access, and with which credentials; None for other errors."""
    denied = isinstance(error, PermissionError) or type(error).__name__ in _DENIALS
    if not denied or "://" not in url:
        return None
    given = dict(options or {})
    endpoint = endpoint_in(given)
    server = f" by {public_name(str(endpoint))}" if endpoint else ""
    if given.get("anon"):
        return f"access is denied{server} without credentials (anon); give some, or check the path"
    return (
        f"access is denied{server} with {_credentials(url, given)}; check them and the path, and "
        "what they may do in this bucket"
    )


def endpoint_in(options: Mapping[str, Any]) -> Any:
    """Return the endpoint that storage options name, if any."""
    return options.get("endpoint_url") or (options.get("client_kwargs") or {}).get("endpoint_url")


def _credentials(url: str, given: dict[str, Any]) -> str:
    """Name the source of the credentials for a URL, in the order in which they are looked up."""
    if "key" in given or "secret" in given:
        return "key and secret of the storage options"
    if not url.lower().startswith("s3"):
        return "the storage options" if given else "the credentials of this machine"
    if "profile" in given:
        return f"the AWS profile {given['profile']!r}"
    if os.environ.get("AWS_ACCESS_KEY_ID"):
        return "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of the environment"
    profile = os.environ.get("AWS_PROFILE")
    return f"the AWS profile {profile!r}" if profile else "the credentials of the AWS files or role"


_DENIALS = ("PermissionDeniedError", "UnauthenticatedError")  # of obstore


def without_secrets(text: str, url: str) -> str:
    """Remove the user name and password that a text may quote from the URL."""
    for secret in re.findall(r"(?<=://)[^/]*@", url):
        text = text.replace(secret, "")
    return text
