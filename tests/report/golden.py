"""Views of results of every kind as text; `python -m tests.report.golden` writes it anew."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from rich.console import Console

import streamhalf
from streamhalf.report import terminal
from streamhalf.report.first_screen import promise_line
from streamhalf.report.html import render_report
from streamhalf.report.words import notice_sentence
from streamhalf.results import CertifyResult, FitResult, MomentTestResult, Notice, NoticeCode, replace
from streamhalf.results.quality import PromiseCode
from tests.report.results import Results, make_results

FOLDER = Path(__file__).parent / "golden"
VERBOSE = ("accepted", "rejected", "certificate")
READ = ("accepted", "certified", "rejected", "inconclusive", "one_class", "certificate")
SHOW: dict[type, Callable[..., None]] = {
    FitResult: terminal.show_classifier,
    CertifyResult: terminal.show_classifier,
    MomentTestResult: terminal.show_test,
}
NOTICES = {
    NoticeCode.LABELS_ABSENT: {"array": "y"},
    NoticeCode.LABELS_ARE_BITS: {"array": "y"},
    NoticeCode.LABELS_READ: {"array": "y", "low": "no", "high": "yes"},
    NoticeCode.FEATURES_CONVERTED: {"array": "X", "stored": "int64", "used": "float64"},
    NoticeCode.ROWS_DROPPED: {"dropped": 12, "stored": 1000},
    NoticeCode.GAPS_FILLED: {"gaps": 12, "features": 2},
    NoticeCode.TABLE_ENCODED: {"columns": 5, "features": 7, "dropped": "id", "gaps": 3},
    NoticeCode.SLOW_TABLE: {"size": 10**10},
    NoticeCode.ONE_CLASS: {"label": 1},
    NoticeCode.NEARLY_ONE_CLASS: {"label": 1, "share": 0.002},
    NoticeCode.NO_BETTER_THAN_GUESS: {"label": -1, "error": 0.3},
    NoticeCode.NO_ROOM: {"size": 3_000_000_000, "room": 1_000_000_000},
    NoticeCode.FEWER_AT_ONCE: {"at_once": 1, "threads": 8, "size": 10**9, "room": 15 * 10**8},
    NoticeCode.EPS_NOT_REACHED: {"asked": 0.01, "reached": 0.2, "noise": True},
    NoticeCode.REPEATED_ROWS: {"share": 0.2, "times": 1.4},
    NoticeCode.ERRORS_DISAGREE: {"held_out": 0.1, "upper": 0.11, "all_rows": 0.2},
    NoticeCode.ERRORS_CLUSTER: {"segments": 1, "factor": 12.0},
    NoticeCode.ROWS_IN_ORDER: {"quantity": "x", "feature": 2, "factor": 40.0},
    NoticeCode.RADII_DRAWN: {"at_centre": 0.1},
    NoticeCode.RESUMED: {"place": "checkpoint", "passes": 3},
    NoticeCode.RUNS_ON: {"place": "tcp://10.0.0.1:8786", "why": "the client of this process"},
    NoticeCode.LAZY_ROWS: {"size": 10**10, "kept": "nowhere", "place": ""},
}


def shown(result: Any, width: int = 80, *, verbose: bool = False) -> str:
    """Return what a terminal of this width shows of a result."""
    stream = io.StringIO()
    console = Console(file=stream, width=width, color_system=None, force_terminal=False)
    SHOW[type(result)](console, result, verbose)
    return _same(stream.getvalue())


def planned(**given: Any) -> str:
    """Return what a terminal shows of a plan."""
    stream = io.StringIO()
    terminal.show_plan(Console(file=stream, width=80, color_system=None), streamhalf.plan(**given))
    return _same(stream.getvalue())


def promised(results: Results, code: PromiseCode) -> str:
    """Return the promise of an accepted or rejected run by its code."""
    one = results.rejected if code is PromiseCode.FEATURES else results.accepted
    assert one.promise is not None
    promise = replace(one.promise, code=code, constant=4.9, eps=0.01, at_most=0.32)
    line = promise_line(replace(one, promise=promise))
    return f"{line.sign} {line}"


def _same(text: str) -> str:
    """Return a text without what differs from run to run."""
    text = re.sub(r" *\d[\d.,]* s\b", " # s", text)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


class _Reader(HTMLParser):
    """Collects the words of a page outside tables and pictures."""

    KEPT = ("h1", "h2", "p", "li", "figcaption", "summary")
    LEFT_OUT = ("table", "svg", "style", "dl")

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.lines: list[str] = []
        self._hidden = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self._hidden += tag in self.LEFT_OUT
        if tag in self.KEPT:
            self.lines.append("")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in self.LEFT_OUT

    def handle_data(self, data: str) -> None:
        if not self._hidden and self.lines:
            self.lines[-1] = f"{self.lines[-1]} {data}".strip()


def prose(page: str) -> str:
    """Return the words of a report outside tables and pictures, a line for each element."""
    found = (" ".join(line.split()) for line in _Reader(page).lines)
    text = "\n".join(line for line in found if line) + "\n"
    return re.sub(r"Made by .*", "Made by", text)


def outputs(results: Results) -> dict[str, str]:
    """Return every text by the name of its file."""
    every = results.every()
    found = {f"terminal-{name}": shown(one) for name, one in every.items()}
    found |= {f"verbose-{name}": shown(every[name], verbose=True) for name in VERBOSE}
    found |= {f"report-{name}": prose(render_report(every[name])) for name in READ}
    found["promises"] = "".join(f"{promised(results, code)}\n" for code in PromiseCode)
    found["plan-enough"] = planned(n_rows=1_000_000, dim=4)
    found["plan-too-few"] = planned(n_rows=500, dim=4, positive=0.2)
    assert NOTICES.keys() == set(NoticeCode)
    told = (notice_sentence(Notice.of(code, **fields)) for code, fields in NOTICES.items())
    found["notices"] = "\n".join(told) + "\n"
    return found


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.txt"):
        old.unlink()
    for name, text in outputs(make_results()).items():
        (FOLDER / f"{name}.txt").write_text(text, "utf-8")
        print(f"wrote {name}.txt")


if __name__ == "__main__":
    main()
