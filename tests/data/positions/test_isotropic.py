from __future__ import annotations

import pickle

import dask.array as da
import numpy as np
import pytest
from streamhalf.data.whitening import Whitening

import streamhalf
from streamhalf import DataError, UsageError, Verdict, open_source
from streamhalf.events import Event, PassEnded
from streamhalf.reductions.covariance import Covariance
from tests.conftest import StoreWriter

N_ROWS, DIM = 20_000, 4
RNG = np.random.default_rng(11)
Z = RNG.standard_normal((N_ROWS, DIM))
MIX = np.array([[2.0, 0, 0, 0], [1.5, 0.5, 0, 0], [-1, 0.3, 3, 0], [0.2, 0.1, 0.4, 1e-3]])
LABELS = np.where(Z @ [0.5, 0.5, -0.5, 0.5] > 0, 1, -1).astype(np.int8)
MEANS = {"zero": np.zeros(DIM), "far": np.array([1e6, -1e6, 3e5, 1e3])}


def raw_features(mean: np.ndarray, dtype: str = "float64") -> np.ndarray:
    return (Z @ MIX.T + mean).astype(dtype)


def estimate(X: np.ndarray) -> Whitening:
    source = open_source((X, LABELS[: len(X)]))
    moments = Covariance().map(source.read(source.blocks[0]))
    return Whitening.from_moments(moments.mean, moments.covariance)


@pytest.mark.parametrize("mean", MEANS.values(), ids=MEANS)
def test_whitening__gives_mean_zero_and_unit_covariance(mean: np.ndarray) -> None:
    X = raw_features(mean)
    white = estimate(X).apply(X)
    assert white.dtype == X.dtype
    np.testing.assert_allclose(white.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(np.cov(white.T, bias=True), np.eye(DIM), atol=1e-6)


def test_whitening__keeps_float32_and_centres_in_float64() -> None:
    X = raw_features(np.array([1e3, -1e3, 1e2, 10.0]), "float32")
    white = estimate(X).apply(X)
    assert white.dtype == np.float32
    np.testing.assert_allclose(np.cov(white.T, bias=True), np.eye(DIM), atol=1e-4)


@pytest.mark.parametrize("scheduler", ["serial", "threads"])
@pytest.mark.parametrize("mean", MEANS.values(), ids=MEANS)
def test_whitening__passes_correlated_gaussians_end_to_end(
    write_store: StoreWriter, mean: np.ndarray, scheduler: str
) -> None:
    # true N(mean, C) data: rejected with probability below tau = 0.01, for this fixed seed not
    path = write_store(raw_features(mean), LABELS, chunk_rows=3000)
    seen: list[Event] = []
    plain = streamhalf.test(path, scheduler=scheduler)
    white = streamhalf.test(path, scheduler=scheduler, whiten=True, observer=seen.append)
    assert (plain.verdict, plain.whitened) == (Verdict.REJECTED, False)
    assert (white.verdict, white.whitened) == (Verdict.PASSED, True)
    assert [record.name for record in white.passes] == ["whitening", "moments"]
    assert [e.record for e in seen if isinstance(e, PassEnded)] == list(white.passes)
    assert white.data.fingerprint == plain.data.fingerprint


def test_whitening__applies_to_dask_arrays() -> None:
    X = da.from_array(raw_features(MEANS["far"]), chunks=(3000, 2))
    assert streamhalf.test((X, LABELS), whiten=True).verdict is Verdict.PASSED


@pytest.mark.parametrize("mean", MEANS.values(), ids=MEANS)
def test_to_raw__gives_the_same_signs_on_raw_features(mean: np.ndarray) -> None:
    X = raw_features(mean)
    whitening = estimate(X)
    for normal in np.random.default_rng(3).standard_normal((5, DIM)):
        halfspace = whitening.to_raw(normal)
        margin = whitening.apply(X) @ normal
        clear = np.abs(margin) > 1e-4  # nearer to the boundary, rounding decides
        raw = X @ np.array(halfspace.normal) + halfspace.offset
        assert clear.mean() > 0.99
        np.testing.assert_array_equal(raw[clear] >= 0, margin[clear] >= 0)


def test_whitened__changes_what_blocks_hold_and_nothing_else() -> None:
    X = raw_features(MEANS["far"])
    source, whitening = open_source((X, LABELS)), estimate(X)
    white = source.whitened(whitening)
    (rows,) = source.blocks
    block = pickle.loads(pickle.dumps(white)).read(rows)
    np.testing.assert_array_equal(block.X, whitening.apply(X))
    np.testing.assert_array_equal(block.y, LABELS)
    np.testing.assert_array_equal(source.read(rows).X, X)
    assert white.fingerprint == source.fingerprint


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("value", [0.0, 0.1, -3.0, 1e6 / 3, np.pi])
def test_whitening__refuses_a_constant_feature(value: float, dtype: str) -> None:
    X = raw_features(MEANS["zero"])
    X[:, 2] = value
    with pytest.raises(DataError, match=r"whitening: feature 3 is constant .*; remove it"):
        streamhalf.test((X.astype(dtype), LABELS), whiten=True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("factor", [1.0, 1e-6])
def test_whitening__refuses_linearly_dependent_features(factor: float, dtype: str) -> None:
    X = raw_features(MEANS["zero"])
    X[:, 3] = factor * (X[:, 0] - 2 * X[:, 2])
    with pytest.raises(DataError, match=r"features are linearly dependent .* features 1, 3, 4 and"):
        streamhalf.test((X.astype(dtype), LABELS), whiten=True)


def test_whitening__refuses_fewer_rows_than_features() -> None:
    with pytest.raises(DataError, match="linearly dependent"):
        streamhalf.test((Z[:3], LABELS[:3]), whiten=True)


def test_whitening__takes_features_of_very_different_scales() -> None:
    X = Z * np.array([1e-12, 1.0, 1e6, 1e12])
    assert streamhalf.test((X, LABELS), whiten=True).verdict is Verdict.PASSED


def test_whitening__is_a_switch() -> None:
    with pytest.raises(UsageError, match="whiten: 'no' is not True or False"):
        streamhalf.test((Z, LABELS), whiten="no")
