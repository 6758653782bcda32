from __future__ import annotations

import dask.array as da
import numpy as np
import pytest

import streamhalf
from streamhalf import DataError, UsageError, Verdict
from streamhalf.data.block import Block
from streamhalf.data.transforms import Isotropic
from streamhalf.events import Event, PassEnded
from streamhalf.kernels.plane import Plane
from streamhalf.reductions.spread import Covariance
from streamhalf.results import Transform
from tests.conftest import StoreWriter

N_ROWS, DIM = 20_000, 4
RNG = np.random.default_rng(11)
Z = RNG.standard_normal((N_ROWS, DIM))
MIX = np.array([[2.0, 0, 0, 0], [1.5, 0.5, 0, 0], [-1, 0.3, 3, 0], [0.2, 0.1, 0.4, 1e-3]])
LABELS = np.where(Z @ [0.5, 0.5, -0.5, 0.5] > 0, 1, -1).astype(np.int8)
MEANS = {"zero": np.zeros(DIM), "far": np.array([1e6, -1e6, 3e5, 1e3])}


def raw_features(mean: np.ndarray, dtype: str = "float64") -> np.ndarray:
    return (Z @ MIX.T + mean).astype(dtype)


def block_of(X: np.ndarray) -> Block:
    return Block(X, LABELS[: len(X)], np.arange(len(X)))


def estimate(X: np.ndarray, *, strict: bool = True) -> Isotropic:
    moments = Covariance().map(block_of(X))
    return Isotropic.from_moments(moments.mean, moments.covariance, n_rows=moments.n_rows, strict=strict)


def whiten(X: np.ndarray, *, strict: bool = True) -> np.ndarray:
    return estimate(X, strict=strict).apply(block_of(X)).X


@pytest.mark.parametrize("mean", MEANS.values(), ids=MEANS)
def test_isotropic__gives_mean_zero_and_unit_covariance(mean: np.ndarray) -> None:
    X = raw_features(mean)
    white = whiten(X)
    assert white.dtype == X.dtype
    np.testing.assert_allclose(white.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(np.cov(white.T, bias=True), np.eye(DIM), atol=1e-6)


def test_isotropic__keeps_float32_and_centres_in_float64() -> None:
    X = raw_features(np.array([1e3, -1e3, 1e2, 10.0]), "float32")
    white = whiten(X)
    assert white.dtype == np.float32
    np.testing.assert_allclose(np.cov(white.T, bias=True), np.eye(DIM), atol=1e-4)


@pytest.mark.parametrize("scheduler", ["serial", "threads"])
@pytest.mark.parametrize("mean", MEANS.values(), ids=MEANS)
def test_isotropic__passes_correlated_gaussians_end_to_end(
    write_store: StoreWriter, mean: np.ndarray, scheduler: str
) -> None:
    # true N(mean, C) data: rejected with probability below tau = 0.01, for this fixed seed not
    path = write_store(raw_features(mean), LABELS, chunk_rows=3000)
    seen: list[Event] = []
    plain = streamhalf.test(path, scheduler=scheduler, feature_transform="stored")
    white = streamhalf.test(path, scheduler=scheduler, whiten=True, observer=seen.append)
    assert (plain.verdict, plain.transform.kind) == (Verdict.REJECTED, Transform.STORED)
    assert (white.verdict, white.transform.kind) == (Verdict.PASSED, Transform.ISOTROPIC)
    assert [record.name for record in white.passes] == ["whitening", "moments"]
    assert [e.record for e in seen if isinstance(e, PassEnded)] == list(white.passes)
    assert white.data.fingerprint == plain.data.fingerprint


def test_isotropic__applies_to_dask_arrays() -> None:
    X = da.from_array(raw_features(MEANS["far"]), chunks=(3000, 2))
    assert streamhalf.test((X, LABELS), whiten=True).verdict is Verdict.PASSED


@pytest.mark.parametrize("threshold", [0.0, 0.7])
@pytest.mark.parametrize("mean", MEANS.values(), ids=MEANS)
def test_pull_back__gives_the_same_signs_on_stored_features(mean: np.ndarray, threshold: float) -> None:
    X = raw_features(mean)
    isotropic = estimate(X)
    white = isotropic.apply(block_of(X)).X
    for normal in np.random.default_rng(3).standard_normal((5, DIM)):
        plane = Plane(normal, threshold)
        margin = plane.margins(white)
        clear = np.abs(margin) > 1e-4  # nearer to the boundary, rounding decides
        assert clear.mean() > 0.99
        raw = isotropic.to_stored(plane).signs(X)
        np.testing.assert_array_equal(raw[clear] > 0, margin[clear] >= 0)


@pytest.mark.parametrize("mean", MEANS.values(), ids=MEANS)
def test_push__inverts_pull_back(mean: np.ndarray) -> None:
    isotropic = estimate(raw_features(mean))
    for normal in np.random.default_rng(3).standard_normal((5, DIM)):
        plane = Plane(normal, 0.4)
        back = isotropic.to_transformed(isotropic.to_stored(plane))
        np.testing.assert_allclose(back.normal, normal, rtol=1e-9)
        # the threshold loses what the mean is larger than it
        assert back.threshold == pytest.approx(0.4, abs=1e-6)


def test_push__keeps_to_the_subspace_of_the_rows() -> None:
    flat = Isotropic(np.array([3.0, 5.0]), np.array([[0.5, 0.0], [0.0, 0.0]]))
    pushed = flat.to_transformed(Plane(np.array([1.0, 1.0]), 9.0))
    np.testing.assert_allclose(pushed.normal, [2.0, 0.0])
    assert pushed.threshold == pytest.approx(1.0)  # of rows (x, 5): x + 5 >= 9, so x - 3 >= 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("value", [0.0, 0.1, -3.0, 1e6 / 3, np.pi])
def test_isotropic__refuses_a_constant_feature(value: float, dtype: str) -> None:
    X = raw_features(MEANS["zero"])
    X[:, 2] = value
    with pytest.raises(DataError, match=r"whitening: feature 3 is constant .*; remove it"):
        streamhalf.test((X.astype(dtype), LABELS), whiten=True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("factor", [1.0, 1e-6])
def test_isotropic__refuses_linearly_dependent_features(factor: float, dtype: str) -> None:
    X = raw_features(MEANS["zero"])
    X[:, 3] = factor * (X[:, 0] - 2 * X[:, 2])
    with pytest.raises(DataError, match=r"features are linearly dependent .* features 1, 3, 4 and"):
        streamhalf.test((X.astype(dtype), LABELS), whiten=True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("value", [0.0, 1e6 / 3])
def test_not_strict__a_constant_feature_is_mapped_to_0(value: float, dtype: str) -> None:
    X = raw_features(MEANS["zero"], dtype)
    X[:, 2] = value
    white = whiten(X, strict=False)
    # what rounds in the constant is multiplied by 0
    np.testing.assert_array_equal(white[:, 2], 0)
    np.testing.assert_allclose(np.cov(white.T, bias=True), np.diag([1.0, 1.0, 0.0, 1.0]), atol=2e-4)


def test_not_strict__a_dependent_direction_is_mapped_to_0() -> None:
    X = raw_features(MEANS["zero"])
    X[:, 3] = X[:, 0] - 2 * X[:, 2]
    white = whiten(X, strict=False)
    values = np.linalg.eigvalsh(np.cov(white.T, bias=True))
    np.testing.assert_allclose(values, [0, 1, 1, 1], atol=1e-6)
    # the halfspace that is learned there makes sense on stored features: nothing is huge
    assert np.abs(estimate(X, strict=False).matrix).max() < 100


def test_not_strict__nothing_but_constants_is_mapped_to_0() -> None:
    X = np.full((50, 3), 2.5)
    np.testing.assert_array_equal(whiten(X, strict=False), 0)


def test_not_strict__is_the_whitening_of_what_varies() -> None:
    covariance = np.array([[4.0, 0.0, 2.0], [0.0, 0.0, 0.0], [2.0, 0.0, 3.0]])
    W = Isotropic.from_moments(np.ones(3), covariance, n_rows=100, strict=False).matrix
    np.testing.assert_allclose(W @ covariance @ W.T, np.diag([1.0, 0.0, 1.0]), atol=1e-12)
    np.testing.assert_array_equal(W[:, 1], 0)


def test_isotropic__refuses_fewer_rows_than_features() -> None:
    with pytest.raises(DataError, match="3 rows cannot tell how 4 features are correlated"):
        streamhalf.test((Z[:3], LABELS[:3]), whiten=True)


def test_isotropic__takes_features_of_very_different_scales() -> None:
    X = Z * np.array([1e-12, 1.0, 1e6, 1e12])
    assert streamhalf.test((X, LABELS), whiten=True).verdict is Verdict.PASSED


def test_whiten__is_a_switch() -> None:
    with pytest.raises(UsageError, match="whiten: 'no' is not True or False"):
        streamhalf.test((Z, LABELS), whiten="no")
