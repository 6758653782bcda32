"""Compiled loops against plain NumPy twins, and against themselves in other chunks."""

from __future__ import annotations

import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamhalf.kernels import loops
from streamhalf.kernels.margins import count_errors, count_slabs_along, frozen, margins, transform_rows
from streamhalf.kernels.monomials import monomial_tuples
from streamhalf.kernels.plane import Frame, FrameSet, Plane
from streamhalf.kernels.slabs import SlabOrder, complement_basis, scan_thresholds, sum_slab_monomials
from streamhalf.kernels.streams import draw_rows, uniforms_at
from streamhalf.kernels.warm_up import warm_up

DTYPES = ["float32", "float64"]


def make(n: int, dim: int, count: int, dtype: str = "float32") -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(dim)
    X = rng.standard_normal((n, dim)).astype(dtype)
    y = np.where(rng.random(n) < 0.5, 1, -1).astype(np.int8)
    return X, y, rng.standard_normal((count, dim)), rng.standard_normal(count)


def twin(X: np.ndarray, v: np.ndarray) -> np.ndarray:
    """One fused multiply-add after the other, in the order of the features."""
    found = np.zeros(len(X))
    for r, x in enumerate(X):
        for a, b in zip(x.tolist(), v.tolist(), strict=True):
            found[r] = float(Fraction(a) * Fraction(b) + Fraction(found[r]))
    return found


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "dim", "count"), [(150, 5, 3), (1, 1, 1), (60, 9, 8)])
def test_margins__are_fused_sums_in_the_order_of_the_features(n: int, dim: int, count: int, dtype: str) -> None:
    X, _, V, _ = make(n, dim, count, dtype)
    expected = np.array([twin(X, v) for v in V])
    np.testing.assert_array_equal(margins(X, V), expected)
    np.testing.assert_array_equal(margins(X, V[0]), expected[0])
    np.testing.assert_allclose(margins(X, V), V @ X.T.astype(np.float64), atol=1e-13)


@settings(max_examples=30)
@given(start=st.integers(0, 3000), length=st.integers(0, 500), dim=st.sampled_from([3, 8, 17]))
def test_loops__bits_do_not_depend_on_the_chunk(start: int, length: int, dim: int) -> None:
    X, _, V, t = make(4000, dim, 5)
    part = slice(start, start + length)
    for whole, piece in (
        (margins(X, V), margins(X[part], V)),
        (transform_rows(X, t[:dim], V[:, :dim]).T, transform_rows(X[part], t[:dim], V).T)
        if dim <= 5
        else (margins(X, V[0])[None], margins(X[part], V[0])[None]),
    ):
        np.testing.assert_array_equal(piece, whole[:, part])


@pytest.mark.parametrize(("n", "count"), [(1000, 6), (129, 13), (1, 1), (0, 2)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_count_errors__are_on_the_other_side_and_zero_is_positive(n: int, count: int, dtype: str) -> None:
    X, y, V, t = make(n, 3, count, dtype)
    X[::9] = 0.0
    t[0] = 0.0
    wrong = (((margins(X, V) - t[:, None]) >= 0) != (y > 0)).astype(np.int64)
    shared, positive = count_errors(X, y, V, t)
    np.testing.assert_array_equal(shared, wrong @ wrong.T)
    np.testing.assert_array_equal(positive, wrong @ (y > 0))


def test_scan_thresholds__counts_labels_between_edges() -> None:
    X, y, V, t = make(1000, 3, 6)
    edges = np.array([-2.0, -1.0, -1e-3, 0.0, 1e-4, 2e-4, 2.01e-4, 2.02e-4, 1.0])
    slabs = np.searchsorted(edges, margins(X, V) - t[:, None], side="right")
    found = scan_thresholds(X, y, V, t, edges)
    for counts, slab in zip(found, slabs, strict=True):
        for label, some in zip((-1, 1), counts, strict=True):
            np.testing.assert_array_equal(some, np.bincount(slab[y == label], minlength=10))


@pytest.mark.parametrize(("dim", "degree"), [(4, 4), (2, 2), (7, 2), (3, 6)])
def test_sum_slab_monomials__are_products_of_the_turned_features(dim: int, degree: int) -> None:
    X, y, V, _ = make(500, dim, 1)
    basis, slab = complement_basis(V[0]), np.sort(np.arange(500, dtype=np.int32) % 7)[::-1].copy()
    turned = y[:, None] * (X.astype(np.float64) @ basis)
    powers = [tuple(one) for m in range(degree + 1) for one in monomial_tuples(dim - 1, m).tolist()]
    found = np.zeros((9, len(powers)))
    sum_slab_monomials(X, y, basis, SlabOrder.of(slab, 9), degree, found)
    features = np.array([np.prod(turned[:, list(one)], axis=1) for one in powers]).T
    for i in range(9):
        np.testing.assert_allclose(found[i], features[slab == i].sum(axis=0), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("layout", ["C", "F", "reversed", "read-only"])
def test_margins__of_rows_however_they_lie_in_memory(layout: str) -> None:
    X, _, V, _ = make(300, 7, 2)
    laid = {
        "C": X,
        "F": np.asfortranarray(X),
        "reversed": X[::-1].copy()[::-1],
        "read-only": np.frombuffer(X.tobytes(), X.dtype).reshape(X.shape),
    }[layout]
    np.testing.assert_array_equal(margins(laid, V), margins(X, V))


@pytest.mark.parametrize("dtype", DTYPES)
def test_transform_rows__is_a_matrix_product_of_differences(dtype: str) -> None:
    X, _, W, _ = make(40_000, 6, 6, dtype)
    centre = np.full(6, 1e6)
    expected = (X.astype(np.float64) - centre) @ W.T
    np.testing.assert_allclose(transform_rows(X, centre, W), expected, rtol=1e-12)
    assert transform_rows(X, centre, W, np.float32).dtype == np.float32


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("width", "half_count"), [(0.5, 4), (0.01, 300), (1e-6, 50)])
def test_count_slabs_along__is_the_histogram_of_margins(dtype: str, width: float, half_count: int) -> None:
    X, _, V, t = make(20_000, 3, 5, dtype)
    X[::7] = np.round(X[::7] / width) * width  # next to edges
    found = count_slabs_along(X, V, t, width=width, half_count=half_count)
    place = np.floor((margins(X, V) - t[:, None]) / width)
    slabs = np.clip(place, -half_count - 1, half_count).astype(int) + half_count + 1
    for counts, slab in zip(found, slabs, strict=True):
        np.testing.assert_array_equal(counts, np.bincount(slab, minlength=2 * half_count + 2))


@pytest.mark.parametrize("dtype", DTYPES)
def test_count_values__is_a_search_among_edges(dtype: str) -> None:
    X, _, _, _ = make(300, 3, 1, dtype)
    X[7, 1] = np.nan
    edges = np.array([[-1.0, 0.0, 0.5], [0.0, 0.1, np.inf], [float(X[4, 2]), np.inf, np.inf]])
    places = np.arange(1, 300, 2)
    counts, low, high = np.zeros((3, 4), np.int64), np.full((3, 4), np.inf), np.full((3, 4), -np.inf)
    loops.count_values(frozen(X), places, edges, counts, low, high)
    for j, values in enumerate(X[places].T.astype(np.float64)):
        bins = np.searchsorted(edges[j], values, side="right")
        np.testing.assert_array_equal(counts[j], np.bincount(bins, minlength=4))
        for b in range(4):
            np.testing.assert_array_equal(low[j, b], np.min(values[bins == b], initial=np.inf))
            np.testing.assert_array_equal(high[j, b], np.max(values[bins == b], initial=-np.inf))


def test_count_slabs_along__what_is_no_number_lies_in_a_tail() -> None:
    X = np.array([[np.inf, 0], [-np.inf, 0], [np.inf, -np.inf], [0, 0]])
    found = count_slabs_along(X, np.ones((1, 2)), np.zeros(1), width=0.1, half_count=2)
    assert found.tolist() == [[2, 0, 0, 1, 0, 1]]


@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**64 - 1),
    stream=st.integers(0, 2**64 - 1),
    start=st.integers(0, 2**40),
    keep=st.sampled_from([1.0, 0.5, 0.01]),
)
def test_uniforms__are_those_of_numpys_generator(seed: int, stream: int, start: int, keep: float) -> None:
    counter, skip = divmod(start, 4)
    philox = np.random.Philox(counter=counter, key=seed | stream << 64)
    drawn = np.random.Generator(philox).random(500 + skip)[skip:]
    chosen = np.flatnonzero(np.random.default_rng(0).random(500) < keep)
    np.testing.assert_array_equal(uniforms_at(seed, stream, start + chosen), drawn[chosen])


def test_draw_rows__keeps_an_interval_and_what_is_left_of_its_numbers() -> None:
    rows = np.arange(100_000)[::3]
    uniforms = uniforms_at(3, 4, rows)
    places, left = draw_rows(3, 4, rows, low=0.25, high=0.75)
    np.testing.assert_array_equal(places, np.flatnonzero((uniforms >= 0.25) & (uniforms < 0.75)))
    np.testing.assert_array_equal(left, (uniforms[places] - 0.25) / 0.5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_find_accepted__is_what_acceptance_says_of_every_row(dtype: str) -> None:
    X, _, V, _ = make(20_000, 8, 6, dtype)
    uniforms = uniforms_at(1, 2, np.arange(len(X)))
    uniforms[::1000], uniforms[1::1000], uniforms[2::1000] = 0.0, 1 - 2**-53, np.inf
    cases = [(0.5, 0.0), (0.1, 0.0), (0.02, 0.0), (0.5, 0.8), (0.1, -1.5), (1e-5, 0.0)]
    frames = [Frame(Plane(v, t).unit(), d) for v, (d, t) in zip(V, cases, strict=True)]
    tops = [1.0, 0.5, 1.0, 0.9, 1.0, 0.2]
    found = FrameSet.of(frames, tops).find(X, uniforms)
    for frame, top, (places, along) in zip(frames, tops, found, strict=True):
        coordinates = frame.coordinates(X)
        keep = uniforms / top < frame.acceptance(coordinates)
        np.testing.assert_array_equal(places, np.flatnonzero(keep))
        np.testing.assert_array_equal(along, coordinates[keep])


def test_warm_up__tells_once_and_only_if_it_compiles(tmp_path: Path) -> None:
    told: list[int] = []
    warm_up("float32")
    warm_up("float32", lambda: told.append(1))
    assert told == []
    code = (
        "import sys, numba; from streamhalf.kernels import compiling, loops, streams, margins\n"
        "import numpy as np\n"
        "with compiling.listening(lambda: print('compiling')):\n"
        "    print(streams.uniforms_at(0, 0, np.arange(2)).shape)\n"
        "    margins.frozen(np.zeros(2))"
    )
    for expected in ("compiling\n(2,)\n", "(2,)\n"):
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
        found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        assert found.stdout == expected, found.stderr


def test_import__of_the_package_and_its_kernels_needs_no_numba() -> None:
    code = "import sys, streamhalf, streamhalf.kernels.plane, streamhalf.cli\nassert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
