"""TestResults in words: what counts is counted, and what only warns is called so."""

from __future__ import annotations

import math

import pytest

from streamhalf.report import live
from streamhalf.report.test_results import (
    deciding,
    near_boundary,
    outcome_counts,
    outcome_words,
    question,
    remark_words,
    wedge_angle,
    wedge_bound,
    wedge_shift,
)
from streamhalf.results import Outcome, Role, Stage, TestResult, replace
from tests.report.conftest import Results

JUDGED = TestResult("largest moment", Outcome.REJECTED, 2.0, 0.1, 0.2, 100)


@pytest.mark.parametrize(
    ("outcome", "role", "words"),
    [
        (Outcome.PASSED, Role.REQUIRED, "passed"),
        (Outcome.REJECTED, Role.EXTRA, "rejected"),
        (Outcome.INCONCLUSIVE, Role.EXTRA, "extra, not judged"),
        (Outcome.NOT_JUDGED, Role.EXTRA, "extra, not judged"),
        (Outcome.NOT_JUDGED, Role.REFINEMENT, "not judged"),
        (Outcome.NOT_JUDGED, Role.ADVISORY, "noticed"),
        (Outcome.REJECTED, Role.EARLY, "rejected, early"),
    ],
)
def test_outcome_words__say_what_a_word_counts_for(
    outcome: Outcome, role: Role, words: str
) -> None:
    assert outcome_words(replace(JUDGED, outcome=outcome, role=role)) == words


def test_outcome_counts__have_those_with_a_say_first() -> None:
    extra = replace(JUDGED, role=Role.EXTRA, outcome=Outcome.INCONCLUSIVE)
    passed = replace(JUDGED, outcome=Outcome.PASSED)
    said = outcome_counts((extra, JUDGED, passed, passed))
    assert said == "2 passed, 1 rejected, 1 extra, not judged"


def test_deciding__leaves_early_warnings_out_once_there_is_more() -> None:
    early, passed = replace(JUDGED, role=Role.EARLY), replace(JUDGED, outcome=Outcome.PASSED)
    assert deciding([early]) == [early]
    assert deciding([early, passed]) == [passed]
    assert live.tester_views([early])["largest moment"].worst == early
    view = live.tester_views([early, passed])["largest moment"]
    assert (view.worst, view.n_judged) == (passed, 1)


@pytest.mark.parametrize(
    ("tester", "stage", "scale", "words"),
    [
        ("largest moment", Stage.INITIAL, None, ""),
        ("largest moment", Stage.FINAL, 1.0, ""),
        ("largest moment", Stage.FINAL, 0.125, ", of the rows near the boundary at scale 0.125,"),
        ("acceptance", Stage.UPDATE, None, ", of the rows near the boundary,"),
        ("slab mass", Stage.FINAL, 0.1, ""),
        ("wedge", Stage.FINAL, 0.1, ""),
    ],
)
def test_near_boundary__of_steps_alone(
    tester: str, stage: Stage, scale: float | None, words: str
) -> None:
    assert near_boundary(replace(JUDGED, tester=tester, stage=stage, scale=scale)) == words


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"candidate": 2, "scale": 0.25}, "candidate 2 · delta 0.25"),
        ({"tester": "wedge", "candidate": 0, "scale": 0.1}, "candidate 0 · eta 0.1"),
        ({"role": Role.EARLY}, "warns only: of the pass's own rows"),
        (
            {"role": Role.EXTRA, "outcome": Outcome.INCONCLUSIVE, "rows_needed": 5000},
            "needs 5,000 rows to pass",
        ),
        (
            {"role": Role.REFINEMENT, "outcome": Outcome.NOT_JUDGED, "directions": 24},
            "finer than the scale that is judged · sketched on 24 directions",
        ),
    ],
)
def test_remark_words__name_scale_and_role(changes: dict[str, object], words: str) -> None:
    assert remark_words(replace(JUDGED, **changes)) == words


def test_wedge__is_that_of_the_returned_halfspace(results: Results) -> None:
    result = results.accepted
    assert result.chosen is not None
    assert wedge_bound(result) == result.candidates[result.chosen].beta
    own = [one for one in result.testers if one.tester == "wedge"]
    (eta,) = {one.scale for one in own if one.candidate == result.chosen}
    assert eta is not None
    assert 2 * math.sin(wedge_angle(result) / 2) == pytest.approx(eta)
    assert wedge_bound(replace(result, chosen=99)) is None
    assert wedge_bound(replace(result, chosen=None)) is None


def test_question__of_a_guest_is_none() -> None:
    assert question("wedge").endswith("?")
    assert question("guest") == ""


def test_wedge_shift__keeps_within_what_the_bound_is_for(results: Results) -> None:
    """Turned by up to the angle, thresholds at its ends: |t - t' / cos| is at most eta."""
    accepted = results.accepted
    chosen = accepted.chosen
    assert chosen is not None
    for t in (0.0, -0.7, 2.0):
        moved = replace(accepted.candidates[chosen], threshold=t)
        some = list(accepted.candidates)
        some[chosen] = moved
        result = replace(accepted, candidates=tuple(some))
        angle, shift = wedge_angle(result), wedge_shift(result)
        eta = 2 * math.sin(angle / 2)
        assert 0 < shift <= eta
        for turned in (angle * step / 8 for step in range(9)):
            for other in (t - shift, t, t + shift):
                assert abs(t - other / math.cos(turned)) <= eta * (1 + 1e-12)
