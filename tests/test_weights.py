"""Linear classifiers however they are given, pipelines of linear steps among them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    PolynomialFeatures,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

import streamhalf
from streamhalf import UsageError
from streamhalf._models import as_halfspace

# features as they come: an age, a time in seconds, a share, a price, a score
RNG = np.random.default_rng(5)
X = RNG.standard_normal((400, 5)) * [15, 1e7, 1e-5, 300, 1] + [40, 1.7e9, 2e-5, 1000, 0]
Y = (X[:, 0] - 40) / 15 + (X[:, 1] - 1.7e9) / 1e7 + 0.1 * RNG.standard_normal(400) > 0
FRAME = pd.DataFrame(X, columns=["age", "time", "share", "price", "score"])

LINEAR: dict[str, tuple[Any, ...]] = {
    "standard": (StandardScaler(),),
    "range": (MinMaxScaler(),),
    "robust, selected": (RobustScaler(), SelectKBest(k=3)),
    "largest": (MaxAbsScaler(), "passthrough"),
    "PCA": (StandardScaler(), PCA(4, whiten=True)),
    "SVD": (StandardScaler(), TruncatedSVD(3)),
    "columns": (ColumnTransformer([("a", StandardScaler(), [0, 1]), ("b", MinMaxScaler(), [3])], remainder="drop"),),
}
NOT_LINEAR: dict[str, Any] = {
    "polynomialfeatures": PolynomialFeatures(),
    "quantiletransformer": QuantileTransformer(n_quantiles=50),
    "normalizer": Normalizer(),
    "minmaxscaler": MinMaxScaler(clip=True),
}


@pytest.mark.parametrize("rows", [X, FRAME], ids=["array", "frame"])
@pytest.mark.parametrize("name", LINEAR)
def test_pipeline__is_folded_into_weights_on_raw_features(name: str, rows: Any) -> None:
    pipeline = make_pipeline(*LINEAR[name], LogisticRegression()).fit(rows, Y)
    found = as_halfspace(pipeline, X.shape[1])
    margins = X @ np.array(found.normal) + found.offset
    np.testing.assert_allclose(margins, pipeline.decision_function(rows), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", NOT_LINEAR)
def test_pipeline__with_a_step_that_is_not_linear_is_refused_by_its_name(name: str) -> None:
    pipeline = make_pipeline(StandardScaler(), NOT_LINEAR[name], Perceptron()).fit(X, Y)
    with pytest.raises(UsageError, match=f"weights: step '{name}' .* is not linear, so the whole"):
        as_halfspace(pipeline, X.shape[1])


def test_pipeline__that_ends_in_no_linear_model_is_refused() -> None:
    pipeline = make_pipeline(StandardScaler(), RandomForestClassifier(2)).fit(X, Y)
    with pytest.raises(UsageError, match="RandomForestClassifier is no linear classifier; give a"):
        as_halfspace(pipeline, X.shape[1])


def test_certify__takes_a_pipeline_and_what_a_search_found() -> None:
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    search = GridSearchCV(pipeline, {"logisticregression__C": [0.1, 1.0]}, cv=2).fit(X, Y)
    result = streamhalf.certify((X, Y), weights=search, whiten=True, certificate_degree=2)
    assert result.error.empirical == pytest.approx(np.mean(search.predict(X) != Y), abs=1e-12)
