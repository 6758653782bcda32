"""The live view as a value: folding events, and the messages that carry them."""

from __future__ import annotations

import json

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamhalf import events
from streamhalf.engine.live_messages import Happening, RunClosed, coarsen, decode, encode
from streamhalf.events import (
    Event,
    PassEnded,
    PassProgress,
    PassStarted,
    RunEnded,
    RunStarted,
    SlabsCounted,
    SlabsMeasured,
)
from streamhalf.report.figures import slab_shares
from streamhalf.report.live import Board, RunView, mass_so_far, run_html, run_table
from streamhalf.results import (
    Drift,
    DriftStatement,
    Evidence,
    Moment,
    Notice,
    NoticeCode,
    Outcome,
    PassRecord,
    TestResult,
    Verdict,
)


def judge(tester: str, statistic: float, *, outcome: Outcome = Outcome.PASSED) -> TestResult:
    evidence = (Evidence(Moment((0,)), 1.0, 0.0, 1.0, 0.5),)
    return TestResult(tester, outcome, statistic, 0.5, 0.1, 100, None, evidence, "update-1")


STORY: list[Event] = [
    RunStarted("fit", "rows<b>.zarr", 1000, 3, (Notice.of(NoticeCode.LABELS_ABSENT, array="12 rows & more"),)),
    PassStarted("initial", 400, 4),
    PassProgress("initial", 100, 400),
    PassProgress("initial", 400, 400),
    PassEnded(PassRecord("initial", 400, 8000, 400, 2.0)),
    PassStarted("update-1", 600, 6, "delta 0.5"),
    PassProgress("update-1", 150, 600),
    events.TesterJudged(judge("moments", 0.2)),
    events.TesterJudged(judge("moments", 0.4)),
    events.TesterJudged(judge("moments", 0.1)),
    events.TesterJudged(judge("mass", 0.0, outcome=Outcome.NOT_JUDGED)),
    SlabsMeasured(0.5, (20, 60, 80, 90, 85, 15)),
    RunEnded(Verdict.ACCEPTED),
]


def told(story: list[Event | RunClosed]) -> list[Happening]:
    return [(100.0 + i, event) for i, event in enumerate(story)]


def seen(story: list[Event | RunClosed]) -> RunView:
    view = RunView("run-1", 100.0)
    for at, event in told(story):
        view.take(at, event)
    return view


def test_run_view__folds_a_run() -> None:
    view = seen(STORY)
    initial, update = view.passes
    assert (initial.done, initial.share, initial.rows_per_second) == (True, 1.0, 200.0)
    assert (update.done, update.share, update.detail) == (False, 0.25, "delta 0.5")
    assert update.rows_per_second == 150.0  # one second after it began
    assert view.testers["moments"].n_judged == 3
    assert view.testers["moments"].worst.share == pytest.approx(0.8)
    assert view.testers["mass"].worst.share == 0.0
    assert (view.status, view.closed) == ("accepted", True)


def test_run_view__shows_what_a_watch_found() -> None:
    one = DriftStatement("means", "age", Drift.DRIFTED, 40.0, 44.0, 0.4, 0.02, 0.025, 3, 1)
    view = seen([RunStarted("watch", "new.zarr", 400, 3), events.Watched(Drift.DRIFTED, 2, (one,)), RunClosed()])
    assert view.status == "drifted"
    assert "mean of age" in run_html(view)
    assert "0.400 sd" in run_html(view)


def test_run_view__says_how_long_it_will_take() -> None:
    begun = RunStarted("fit", "rows.zarr", 400, 3, seed=7, who="ann@box", rows_planned=2000)
    view = seen([begun, *STORY[1:5]])
    assert (view.begun.seed, view.begun.who) == (7, "ann@box")
    assert view.pass_seconds_left is None  # no pass is under way
    view = seen([begun, PassStarted("initial", 400, 4), PassProgress("initial", 100, 400)])
    assert view.pass_seconds_left == pytest.approx(3.0)  # 100 rows a second
    assert view.seconds_left == pytest.approx(19.0)
    assert "about 3 s left of this pass, 19 s of all that are planned" in run_html(view)
    view.take(110.0, RunClosed("no one <b> wanted it", interrupted=True))
    assert (view.status, view.seconds_left) == ("interrupted", None)
    assert "no one &lt;b&gt; wanted it" in run_html(view)


def test_run_view__shows_the_answer() -> None:
    found = events.Answered(error=0.051, error_upper=0.06, upper=0.05, lower=0.025, eps=0.1)
    text = run_html(seen([*STORY[:-1], found, STORY[-1]]))
    assert "error on fresh rows 5.10% · at most 6.00% · best possible 2.50% or more" in text


@pytest.mark.parametrize(
    ("run", "short"), [("Client-95e58969-e2c5-11f1-ad80-02fc00000001-3", "95e58969-3"), ("run-1", "run-1")]
)
def test_run_view__has_a_short_name(run: str, short: str) -> None:
    assert RunView(run, 0.0).short == short


def test_run_view__a_rejection_is_worse_than_any_margin() -> None:
    rejected = events.TesterJudged(judge("moments", 0.3, outcome=Outcome.REJECTED))
    view = seen([rejected, events.TesterJudged(judge("moments", 9.0))])
    assert view.testers["moments"].worst == rejected.test_result


PART = SlabsCounted("final", 0.5, (0, 10, 40, 40, 10, 0))


def test_run_view__adds_slabs_of_a_pass_under_way() -> None:
    view = seen([*STORY[:7], events.TesterJudged(judge("moments", 0.2))])
    before = view.at
    view.take(1e9, PART)
    view.take(1e9, PART)
    assert view.at == before  # a worker's clock does not set ours
    assert view.slabs == SlabsCounted("final", 0.5, (0, 20, 80, 80, 20, 0))
    # |0.1 - 0.1499| + |0.4 - 0.1915|, twice, and the tails 2 · 0.1587, over 0.5
    assert mass_so_far(view) == pytest.approx(1.669, abs=1e-3)
    assert "200 rows so far" in run_html(view)
    assert "slab mass so far" in run_html(view)
    view.take(101.0, PassEnded(PassRecord("final", 400, 8000, 400, 2.0)))
    view.take(102.0, SlabsMeasured(0.5, (1, 60, 80, 80, 60, 1)))
    view.take(1e9, PART)  # late: all rows are counted already
    assert view.slabs == SlabsMeasured(0.5, (1, 60, 80, 80, 60, 1))
    assert mass_so_far(view) is None
    assert "so far" not in run_html(view)


def test_run_view__slabs_of_another_layout_begin_anew() -> None:
    view = seen(STORY[:2])
    for other in (
        PART,
        SlabsCounted("final-2", 0.5, (1, 1, 1, 1)),
        SlabsCounted("final-2", 0.5, (1, 1, 1, 1), -0.7),  # another plane
    ):
        view.take(1.0, other)
        assert view.slabs == other
    view.take(1.0, SlabsCounted("final-2", 0.5, ()))
    assert view.slabs == other


def test_board__does_not_begin_a_run_with_slabs() -> None:
    board = Board()
    board.take(encode("forgotten", [(1.0, PART)]))
    assert board.runs == {}
    board.take(encode("run-1", told(STORY[:2])))
    board.take(encode("run-1", [(1.0, PART)]))
    assert board.runs["run-1"].slabs == PART


def test_run_view__a_pass_from_a_checkpoint_was_never_started() -> None:
    view = seen([PassEnded(PassRecord("initial", 400, 8000, 300, 2.0))])
    assert [(one.name, one.done, one.rows_accepted) for one in view.passes] == [("initial", True, 300)]


@pytest.mark.parametrize(("last", "status"), [(RunClosed(), "finished"), (RunClosed("KeyError"), "failed")])
def test_run_view__ends_without_a_verdict(last: RunClosed, status: str) -> None:
    assert seen(STORY[:3]).status == "running"
    assert seen([*STORY[:3], last]).status == status


def test_encode__survives_msgpack_and_json() -> None:
    happenings = [*told(STORY), (200.0, RunClosed())]
    message = encode("run-1", happenings)
    assert len(json.dumps(message, allow_nan=False)) < 4000
    for copy in (json.loads(json.dumps(message)), msgpack.unpackb(msgpack.packb(message))):
        run, happened = decode(copy)
        assert run == "run-1"
        there = RunView(run, 100.0)
        for at, event in happened:
            there.take(at, event)
        here = seen(STORY)
        here.take(200.0, RunClosed())
        assert run_html(there) == run_html(here)


@pytest.mark.parametrize(
    "message",
    [
        None,
        {},
        {"run": "r", "events": 5},
        {"run": "r", "events": [[1.0, {"event": "RunAway"}]]},
        {"run": "r", "events": [[1.0, {"event": "PassProgress", "name": 3}]]},
        {"run": "r", "events": [["soon", {"event": "RunEnded", "verdict": "accepted"}]]},
    ],
)
def test_board__passes_over_what_is_not_ours(message: object) -> None:
    board = Board()
    board.take(message)
    assert (board.runs, board.version) == ({}, 0)


def test_board__forgets_old_runs_but_not_the_one_under_way() -> None:
    board = Board()
    board.take(encode("long", told(STORY[:2])))
    for i in range(50):
        board.take(encode(f"run-{i}", told(STORY)))
    assert "long" in board.runs
    assert list(board.runs)[-1] == "run-49"
    assert len(board.runs) == 20


def test_board__knows_which_runs_of_a_client_are_under_way() -> None:
    board = Board()
    board.take(encode("client-a-1", told(STORY)))
    board.take(encode("client-a-2", told(STORY[:2])))
    board.take(encode("client-b-3", told(STORY[:2])))
    assert board.under_way("client-a") == ["client-a-2"]
    assert board.under_way() == ["client-a-2", "client-b-3"]


@given(st.integers(1, 400), st.floats(0.01, 0.5))
def test_coarsen__keeps_the_rows_and_the_middle(half: int, width: float) -> None:
    rng = np.random.default_rng(half)
    counts = tuple(rng.integers(0, 50, 2 * half + 2).tolist())
    coarse = coarsen(SlabsMeasured(width, counts, 0.3))
    assert coarse.threshold == 0.3
    assert sum(coarse.counts) == sum(counts)
    assert len(coarse.counts) % 2 == 0
    assert len(coarse.counts) <= 82
    assert sum(coarse.counts[: len(coarse.counts) // 2]) == sum(counts[: half + 1])
    assert coarse.width == pytest.approx(width * round(coarse.width / width))


@pytest.mark.parametrize("threshold", [0.0, 1.2])
def test_slab_picture__is_about_the_threshold_and_of_a_gaussian_on_the_line(threshold: float) -> None:
    margins = np.random.default_rng(1).standard_normal(200_000) - threshold
    edges = np.arange(-10, 11) * 0.25
    inner, _ = np.histogram(margins, edges)
    counts = (int((margins < edges[0]).sum()), *inner.tolist(), int((margins >= edges[-1]).sum()))
    observed, expected = slab_shares(counts, 0.25, threshold)
    assert observed == pytest.approx(expected, abs=0.005)  # 8 standard deviations at least
    html = run_html(seen([*STORY[:2], SlabsMeasured(0.25, counts, threshold)]))
    assert "Margins of 200,000 rows along" in html
    assert f"boundary, t = {threshold:g}" in html


def test_run_html__draws_the_path_and_the_bound() -> None:
    found = events.Answered(
        upper=0.05, lower=0.02, path=(0.2, None, 0.05), chosen=2, profile=((0.0, 90.0, 0.02), (90.0, 180.0, 0.3))
    )
    html = run_html(seen([*STORY[:-1], found, STORY[-1]]))
    assert "Errors of the candidates" in html
    assert "Lower bound by angle" in html
    assert "this classifier 5.00%" in html


def test_html__escapes_whatever_comes_from_outside() -> None:
    view = seen(STORY)
    html = run_html(view) + run_table([view])
    assert "rows&lt;b&gt;.zarr" in html
    assert "12 rows &amp; more" in html
    assert "<b>.zarr" not in html
    assert "delta 0.5" in html
    assert "80%" in run_html(seen(STORY[:-1]))  # of a run under way
