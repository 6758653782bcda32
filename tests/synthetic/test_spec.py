from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from streamhalf.data.block import RowRange
from streamhalf.errors import UsageError
from streamhalf.kernels.margins import native_margins
from streamhalf.kernels.plane import Plane
from streamhalf.synthetic import spec as synthetic
from streamhalf.synthetic.distributions import SHARE_TOLERANCE, Marginal, Noise, cell_rows
from streamhalf.synthetic.spec import Generated, Planted, SyntheticSpec, generate, plant
from tests.synthetic.specs import RATE, SIGMAS, make_spec, whole

SCORED = [noise for noise in Noise if noise.needs_pilot]


def clean_labels(planted: Planted, rows: Generated) -> NDArray[np.int8]:
    above = native_margins(rows.X, planted.v) >= planted.threshold
    return np.where(above, np.int8(1), np.int8(-1))


def count_disagreements(planted: Planted, rows: Generated) -> int:
    return int(np.count_nonzero(clean_labels(planted, rows) != rows.y))


@st.composite
def row_ranges(draw: st.DrawFn, rows: int) -> RowRange:
    start, stop = sorted(draw(st.tuples(st.integers(0, rows), st.integers(0, rows))))
    return RowRange(start, stop)


@pytest.mark.parametrize("noise", Noise)
@pytest.mark.parametrize("marginal", Marginal)
@settings(max_examples=6, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_generate__is_the_same_whatever_the_chunking(marginal: Marginal, noise: Noise, data: st.DataObject) -> None:
    spec = make_spec(marginal, noise)
    planted, everything = whole(spec)
    part = data.draw(row_ranges(spec.rows))
    rows = generate(spec, planted, part)
    np.testing.assert_array_equal(rows.X, everything.X[part.start : part.stop])
    np.testing.assert_array_equal(rows.y, everything.y[part.start : part.stop])
    assert rows.n_flipped == count_disagreements(planted, rows)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("dim", [1, 65, 3000])
def test_generate__is_the_same_whatever_the_chunking_in_any_dimension(dim: int, dtype: str) -> None:
    spec = make_spec("hole", "near", dim=dim, dtype=dtype, rows=2 * cell_rows(dim) + 7)
    planted, everything = whole(spec)
    cuts = [0, 1, cell_rows(dim) - 3, cell_rows(dim) + 5, spec.rows]
    parts = [generate(spec, planted, RowRange(*pair)) for pair in itertools.pairwise(cuts)]
    assert everything.X.dtype == dtype
    np.testing.assert_array_equal(np.concatenate([part.X for part in parts]), everything.X)
    np.testing.assert_array_equal(np.concatenate([part.y for part in parts]), everything.y)
    assert sum(part.n_flipped for part in parts) == everything.n_flipped


@pytest.mark.parametrize("marginal", Marginal)
def test_generate__fewer_rows_are_a_prefix(marginal: Marginal) -> None:
    _, more = whole(make_spec(marginal))
    _, fewer = whole(make_spec(marginal, rows=20_001))
    np.testing.assert_array_equal(fewer.X, more.X[:20_001])
    np.testing.assert_array_equal(fewer.y, more.y[:20_001])


def test_generate__rows_outside_are_refused() -> None:
    spec = make_spec()
    with pytest.raises(UsageError, match=r"row_range: 0 to 40001 .* 40000"):
        generate(spec, plant(spec), RowRange(0, 40_001))


@pytest.mark.parametrize("marginal", ["gaussian", "rademacher", "gauss-hermite", "hole", "shifted"])
@pytest.mark.parametrize("noise", SCORED)
@pytest.mark.parametrize("rows", [37, 40_000])
def test_generate__flips_the_exact_share(marginal: str, noise: Noise, rows: int) -> None:
    planted, drawn = whole(make_spec(marginal, noise, rows=rows))
    assert drawn.n_flipped == round(RATE * rows)
    assert count_disagreements(planted, drawn) == drawn.n_flipped


@pytest.mark.parametrize("marginal", ["gaussian", "rademacher"])
def test_generate__random_noise_flips_the_share(marginal: str) -> None:
    planted, rows = whole(make_spec(marginal, "random"))
    n = len(rows.y)
    spread = math.sqrt(n * RATE * (1 - RATE))
    # failure probability below 2e-9 for another seed
    assert abs(rows.n_flipped - RATE * n) < SIGMAS * spread
    assert count_disagreements(planted, rows) == rows.n_flipped


@pytest.mark.parametrize("marginal", ["gaussian", "rademacher"])
@pytest.mark.parametrize("noise", SCORED)
def test_plant__pilot_sets_the_share_of_all_rows(marginal: str, noise: Noise, monkeypatch: pytest.MonkeyPatch) -> None:
    n_pilot, n = 20_000, 100_000
    monkeypatch.setattr(synthetic, "PILOT_ROWS", n_pilot)
    spec = make_spec(marginal, noise, rows=n, seed=8)
    planted = plant(spec)
    pilot = generate(spec, planted, RowRange(0, n_pilot))
    rest = generate(spec, planted, RowRange(n_pilot, n))
    assert pilot.n_flipped == round(RATE * n_pilot)
    spread = math.sqrt(RATE * (1 - RATE) * (1 / n_pilot + 1 / (n - n_pilot)))
    # failure probability below 2e-9 for another seed
    assert abs(rest.n_flipped / (n - n_pilot) - RATE) < SIGMAS * spread


@pytest.mark.parametrize("positive", [0.5, 0.2, 0.8])
@pytest.mark.parametrize("noise", SCORED)
def test_generate__flips_the_rows_that_the_noise_names(noise: Noise, positive: float) -> None:
    planted, rows = whole(make_spec(noise=noise, positive=positive))
    margin = native_margins(rows.X, planted.v) - planted.threshold
    side = native_margins(rows.X, planted.u)
    clean = clean_labels(planted, rows)
    flipped = clean != rows.y
    rare = 1 if positive <= 0.5 else -1
    tangent = np.abs(margin) / np.maximum(-side, 1e-30)
    score = {
        Noise.NEAR: abs(margin),
        Noise.FAR: -abs(margin),
        Noise.CHOW: -clean * side,
        Noise.WEDGE: np.where((margin > 0) & (side < 0), tangent, np.inf),
        Noise.MINOR: np.where(clean == rare, -abs(margin), np.inf),
        Noise.TILT: np.where((rare * margin > 0) & (side < 0), tangent, np.inf),
    }[noise]
    assert np.count_nonzero(flipped) == round(RATE * len(flipped))
    assert np.isfinite(score[flipped]).all()
    assert score[flipped].max() <= score[~flipped].min()


def test_generate__tilted_labels_are_those_of_a_tilted_halfspace() -> None:
    spec = make_spec(noise="tilt", positive=0.2)
    planted, rows = whole(spec)
    tilted = Plane(planted.v + planted.cut.score * planted.u, planted.threshold)
    with_u = native_margins(rows.X, planted.u) < 0
    # of the rows on u's far side only those on the cut may differ, by rounding
    assert np.count_nonzero((tilted.signs(rows.X) != rows.y)[with_u]) <= 1
    np.testing.assert_array_equal(planted.plane.signs(rows.X)[~with_u], rows.y[~with_u])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("positive", [0.25, 0.75])
@pytest.mark.parametrize("marginal", Marginal)
def test_generate__has_the_positive_share(marginal: Marginal, positive: float, dtype: str) -> None:
    spec = make_spec(marginal, positive=positive, dim=6, dtype=dtype)
    planted, rows = whole(spec)
    share = np.mean(rows.y > 0)
    # failure probability below 2e-9 for another seed, for a law that has this very share
    spread = SIGMAS * math.sqrt(positive * (1 - positive) / len(rows.y))
    assert abs(share - positive) < spread + SHARE_TOLERANCE * 0.25
    assert rows.n_flipped == 0
    # a threshold between the values of a discrete law: no rounding decides a label
    assert np.count_nonzero(planted.plane.signs(rows.X) != rows.y) <= 1


@pytest.mark.parametrize("marginal", Marginal)
def test_plant__the_threshold_does_not_depend_on_the_rows(marginal: Marginal) -> None:
    few, many = (plant(make_spec(marginal, dim=6, positive=0.25, rows=rows)) for rows in (10, 50_000))
    assert few.threshold == many.threshold
    assert plant(make_spec(marginal, dim=6)).threshold == 0.0


def test_plant__a_share_that_a_discrete_law_does_not_have_is_refused() -> None:
    plant(make_spec("rademacher", dim=3, planted="diagonal", positive=0.125))
    with pytest.raises(UsageError, match=r"positive: 0.3 .* nearest share .* 0\.12"):
        plant(make_spec("rademacher", dim=3, planted="diagonal", positive=0.3))


def test_plant__wedge_without_enough_rows_is_refused() -> None:
    spec = make_spec("gauss-hermite", "wedge", planted="axis", rate=0.2)
    with pytest.raises(UsageError, match=r"rate: 0.2 .* share 0\.\d+ .* lower the rate"):
        plant(spec)


@pytest.mark.parametrize("dim", [1, 2, 50])
def test_plant__directions_are_orthonormal(dim: int) -> None:
    for name, first in (("axis", 1.0), ("diagonal", dim**-0.5), ("generic", None)):
        planted = plant(make_spec(dim=dim, planted=name))
        assert np.linalg.norm(planted.v) == pytest.approx(1, abs=1e-6)
        assert np.linalg.norm(planted.u) == pytest.approx(float(dim > 1))
        assert planted.u @ planted.v == pytest.approx(0, abs=1e-12)
        np.testing.assert_array_equal(planted.v, planted.v.astype(np.float32))
        if first is not None:
            assert planted.v[0] == pytest.approx(first)
    generic = plant(make_spec(dim=50)).v
    assert abs(generic @ plant(make_spec(dim=50, seed=6)).v) < 0.99


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("rows", {"rows": 0}),
        ("rows", {"rows": 1.5}),
        ("rows", {"rows": True}),
        ("dim", {"dim": 0}),
        ("dim", {"dim": 1, "noise": "chow", "rate": RATE}),
        ("dim", {"dim": 1, "noise": "wedge", "rate": RATE}),
        ("dim", {"dim": 1, "marginal": "correlated"}),
        ("dim", {"dim": 1, "marginal": "low-rank"}),
        ("marginal", {"marginal": "cauchy"}),
        ("noise", {"noise": "loud"}),
        ("rate", {"rate": 0.1}),
        ("rate", {"noise": "random"}),
        ("rate", {"noise": "random", "rate": -0.1}),
        ("rate", {"noise": "random", "rate": 0.5}),
        ("rate", {"noise": "random", "rate": math.nan}),
        ("rate", {"noise": "random", "rate": "0.1"}),
        ("rate", {"noise": "wedge", "rate": 0.25}),
        ("rate", {"noise": "minor", "rate": 0.1, "positive": 0.9}),
        ("rate", {"noise": "tilt", "rate": 0.05, "positive": 0.9}),
        ("rate", {"noise": "wedge", "rate": 0.05, "positive": 0.1}),
        ("dim", {"dim": 1, "noise": "tilt", "rate": RATE}),
        ("positive", {"positive": 0}),
        ("positive", {"positive": 1.0}),
        ("positive", {"positive": math.nan}),
        ("positive", {"positive": "0.1"}),
        ("seed", {"seed": -1}),
        ("seed", {"seed": 2**64}),
        ("planted", {"planted": "sideways"}),
        ("dtype", {"dtype": "int8"}),
    ],
)
def test_spec__bad_value_is_named(field: str, changes: dict[str, Any]) -> None:
    good = {"rows": 100, "dim": 3, "marginal": "gaussian", "noise": "none"}
    with pytest.raises(UsageError) as caught:
        SyntheticSpec(**(good | changes))
    message = str(caught.value)
    assert message.startswith(f"{field}: ")
    assert str(changes.get(field, 0)) in message


def test_streams__keep_their_numbers() -> None:
    """A seed names a data set: another stream number would give it other rows."""
    streams = (synthetic._FEATURES, synthetic._DIRECTIONS, synthetic._NOISE)
    assert streams == (0x73796E746800, 0x73796E746801, 0x73796E746802)
