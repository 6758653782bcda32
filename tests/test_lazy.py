"""`streamhalf.lazy`: statistics and verdicts that are computed with the user's own graphs."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from dask.delayed import Delayed
from distributed import Client

import streamhalf
from streamhalf.errors import DataError, MemoryBudgetError, UsageError
from streamhalf.reductions.labels import LabelCounts
from streamhalf.reductions.moments import Moments
from streamhalf.reductions.row_view import Bundle
from streamhalf.reductions.rows import RowDigest, RowDigestResult
from streamhalf.reductions.spread import Covariance
from streamhalf.results import MomentTestResult, Transform
from streamhalf.testers.moments import MomentTester
from tests.conftest import StoreWriter, make_rows

N_ROWS, DIM, CHUNK_ROWS = 4_000, 3, 500
X, Y = make_rows(N_ROWS, DIM)
HERE: dict[str, Any] = {"scheduler": "threads", "num_workers": 2}


class Counting:
    """Lazy features that count how often a chunk of theirs is computed."""

    def __init__(self) -> None:
        self.computed, self._lock = 0, threading.Lock()
        stored = da.from_array(X, chunks=(CHUNK_ROWS, DIM))
        self.X = stored.map_blocks(self._compute, dtype=X.dtype, meta=X[:0])

    def _compute(self, chunk: np.ndarray) -> np.ndarray:
        with self._lock:
            self.computed += 1
        return chunk + 0


def test_lazy__names_give_datasets_of_known_shapes() -> None:
    rows = Counting()
    pair = rows.X, da.from_array(Y, chunks=300)
    moments = streamhalf.lazy(rows.X, "moments", degree=2)
    found = {name: streamhalf.lazy(pair, name) for name in ("covariance", "feature-moments", "labels", "chow")}
    assert rows.computed == 0
    assert all(da.core.is_dask_collection(one) for one in (moments, *found.values()))
    shapes = {name: one.shape for name, one in moments.items()}
    assert shapes == {"monomials": (10,), "feature_moment": (3, 2), "pair_moment": (3, 3)}
    assert moments.attrs["n_rows"] == N_ROWS
    moments, *others = dask.compute(moments, *found.values(), **HERE)
    assert rows.computed == N_ROWS // CHUNK_ROWS
    covariance, features, labels, chow = others
    np.testing.assert_allclose(covariance["mean"], X.mean(0), atol=1e-6)
    np.testing.assert_allclose(covariance.covariance, np.cov(X.T, bias=True), atol=1e-6)
    np.testing.assert_allclose(features.deviation, X.std(0), rtol=1e-6)
    assert (labels.positive, labels.negative) == ((Y > 0).sum(), (Y < 0).sum())
    np.testing.assert_allclose(chow.group_means.shape, (15, DIM))
    np.testing.assert_allclose(chow.mean_label, Y.mean())
    np.testing.assert_allclose(moments.feature_moment.sel(degree=1), X.mean(0), atol=1e-6)


def test_lazy__chow_of_fewer_rows_than_groups_has_the_shape_it_said() -> None:
    X, y = np.array([[1.0, 2.0], [3.0, -4.0], [5.0, 6.0]]), np.array([1, -1, 1])
    (chow,) = dask.compute(streamhalf.lazy((X, y), "chow"), **HERE)
    assert chow.group_means.shape == (15, 2)
    np.testing.assert_allclose(chow.group_means[:4], [*(X * y[:, None]), [0.0, 0.0]])
    np.testing.assert_allclose(chow.vector, np.median(X * y[:, None], axis=0))


def test_lazy__arrays_share_chunks_with_graphs_of_the_user() -> None:
    rows = Counting()
    doubled = rows.X * 2
    mine = streamhalf.lazy(doubled, "covariance")
    distance = da.linalg.norm(mine.covariance.data - 4 * da.eye(DIM, chunks=DIM))
    found, mean, far = dask.compute(mine, rows.X.mean(axis=0), distance, **HERE)
    assert rows.computed == N_ROWS // CHUNK_ROWS
    np.testing.assert_allclose(found["mean"], 2 * mean, atol=1e-6)
    assert far == pytest.approx(np.linalg.norm(found.covariance - 4 * np.eye(DIM)))


def test_lazy__verdict_is_that_of_the_test() -> None:
    rows = Counting()
    verdict = streamhalf.lazy(rows.X, "test", tau=0.01, degree=2)
    assert isinstance(verdict, Delayed)
    assert rows.computed == 0
    result, word = dask.compute(verdict, verdict.verdict, **HERE)
    assert isinstance(result, MomentTestResult)
    pieces = da.from_array(X, chunks=(CHUNK_ROWS, DIM))
    expected = streamhalf.test(pieces, tau=0.01, degree=2, feature_transform="stored")
    assert (word, result.testers) == (expected.verdict, expected.testers)
    assert (result.tau, result.transform) == (0.01, expected.transform)
    shifted = streamhalf.lazy(rows.X + 1, "test").compute(**HERE)
    assert shifted.verdict is streamhalf.Verdict.REJECTED


def test_lazy__takes_reductions_and_testers() -> None:
    rows = da.from_array(X, chunks=(CHUNK_ROWS, DIM))
    tester = MomentTester(dim=DIM, degree=2, moment_tolerance=0.2, spectral_tolerance=0.2, tau=0.01)
    test_results = streamhalf.lazy(rows, tester)
    covariance, sketch = streamhalf.lazy(rows, Bundle((Covariance(), Moments(2, np.eye(1, DIM)))))
    digest = streamhalf.lazy((rows, Y), RowDigest())
    assert isinstance(digest, Delayed)
    assert sketch.feature_moment.shape == (1, 2)
    assert "feature" not in sketch.coords  # a direction is none
    test_results, covariance, found = dask.compute(test_results, covariance, digest, **HERE)
    assert [one.tester for one in test_results] == ["largest moment", "second moment"]
    np.testing.assert_allclose(covariance["mean"], X.mean(0), atol=1e-6)
    assert isinstance(found, RowDigestResult)


def test_lazy__takes_stores_datasets_and_frames(write_store: StoreWriter, tmp_path: Path) -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=Y)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    lazily = xr.Dataset({"X": (("row", "feature"), Counting().X), "y": ("row", Y)})
    expected = streamhalf.lazy(X, "covariance").compute(**HERE)
    for data in (write_store(X, Y), lazily, lazily.X, frame, frame[["a", "b", "c"]], (X, Y)):
        found = streamhalf.lazy(data, "covariance").compute(**HERE)
        np.testing.assert_allclose(found.covariance, expected.covariance, atol=1e-6)
    table = streamhalf.lazy(tmp_path / "rows.csv", "covariance").compute(**HERE)
    assert table.feature_name.values.tolist() == ["a", "b", "c"]


def test_lazy__computes_on_a_cluster(client: Client) -> None:
    rows = client.persist(da.from_array(X, chunks=(CHUNK_ROWS, DIM)))
    mine = streamhalf.lazy(rows, "covariance"), streamhalf.lazy(rows, "test")
    covariance, verdict, mean = client.gather(client.compute([*mine, rows.mean(axis=0)]))
    np.testing.assert_allclose(covariance["mean"], mean, atol=1e-6)
    assert verdict.verdict is streamhalf.Verdict.PASSED


@pytest.mark.parametrize(
    ("statistic", "parameters", "error", "words"),
    [
        ("covarance", {}, UsageError, r"statistic: 'covarance' is unknown; .*'covariance'"),
        (3, {}, UsageError, "statistic: 3 is neither a name .* nor a reduction or tester"),
        ("labels", {}, DataError, r"features without labels.*pair \(features, labels\)"),
        (LabelCounts(), {}, DataError, "features without labels"),
        ("moments", {"degree": 3}, UsageError, "degree: 3"),
        ("test", {"feature_transform": Transform.ISOTROPIC}, UsageError, "feature_transform: .*streamhalf.test"),
        ("moments", {"memory_limit": 1 << 20}, MemoryBudgetError, "memory_limit"),
    ],
)
def test_lazy__says_what_is_wrong(
    statistic: Any, parameters: dict[str, Any], error: type[Exception], words: str
) -> None:
    wide = da.zeros((2_000, 60), chunks=(500, 60))
    with pytest.raises(error, match=words):
        streamhalf.lazy(wide, statistic, **parameters)
