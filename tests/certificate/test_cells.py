"""Cells of halfspaces: they cover all of them, and their thresholds are the smallest."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from streamhalf.certificate.cells import RIGHT, Cell, cells_along, cells_around
from streamhalf.certificate.slab_forms import SlabForms, slab_forms
from tests.certificate.brute_force import Problem


def smallest_thresholds(cell: Cell, forms: SlabForms) -> np.ndarray:
    return forms.thresholds([cell])[0]


def forms_of(*, by_label: bool, seed: int = 0) -> SlabForms:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((2_000, 2))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(2_000) >= 0.4, 1, -1).astype(np.int8)
    threshold = 0.4 if by_label else 0.0
    problem = Problem(X, y, np.array([1.0, 0.0]), threshold)
    return slab_forms(problem.statistics(degree=2, ratio=1.3, by_label=by_label), 2)


CELLS = [
    Cell(0.1, 0.4, -0.2, 0.3),
    Cell(0.05, 0.06, 0.1, 0.11),
    Cell(1.4, RIGHT, -math.pi, -2.0),
    Cell(0.3, 0.9, 1.2, 2.0),
    Cell(0.2, 0.5, 0.0, 0.0),
    Cell(0.2, 0.5, math.pi, math.pi),
]


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("by_label", [True, False])
def test_thresholds__are_the_smallest_over_slab_and_cell(cell: Cell, by_label: bool) -> None:
    forms = forms_of(by_label=by_label)
    tau = smallest_thresholds(cell, forms)
    omega = np.linspace(cell.omega_low, cell.omega_high, 40)
    alpha = np.linspace(cell.alpha_low, cell.alpha_high, 201)
    smallest = np.full(len(tau), np.inf)
    for z in np.linspace(forms.z_low, forms.z_high, 15):
        g = -(np.outer(np.cos(alpha), z) + np.outer(np.sin(alpha), forms.q_low))
        for cot in 1 / np.tan(omega):
            smallest = np.minimum(smallest, (cot * g).min(axis=0))
    assert (tau <= smallest + 1e-15).all()
    np.testing.assert_allclose(tau, smallest, rtol=1e-3, atol=1e-3)


def test_thresholds__a_second_coordinate_may_be_an_interval() -> None:
    forms = forms_of(by_label=True)
    wide = replace(forms, q_low=forms.q_low - 0.2, q_high=forms.q_high + 0.1)
    for cell in CELLS:
        tau = smallest_thresholds(cell, wide)
        for share in (0.0, 0.3, 1.0):
            q = wide.q_low + share * (wide.q_high - wide.q_low)
            assert (tau <= smallest_thresholds(cell, replace(forms, q_low=q, q_high=q)) + 1e-12).all()


def test_thresholds__where_omega_is_0_or_a_right_angle() -> None:
    forms = forms_of(by_label=False)
    near, far = (
        smallest_thresholds(Cell(0.0, 0.3), forms),
        smallest_thresholds(Cell(0.0, 0.3, math.pi, math.pi), forms),
    )
    assert (near[forms.z_high > 0] == -math.inf).all()
    assert (near[forms.z_high < 0] > 0).all()
    assert (far[forms.z_low < 0] == -math.inf).all()
    assert (far[forms.z_low > 0] > 0).all()
    # both sides of the origin meet at a right angle, with nothing between them
    assert (smallest_thresholds(Cell(1.0, RIGHT), forms)[forms.z_high < 0] == 0).all()
    # w·r = 0 is no error that could be counted
    nothing = np.zeros_like(forms.z_low)
    flat = replace(forms, z_low=nothing, z_high=nothing)
    assert (smallest_thresholds(Cell(0.0, 0.3), flat) == -math.inf).all()
    assert (smallest_thresholds(Cell(0.3, 0.5), flat) == 0).all()


def test_thresholds__constant_guesses_err_on_one_label() -> None:
    forms = forms_of(by_label=True)
    # beyond all rows on either side: always -1, always +1
    always = smallest_thresholds(Cell(0.0, 1e-4, RIGHT - 1e-4, RIGHT + 1e-4), forms)
    never = smallest_thresholds(Cell(0.0, 1e-4, -RIGHT - 1e-4, -RIGHT + 1e-4), forms)
    positive = forms.q_low < 0
    assert (always[positive] > 100).all()
    assert (always[~positive] == -math.inf).all()
    assert (never[~positive] > 100).all()
    assert (never[positive] == -math.inf).all()


@pytest.mark.parametrize("count", [2, 4, 6])
def test_cells_around__cover_everything_once(count: int) -> None:
    cells = cells_around(0.01, count)
    area = sum((one.omega_high - one.omega_low) * (one.alpha_high - one.alpha_low) for one in cells)
    assert area == pytest.approx(RIGHT * 2 * math.pi)
    assert {one.omega_low for one in cells} - {one.omega_high for one in cells} == {0.0}
    assert {one.alpha_low for one in cells} ^ {one.alpha_high for one in cells} == {-math.pi, math.pi}
    assert max(one.alpha_high - one.alpha_low for one in cells) <= RIGHT


def test_cells_along__are_all_angles() -> None:
    spans = sorted(one.angles() for one in cells_along(0.01, 5))
    assert (spans[0][0], spans[-1][1]) == (0.0, math.pi)
    assert all(left[1] == right[0] for left, right in itertools.pairwise(spans))


def test_halves__share_their_end_and_make_up_the_cell() -> None:
    across, along = Cell(0.1, 0.4, -0.3, 0.3).halves()
    assert across == (Cell(0.1, 0.2, -0.3, 0.3), Cell(0.2, 0.4, -0.3, 0.3))
    assert along == (Cell(0.1, 0.4, -0.3, 0.0), Cell(0.1, 0.4, 0.0, 0.3))
    assert Cell(0.0, 0.4, -0.4, -0.1).halves()[1][0].alpha_high == pytest.approx(-0.2)
    assert len(Cell(0.0, 0.4).halves()) == 1


def test_angles_and_offsets__hold_every_halfspace_of_the_cell() -> None:
    rng = np.random.default_rng(1)
    for cell in (*CELLS, Cell(0.0, 0.3, -2.0, -1.0)):
        omega = rng.uniform(cell.omega_low, cell.omega_high, 200)
        alpha = rng.uniform(cell.alpha_low, cell.alpha_high, 200)
        along, across = np.cos(omega) * np.cos(alpha), np.sin(omega)
        angle = np.arctan2(across, along)
        low, high = cell.angles()
        assert (angle >= low - 1e-12).all()
        assert (angle <= high + 1e-12).all()
        threshold = (0.7 * along + np.cos(omega) * np.sin(alpha)) / np.hypot(along, across)
        low, high = cell.offsets(0.7)
        assert (threshold >= low - 2e-3).all()
        assert (threshold <= high + 2e-3).all()
