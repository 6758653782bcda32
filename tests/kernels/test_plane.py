from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from streamhalf.kernels.plane import Frame, Plane, Turns, are_wrong, on_positive_side
from streamhalf.kernels.streams import uniforms_at


def planes(n: int, dim: int, seed: int = 0, threshold: float = 0.3) -> tuple[Plane, ...]:
    rng = np.random.default_rng(seed)
    return tuple(Plane(rng.standard_normal(dim), threshold * rng.standard_normal()) for _ in range(n))


def test_sgn__of_zero_is_plus_one() -> None:
    margin = np.array([-1.0, -0.0, 0.0, 1.0, np.nextafter(0, -1)])
    assert on_positive_side(margin).tolist() == [False, True, True, True, False]
    assert are_wrong(margin, np.array([1, 1, 1, 1, 1], dtype=np.int8)).tolist() == [True, False, False, False, True]
    assert Plane(np.array([1.0, 0.0])).signs(np.array([[0.0, 5.0]])).tolist() == [1]


def test_are_wrong__takes_many_planes_at_once() -> None:
    margins = np.array([[1.0, -1.0], [0.0, 2.0]])
    y = np.array([-1, 1], dtype=np.int8)
    assert are_wrong(margins, y).tolist() == [[True, True], [True, False]]


numbers = st.integers(-40, 40).map(float)


@given(
    normal=arrays(np.float64, 3, elements=numbers).filter(np.any),
    X=arrays(np.float64, (5, 3), elements=numbers),
    on=st.integers(0, 4),
    scale=st.sampled_from([1.0, 3.0, 0.25, 1e-150, 1e150]),
)
def test_signs__rows_on_the_plane_as_given_stay_on_it(normal: np.ndarray, X: np.ndarray, on: int, scale: float) -> None:
    # whole numbers: normal·x and the threshold are exact, so the row lies on the plane exactly
    threshold = float(X[on] @ normal)
    plane = Plane(scale * normal, scale * threshold)
    if math.log2(scale).is_integer():  # else the product with the scale rounds
        assert plane.margins(X)[on] == 0
        assert plane.signs(X)[on] == 1
        np.testing.assert_array_equal(plane.signs(X), np.where(X @ normal >= threshold, 1, -1))
    clear = np.abs(X @ normal - threshold) > 0.5
    np.testing.assert_array_equal(plane.signs(X)[clear], np.sign(X @ normal - threshold)[clear])


def test_signs__a_normal_at_length_1_would_break_ties() -> None:
    # why normals keep their length: the quotients by it round, and rows would leave the plane
    X = np.random.default_rng(0).integers(-50, 50, (500, 3)).astype(np.float64)
    as_given = [Plane(np.array([3.0, 4.0, 7.0]), float(x @ [3.0, 4.0, 7.0])) for x in X]
    kept = [plane.signs(x[None]).item() for plane, x in zip(as_given, X, strict=True)]
    normalised = [plane.unit().signs(x[None]).item() for plane, x in zip(as_given, X, strict=True)]
    assert set(kept) == {1}
    assert set(normalised) == {1, -1}


def test_margins__are_float64_and_the_threshold_cancels_in_it() -> None:
    X = np.full((1, 2), 1e6 + 1, dtype=np.float32)
    plane = Plane(np.array([1.0, 1.0]), 2e6 + 2 - 1e-3)
    assert plane.margins(X).dtype == np.float64
    assert plane.margins(X)[0] == pytest.approx(1e-3, rel=1e-6)


def test_errors__counts_rows_that_the_halfspace_gets_wrong() -> None:
    X = np.random.default_rng(1).standard_normal((1_000, 3))
    y = np.where(np.random.default_rng(2).random(1_000) < 0.5, 1, -1).astype(np.int8)
    for plane in planes(5, 3):
        expected = np.count_nonzero(np.where(X @ plane.normal >= plane.threshold, 1, -1) != y)
        assert plane.errors(X, y) == expected
        assert plane.signs(X).dtype == np.int8


def test_unit__is_the_same_plane_at_length_1() -> None:
    X = np.random.default_rng(1).standard_normal((500, 4))
    for plane in planes(5, 4, seed=3):
        unit = plane.unit()
        assert unit.length == pytest.approx(1, abs=1e-15)
        np.testing.assert_allclose(unit.margins(X) * plane.length, plane.margins(X), atol=1e-12)


def test_unit__a_vector_of_zeros_gets_the_first_axis() -> None:
    unit = Plane(np.zeros(3)).unit()
    assert unit.normal.tolist() == [1.0, 0.0, 0.0]
    assert unit.dim == 3


@given(angle=st.floats(0, math.pi), left=st.floats(1e-3, 1e3), right=st.floats(1e-3, 1e3))
def test_angle__is_that_of_the_normals_whatever_their_length(angle: float, left: float, right: float) -> None:
    one = Plane(left * np.array([1.0, 0.0]), 5.0)
    other = Plane(right * np.array([math.cos(angle), math.sin(angle)]))
    assert one.angle_to(other) == pytest.approx(angle, abs=1e-14)
    assert other.angle_to(one) == pytest.approx(angle, abs=1e-14)


def test_angle__is_accurate_where_the_cosine_is_1() -> None:
    turned = Plane(np.array([1.0, 1e-9]))
    assert Plane(np.array([1.0, 0.0])).angle_to(turned) == pytest.approx(1e-9, rel=1e-6)


def test_find_wrong__where_single_precision_overflows() -> None:
    X = np.array([[3e38, 3e38], [3e38, -3e38], [-1.0, 0.0]], dtype=np.float32)
    y = np.array([-1, 1, 1], dtype=np.int8)
    assert Plane(np.array([1.0, 1.0])).find_wrong(X, y)[0].tolist() == [0, 2]


def test_moved_to__is_parallel_and_goes_through_the_point() -> None:
    point = np.array([0.3, -2.0])
    moved = Plane(np.array([3.0, 1.0]), 7.0).moved_to(point)
    np.testing.assert_array_equal(moved.normal, [3.0, 1.0])
    assert moved.margins(point[None]) == 0
    assert moved.moved_to(np.zeros(2)).threshold == 0


RNG = np.random.default_rng(5)
X = RNG.standard_normal((4_000, 4)) * [1.0, 3.0, 0.5, 1.0] + [0.0, 5.0, -1.0, 0.0]
CENTRE = np.array([0.0, 5.0, -1.0, 0.0])
SCALES = np.array([1.0, 1 / 3, 2.0, 1.0])


def measured(turns: Turns) -> tuple[np.ndarray, np.ndarray]:
    return turns.measure(X, turns.plane.margins(X))


def test_sines__are_margins_over_lengths_without_a_threshold() -> None:
    plane = Plane(np.array([3.0, 0.0, 4.0, 0.0]))
    sines, agreed = measured(Turns.of(plane, np.zeros(4), np.ones(4)))
    expected = np.abs(X @ plane.normal) / 5 / np.linalg.norm(X, axis=1)
    np.testing.assert_allclose(sines, expected, rtol=1e-9)
    assert not agreed.any()


def test_sines__a_scaling_is_the_same_as_its_matrix() -> None:
    plane = Plane(np.array([1.0, -0.2, 0.7, 0.1]), 0.4)
    one = dataclasses.replace(Turns.of(plane, CENTRE, SCALES), angle=0.1, shift=0.05)
    other = dataclasses.replace(Turns.of(plane, CENTRE, np.diag(SCALES)), angle=0.1, shift=0.05)
    np.testing.assert_allclose(measured(one)[0], measured(other)[0], rtol=1e-9)
    np.testing.assert_array_equal(measured(one)[1], measured(other)[1])
    assert 0 < measured(one)[1].mean() < 1


def test_of__a_position_without_inverse_takes_its_own_planes() -> None:
    """A constant feature is mapped to 0, and a plane that came out of there has no part of it."""
    matrix = np.diag([1.0, 1 / 3, 2.0, 0.0])
    inner = np.array([0.6, 0.0, 0.8, 0.0])
    turns = Turns.of(Plane(matrix.T @ inner, float(matrix.T @ inner @ CENTRE)), CENTRE, matrix)
    assert turns.length == pytest.approx(1.0)
    assert turns.threshold == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("eta", [0.15, 0.6])
@pytest.mark.parametrize("threshold", [0.0, 0.8, -2.0])
def test_agreed__every_halfspace_within_the_angle_and_the_shift_says_the_same(threshold: float, eta: float) -> None:
    """Against planes of unit normals at the very angle and shift, and within; none is forgiven."""
    Z = (X - CENTRE) * SCALES
    v = np.array([0.5, 0.5, -0.5, 0.5])
    normal = v * SCALES
    plane = Plane(normal, threshold + float(normal @ CENTRE))
    shift = 0.1 if threshold else 0.0
    turns = dataclasses.replace(Turns.of(plane, CENTRE, SCALES), angle=eta, shift=shift)
    _, agreed = measured(turns)
    own, disagree = Z @ v >= threshold, np.zeros(len(Z), dtype=bool)
    for i in range(800):
        # half of them turn towards the rows that are nearest to disagreeing
        u = RNG.standard_normal(4) if i % 2 else Z[RNG.integers(len(Z))]
        u = RNG.choice([-1, 1]) * (u - (u @ v) * v)
        angle = eta if i % 4 else eta * RNG.random()
        w = math.cos(angle) * v + math.sin(angle) * u / np.linalg.norm(u)
        disagree |= (w @ Z.T >= threshold + RNG.choice([-shift, 0, shift])) != own
    assert not (agreed & disagree).any()
    assert (~agreed & ~disagree).mean() < eta / 2  # and hardly any row is left out in vain


def test_agreed__rounding_counts_against_it() -> None:
    """Features around 1e9 whose margins are mostly rounding."""
    far = np.array([[1e9, 1e9 + 2.0**-22], [1e9, 1e9 + 1.0]])
    plane = Plane(np.array([-1.0, 1.0]))
    turns = dataclasses.replace(Turns.of(plane, np.full(2, 1e9), np.ones(2)), angle=1e-9)
    assert turns.measure(far, plane.margins(far))[1].tolist() == [False, True]


def test_sines__a_row_on_the_plane_has_none() -> None:
    turns = dataclasses.replace(Turns.of(Plane(np.array([1.0, 0.0])), np.zeros(2), np.ones(2)), angle=0.1)
    sines, agreed = turns.measure(np.array([[0.0, 0.0], [0.0, 2.0]]), np.zeros(2))
    assert sines.tolist() == [0.0, 0.0]
    assert not agreed.any()


DIM = 3
CASES = [(0.5, 0.0), (0.1, 0.0), (0.02, 0.0), (0.5, 0.8), (0.1, -1.5), (0.05, 0.6), (0.7, 1.0)]


def unit(dim: int, seed: int = 0) -> np.ndarray:
    v = np.random.default_rng(seed).standard_normal(dim)
    return v / np.linalg.norm(v)


def accept(frame: Frame, n: int = 400_000, dtype: str = "float64") -> tuple[np.ndarray, np.ndarray, float]:
    """Gaussian rows that the frame accepts, their v·x, and the share of all rows they are."""
    X = np.random.default_rng(5).standard_normal((n, frame.plane.dim)).astype(dtype)
    along = frame.coordinates(X)
    keep = uniforms_at(1, 2, np.arange(n)) < frame.acceptance(along)
    return X[keep], along[keep], float(keep.mean())


@pytest.mark.parametrize(("delta", "threshold"), CASES)
def test_rate__is_the_share_of_gaussian_rows_that_is_accepted(delta: float, threshold: float) -> None:
    # 5 standard errors of a binomial: fails with probability below 6e-7 each
    n = 400_000
    frame = Frame(Plane(unit(DIM), threshold), delta)
    _, _, share = accept(frame, n)
    expected = delta * math.exp(-(threshold**2) / (2 * (1 - delta**2)))
    assert frame.rate == pytest.approx(expected)
    assert abs(share - expected) < 5 * math.sqrt(expected / n)


@pytest.mark.parametrize(("delta", "threshold"), CASES)
def test_to_frame__accepted_gaussian_rows_are_standard_gaussian(delta: float, threshold: float) -> None:
    # 12 means and products within 5.5 standard errors: fails with probability below 5e-7 each;
    # the fourth moment along v within 6 of its own: below 2e-9
    v = unit(DIM)
    frame = Frame(Plane(v, threshold), delta)
    X, along, _ = accept(frame)
    assert len(X) > 3_000
    Z = frame.to_frame(X, along)
    error = 1 / math.sqrt(len(Z))
    assert np.abs(Z.mean(axis=0)).max() < 5.5 * error
    assert np.abs(Z.T @ Z / len(Z) - np.eye(DIM)).max() < 5.5 * math.sqrt(2) * error
    assert abs(np.mean((Z @ v) ** 4) - 3) < 6 * math.sqrt(96) * error


@pytest.mark.parametrize(("delta", "threshold"), CASES)
def test_accepted_rows__centre_at_the_threshold(delta: float, threshold: float) -> None:
    # N(t v, I - (1 - delta^2) v v^T): mean within 5 standard errors, probability below 6e-7
    _, along, _ = accept(Frame(Plane(unit(DIM), threshold), delta))
    assert abs(along.mean() - threshold) < 5 * delta / math.sqrt(len(along))
    assert along.std() == pytest.approx(delta, rel=5 / math.sqrt(2 * len(along)))


@pytest.mark.parametrize(("delta", "threshold"), CASES)
@pytest.mark.parametrize("inner", [0.0, 0.4])
def test_from_frame__the_plane_gives_the_same_signs_on_the_rows_themselves(
    delta: float, threshold: float, inner: float
) -> None:
    frame = Frame(Plane(unit(DIM), threshold), delta)
    X = np.random.default_rng(3).standard_normal((20_000, DIM))
    Z = frame.to_frame(X, frame.coordinates(X))
    for seed in range(5):
        local = Plane(unit(DIM, 10 + seed), inner)
        raw = frame.from_frame(local)
        assert raw.length == pytest.approx(1, abs=1e-14)
        clear = np.abs(local.margins(Z)) > 1e-9  # nearer to the plane, rounding decides
        assert clear.mean() > 0.999
        np.testing.assert_array_equal(raw.signs(X)[clear], local.signs(Z)[clear])


def test_from_frame__recovers_the_true_normal() -> None:
    # under y = sgn(v*·x), the localised problem has normal Sigma^{1/2} v*
    delta, dim = 0.1, 4
    v, truth = unit(dim, 1), unit(dim, 2)
    w = truth - (1 - delta) * (truth @ v) * v
    found = Frame(Plane(v), delta).from_frame(Plane(w / np.linalg.norm(w)))
    np.testing.assert_allclose(found.normal, truth, atol=1e-12)
    assert found.threshold == 0


@pytest.mark.parametrize("delta", [0.5, 0.1, 0.02])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_frame__without_a_threshold_has_the_papers_formulas(delta: float, dtype: str) -> None:
    rng = np.random.default_rng(4)
    X, v = rng.standard_normal((1_000, DIM)).astype(dtype), unit(DIM)
    frame = Frame(Plane(v), delta)
    along = frame.coordinates(X)
    assert frame.rate == delta
    assert frame.to_frame(X, along).dtype == dtype
    tolerance = 1e-4 if dtype == "float32" else 1e-13
    np.testing.assert_allclose(
        frame.acceptance(along), np.exp(-(along**2) * (delta**-2 - 1) / 2), rtol=0, atol=tolerance
    )
    segment = np.eye(DIM) + (1 / delta - 1) * np.outer(v, v)
    expected = X.astype(np.float64) @ segment
    np.testing.assert_allclose(frame.to_frame(X, along), expected, atol=tolerance / delta)
