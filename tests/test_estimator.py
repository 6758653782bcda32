"""The scikit-learn face: its rules, every kind of data, and what an unaccepted run may be used for.

Fits on N(0, I) rows use fixed seeds; each is accepted with probability at least 1 - tau = 0.99.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
import zarr
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import streamhalf
from streamhalf import DataError, NotAcceptedError, TargetError, UnverifiedWarning, UsageError, Verdict
from streamhalf.estimator import HalfspaceTesterLearner
from streamhalf.results import replace

N_ROWS = 150_000
untested = pytest.mark.filterwarnings("ignore::streamhalf.UnverifiedWarning")
Rows = tuple[NDArray[np.float32], NDArray[np.int64]]


def learner(**parameters: Any) -> HalfspaceTesterLearner:
    """Without the certificate, whose bound takes seconds, and on one thread."""
    quick = {"certificate_degree": 0, "n_workers": 1}
    return HalfspaceTesterLearner(**{**quick, **parameters})


@pytest.fixture(scope="module")
def rows() -> Rows:
    """Standard Gaussian features and the labels 0 and 1 of a halfspace, 5 % of them flipped."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((N_ROWS, 3)).astype(np.float32)
    flips = rng.random(N_ROWS) < 0.05
    return X, ((X @ np.array([2.0, -1.0, 0.5]) >= 0) ^ flips).astype(np.int64)


@pytest.fixture(scope="module")
def accepted(rows: Rows) -> HalfspaceTesterLearner:
    return learner().fit(*rows)


@pytest.fixture(scope="module")
def uniform(rows: Rows) -> Rows:
    """Features with the mean and variance of N(0, I), and no more of it."""
    rng = np.random.default_rng(2)
    return rng.uniform(-(3**0.5), 3**0.5, (N_ROWS, 3)).astype(np.float32), rows[1]


@parametrize_with_checks([HalfspaceTesterLearner()])
@untested
def test_estimator__obeys_scikit_learn(estimator: Any, check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # without it, one check skips itself
    check(estimator)


def test_parameters__are_the_settings_of_a_run() -> None:
    given = HalfspaceTesterLearner(eps=0.1, split_every=4).get_params()
    assert given.pop("random_state") is given.pop("fit_intercept") is None
    settings = {**streamhalf.RunConfig().recorded(), "seed": "auto", "certificate_degree": 0}
    assert given == {**settings, "eps": 0.1, "split_every": 4}
    again = clone(HalfspaceTesterLearner(seed=7)).set_params(tau=0.2)
    assert (again.seed, again.tau) == (7, 0.2)
    with pytest.raises(UsageError, match=r"unknown parameter 'epsilon'; did you mean 'eps'\?"):
        HalfspaceTesterLearner(epsilon=0.1)


def test_fit__accepts_gaussian_rows(accepted: HalfspaceTesterLearner, rows: Rows) -> None:
    direction = np.array([2.0, -1.0, 0.5]) / np.linalg.norm([2.0, -1.0, 0.5])
    assert accepted.verdict_ is Verdict.ACCEPTED
    assert accepted.coef_.shape == (1, 3)
    assert accepted.coef_[0] @ direction > 0.999
    assert accepted.intercept_ == pytest.approx([0.0], abs=0.01)
    # a threshold that may be chance stays 0: the halfspace is one through the origin then
    assert (accepted.result_.error.through == "any") == (accepted.intercept_[0] != 0)
    assert accepted.classes_.tolist() == [0, 1]
    assert accepted.n_features_in_ == 3
    assert accepted.passes_ == accepted.result_.passes
    assert accepted.score(*rows) == pytest.approx(0.95, abs=0.005)


def test_fit_intercept__false_goes_through_the_origin(rows: Rows) -> None:
    fitted = learner(fit_intercept=False, eps=0.25).fit(*rows)
    assert fitted.intercept_.tolist() == [0.0]
    assert fitted.result_.error.through == "origin"
    again = learner(through="origin", eps=0.25).fit(*rows)
    np.testing.assert_array_equal(again.coef_, fitted.coef_)
    assert clone(fitted).get_params()["fit_intercept"] is False


@untested
def test_fit_intercept__true_finds_the_threshold(rows: Rows) -> None:
    X = rows[0]
    y = (X @ np.float32([0.8, -0.6, 0.0]) >= 1.2).astype(np.int64)
    fitted = learner(fit_intercept=True, eps=0.25).fit(X, y)
    assert fitted.intercept_[0] / np.linalg.norm(fitted.coef_) == pytest.approx(-1.2, abs=0.05)
    margins = X @ fitted.coef_[0] + fitted.intercept_[0]
    np.testing.assert_allclose(fitted.decision_function(X), margins, atol=1e-5)
    assert fitted.score(X, y) > 0.99
    assert learner(fit_intercept=False, eps=0.25).fit(X, y).score(X, y) < 0.75


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"fit_intercept": True, "through": "origin"}, "fit_intercept: True and through: 'origin'"),
        ({"fit_intercept": True, "through": "centre"}, "fit_intercept: True and through: 'centre'"),
        ({"fit_intercept": False, "through": "centre", "whiten": True}, "fit_intercept: False and through: 'centre'"),
        ({"fit_intercept": "yes"}, "fit_intercept: 'yes' given; must be True, False or None"),
        ({"fit_intercept": False, "through": "edge"}, "through: "),
    ],
)
def test_fit_intercept__names_a_contradiction(given: dict[str, Any], said: str, rows: Rows) -> None:
    with pytest.raises(UsageError, match=f"^{said}"):
        learner(**given).fit(*rows)


def test_fit__same_halfspace_as_the_function(accepted: HalfspaceTesterLearner, rows: Rows) -> None:
    X, y = rows
    result = streamhalf.fit((X, np.where(y > 0, 1, -1)), certificate_degree=0, n_workers=1)
    assert result.halfspace == accepted.result_.halfspace


def test_fit__maps_any_two_labels(accepted: HalfspaceTesterLearner, rows: Rows) -> None:
    X, y = rows
    words = np.array(["ham", "spam"])
    fitted = learner().fit(X, words[y])
    assert fitted.classes_.tolist() == ["ham", "spam"]
    np.testing.assert_array_equal(fitted.coef_, accepted.coef_)
    np.testing.assert_array_equal(fitted.predict(X[:99]), words[accepted.predict(X[:99])])


@pytest.mark.parametrize("make_labels", [lambda y: y, lambda y: np.array(["a", "b"])[y]])
def test_fit__dask_arrays(
    accepted: HalfspaceTesterLearner, rows: Rows, make_labels: Callable[[NDArray[Any]], NDArray[Any]]
) -> None:
    X, y = da.from_array(rows[0], chunks=(40_000, 2)), make_labels(rows[1])
    lazy_y = da.from_array(y, chunks=60_000)
    fitted = learner().fit(X, lazy_y)
    assert fitted.verdict_ is Verdict.ACCEPTED
    assert fitted.classes_.tolist() == np.unique(y).tolist()
    assert float((fitted.coef_ @ accepted.coef_.T).item()) > 0.999
    predicted, margin = fitted.predict(X), fitted.decision_function(X)
    assert isinstance(predicted, da.Array)
    assert isinstance(margin, da.Array)
    assert predicted.dtype == fitted.classes_.dtype
    np.testing.assert_array_equal(predicted.compute(), fitted.predict(rows[0]))
    np.testing.assert_array_equal(margin.compute(), fitted.decision_function(rows[0]))
    assert fitted.score(X, lazy_y) == pytest.approx(fitted.score(rows[0], y), abs=1e-12)


def test_fit__xarray(accepted: HalfspaceTesterLearner, rows: Rows) -> None:
    X = xr.DataArray(rows[0], dims=("time", "band"), coords={"time": np.arange(N_ROWS) / 2})
    y = xr.DataArray(np.array(["no", "yes"])[rows[1]], dims="time")
    dataset = xr.Dataset({"spectrum": X, "clear": y})
    fitted = learner(features="spectrum", labels="clear").fit(dataset)
    np.testing.assert_array_equal(fitted.coef_, accepted.coef_)
    np.testing.assert_array_equal(learner().fit(X, y).coef_, accepted.coef_)
    assert fitted.score(dataset) == fitted.score(rows[0], y.values)
    for features in (X, X.chunk({"time": 50_000})):
        predicted = fitted.predict(features)
        assert isinstance(predicted, xr.DataArray)
        assert predicted.chunks == (features.chunks and features.chunks[:1])
        np.testing.assert_array_equal(predicted.time, X.time)
        np.testing.assert_array_equal(predicted, fitted.predict(rows[0]))


def test_fit__store(tmp_path: Path, accepted: HalfspaceTesterLearner, rows: Rows) -> None:
    path = tmp_path / "rows.zarr"
    group = zarr.create_group(str(path))
    for name, values in zip("Xy", rows, strict=True):
        group.create_array(name, data=values, chunks=(30_000, *values.shape[1:]))
    for data in (path, str(path), group):
        fitted = learner().fit(data)
        assert fitted.verdict_ is Verdict.ACCEPTED
        assert fitted.classes_.tolist() == [0, 1]
        assert float((fitted.coef_ @ accepted.coef_.T).item()) > 0.999
        assert fitted.score(data) == pytest.approx(fitted.score(*rows), abs=1e-12)


def test_predict__answers_after_rejection_without_a_warning(uniform: Rows) -> None:
    rejected = learner(feature_transform="stored").fit(uniform[0], uniform[0][:, 0] > 0)
    assert rejected.verdict_ is Verdict.REJECTED
    assert rejected.promise_.code == "features"
    zeros = np.zeros((2, 3))
    assert rejected.predict(zeros).shape == rejected.decision_function(zeros).shape == (2,)
    assert rejected.score(zeros, [True, True]) == 1.0


def test_fit__warns_once_where_no_bound_is_below_that_of_guessing(uniform: Rows) -> None:
    with pytest.warns(UnverifiedWarning, match="no better than always guessing one class") as said:
        learner(feature_transform="stored").fit(*uniform).predict(uniform[0][:2])
    assert len(said) == 1
    assert "\n" not in str(said[0].message)


def test_predict_proba__is_calibrated_and_on_the_side_of_the_prediction() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((24_000, 4))
    truth = 1 / (1 + np.exp(-3 * X[:, 0] + 0.6))
    y = rng.random(len(X)) < truth
    fitted = learner(random_state=1).fit(X[:16_000], y[:16_000])
    found = fitted.predict_proba(X[16_000:])
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_array_equal(fitted.classes_[found.argmax(axis=1)], fitted.predict(X[16_000:]))
    # a histogram of 4,000 held-out rows: about 0.02 off on average, 0.05 is never seen
    assert np.abs(found[:, 1] - truth[16_000:]).mean() < 0.05
    lazy = fitted.predict_proba(da.from_array(X[16_000:], chunks=(3_000, 4)))
    np.testing.assert_array_equal(lazy.compute(), found)
    stopped = learner(stop_early=True, feature_transform="stored").fit(X**3, y)
    with pytest.raises(NotAcceptedError, match="before probabilities were calibrated"):
        stopped.predict_proba(X)


def test_random_state__is_another_spelling_of_seed(rows: Rows) -> None:
    X, y = rows[0][:2_000], rows[1][:2_000]
    one, two = learner(random_state=3).fit(X, y), learner(seed=3).fit(X, y)
    np.testing.assert_array_equal(one.coef_, two.coef_)
    assert streamhalf.fit((X, y), random_state=3, certificate_degree=0).seed == 3
    drawn = learner(random_state=np.random.RandomState(0)).fit(X, y)
    assert drawn.result_.seed == np.random.RandomState(0).randint(2**31 - 1)
    assert learner(random_state=3, seed=4).fit(X, y).result_.seed == 3  # ensembles set it


@untested
@pytest.mark.parametrize("transform", ["auto", "stored", "isotropic"])
def test_fit__answers_on_few_rows(rows: Rows, transform: str) -> None:
    X, y = rows[0][:300], rows[1][:300]
    fitted = learner(feature_transform=transform).fit(X, y)
    assert fitted.verdict_ is Verdict.INCONCLUSIVE
    assert fitted.result_.error is not None
    assert fitted.score(X, y) > 0.85


@untested
def test_grid_search__over_tau(rows: Rows) -> None:
    search = GridSearchCV(learner(), {"tau": [0.01, 0.1]}, cv=2)
    search.fit(rows[0][:400], rows[1][:400])
    assert search.best_score_ > 0.85
    assert search.best_estimator_.result_.tau in (0.01, 0.1)


def test_pickle__and_clone(accepted: HalfspaceTesterLearner, rows: Rows) -> None:
    again = pickle.loads(pickle.dumps(accepted))
    assert again.result_ == accepted.result_
    np.testing.assert_array_equal(again.predict(rows[0]), accepted.predict(rows[0]))
    fresh = clone(accepted)
    assert fresh.get_params() == accepted.get_params()
    with pytest.raises(NotFittedError):
        fresh.predict(rows[0])
    with pytest.raises(NotFittedError):
        _ = fresh.diagnostics_


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (np.zeros(9), "only one class"),
        (np.arange(9) % 3, r"3 classes \(0, 1, 2\)"),
        (np.where(np.arange(9) > 4, np.nan, 1.0), "NaN"),
    ],
)
def test_fit__dask_labels_of_another_kind(labels: NDArray[Any], said: str) -> None:
    X = da.zeros((9, 2), chunks=3)
    with pytest.raises(TargetError, match=said):
        learner().fit(X, da.from_array(labels, chunks=4))


def test_fit__wrong_use(accepted: HalfspaceTesterLearner, rows: Rows) -> None:
    X = da.from_array(rows[0][:10])
    with pytest.raises(UsageError, match="y: missing"):
        learner().fit(X)
    with pytest.raises(UsageError, match="holds its labels"):
        learner().fit("data.zarr", rows[1])
    with pytest.raises(UsageError, match="tau: 7 is out of range"):
        learner(tau=7).fit(*rows)
    with pytest.raises(UsageError, match="sample_weight"):
        accepted.score(X, rows[1][:10], sample_weight=np.ones(10))
    with pytest.raises(DataError, match="2 features, but the estimator was fitted on 3"):
        accepted.predict(X[:, :2])
    with pytest.raises(DataError, match="expected"):
        accepted.predict(X[:, 0])


def test_import__without_scikit_learn_names_the_remedy() -> None:
    script = """
import sys
import streamhalf
sys.modules["sklearn.base"] = None
try:
    streamhalf.HalfspaceTesterLearner
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "pip install scikit-learn" in done.stdout


def test_predict__refuses_where_a_run_ended_without_a_halfspace(accepted: HalfspaceTesterLearner) -> None:
    early = clone(accepted)
    early.__dict__.update(accepted.__dict__)
    early.result_ = replace(accepted.result_, halfspace=None)
    with pytest.raises(NotAcceptedError, match=r"^the run was accepted and has no halfspace"):
        early.predict(np.zeros((2, 3)))
