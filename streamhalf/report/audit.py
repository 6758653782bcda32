"""An audit of labels in words: on a terminal, as a section of a report, or as a page of its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from rich.console import Console
from rich.text import Text

from streamhalf.report.figures import Figure
from streamhalf.report.html import macro
from streamhalf.report.svg import Axis, Plot, Steps, shorten
from streamhalf.report.tables import Cells, Table
from streamhalf.report.terminal import show_panel, show_table
from streamhalf.report.words import count, number, percent
from streamhalf.results import AuditResult, CalibrationRecord, ReviewRecord, Segment, Suspect

_BARS = "▁▂▃▄▅▆▇█"
_SPARKS = 64  # Segments that fit on a line
# Segments in a figure, and rows that each has at least: the share of a few is chance
_MOST_STEPS, _LEAST_ROWS = 256, 50
_GATHERING: Cells = {
    "where": lambda one: f"{one.column}: {one.value}" if one.column else one.value,
    "share of rows": lambda one: percent(one.share),
    "issues": lambda one: count(one.n_issues),
    "by chance": lambda one: number(one.expected),
    "probability": lambda one: number(one.chance) if one.chance >= 1e-12 else "< 1e-12",
}


def _say(name: str) -> Callable[..., str]:
    write = macro("audit.txt.j2", name)

    def say(*values: Any) -> str:
        parts = (" ".join(part.split()) for part in write(*values).split("\n\n"))
        return "\n".join(part for part in parts if part)

    return say


audit_headline = _say("audit_headline")
audit_details = _say("audit_details")
gathering_sentence = _say("gathering_sentence")
segment_sentence = _say("segment_sentence")
reliability_sentence = _say("reliability_sentence")
review_headline = _say("review_headline")
review_details = _say("review_details")


def show_audit(console: Console, result: AuditResult) -> None:
    said = "\n".join(filter(None, (audit_headline(result), audit_details(result))))
    show_panel(console, said, "audit")
    if not result.n_wrong:
        return
    show_table(console, suspect_table(result, 10, own=3, width=14))
    if result.gatherings:
        show_table(console, gathering_table(result, 5), title=True)
    merged = _merged(result.segments, _SPARKS)
    console.print(Text(sparkline([_share(one) for one in merged])))
    console.print(_say_of(merged), highlight=False)


def show_review(console: Console, record: ReviewRecord) -> None:
    show_panel(console, f"{review_headline(record)}\n{review_details(record)}", "review")
    show_table(console, review_table(record))


def review_table(record: ReviewRecord) -> Table:
    cells: Cells = {
        "rows": lambda one: one.name,
        "of them": lambda one: count(one.n_rows),
        "reviewed": lambda one: count(one.n_reviewed),
        "wrong": lambda one: count(one.n_wrong),
        "unsure": lambda one: count(one.n_unsure),
        "at least": lambda one: count(one.low),
        "at most": lambda one: count(one.high),
    }
    return Table.of("Wrong labels by stratum", cells, record.strata, words=("rows",))


def reliability_figure(curve: CalibrationRecord) -> Figure:
    said = reliability_sentence(curve)
    n, low = 15, 100 / 15
    by_bin = {min(int(one.predicted * n), n - 1): one for one in curve.reliability}
    found = [by_bin.get(i) for i in range(n)]
    edges = tuple(i * low for i in range(n + 1))
    observed = tuple(math.nan if one is None else 100 * one.observed for one in found)
    expected = tuple(math.nan if one is None else 100 * one.predicted for one in found)
    picture = Plot(
        "Reliability of probabilities",
        said,
        Axis("probability of label +1", 0.0, 100.0, unit="%"),
        Axis("share of label +1", 0.0, 100.0, unit="%"),
        (
            Steps("observed", edges=edges, heights=observed, filled=True),
            Steps("predicted", "contrast", edges=edges, heights=expected),
        ),
    )
    cells: Cells = {
        "probability": lambda one: percent(one.predicted),
        "share of label +1": lambda one: percent(one.observed),
        "rows": lambda one: count(one.n_rows),
    }
    table = Table.of("Reliability", cells, curve.reliability)
    return Figure((picture,), said, (table,))


def sparkline(values: list[float]) -> str:
    """One character for each value, from 0 to the largest."""
    top = max(values) or 1.0
    return "".join(_BARS[round((len(_BARS) - 1) * value / top)] for value in values)


def suspect_table(result: AuditResult, most: int, own: int = 20, width: int = 40) -> Table:
    """Return the first suspects with columns of the user, `own` of them, cut to `width`."""
    shown = result.suspects[:most]
    cells: dict[str, Callable[[Any], str]] = {"row": lambda one: str(one.row)}
    for i, name in enumerate(result.columns[:own]):
        cells[name] = partial(_own_cell, i, width)
    words = tuple(cells)[1:]
    cells |= {
        "given": lambda one: str(one.given_label),
        "predicted": lambda one: str(one.predicted_label),
        "score": lambda one: f"{one.label_score:.4f}",
    }
    if any(one.other_score is not None for one in shown):
        cells["other score"] = lambda one: "" if one.other_score is None else f"{one.other_score:.4f}"
    cells["margin"] = lambda one: f"{one.margin:.4f}"
    if result.angle is not None:
        cells["agreed"] = lambda one: "yes" if one.agreed else "no"
    caption = f"The {count(min(most, len(result.suspects)))} surest rows"
    return Table.of(caption, cells, shown, words=(*words, "agreed"))


def _own_cell(place: int, width: int, one: Suspect) -> str:
    return "" if (value := one.values[place]) is None else shorten(str(value), width)


def gathering_table(result: AuditResult, most: int) -> Table:
    return Table.of("Where label issues gather", _GATHERING, result.gatherings[:most], words=("where",))


def segment_figure(result: AuditResult) -> Figure:
    merged = _merged(result.segments, _MOST_STEPS)
    edges = (0.0, *(float(one.stop) for one in merged))
    shares = tuple(100 * _share(one) for one in merged)
    high, said = max(shares), _say_of(merged)
    picture = Plot(
        "Label issues by segment of rows",
        said,
        Axis("row", 0.0, edges[-1], whole=True),
        Axis("label issues", 0.0, 1.1 * high or 1.0, unit="%"),
        (Steps("label issues", edges=edges, heights=shares, filled=True),),
    )
    cells: Cells = {
        "rows": lambda one: f"{count(one.start)} to {count(one.stop - 1)}",
        "issues": lambda one: count(one.n_issues),
        "misclassified": lambda one: count(one.n_wrong),
        "share": lambda one: percent(_share(one)),
    }
    table = Table.of("Label issues by segment", cells, merged, words=("rows",))
    return Figure((picture,), said, (table,))


_KNOWN = {
    "headline": audit_headline,
    "details": audit_details,
    "segment_figure": segment_figure,
    "suspect_table": suspect_table,
    "gathering_table": gathering_table,
    "reliability_figure": reliability_figure,
    "gathering_sentence": gathering_sentence,
    "review_table": review_table,
}
audit_section = macro("audit.html.j2", "section", **_KNOWN)
_page = macro("audit.html.j2", "page", **_KNOWN)


def render_audit(result: AuditResult) -> str:
    """Return the audit as one self-contained HTML document."""
    return _page(result).lstrip()


def _say_of(segments: list[Segment]) -> str:
    shares, first = [_share(one) for one in segments], segments[0]
    return segment_sentence(len(segments), first.stop - first.start, min(shares), max(shares))


def _merged(segments: tuple[Segment, ...], most: int) -> list[Segment]:
    """Neighbours together, so that there are `most` at most, with rows enough to have a share."""
    rows = segments[-1].stop - segments[0].start
    size = -(-len(segments) // max(1, min(most, rows // _LEAST_ROWS)))
    parts = [segments[i : i + size] for i in range(0, len(segments), size)]
    counts = ("n_wrong", "n_agreed", "n_issues")
    sums = [[sum(getattr(one, name) for one in part) for name in counts] for part in parts]
    return [Segment(part[0].start, part[-1].stop, *own) for part, own in zip(parts, sums, strict=True)]


def _share(segment: Segment) -> float:
    return segment.n_issues / max(1, segment.stop - segment.start)
