from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamhalf.data.block import Block
from streamhalf.kernels.plane import Plane
from streamhalf.reductions import WedgeSums


def betas_of(X: np.ndarray, plane: Plane, *etas: float, kappa: float = 0.0) -> np.ndarray:
    block = Block(X, np.ones(len(X), dtype=np.int8), np.arange(len(X)))
    sums = [WedgeSums((plane,), eta, kappa) for eta in etas]
    return np.array([one.finalize(one.map(block)).betas for one in sums]).T


def as_written(X: np.ndarray, plane: Plane, eta: float, kappa: float) -> float:
    """The bound, row by row."""
    v, gamma = plane.normal, math.tan(2 * math.asin(eta / 2))
    mass, mean, product = 0.0, np.zeros(len(v)), np.zeros((len(v), len(v)))
    for x in X:
        margin = v @ x - plane.threshold
        s = (1 if margin >= 0 else -1) * (x - (v @ x) * v)
        t = max(0.0, abs(margin) - kappa) / gamma
        a = 1 / (1 + t**2) ** 2
        mass, mean, product = mass + a, mean + a * t * s, product + a * t**2 * np.outer(s, s)
    largest = np.linalg.eigvalsh(product)[-1]
    return min(1.0, (mass + largest + 2 * np.linalg.norm(mean)) / len(X))


@pytest.mark.parametrize("kappa", [0.0, 0.15])
@pytest.mark.parametrize("threshold", [0.0, 0.3])
@pytest.mark.parametrize("dim", [1, 2, 5])
def test_betas__are_as_written(dim: int, threshold: float, kappa: float) -> None:
    rng = np.random.default_rng(dim)
    plane = Plane(rng.standard_normal(dim)).unit()
    plane = Plane(plane.normal, threshold)
    X = rng.standard_normal((300, dim)) + 0.2
    etas = (0.02, 0.1, 0.4)
    found = betas_of(X, plane, *etas, kappa=kappa)
    expected = [[as_written(X, plane, eta, kappa) for eta in etas]]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    narrow = betas_of(X.astype(np.float32), plane, *etas, kappa=kappa)
    np.testing.assert_allclose(narrow, found, rtol=1e-4)


def test_betas__of_pieces_larger_than_the_cache_are_those_of_all_rows() -> None:
    X = np.random.default_rng(0).standard_normal((200_000, 7))
    whole = betas_of(X, Plane(np.eye(7)[2]), 0.1)
    parts = [betas_of(part, Plane(np.eye(7)[2]), 0.1) for part in np.split(X, 2)]
    assert min(parts) * 0.99 < whole < max(parts)
    gamma = math.tan(2 * math.asin(0.05))
    t = X[:, 2] / gamma
    weighed = np.delete(X, 2, axis=1) * (t / (1 + t**2))[:, None]
    largest = np.linalg.eigvalsh(weighed.T @ weighed / len(X))[-1]
    mean = np.delete(X, 2, axis=1).T @ (t / (1 + t**2) ** 2) / len(X)
    expected = np.mean(1 / (1 + t**2) ** 2) + largest + 2 * np.linalg.norm(mean)
    assert whole[0, 0] == pytest.approx(expected, rel=1e-12)


def test_betas__grow_with_eta_and_are_known_without_rows() -> None:
    X = np.random.default_rng(3).standard_normal((5_000, 3))
    (found,) = betas_of(X, Plane(np.eye(3)[0]), 0.05, 0.1, 0.2, 0.4)
    assert (np.diff(found) > 0).all()
    assert betas_of(X[:0], Plane(np.eye(3)[0]), 0.1, 0.2).tolist() == [[1.0, 1.0]]


LAWS = ("gaussian", "cauchy", "lattice", "near", "line", "shifted", "two-point")


def draw_law(law: str, n: int, dim: int, rng: np.random.Generator) -> np.ndarray:
    """Rows that are nothing like N(0, I), to which the bound applies all the same."""
    X = rng.standard_normal((n, dim))
    if law == "cauchy":
        return rng.standard_cauchy((n, dim))
    if law == "lattice":  # many rows on the boundary itself
        return rng.integers(-2, 3, (n, dim)).astype(np.float64)
    if law == "near":
        X[:, 0] *= 0.05
    if law == "line":  # the worst direction gets nearly all rows
        X[:, 1:] = 3 * np.sign(X[:, :1]) + 0.1 * X[:, 1:]
    if law == "shifted":
        X += 1.0
    if law == "two-point":
        return np.where(rng.random((n, 1)) < 0.5, 1.0, -1.0) * np.array([0.08] + [1.0] * (dim - 1))
    return X


def cap(v: np.ndarray, eta: float, n: int, rng: np.random.Generator) -> np.ndarray:
    """Unit vectors with |w - v| <= eta: a dense search, the rim above all."""
    largest = 2 * math.asin(eta / 2)
    if len(v) == 2:
        angles = np.linspace(-largest, largest, 2 * n)
        return np.outer(np.cos(angles), v) + np.outer(np.sin(angles), [-v[1], v[0]])
    side = np.linalg.svd(v[None, :])[2][1:]
    phi = np.linspace(0, 2 * math.pi, n, endpoint=False)
    u = np.outer(np.cos(phi), side[0]) + np.outer(np.sin(phi), side[1])
    angles = largest * np.concatenate([[1, 1], rng.random(2)])
    return np.concatenate([math.cos(a) * v + math.sin(a) * u for a in angles])


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("law", LAWS)
@settings(max_examples=8, deadline=None)
@given(eta=st.sampled_from([0.02, 0.1, 0.25, 0.6]), seed=st.integers(0, 10**6))
def test_betas__are_never_below_the_true_disagreement(dim: int, law: str, eta: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = draw_law(law, 400, dim, rng)
    v = np.eye(dim)[0] if seed % 2 else Plane(rng.standard_normal(dim)).unit().normal
    beta = betas_of(X, Plane(v), eta)[0, 0]
    sign = v @ X.T >= 0
    disagreement = np.mean((cap(v, eta, 180, rng) @ X.T >= 0) != sign, axis=1)
    assert disagreement.max() <= beta + 1e-12 <= 1 + 1e-12


def neighbours(X: np.ndarray, plane: Plane, eta: float, kappa: float, rng: np.random.Generator) -> list[Plane]:
    """Planes of the class, those that may disagree most above all.

    Turned as far as they may, towards where the rows of either side lie and anywhere, and moved to
    the ends of kappa and to between; the sums see no difference between u and -u, so both.
    """
    v = plane.normal
    margin = X @ v - plane.threshold
    beside = X - np.outer(X @ v, v)
    near = np.abs(margin) < kappa + 3 * eta
    signed = np.sign(margin)[:, None] * beside
    towards = [signed[near].sum(axis=0), signed.sum(axis=0)]
    towards += [np.linalg.svd(signed[near])[2][0]] if near.any() else []
    towards += list(rng.standard_normal((6, len(v))))
    largest = 2 * math.asin(eta / 2)
    found = []
    for direction in towards:
        u = direction - (direction @ v) * v
        if np.linalg.norm(u) < 1e-9:
            continue
        u /= np.linalg.norm(u)
        for side in (1, -1):
            for angle in (largest, largest * rng.random(), 0.0):
                w = math.cos(angle) * v + side * math.sin(angle) * u
                for share in (-1, 0, 1, *rng.uniform(-1, 1, 3)):
                    # a hair inside, for rows that lie on the rim itself
                    moved = plane.threshold + (1 - 1e-9) * share * kappa
                    found.append(Plane(w, math.cos(angle) * moved))
    return found


@pytest.mark.parametrize("dim", [2, 3, 6])
@pytest.mark.parametrize("law", LAWS)
@settings(max_examples=30, deadline=None)
@given(
    eta=st.sampled_from([0.02, 0.1, 0.25, 0.6]),
    threshold=st.sampled_from([0.0, 0.3, 1.0, -1.7, 40.0]),
    share=st.sampled_from([0.0, 0.3, 1.0, 2.0]),
    seed=st.integers(0, 10**6),
)
def test_betas__with_a_threshold_are_never_below_the_true_disagreement(
    dim: int, law: str, eta: float, threshold: float, share: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    X = draw_law(law, int(rng.choice([1, 3, 30, 400])), dim, rng)
    v = np.eye(dim)[0] if seed % 2 else Plane(rng.standard_normal(dim)).unit().normal
    plane, kappa = Plane(v, threshold), share * eta
    beta = betas_of(X, plane, eta, kappa=kappa)[0, 0]
    own = plane.signs(X)
    worst = max(np.mean(one.signs(X) != own) for one in neighbours(X, plane, eta, kappa, rng))
    assert worst <= beta + 1e-12 <= 1 + 1e-12


def test_betas__know_planes_that_move_only_with_kappa() -> None:
    # all rows lie a little beyond the plane: turning about its own point does not pass them by
    X = np.zeros((100, 2))
    X[:, 0] = 0.5 + 0.08
    plane = Plane(np.eye(2)[0], 0.5)
    moved = Plane(plane.normal, 0.6)
    assert np.mean(moved.signs(X) != plane.signs(X)) == 1
    assert betas_of(X, plane, 0.1, kappa=0.1)[0, 0] == 1
    assert betas_of(X, plane, 0.1)[0, 0] < 0.5


def test_betas__grow_with_kappa() -> None:
    X = np.random.default_rng(4).standard_normal((5_000, 3))
    plane = Plane(np.eye(3)[0], 1.0)
    found = [betas_of(X, plane, 0.1, kappa=kappa)[0, 0] for kappa in (0.0, 0.01, 0.1, 0.5)]
    assert (np.diff(found) > 0).all()
    within = np.mean(np.abs(X[:, 0] - 1) <= 0.5)
    assert within < found[-1] < within + 1.2 * found[0]
