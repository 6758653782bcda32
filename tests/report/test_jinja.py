"""Templates: what they escape, what they refuse, and that all of them are read."""

from __future__ import annotations

from importlib import resources

import pytest
from jinja2 import UndefinedError

from streamhalf.report.jinja import macro, template
from streamhalf.report.live_html import badge

NAMES = sorted(
    one.name for one in resources.files("streamhalf.report").joinpath("templates").iterdir()
)


def test_templates__are_all_there() -> None:
    assert NAMES == [
        "audit.html.j2",
        "audit.txt.j2",
        "captions.txt.j2",
        "card.html.j2",
        "live.html.j2",
        "parts.html.j2",
        "report.html.j2",
        "style.css",
        "words.txt.j2",
    ]
    for name in NAMES:
        assert template(name).filename is not None


def test_template__lacks_no_value_silently() -> None:
    with pytest.raises(UndefinedError, match="verdict"):
        template("report.html.j2").render()
    with pytest.raises(UndefinedError, match="unheard of"):
        badge("unheard of")


def test_macro__escapes_where_the_text_is_html() -> None:
    row = macro("live.html.j2", "row")
    assert "<td" in row("<b>", "&")
    assert ">&lt;b&gt;</td>" in row("<b>", "&")
    section = macro("words.txt.j2", "evidence_features")
    assert "Features are whitened: each is its column" in section("isotropic")
    assert "Features are those of the radial transform" in section("radial")
    assert section("stored").strip() == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("use `--eps 0.1` now", "use <code>--eps 0.1</code> now"),
        ("`<b>`", "<code>&lt;b&gt;</code>"),
        ("one ` alone <", "one ` alone &lt;"),
    ],
)
def test_with_code__escapes_first(text: str, shown: str) -> None:
    filters = template("report.html.j2").environment.filters
    assert filters["with_code"](text) == shown
