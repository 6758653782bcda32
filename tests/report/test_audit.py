from __future__ import annotations

import io
from html.parser import HTMLParser

import numpy as np
import pytest
from rich.console import Console

import streamhalf
from streamhalf.report.audit import audit_section, render_audit, show_audit, sparkline
from streamhalf.results import AuditResult, Gathering, replace
from tests.conftest import make_rows

X, Y = make_rows(4_000, 3, seed=8)


@pytest.fixture(scope="module")
def result() -> AuditResult:
    """Labels of the third quarter of the rows are tampered with more."""
    y = Y.copy()
    y[2_000:3_000:3] *= -1
    return streamhalf.audit((X, y), model=[1.0, 0.0, 0.0]).result


def shown(result: AuditResult) -> str:
    said = io.StringIO()
    show_audit(Console(file=said, width=80), result)
    return said.getvalue()


def test_show_audit__fits_80_columns_and_shows_where(result: AuditResult) -> None:
    text = shown(result)
    assert max(map(len, text.splitlines())) <= 80
    spark = next(line for line in text.splitlines() if "█" in line)
    assert len(spark) == 64
    heights = ["▁▂▃▄▅▆▇█".index(one) for one in spark]
    assert min(heights[33:47]) > max(heights[:31])
    assert f"{result.n_issues:,} of 4,000 rows" in text
    assert str(result.suspects[9].row) in text
    assert f"\n{result.suspects[10].row:>4} " not in text


def test_show_audit__says_that_there_are_none() -> None:
    right = np.where(X[:, 0] >= 0, 1, -1)
    text = shown(streamhalf.audit((X, right), model=[1.0, 0.0, 0.0]).result)
    assert "No label of 4,000 rows looks wrong" in text
    assert "█" not in text


def test_sparkline__of_nothing_is_flat() -> None:
    assert sparkline([0.0, 0.0]) == "▁▁"
    assert sparkline([0.0, 1.0]) == "▁█"


def test_section__has_figure_and_tables_and_escapes_names(result: AuditResult) -> None:
    odd = replace(result, gatherings=(Gathering("<script>", "1", 9, 10, 0.5, 5.0, 1e-3),))
    section = audit_section(odd)
    assert "&lt;script&gt;" in section
    assert "<script>" not in section
    assert section.count("<svg") == 4  # two figures, for a page and for a phone
    assert str(result.suspects[0].row) in section


def test_page__is_whole(result: AuditResult) -> None:
    page = render_audit(result)
    opened: list[str] = []

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            opened.append(tag)

    Tags().feed(page)
    assert page.startswith("<!DOCTYPE html>")
    assert {"html", "head", "body", "main", "section", "svg", "table"} <= set(opened)
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")
