from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from scripts.attacking.constants import tolerances_of
from scripts.attacking.plane import Fineness
from scripts.attacking.program import Program
from streamhalf.testers.constants import (
    FALLING,
    FLAT,
    SAMPLING,
    constant_by_scale,
    falling_share,
    supported_constant,
)

COARSE = Fineness(inner=2, ratio=1.6, heights=9)


def test_supported_constant__hits_the_table() -> None:
    for deviation, constant in FLAT:
        assert supported_constant(deviation) == pytest.approx(SAMPLING * constant, abs=0.01)


def test_supported_constant__never_falls_and_never_is_below_its_interpolation() -> None:
    grid = np.linspace(0, 0.5, 301)
    constants = [supported_constant(one) for one in grid]
    assert all(a <= b for a, b in itertools.pairwise(constants))
    assert (np.array(constants) >= np.interp(grid, *zip(*FLAT, strict=True)) - 1e-6).all()


@pytest.mark.parametrize("deviation", [0.501, 1.0, math.inf, math.nan])
def test_supported_constant__is_infinite_beyond_the_table(deviation: float) -> None:
    assert supported_constant(deviation) == math.inf


def test_constant_by_scale__takes_the_better_table() -> None:
    falling = {2.0**-k: 0.2 * falling_share(2.0**-k, 1 / 64) for k in range(7)}
    assert constant_by_scale(falling) == pytest.approx(SAMPLING * dict(FALLING)[0.2], abs=0.01)
    flat = constant_by_scale(dict.fromkeys(falling, 0.1))
    assert flat == pytest.approx(SAMPLING * dict(FLAT)[0.1], abs=0.01)


def test_constant_by_scale__one_bad_scale_decides() -> None:
    good = dict.fromkeys([2.0**-k for k in range(5)], 0.05)
    assert constant_by_scale({**good, 0.25: 0.4}) > constant_by_scale({**good, 0.25: 0.2})
    assert constant_by_scale({**good, 0.25: 0.2}) > constant_by_scale(good)
    assert constant_by_scale({**good, 0.25: 0.7}) == math.inf


@pytest.mark.parametrize(("kind", "table"), [("flat", FLAT), ("falling", FALLING)])
def test_tables__are_not_below_what_a_coarse_program_finds(
    kind: str, table: tuple[tuple[float, float], ...]
) -> None:
    program = Program(0.45, last=1 / 8, fineness=COARSE)
    law = program.solve(tolerances_of(kind, 0.2, 1 / 8))
    assert 3 < law.constant <= dict(table)[0.2]
    assert law.error == pytest.approx(law.constant * law.opt + 1 / 16, rel=0.02)
