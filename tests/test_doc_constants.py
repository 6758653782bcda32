"""Constants in docs/algorithm.md, docs/guide.md and help texts are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from streamhalf.algorithms import localization, localized_update, plan, promises
from streamhalf.algorithms.plan import FIRST_DELTA, PAPER_FIRST_DELTA
from streamhalf.certificate import certification, conflict_sets, search
from streamhalf.certificate.certification import certificate_degree
from streamhalf.config import SETTINGS, RunConfig
from streamhalf.testers.acceptance import ACCEPTANCE_TOLERANCE
from streamhalf.testers.constants import FINEST_SCALE
from streamhalf.testers.moments import SKETCH_DIRECTIONS, WIDE_DIM
from streamhalf.testers.slabs import COVARIANCE_LIMIT
from streamhalf.testers.wedge import ANY_WEDGE_LIMIT, WEDGE_LIMIT

ROOT = Path(__file__).parents[1]
DEFAULT = RunConfig()
ALGORITHM, GUIDE, HELP = "docs/algorithm.md", "docs/guide.md", "help"


def power(value: int) -> str:
    """2^20."""
    assert value == 1 << (value.bit_length() - 1)
    return f"2^{value.bit_length() - 1}"


def fraction(value: float) -> str:
    """1/64."""
    assert (1 / value).is_integer()
    return f"1/{1 / value:g}"


MOST_SIX = max(dim for dim in range(2, 40) if certificate_degree("auto", dim) == 6)
ENOUGH = {degree: f"{power(n)} and {per:g}" for degree, (n, per) in certification._ENOUGH_ROWS.items()}

SAID = [
    (ALGORITHM, f"of degree 1 to k | {DEFAULT.moment_tolerance:g} |"),
    (ALGORITHM, f"- I | {DEFAULT.spectral_tolerance:g} |"),
    (ALGORITHM, f"of degree <= 2 | {DEFAULT.quadratics_tolerance:g} |"),
    (ALGORITHM, f"from 1 | {ACCEPTANCE_TOLERANCE:g} |"),
    (ALGORITHM, f"in every slab | {COVARIANCE_LIMIT:g} |"),
    (ALGORITHM, f"below 1/2 | {WEDGE_LIMIT:g}; {ANY_WEDGE_LIMIT:g} where neighbours may have any threshold |"),
    (
        ALGORITHM,
        f"With more than {WIDE_DIM} features, degree 2 is tested in full and degree k on the span "
        f"of the last two candidates and random directions, {SKETCH_DIRECTIONS} in all",
    ),
    (ALGORITHM, f"as many as memory has room for ({power(plan._MOST_SAMPLED)} at most)"),
    (ALGORITHM, f"for learning, up to {power(plan._FIRST_ROWS)} where that costs nothing"),
    (ALGORITHM, f"An update accepts {plan._LEARNING_ROWS:,} + {plan._ROWS_PER_FEATURE} d rows or more"),
    (
        ALGORITHM,
        f"The scale starts at {fraction(FIRST_DELTA)} and halves after a step shorter than "
        f"{localization._SMALL_STEP:g} delta",
    ),
    (ALGORITHM, f"halves every time from {fraction(PAPER_FIRST_DELTA)}"),
    (ALGORITHM, f"The scale starts at {fraction(plan._FAR_DELTA)} where t is above {fraction(plan._FAR)}"),
    (ALGORITHM, f"of up to {power(plan.REFINING_ROWS)} rows for learning, and in memory"),
    (ALGORITHM, f"or at {localized_update._WIDE:g} if that is finer"),
    (ALGORITHM, f"Rows lie within {localized_update._REACH:g} times that scale"),
    (ALGORITHM, f"add up to {localized_update._LEAST} + {localized_update._LEAST_PER_FEATURE} d"),
    (ALGORITHM, f"up to {power(plan.SCANNED_ROWS)} rows for learning give every candidate"),
    (ALGORITHM, f"`auto`, reuse up to {power(plan.FEW_ROWS)} rows"),
    (ALGORITHM, f"Scales below {fraction(FINEST_SCALE)} were not looked at"),
    (ALGORITHM, f"Moments have degree 6 up to {MOST_SIX} features, else 4"),
    (ALGORITHM, f"the larger of {ENOUGH[4]} d²/error (degree 6: {ENOUGH[6]} d²/error)"),
    (ALGORITHM, f"1.2e10 and {search.MATRICES} times the cube"),
    (ALGORITHM, f"two seconds for {conflict_sets._MOST_ROWS:,})"),
    (ALGORITHM, f"({conflict_sets._MOST_REPEATED:,} where most rows repeat or few are wrong)"),
    (ALGORITHM, f"Up to {conflict_sets._MOST_ROWS:,} rows sets are counted first"),
    (GUIDE, f"Up to {power(plan.FEW_ROWS)} rows, passes that learn use the same rows again"),
    (GUIDE, f"Where C is above {promises.GOOD_CONSTANT:g}, the report says"),
    (GUIDE, f"There is no C with more than {WIDE_DIM} features"),
    (GUIDE, f"nor at scales below {fraction(FINEST_SCALE)}"),
    (HELP, f"6 up to {MOST_SIX} features, else 4"),
    (HELP, f"the larger of {ENOUGH[4]} d² / error"),
    (HELP, f"reuse up to {power(plan.FEW_ROWS)} rows"),
]


def text_of(page: str) -> str:
    """A page on one line, or all help texts."""
    if page == HELP:
        return " ".join(setting.help for setting in SETTINGS.values())
    return " ".join((ROOT / page).read_text("utf-8").split())


@pytest.mark.parametrize(("page", "said"), SAID)
def test_constants__are_those_of_the_code(page: str, said: str) -> None:
    assert said in text_of(page)


@pytest.mark.parametrize("page", [ALGORITHM, GUIDE, HELP])
def test_constants__no_number_of_rows_is_left_unchecked(page: str) -> None:
    text = text_of(page)
    for checked, said in SAID:
        if checked in (page, HELP):
            text = text.replace(said, "")
    known = {"2^18 rows of 16 float32 features"}  # arithmetic: 16 MiB
    for one in known:
        text = text.replace(one, "")
    assert re.findall(r"\b2\^\d\d\b|\b\d+ features, else", text) == []


def test_budget__is_what_the_page_says() -> None:
    parts = {"testers": plan.TESTERS_TAU, "`error.upper`": plan.ERROR_TAU, "`opt.lower`": plan.BOUND_TAU}
    for what, part in parts.items():
        assert f"| tau/{1 / part:g} | {what}" in text_of(ALGORITHM)
