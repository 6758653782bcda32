"""Progress on a terminal: one line for each pass, whatever its width."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from streamhalf import events
from streamhalf.report.progress import _Bars, watch
from streamhalf.results import Outcome, PassRecord, Stage, TestResult

JUDGED = TestResult("largest moment", Outcome.PASSED, 0.06, 0.1, 0.02, 1000, stage=Stage.FINAL, pass_name="final")
HAPPENED = (
    events.RunStarted("fit", "data.zarr", 3_000_000, 6),
    events.PassStarted("sample", 3_000_000, 3),
    events.PassProgress("sample", 1_000_000, 3_000_000),
    events.PassEnded(PassRecord("sample", 3_000_000, 1, 1_500_000, 0.5)),
    events.PassStarted("final", 3_000_000, 3, "delta 0.25"),
    events.PassProgress("final", 2_000_000, 3_000_000),
    events.PassEnded(PassRecord("final", 3_000_000, 1, 3_000_000, 2.0)),
    events.TesterJudged(JUDGED),
    events.PassStarted("certificate", 3_000_000, 3),
)


def lines(width: int, *, terminal: bool = True, happened: tuple[events.Event, ...]) -> list[str]:
    stream = io.StringIO()
    console = Console(file=stream, width=width, force_terminal=terminal, color_system=None)
    with watch(console) as observe:
        for event in happened:
            observe(event)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    return [line for line in re.split(r"[\r\n]+", plain) if line.strip()]


@pytest.mark.parametrize("width", [30, 60, 80, 100, 140])
def test_watch__one_line_for_a_pass_that_fits(width: int) -> None:
    found = lines(width, happened=HAPPENED)
    assert max(map(len, found)) <= width
    finished = [line for line in found if "━" not in line and "╌" not in line]
    over = [line for line in finished if line.startswith("final")]
    assert over
    assert {line.split()[0] for line in finished} <= {"sample", "final", "certificate"}
    # rows/s are over the whole time of the pass
    assert ("1.5 M rows/s" in over[-1]) is (width >= 60)
    assert ("largest moment at 60%" in over[-1]) is (width >= 80)
    assert ("60% of its limit" in over[-1]) is (width >= 100)


def test_watch__a_pass_that_was_broken_off_leaves_no_line() -> None:
    assert not any(line.startswith("final") for line in lines(80, happened=HAPPENED[:4])[-1:])


def test_bars__a_search_has_one_of_operations_until_it_ends() -> None:
    stream = io.StringIO()
    bars = _Bars(Console(file=stream, width=100, force_terminal=True, color_system=None))
    for event in (*HAPPENED[:8], events.SearchProgress(0, 1000), events.SearchProgress(250, 1000)):
        bars.observe(event)
    assert "final" in stream.getvalue()
    assert "60% of its limit" in stream.getvalue()
    assert "25% of at most 1,000 operations" in bars.line().plain
    assert "rows/s" not in bars.line().plain
    bars.observe(events.SearchProgress(1000, 1000))
    assert bars.line().plain == ""


def test_watch__plain_lines_elsewhere() -> None:
    assert lines(80, terminal=False, happened=HAPPENED) == [
        "pass sample: 3,000,000 rows in 0.50 s (6 M rows/s)",
        "pass final: 3,000,000 rows in 2.00 s (1.5 M rows/s)",
    ]


def test_watch__no_colour_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = io.StringIO()
    with watch(Console(file=stream, width=80, force_terminal=True)) as observe:
        for event in HAPPENED:
            observe(event)
    assert "\x1b[36m" not in stream.getvalue()  # cyan
