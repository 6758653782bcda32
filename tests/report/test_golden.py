"""Every view against the texts in golden/, and the rules that all of them keep."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from streamhalf.report.html import render_report
from tests.report.golden import FOLDER, outputs, prose, shown
from tests.report.results import Results

MOST_LINES, MOST_IN_SENTENCE, MOST_IN_REPORT = 20, 30, 900
ROOT = Path(__file__).parents[2]


def sentences(text: str) -> list[str]:
    """Sentences of a text: a full stop, a blank line or the end of an element ends one."""
    return [one for one in re.split(r"[.!?:](?=\s|$)|\n\s*\n", text) if one.strip()]


def longest(text: str) -> str:
    return max(sentences(text), key=lambda one: len(one.split()))


@pytest.fixture(scope="module")
def texts(results: Results) -> dict[str, str]:
    return outputs(results)


def test_views__say_what_was_written_down(texts: dict[str, str]) -> None:
    """After an intended change: python -m tests.report.golden, and read the difference."""
    known = {path.stem: path.read_text("utf-8") for path in FOLDER.glob("*.txt")}
    assert texts == known


def test_terminal__fits_twenty_lines_and_breaks_no_word(results: Results) -> None:
    for name, result in results.every().items():
        wide = shown(result, 400)
        for width in (80, 100, 140):
            text = shown(result, width)
            assert len(text.splitlines()) <= MOST_LINES, name
            assert max(map(len, text.splitlines())) <= width
            assert set(text.split()) == set(wide.split()), name


def test_sentences__have_at_most_thirty_words(results: Results, texts: dict[str, str]) -> None:
    pages = [prose(render_report(one)).replace("\n", "\n\n") for one in results.reported().values()]
    wide = [shown(one, 400).replace("\n", "\n\n") for one in results.every().values()]
    for text in (*pages, *wide, texts["notices"], texts["promises"]):
        found = longest(text)
        assert len(found.split()) <= MOST_IN_SENTENCE, found


def test_readme__has_sentences_of_at_most_thirty_words() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    text = re.sub(r"^(\||#|!).*$", "", text, flags=re.M)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    found = longest(re.sub(r"^- ", "\n", text, flags=re.M))
    assert len(found.split()) <= MOST_IN_SENTENCE, found


def test_report__has_few_words(results: Results) -> None:
    for name, one in results.reported().items():
        assert len(prose(render_report(one)).split()) <= MOST_IN_REPORT, name
