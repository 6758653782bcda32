from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from streamhalf.kernels.segments import MOST_SEGMENTS, Segments, error_segments, scatter_quantile, scatter_ratio


@given(
    total_rows=st.integers(1, 10**10),
    count=st.integers(1, 300),
    drawn=st.lists(st.floats(0, 1, exclude_max=True), max_size=30),
)
def test_segments__cut_goes_by_the_row_number(total_rows: int, count: int, drawn: list[float]) -> None:
    rows = np.unique((np.array(drawn) * total_rows).astype(np.int64))
    found = {}
    for segment, window in Segments(total_rows, count).cut(rows):
        found |= dict.fromkeys(rows[window].tolist(), segment)
    assert found == {row: row * count // total_rows for row in rows.tolist()}


def test_segments__rows_beyond_the_data_set_count_in_the_last() -> None:
    assert Segments(10, 5).cut(np.array([7, 9, 10, 10**6])) == [(3, slice(0, 1)), (4, slice(1, 4))]


@pytest.mark.parametrize(
    ("total_rows", "count"), [(1, 1), (63, 1), (6_400, 100), (10**5, MOST_SEGMENTS), (10**9, MOST_SEGMENTS)]
)
def test_error_segments__half_of_the_rows_fill_them(total_rows: int, count: int) -> None:
    assert error_segments(total_rows) == Segments(total_rows, count)


def test_scatter_ratio__is_that_of_an_analysis_of_variance() -> None:
    rng = np.random.default_rng(1)
    groups = [rng.standard_normal(n) + 0.3 * (n == 7) for n in (5, 7, 90, 31)]
    everyone = np.concatenate(groups)
    counts, means = np.array([len(g) for g in groups]), np.array([g.mean() for g in groups])
    ratio = scatter_ratio(counts, means, everyone.var())
    classic = stats.f_oneway(*groups).statistic
    # F of an analysis of variance divides by the variance within groups instead
    within = sum(((g - g.mean()) ** 2).sum() for g in groups) / (len(everyone) - len(groups))
    assert ratio * everyone.var() / within == pytest.approx(classic)


def test_scatter_ratio__is_the_design_effect_of_clusters() -> None:
    # rows in pairs of equals: a mean varies as that of half as many rows
    rng = np.random.default_rng(2)
    rows = np.repeat(rng.standard_normal((200, 50)), 2, axis=1)
    ratio = scatter_ratio(np.full(200, 100), rows.mean(axis=1), rows.var())
    assert ratio == pytest.approx(2, abs=0.6)  # six standard deviations, 2 sqrt(2 / 199) each


def test_scatter_ratio__of_a_constant_is_0() -> None:
    counts = np.array([3, 4])
    assert scatter_ratio(counts, np.full((2, 2), 5.0), np.zeros(2)).tolist() == [0, 0]


def test_scatter_quantile__is_that_of_chi_square_in_long_segments() -> None:
    counts = np.full(50, 10**9)
    found = scatter_quantile(counts, 1e-3, squared_skewness=3.0, kurtosis=9.0)
    assert float(found) == pytest.approx(stats.chi2(49).isf(1e-3) / 49, rel=1e-6)


def _rare(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return np.where(rng.random(shape) < 0.01, 1.0, -1.0)


LAWS = {
    "labels with 1% positives": _rare,
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "Student, 5 degrees": lambda rng, shape: rng.standard_t(5, shape),
    "squared norm of 8 normal features": lambda rng, shape: rng.chisquare(8, shape),
    "squared norm of 4 Student features": lambda rng, shape: rng.chisquare(4, shape) / (rng.chisquare(5, shape) / 5),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("n_segments", [20, 256])
def test_scatter_quantile__is_seldom_exceeded_in_any_order(law: str, n_segments: int) -> None:
    """About 32 rows a segment; exceeded by at most 1%: 22 of 900 or more has probability 2e-4."""
    rng = np.random.default_rng([n_segments, list(LAWS).index(law)])
    exceeded = 0
    for _ in range(90):
        counts = np.maximum(1, rng.poisson(32, n_segments))
        Z = LAWS[law](rng, (10, counts.sum()))
        Z = Z - Z.mean(axis=1, keepdims=True)
        variance = np.maximum((Z * Z).mean(axis=1), 1e-12)
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        means = np.add.reduceat(Z, starts, axis=1).T / counts[:, None]
        limit = scatter_quantile(
            counts,
            0.01,
            squared_skewness=(Z * Z * Z).mean(axis=1) ** 2 / variance**3,
            kurtosis=(Z * Z * Z * Z).mean(axis=1) / variance**2,
        )
        exceeded += np.count_nonzero(scatter_ratio(counts, means, variance) > limit)
    assert exceeded < 22
