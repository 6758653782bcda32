"""Rows of every odd kind, through every command: a result or one sentence, nothing else.

No traceback, and no warning of NumPy: a warning here is an error. What a run claims of its rows can
be verified, whatever the rows are.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import streamhalf
from streamhalf import Halfspace
from streamhalf.errors import StreamhalfError

T = TypeVar("T")
Rows = NDArray[np.float64]
Kind = Callable[[np.random.Generator, int, int], Rows]

ULP = 2.0**-52
KINDS: dict[str, Kind] = {
    "Gaussian": lambda rng, n, d: rng.standard_normal((n, d)),
    "lattice": lambda rng, n, d: rng.integers(-2, 3, (n, d)).astype(float),
    "few points": lambda rng, n, d: rng.standard_normal((3, d))[rng.integers(0, 3, n)],
    "collinear": lambda rng, n, d: np.outer(rng.standard_normal(n), rng.standard_normal(d)) + 1,
    "a constant": lambda rng, n, d: np.c_[np.full(n, 1e9), rng.standard_normal((n, d))][:, :d],
    "all constant": lambda rng, n, d: np.full((n, d), -3.3),
    "ulps around 1": lambda rng, n, d: 1 + rng.integers(0, 4, (n, d)) * ULP,
    "ulps around 1e12": lambda rng, n, d: 1e12 * (1 + rng.integers(0, 9, (n, d)) * ULP),
    "huge": lambda rng, n, d: rng.standard_normal((n, d)) * 1e148,
    "too large": lambda rng, n, d: rng.standard_normal((n, d)) * 1e300,
    "tiny": lambda rng, n, d: rng.standard_normal((n, d)) * 1e-200,
    "subnormal": lambda rng, n, d: rng.integers(-5, 6, (n, d)) * 5e-324,
    "of many scales": lambda rng, n, d: rng.standard_normal((n, d)) * 10.0 ** rng.integers(-150, 149, d),
    "sparse": lambda rng, n, d: rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.3),
}


def answered(call: Callable[[], T]) -> T | None:
    """Result of a call, or None where it says in one line why not."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", streamhalf.UnverifiedWarning)
            return call()
    except StreamhalfError as error:
        said = str(error)
    assert said
    assert "\n" not in said
    return None


def run_all(X: Rows, y: NDArray[np.int8], normal: Rows, **parameters: Any) -> None:
    """Every command on these rows; what is claimed of them is true of them."""
    data, where = (X, y), {"scheduler": "serial", "seed": 0}
    answered(lambda: streamhalf.test(data, **where))
    where["certificate_effort"] = 0.02
    fitted = answered(lambda: streamhalf.fit(data, **where, **parameters))
    if fitted is not None and fitted.halfspace is not None:
        answered(lambda: streamhalf.audit(data, model=fitted, scheduler="serial"))
        answered(lambda: fitted.predict(X))
        assert str(answered(lambda: repr(fitted)))
    halfspace = Halfspace(tuple(normal.tolist()), float(-X[0] @ normal) if X[0] @ normal else 0.0)
    answered(lambda: streamhalf.audit(data, model=halfspace, scheduler="serial"))
    certified = answered(lambda: streamhalf.certify(data, weights=halfspace, **where))
    for document in filter(None, (fitted, certified)):
        found = answered(lambda document=document: streamhalf.verify(document, data, scheduler="serial"))
        assert found is None or found.holds, found


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=2, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32),
    n_rows=st.integers(1, 16),
    dim=st.integers(1, 3),
    labels=st.sampled_from(["random", "halfspace", "one"]),
    transform=st.sampled_from(["auto", "stored", "isotropic", "radial"]),
    through=st.sampled_from(["any", "origin", "centre"]),
)
def test_commands__answer_or_refuse_in_one_sentence(
    kind: str, seed: int, n_rows: int, dim: int, labels: str, transform: str, through: str
) -> None:
    rng = np.random.default_rng(seed)
    X = KINDS[kind](rng, n_rows, dim)
    signs = {
        "random": rng.random(n_rows) < 0.5,
        "halfspace": X[:, 0] >= np.sort(X[:, 0])[n_rows // 2],
        "one": np.ones(n_rows, dtype=bool),
    }[labels]
    y = np.where(signs, 1, -1).astype(np.int8)
    run_all(X, y, rng.standard_normal(dim), feature_transform=transform, through=through)


@pytest.mark.parametrize("seed", range(3))
def test_fit__features_that_differ_by_a_few_units_in_the_last_place(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, y = 1 + rng.integers(0, 4, (40, 2)) * ULP, np.where(rng.random(40) < 0.5, 1, -1)
    result = streamhalf.fit((X, y), scheduler="serial", seed=0)
    assert result.halfspace is not None
    assert streamhalf.verify(result, (X, y)).holds
