"""Reads a report back: nesting, headings, tables, figures and text, with the standard parser."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "br", "img", "link", "input", "hr"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    parents: tuple[str, ...]
    text: str = ""


@dataclass
class Page(HTMLParser):
    """Every element with its text; parsing fails where elements are not properly nested."""

    source: str
    elements: list[Element] = field(default_factory=list)
    tables: dict[str, list[list[str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[Element] = []
        self._rows: list[list[str]] = []
        self.feed(self.source)
        self.close()
        assert not self._open, f"left open: {[one.tag for one in self._open]}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        parents = tuple(one.tag for one in self._open)
        assert len(dict(attrs)) == len(attrs), f"an attribute twice in <{tag}>"
        element = Element(tag, {name: value or "" for name, value in attrs}, parents)
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)
        if tag == "table":
            self._rows = []
        if tag == "tr":
            self._rows.append([])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        element = self._open.pop()
        assert element.tag == tag, f"</{tag}> closes <{element.tag}>"
        if tag in ("td", "th"):
            self._rows[-1].append(element.text)
        if tag == "table":
            caption = [one.text for one in self.elements if one.tag == "caption"][-1]
            assert caption not in self.tables, f"two tables {caption!r}"
            self.tables[caption] = self._rows

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text += data

    def all(self, tag: str) -> list[Element]:
        return [element for element in self.elements if element.tag == tag]

    def body(self, caption: str) -> list[list[str]]:
        """The rows of a table without its head; every row is as long as the head."""
        head, *rows = self.tables[caption]
        assert all(len(row) == len(head) for row in rows)
        return rows

    @property
    def text(self) -> str:
        return self.all("body")[0].text


def value(cell: str) -> float:
    """The number that a cell shows, in the document's own unit."""
    if cell == "–":
        return float("nan")
    plain = cell.replace(",", "")
    if plain.endswith("%"):
        return float(plain[:-1]) / 100
    return float(plain.removesuffix(" s").removesuffix("°"))
