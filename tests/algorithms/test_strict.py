from __future__ import annotations

import math

import numpy as np
import pytest

import streamhalf
from streamhalf import UsageError
from streamhalf.algorithms.plan_overview import refuse_strict, strict_parameters
from streamhalf.events import Event, PassStarted


def test_strict__refuses_with_the_papers_parameters() -> None:
    found = strict_parameters(0.01, 10)
    # k = ln(20000) 20000^2; rows 10^(k ln k)
    assert found["degree"] == pytest.approx(3.96e9, rel=0.01)
    assert found["log10_rows"] == pytest.approx(found["degree"] * math.log(found["degree"]))
    with pytest.raises(UsageError) as caught:
        streamhalf.plan(dim=10, n_rows=10**9, mode="strict", eps=0.01)
    assert str(caught.value) == str(refuse_strict(0.01, 10))
    for said in (
        "'strict' cannot run",
        "eta = 1/20000",
        "k = 3.96e+09",
        "10 features",
        "practical",
    ):
        assert said in str(caught.value)


@pytest.mark.parametrize(("eps", "updates"), [(0.25, 3), (0.01, 8), (0.001, 11)])
def test_strict__halves_down_to_eps(eps: float, updates: int) -> None:
    assert strict_parameters(eps, 10)["updates"] == updates


def test_strict__more_features_take_more_rows() -> None:
    few, many = (strict_parameters(0.1, dim) for dim in (2, 100))
    assert few["log10_rows"] < many["log10_rows"]
    assert few["log10_monomials"] < many["log10_monomials"]
    assert few["degree"] == many["degree"]


@pytest.mark.parametrize("eps", ["auto", 0.1])
def test_strict__a_fit_is_refused_before_anything_is_read(eps: float | str) -> None:
    # the second half is no data at all, which a pass would say
    X = np.random.default_rng(0).standard_normal((50_000, 3))
    X[25_001] = np.nan
    seen: list[Event] = []
    with pytest.raises(UsageError, match="'strict' cannot run"):
        streamhalf.fit(
            (X, np.resize([1, -1], 50_000)), mode="strict", eps=eps, observer=seen.append
        )
    assert not [event for event in seen if isinstance(event, PassStarted)]
