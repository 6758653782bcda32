from __future__ import annotations

import math

import numpy as np
import pytest

from streamhalf.kernels.frame import Frame
from streamhalf.kernels.plane import Plane
from streamhalf.kernels.streams import uniforms_at

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
