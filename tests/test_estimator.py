from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from streamhalf.estimator import HalfspaceTesterLearner


@parametrize_with_checks([HalfspaceTesterLearner(accept_unverified=True, whiten=True)])
def test_estimator__obeys_scikit_learn(
    estimator: Any, check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # without it, one check skips itself
    check(estimator)
