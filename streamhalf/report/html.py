"""A report as one HTML file: no script, no request, every word from the document escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

from streamhalf.records import CertifyResult, FitResult
from streamhalf.report.figures import Column, Figure, HeatMap, Picture, Plot, Points, Steps, Table
from streamhalf.report.stylesheet import STYLESHEET
from streamhalf.report.svg import draw
from streamhalf.report.view import Report, Section, view_result

_WIDE, _NARROW = 790, 350
"""Widths pictures are drawn for: a page on a screen, and a phone or half a page."""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""The browser itself refuses any request, whatever a document might smuggle in."""


def render_report(result: FitResult | CertifyResult) -> str:
    """The whole report of a result as one self-contained HTML document."""
    report = view_result(result)
    title = f"{report.badge.word}: {report.subject}"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLESHEET}</style>\n</head>\n<body>\n"
        f"{_header(report)}\n{_navigation(report)}\n<main>\n"
        f"{''.join(map(_section, report.sections))}</main>\n"
        f"<footer><p>{escape(report.footer)}</p></footer>\n</body>\n</html>\n"
    )


def _header(report: Report) -> str:
    badge = report.badge
    notices = ""
    if report.notices:
        notices = f'<div class="notices"><h2>Notices</h2>{_list(report.notices)}</div>'
    advice = ""
    if report.advice:
        advice = f'<div class="advice"><h2>What to do</h2>{_list(report.advice)}</div>'
    return (
        f"<header>\n<h1>{escape(report.title)}</h1>\n"
        f'<p class="subject">{escape(report.subject)}</p>\n'
        f'<div class="verdict {badge.tone}">\n'
        f'<p class="badge"><span aria-hidden="true">{badge.sign}</span>{badge.word}</p>\n'
        f'<p class="headline">{escape(report.headline)}</p>\n'
        f"{_paragraphs(report.details)}{advice}\n</div>\n{notices}</header>"
    )


def _navigation(report: Report) -> str:
    links = "".join(
        f'<li><a href="#{section.anchor}">{escape(section.title)}</a></li>'
        for section in report.sections
    )
    return f'<nav aria-label="Sections"><ul>{links}</ul></nav>'


def _list(items: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{_with_code(item)}</li>' for item in items)}</ul>"


def _with_code(text: str) -> str:
    """Escaped words, with `options` set as code so that they do not break at a hyphen."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def _paragraphs(texts: Iterable[str]) -> str:
    return "".join(f"<p>{_with_code(text)}</p>\n" for text in texts)


def _section(section: Section) -> str:
    name = f"{section.anchor}-title"
    body = [
        _paragraphs(section.paragraphs),
        *(_figure(figure) for figure in section.figures),
        *(_table(table, whole=True) for table in section.tables),
        *(_fold(table.caption, (table,)) for table in section.folded),
    ]
    return (
        f'<section id="{section.anchor}" aria-labelledby="{name}">\n'
        f'<h2 id="{name}">{escape(section.title)}</h2>\n{"".join(body)}</section>\n'
    )


def _figure(figure: Figure) -> str:
    many = len(figure.pictures) > 1
    pictures = "".join(
        _half_picture(picture) if many else _full_picture(picture) for picture in figure.pictures
    )
    columns = " many" if many else ""
    return (
        f'<figure>\n<div class="pictures{columns}">{pictures}</div>\n'
        f"<figcaption>{escape(figure.caption)}</figcaption>\n"
        f"{_fold('The numbers of this figure', figure.tables)}</figure>\n"
    )


def _full_picture(picture: Picture) -> str:
    """A picture as wide as the page, and again for a phone; the stylesheet shows one of them."""
    wide = draw(picture, _WIDE).replace("<svg", '<svg class="wide"', 1)
    narrow = draw(picture, _NARROW).replace("<svg", '<svg class="narrow"', 1)
    return f'<div class="one">{wide}{narrow}{_key(picture)}</div>'


def _half_picture(picture: Picture) -> str:
    drawn = draw(picture, _NARROW).replace("<svg", '<svg class="narrow"', 1)
    title = f"<h3>{escape(picture.title)}</h3>" if isinstance(picture, HeatMap) else ""
    return f"<div>{title}{drawn}{_key(picture)}</div>"


def _key(picture: Picture) -> str:
    """What the marks of a plot stand for, where there is more than one."""
    marks = picture.marks if isinstance(picture, Plot) else ()
    named = [mark for mark in marks if isinstance(mark, Steps | Points)]
    if len(named) < 2:
        return ""
    items = "".join(f"<li>{_swatch(mark)}{escape(mark.label)}</li>" for mark in named)
    return f'<ul class="key">{items}</ul>'


def _swatch(mark: Steps | Points) -> str:
    filled = isinstance(mark, Steps) and mark.filled
    kind = "filled" if filled else mark.role.value
    return f'<i class="{kind}" aria-hidden="true"></i>'


def _fold(summary: str, tables: Iterable[Table]) -> str:
    inside = "".join(_table(table) for table in tables)
    return f"<details><summary>{escape(summary)}</summary>{inside}</details>\n"


def _table(table: Table, *, whole: bool = False) -> str:
    """A table in a box that scrolls by itself, also with the keyboard."""
    name = escape(table.caption, quote=True)
    heads = "".join(
        f'<th scope="col"{_kind(column)}>{escape(column.label)}</th>' for column in table.columns
    )
    rows = "".join(_row(table, row) for row in table.rows)
    kind = "scroll whole" if whole else "scroll"
    return (
        f'<div class="{kind}" role="region" aria-label="{name}" tabindex="0"><table>'
        f"<caption>{name}</caption><thead><tr>{heads}</tr></thead>"
        f"<tbody>{rows}</tbody></table></div>\n"
    )


def _row(table: Table, row: tuple[str, ...]) -> str:
    cells = []
    for i, (column, text) in enumerate(zip(table.columns, row, strict=True)):
        tag, scope = ("th", ' scope="row"') if i == 0 else ("td", "")
        cells.append(f"<{tag}{scope}{_kind(column)}>{escape(text)}</{tag}>")
    return f"<tr>{''.join(cells)}</tr>"


def _kind(column: Column) -> str:
    if column.numeric:
        return ' class="number"'
    return ' class="unbroken"' if column.name else ""
