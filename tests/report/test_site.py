"""The documentation as a site: built without a warning, links lead somewhere, no other server is asked."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site that scripts/docs builds."""
    folder = tmp_path_factory.mktemp("site")
    text = (ROOT / "scripts" / "docs").read_text("utf-8")
    (line,) = (one for one in text.splitlines() if one.startswith("python -m sphinx"))
    options = line.split()[3:-3]
    assert {"--fail-on-warning", "--nitpicky"} <= set(options)
    command = [sys.executable, "-m", "sphinx", *options, str(ROOT / "docs"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return folder


class Links(HTMLParser):
    """Where a page leads, what it loads, and the places in it that links may name."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.leads: set[str] = set()
        self.loads: set[str] = set()
        self.places: set[str] = set()
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name == "id" and value:
                self.places.add(value)
            elif name == "href" and value and tag == "a":
                self.leads.add(value)
            elif value and (name == "src" or (name == "href" and tag == "link")):
                self.loads.add(value)


def test_site__links_lead_somewhere_and_nothing_comes_from_elsewhere(site: Path) -> None:
    pages = {page: Links(page) for page in sorted(site.glob("*.html"))}
    assert len(pages) > 20
    for page, links in pages.items():
        for link in links.loads | links.leads:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                assert link in links.leads, f"{page.name} loads {link}"
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            assert target.exists(), f"{page.name}: {link}"
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in pages[target].places, f"{page.name}: {link}"


def test_site__has_every_public_name_and_command(site: Path) -> None:
    import streamhalf
    from streamhalf.cli import COMMANDS

    places = Links(site / "api.html").places
    public = [name for name in streamhalf.__all__ if not name.startswith("__")]
    homes = {place.rpartition(".")[2] for place in places}
    assert [name for name in public if name not in homes] == []
    assert {command.__name__ for command in COMMANDS} <= Links(site / "commands.html").places


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (390, "dark")])
def test_site__opens_by_itself(site: Path, browser: Browser, width: int, scheme: Any) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    try:
        for name in ("index", "tutorial", "api", "real-data"):
            page.goto((site / f"{name}.html").as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.goto((site / "commands.html").as_uri())
        boxes = page.locator("pre").evaluate_all("found => found.map(one => one.scrollWidth - one.clientWidth)")
        assert len(boxes) > 10
        assert width < 1200 or max(boxes) <= 1  # no help is cut off
        page.goto((site / "search.html").as_uri() + "?q=certificate")
        page.wait_for_selector("ul.search li a")
    finally:
        page.close()
    assert said == []
    assert [one for one in asked if not one.startswith(("file:", "data:"))] == []
