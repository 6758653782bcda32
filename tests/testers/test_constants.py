from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest

from scripts.attacking.constants import ANGLES, KINDS, MARGIN, as_json, made_from, tolerances_of
from scripts.attacking.plane import Fineness
from scripts.attacking.program import Program
from streamhalf.testers.constants import (
    DEVIATIONS,
    FINEST_SCALE,
    SAMPLING,
    SLACKS,
    TABLES,
    SlabSlack,
    constant_by_scale,
    falling_share,
    read_tables,
    supported_constant,
)

COARSE = Fineness(inner=2, ratio=1.6, heights=9)
FALLING = {2.0**-k: 0.2 * falling_share(2.0**-k, 1 / 8) for k in range(4)}


def tabulated(kind: str, last: float, deviation: float, slack: float) -> float:
    return TABLES[kind][last][DEVIATIONS.index(deviation)][SLACKS.index(slack)]


@pytest.mark.parametrize("last", sorted(ANGLES))
def test_supported_constant__hits_the_table(last: float) -> None:
    for deviation, slack in itertools.product(DEVIATIONS, SLACKS):
        found = supported_constant(deviation, last=last, masses_off=slack * last)
        expected = SAMPLING * tabulated("flat", last, deviation, slack)
        assert found == pytest.approx(expected, abs=0.011)
        assert found >= expected - 1e-9


@pytest.mark.parametrize(
    ("changed", "value", "like"),
    [
        ("deviation", 0.21, {"deviation": 0.25}),
        ("masses_off", 0.0313, {"masses_off": 1 / 16}),
        ("masses_off", 0.3, {"masses_off": math.inf}),
        ("last", 0.144, {"last": 1 / 8}),
        ("last", 0.12, {"last": 1 / 16}),
    ],
)
def test_supported_constant__between_points_takes_the_worse(changed: str, value: float, like: dict[str, float]) -> None:
    point = {"deviation": 0.2, "last": 1 / 8, "masses_off": 1 / 32}
    if changed == "last":
        point["masses_off"] = math.inf
    assert supported_constant(**{**point, changed: value}) == supported_constant(**point | like)


def test_tables__never_fall_with_looser_tests_or_a_finer_scale() -> None:
    for kind in KINDS:
        table = np.array([TABLES[kind][last] for last in sorted(TABLES[kind], reverse=True)])
        assert table.shape == (len(ANGLES), len(DEVIATIONS), len(SLACKS))
        for axis in range(3):
            assert (np.diff(table, axis=axis) >= 0).all()
    # slack makes a difference, at every scale
    assert all(rows[3][-1] > 1.2 * rows[3][0] for rows in TABLES["falling"].values())


@pytest.mark.parametrize("deviation", [0.501, 1.0, math.inf, math.nan])
def test_supported_constant__is_infinite_beyond_the_table(deviation: float) -> None:
    assert supported_constant(deviation, last=0.25, masses_off=0.01) == math.inf
    assert supported_constant(0.1, last=FINEST_SCALE / 2, masses_off=0.01) == math.inf
    assert supported_constant(0.1, last=0.25, masses_off=math.nan) == math.inf


def test_constant_by_scale__takes_the_better_table() -> None:
    found = constant_by_scale(FALLING, masses_off=1 / 32)
    assert found == pytest.approx(SAMPLING * tabulated("falling", 1 / 8, 0.2, 0.25), abs=0.011)
    flat = constant_by_scale(dict.fromkeys(FALLING, 0.1), masses_off=1 / 32)
    assert flat == supported_constant(0.1, last=1 / 8, masses_off=1 / 32)


def test_constant_by_scale__one_bad_scale_decides() -> None:
    good = dict.fromkeys([2.0**-k for k in range(5)], 0.05)
    one, two, three, none = (
        constant_by_scale({**good, 0.25: worst}, masses_off=0.01) for worst in (0.05, 0.2, 0.4, 0.7)
    )
    assert one < two < three < none == math.inf


def test_constant_by_scale__grows_with_what_slab_masses_may_be_off_by() -> None:
    exact, some, much = (constant_by_scale(FALLING, masses_off=off) for off in (0.0, 0.06, 0.11))
    # with the first coordinate taken to be normal 6.3 was printed for all three
    assert exact < some < much
    assert some > 8.5
    assert much > 11.7


def test_slab_slack__says_nothing_of_slabs_narrower_than_those_tested() -> None:
    slack = SlabSlack(0.07, 0.04)
    assert (slack.at(0.14), slack.at(0.07), slack.at(0.06)) == (0.04, 0.04, math.inf)


@pytest.mark.parametrize(("kind", "masses_off"), [("flat", 0.0625), ("falling", 0.0625)])
def test_tables__are_not_below_what_a_coarse_program_finds(kind: str, masses_off: float) -> None:
    program = Program(0.1, last=1 / 8, fineness=COARSE)
    law = program.solve(tolerances_of(kind, 0.2, 1 / 8), masses_off=masses_off)
    normal = program.solve(tolerances_of(kind, 0.2, 1 / 8))
    assert 2 < normal.constant < law.constant / 1.5
    assert law.constant <= tabulated(kind, 1 / 8, 0.2, 0.5)
    assert law.error == pytest.approx(law.constant * law.opt + 1 / 16, rel=0.02)


def test_as_json__is_the_content_of_the_tables() -> None:
    found = {
        (kind, last): {
            (deviation, slack): 100 * deviation + min(slack, 2)
            for deviation, slack in itertools.product(DEVIATIONS, SLACKS)
        }
        for kind, last in itertools.product(KINDS, ANGLES)
    }
    gains = dict.fromkeys(itertools.product(DEVIATIONS, SLACKS), 1.2)
    read = read_tables(json.loads(as_json(found, gains)))
    assert read == (DEVIATIONS, SLACKS, made_from(found, gains))
    first = read[2]["flat"][1 / 8][3][0]
    assert first == pytest.approx(1.2 * MARGIN * 20.125, abs=0.1)
    assert first >= 1.2 * MARGIN * 20.125
