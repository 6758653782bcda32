"""Results of every kind, made once, and a real browser."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.report.results import Results, make_results

if TYPE_CHECKING:
    from playwright.sync_api import Browser

QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@pytest.fixture(scope="session")
def results() -> Results:
    return make_results()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium; continuous integration must have one, a user's machine need not."""
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        message = "no Chromium found; install it with: sudo apt-get install -y chromium"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=list(QUIET))
        yield launched
        launched.close()
