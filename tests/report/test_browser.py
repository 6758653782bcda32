"""The report in a real browser: it opens, fits, shows every figure, and opens no connection."""

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

EVERY = ("accepted", "rejected", "inconclusive", "one_class", "certificate")
PHONE, DESK = 390, 1200

Opener = Callable[..., AbstractContextManager["Page"]]


@pytest.fixture(scope="module")
def folder(results: Results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reports")
    for name, result in results.reported().items():
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


OPEN = "() => document.querySelectorAll('details').forEach(one => one.open = true)"
OUTSIDE = """() => [...document.querySelectorAll("svg text")].filter(text => {
    const word = text.getBoundingClientRect();
    const frame = text.ownerSVGElement.getBoundingClientRect();
    return word.width && (word.left < frame.left - 1 || word.right > frame.right + 1
        || word.top < frame.top - 1 || word.bottom > frame.bottom + 1);
}).map(text => text.textContent)"""
OVERLAPPING = """() => [...document.querySelectorAll("svg")].flatMap(svg => {
    const words = [...svg.querySelectorAll("text")].map(one => [one.textContent,
        one.getBoundingClientRect()]).filter(([_, box]) => box.width);
    return words.flatMap(([a, one], i) => words.slice(i + 1).filter(([b, other]) =>
        one.left < other.right - 1 && other.left < one.right - 1
        && one.top < other.bottom - 3 && other.top < one.bottom - 3)
        .map(([b, _]) => a + " | " + b));
})"""


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("name", EVERY)
def test_report__fits_folded_and_unfolded(open_page: Opener, name: str, width: int) -> None:
    with open_page(name, width, "dark" if width == PHONE else "light") as page:
        assert page.locator(".tiles li:visible").count() == (0 if name == "one_class" else 3)
        assert page.locator(".promise:visible").count() == 1
        assert page.locator(".advice li").count() <= 3
        assert page.locator("main svg:visible").count() == 0
        last = page.locator(".promise").bounding_box()
        assert last is not None
        assert last["y"] < 900  # the first screen
        page.evaluate(OPEN)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for picture in page.locator(".picture").all():
            assert picture.locator("svg:visible").count() == 1
        assert page.evaluate(OUTSIDE) == []
        assert page.evaluate(OVERLAPPING) == []


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
        return [of("body", "color"), of(".gist", "color"), of("a", "color"),
            of(".promise b", "color"), of("svg .tick", "fill"), of("svg .on-contrast", "fill")];
    }"""
    with open_page("accepted", DESK, scheme) as page:
        assert min(page.evaluate(measure)) >= 4.5


def test_page__is_named_for_those_who_cannot_see_it(open_page: Opener) -> None:
    with open_page("rejected") as page:
        page.evaluate(OPEN)
        assert page.get_by_role("img").count() == page.locator("svg:visible").count() > 3
        for title in page.locator("svg:visible > title").all_text_contents():
            assert page.get_by_role("img", name=title).count() >= 1
        for role in ("banner", "main", "contentinfo"):
            assert page.get_by_role(role).count() == 1
        assert page.get_by_role("heading", level=1).count() == 1


def test_keyboard__opens_every_section(open_page: Opener) -> None:
    with open_page("accepted") as page:
        folds = page.locator(".section > summary").count()
        assert folds > 5
        for _ in range(folds):
            page.keyboard.press("Tab")
            assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
            page.keyboard.press("Enter")
            page.keyboard.press("Enter")
        assert page.locator("details[open]").count() == 0


def test_paper__shows_what_is_folded(open_page: Opener) -> None:
    with open_page("accepted", DESK, "dark") as page:
        page.emulate_media(media="print", color_scheme="dark")
        assert page.locator("#testers table").first.is_visible()
        box = page.locator("#facts table").first.bounding_box()
        assert box is not None
        assert box["height"] > 100
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == "rgb(255, 255, 255)"
        assert len(page.pdf(format="A4")) > 50_000
