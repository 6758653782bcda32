"""Refine: finer scales, from all rows next to the last candidate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from streamhalf.algorithms.plan import REFINED
from streamhalf.algorithms.refine import Refine
from streamhalf.algorithms.state import Candidate
from streamhalf.data.block import Block
from streamhalf.kernels.plane import Plane

DIM, N_ROWS, DELTA = 5, 100_000, 0.1
THRESHOLD = 0.3


def draw(seed: int = 1, n_rows: int = N_ROWS, noise: float = 0.05, threshold: float = THRESHOLD) -> Block:
    """Gaussian rows, labels of the first feature with a threshold, some flipped at random."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, DIM))
    y = np.where((X[:, 0] > threshold) ^ (rng.random(n_rows) < noise), 1, -1).astype(np.int8)
    return Block(X, y, np.arange(n_rows))


def make(n_rows: int = N_ROWS, **parameters: Any) -> Refine:
    """The refine of a plane that is off by 0.03."""
    plane = Plane(np.array([1.0, 0.03, 0.0, 0.0, 0.0]), THRESHOLD + 0.02).unit()
    given = {"size": n_rows, "seed": 1, "centred": False} | parameters
    return Refine(start=Candidate(plane, DELTA, 0.0, 0.9, 9, 9), n_rows=n_rows, **given)


def refined(refine: Refine, block: Block) -> tuple[Candidate, ...]:
    needs = refine.needs()
    return refine.conclude(needs.finalize(needs.map(block)))


def off(plane: Plane) -> float:
    return float(np.hypot(plane.angle_to(Plane(np.eye(DIM)[0])), plane.threshold - THRESHOLD))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_polish__planes_of_the_last_scales_are_nearer(seed: int) -> None:
    refine = make()
    found = refined(refine, draw(seed))
    assert len(found) == REFINED
    before, last = found
    assert last.delta == before.delta / 2 < DELTA / 2
    # an update errs by about delta sqrt(d / accepted rows) along all directions together, 0.002 at
    # the last scale but one; ten times that is out of reach of chance
    assert off(refine.start.plane) > 0.03
    assert max(off(one.plane) for one in found) < 0.01
    assert np.linalg.norm(last.plane.normal) == pytest.approx(1)


def test_polish__through_the_origin_there_is_no_threshold() -> None:
    refine = make(centred=True)
    start = replace(refine.start, plane=Plane(refine.start.plane.normal))
    found = refined(replace(refine, start=start), draw(threshold=0.0))
    assert {one.plane.threshold for one in found} == {0.0}


def test_polish__keeps_no_more_rows_than_there_is_room_for() -> None:
    wide, narrow = make(), make(size=20_000)
    assert wide.reach == pytest.approx(3 * DELTA)
    assert 1.5 * DELTA <= narrow.reach < wide.reach
    needs = narrow.needs()
    kept = needs.finalize(needs.map(draw())).n_rows
    assert kept == pytest.approx(20_000, rel=0.1)
    assert max(off(one.plane) for one in refined(narrow, draw())) < 0.02


def test_polish__labels_that_are_noise_end_it() -> None:
    # least squares on coins points away from the plane with probability 1/2 at every update
    found = [refined(make(), draw(seed, noise=0.5)) for seed in range(4)]
    assert all(len(one) < REFINED or off(one[-1].plane) > 0.001 for one in found)
    assert any(len(one) < REFINED for one in found)


def test_polish__finds_back_from_a_scale_that_is_too_fine() -> None:
    # ten times as far off as the scale: an update there sees rows of one side alone
    off_by = Plane(np.array([1.0, 0.05, 0.0, 0.0, 0.0])).unit()
    refine = Refine(Candidate(off_by, 0.005, 0.0, 0.9, 9, 9), N_ROWS, N_ROWS, 1, centred=True)
    found = refined(refine, draw(threshold=0.0))
    # by chance 0.002 at the last scale, as above
    assert found[-1].plane.angle_to(Plane(np.eye(DIM)[0])) < 0.01


def test_polish__ends_where_all_rows_lie_on_the_plane() -> None:
    rng = np.random.default_rng(4)
    X = rng.standard_normal((2_000, DIM))
    X[:, 0] = 0.0
    y = np.where(rng.random(2_000) < 0.5, 1, -1).astype(np.int8)
    refine = Refine(Candidate(Plane(np.eye(DIM)[0]), DELTA, 0.0, 0.9, 9, 9), 2_000, 2_000, 1, centred=True)
    assert len(refined(refine, Block(X, y, np.arange(2_000)))) <= REFINED
