"""The report in a real browser: it opens, fits, shows every figure, and talks to nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streamhalf.report.html import render_report
from tests.report.results import Results
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

EVERY = ("accepted", "certified", "rejected", "inconclusive", "certificate")
PHONE, DESK = 390, 1200

Opener = Callable[..., AbstractContextManager["Page"]]


@pytest.fixture(scope="module")
def folder(results: Results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reports")
    for name, result in results.every().items():
        (path / f"{name}.html").write_text(render_report(result), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def tab(browser: Browser) -> Iterator[Page]:
    """One page for all reports: to make one takes longer than to load a report."""
    page = browser.new_page()
    page.set_default_timeout(1000 * PATIENCE)
    yield page
    page.close()


@pytest.fixture
def open_page(tab: Page, folder: Path) -> Opener:
    """Open a report; on leaving, nothing was said on the console and nothing was asked for."""

    @contextmanager
    def open_one(name: str, width: int = DESK, scheme: Any = "light") -> Iterator[Page]:
        requests: list[str] = []
        said: list[str] = []
        listeners: dict[Any, Callable[[Any], None]] = {
            "request": lambda request: requests.append(request.url),
            "console": lambda message: said.append(message.text),
            "pageerror": lambda error: said.append(str(error)),
        }
        tab.set_viewport_size({"width": width, "height": 900})
        tab.emulate_media(media="screen", color_scheme=scheme)
        for event, listener in listeners.items():
            tab.on(event, listener)
        try:
            address = (folder / f"{name}.html").as_uri()
            tab.goto(address)
            yield tab
            assert said == []
            assert requests == [address]
        finally:
            for event, listener in listeners.items():
                tab.remove_listener(event, listener)

    return open_one


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("name", EVERY)
def test_report__fits_and_shows_every_figure(
    open_page: Opener, name: str, width: int, scheme: str
) -> None:
    with open_page(name, width, scheme) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        pictures = page.locator(".pictures > div").all()
        assert len(pictures) >= (1 if name == "inconclusive" else 3)
        for picture in pictures:
            # of a picture drawn for two widths, one is to be seen
            assert picture.locator("svg:visible").count() == 1
            box = picture.locator("svg:visible").bounding_box()
            assert box is not None
            assert box["width"] > 250
            assert box["height"] > 40
            assert box["x"] + box["width"] <= width


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("name", EVERY)
def test_figures__keep_their_words_inside(open_page: Opener, name: str, width: int) -> None:
    outside = """() => [...document.querySelectorAll("svg text")].filter(text => {
        const word = text.getBoundingClientRect();
        const frame = text.ownerSVGElement.getBoundingClientRect();
        return word.width && (word.left < frame.left - 1 || word.right > frame.right + 1
            || word.top < frame.top - 1 || word.bottom > frame.bottom + 1);
    }).map(text => text.textContent)"""
    with open_page(name, width) as page:
        assert page.evaluate(outside) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text__stands_out_from_the_page(open_page: Opener, scheme: str) -> None:
    # contrast as WCAG 2 defines it; 4.5 is what it asks of text
    measure = """() => {
        const light = colour => {
            const parts = colour.match(/[\\d.]+/g).slice(0, 3).map(part => part / 255);
            const [r, g, b] = parts.map(c => c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4);
            return .2126 * r + .7152 * g + .0722 * b;
        };
        const page = light(getComputedStyle(document.body).backgroundColor);
        const of = (query, key) => {
            const own = light(getComputedStyle(document.querySelector(query))[key]);
            return (Math.max(own, page) + .05) / (Math.min(own, page) + .05);
        };
        return [of("body", "color"), of("figcaption", "color"), of("a", "color"),
            of(".badge", "color"), of("svg .tick", "fill"), of("svg .on-contrast", "fill")];
    }"""
    with open_page("accepted", DESK, scheme) as page:
        assert min(page.evaluate(measure)) >= 4.5


@pytest.mark.parametrize("name", EVERY)
def test_figures__have_accessible_names(open_page: Opener, name: str) -> None:
    with open_page(name) as page:
        images = page.get_by_role("img").count()
        assert images == page.locator("svg:visible").count() > 0
        for title in page.locator("svg:visible > title").all_text_contents():
            assert page.get_by_role("img", name=title).count() >= 1
        for role in ("banner", "navigation", "main", "contentinfo"):
            assert page.get_by_role(role).count() == 1
        assert page.get_by_role("heading", level=1).count() == 1


def test_keyboard__reaches_and_opens_every_fold(open_page: Opener) -> None:
    with open_page("accepted") as page:
        folds = page.locator("summary").count()
        assert folds > 5
        reached = 0
        for _ in range(400):
            page.keyboard.press("Tab")
            tag = page.evaluate("document.activeElement.tagName")
            if tag == "SUMMARY":
                reached += 1
                page.keyboard.press("Enter")
            if tag == "BODY":
                break
        assert reached == folds
        assert page.locator("details[open]").count() == folds
        assert page.locator("details table:visible").count() >= folds
        assert page.evaluate("document.documentElement.scrollWidth") <= DESK


def test_open_tables__scroll_by_themselves_on_a_phone(open_page: Opener) -> None:
    with open_page("accepted", PHONE) as page:
        for summary in page.locator("summary").all():
            summary.click()
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE


def test_links__lead_to_their_sections(open_page: Opener) -> None:
    with open_page("rejected") as page:
        for link in page.locator("nav a").all():
            target = page.locator(str(link.get_attribute("href")))
            assert target.get_by_role("heading", level=2).first.inner_text() == link.inner_text()


def test_paper__leaves_out_what_cannot_be_opened(open_page: Opener) -> None:
    with open_page("accepted", DESK, "dark") as page:
        page.emulate_media(media="print", color_scheme="dark")
        assert page.locator("summary:visible").count() == 0
        assert page.locator("nav:visible").count() == 0
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == "rgb(255, 255, 255)"
        assert page.pdf(format="A4").startswith(b"%PDF")


def test_passes__fit_a_phone_and_names_stay_whole(open_page: Opener) -> None:
    with open_page("accepted", PHONE) as page:
        table = page.locator("#passes .scroll")
        assert table.evaluate("box => box.scrollWidth <= box.clientWidth")
        heights = page.locator("#testers .unbroken").evaluate_all(
            "cells => cells.map(cell => getComputedStyle(cell).whiteSpace)"
        )
        assert set(heights) == {"nowrap"}
        shade = table.evaluate("box => getComputedStyle(box).backgroundAttachment")
        assert shade == "local, local, scroll, scroll"
