"""Names of places without their secrets."""

from __future__ import annotations

import re


def public_name(url: str) -> str:
    """The URL without user names, passwords and signatures."""
    return re.sub(r"://[^/]*@", "://", url).split("?")[0] if "://" in url else url


def without_secrets(text: str, url: str) -> str:
    """A text without the user name and password it may quote from the URL."""
    for secret in re.findall(r"(?<=://)[^/]*@", url):
        text = text.replace(secret, "")
    return text
