from __future__ import annotations

import functools
import itertools
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from streamhalf.kernels.localize import margins

from streamhalf.data import synthetic
from streamhalf.data.block import RowRange
from streamhalf.data.marginals import (
    EQUICORRELATION,
    HOLE_ATOM,
    HOLE_HALF_WIDTH,
    LOW_RANK_SHARE,
    SHIFT,
    SPIKE_HALF_WIDTH,
    SPIKE_SHARE,
    Marginal,
    cell_rows,
    hole_law,
    spike_law,
)
from streamhalf.data.noise import Noise, choose_cut
from streamhalf.data.stores import Target
from streamhalf.data.synthetic import (
    Generated,
    Planted,
    SyntheticSpec,
    generate,
    plant,
)
from streamhalf.data.synthetic_store import create_store, finish_store, write_rows
from streamhalf.errors import DataError, UsageError

RATE = 0.05
SIGMAS = 6  # a statistic beyond six standard errors has probability below 2e-9
SCORED = [noise for noise in Noise if noise.needs_pilot]


def make_spec(marginal: str = "gaussian", noise: str = "none", **changes: Any) -> SyntheticSpec:
    values = {"rows": 40_000, "dim": 3, "rate": 0.0 if noise == "none" else RATE, "seed": 5}
    return SyntheticSpec(marginal=Marginal(marginal), noise=Noise(noise), **(values | changes))


@functools.cache
def whole(spec: SyntheticSpec) -> tuple[Planted, Generated]:
    planted = plant(spec)
    return planted, generate(spec, planted, RowRange(0, spec.rows))


def count_disagreements(planted: Planted, rows: Generated) -> int:
    return int(np.count_nonzero((margins(rows.X, planted.v) >= 0) != (rows.y > 0)))


def write_store(
    url: str, spec: SyntheticSpec, *, chunk_rows: int, storage_options: Any = None
) -> None:
    planted = plant(spec)
    target = Target(url, storage_options)
    chunks = create_store(target, spec, chunk_rows=chunk_rows)
    n_flipped = sum(write_rows(target, spec, planted, chunk) for chunk in chunks)
    finish_store(target, spec, planted, n_flipped)


@st.composite
def row_ranges(draw: st.DrawFn, rows: int) -> RowRange:
    start, stop = sorted(draw(st.tuples(st.integers(0, rows), st.integers(0, rows))))
    return RowRange(start, stop)


@pytest.mark.parametrize("noise", Noise)
@pytest.mark.parametrize("marginal", Marginal)
@settings(max_examples=6, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_generate__is_the_same_whatever_the_chunking(
    marginal: Marginal, noise: Noise, data: st.DataObject
) -> None:
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


@pytest.mark.parametrize("marginal", Marginal)
def test_generate__no_row_comes_twice(marginal: Marginal) -> None:
    _, rows = whole(make_spec(marginal, dim=40))
    # 40 fair signs coincide for one of 8e8 pairs with probability below 1e-3 for another seed
    assert len(np.unique(rows.X, axis=0)) == len(rows.X)


@pytest.mark.parametrize("change", [{"seed": 6}, {"marginal": "laplace"}, {"dtype": "float64"}])
def test_generate__another_spec_draws_other_rows(change: dict[str, Any]) -> None:
    _, rows = whole(make_spec())
    _, others = whole(make_spec(**change))
    assert not np.any(np.isclose(rows.X, others.X, rtol=1e-6, atol=0).all(axis=1))


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
def test_plant__pilot_sets_the_share_of_all_rows(
    marginal: str, noise: Noise, monkeypatch: pytest.MonkeyPatch
) -> None:
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


@pytest.mark.parametrize("noise", SCORED)
def test_generate__flips_the_rows_that_the_noise_names(noise: Noise) -> None:
    planted, rows = whole(make_spec(noise=noise))
    margin, side = margins(rows.X, planted.v), margins(rows.X, planted.u)
    clean = np.where(margin >= 0, 1, -1)
    flipped = clean != rows.y
    inside = (margin > 0) & (side < 0)
    score = {
        Noise.NEAR: abs(margin),
        Noise.FAR: -abs(margin),
        Noise.CHOW: -clean * side,
        Noise.WEDGE: np.where(inside, margin / np.where(inside, -side, 1), np.inf),
    }[noise]
    assert np.isfinite(score[flipped]).all()
    assert score[flipped].max() <= score[~flipped].min()


def test_generate__labels_without_noise_are_those_of_the_planted_vector() -> None:
    for marginal in Marginal:
        planted, rows = whole(make_spec(marginal))
        assert rows.n_flipped == 0
        assert set(np.unique(rows.y)) == {-1, 1}
        np.testing.assert_array_equal(rows.y > 0, margins(rows.X, planted.v) >= 0)


@settings(max_examples=50, deadline=None, derandomize=True, database=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.data())
def test_choose_cut__flips_exactly_the_smallest(scores: list[int], data: st.DataObject) -> None:
    n_flips = data.draw(st.integers(0, len(scores)))
    values = np.array(scores, dtype=np.float64)
    uniforms = np.random.default_rng(0).permutation(len(scores)) / len(scores)
    flipped = choose_cut(values, uniforms, n_flips).flips(values, uniforms)
    assert np.count_nonzero(flipped) == n_flips
    assert values[flipped].max(initial=0) <= values[~flipped].min(initial=3)


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


def test_planted_and_spec__pickle() -> None:
    spec = make_spec(noise="chow")
    planted, rows = whole(spec)
    spec_again, planted_again = pickle.loads(pickle.dumps((spec, planted)))
    again = generate(spec_again, planted_again, RowRange(0, spec.rows))
    assert spec_again == spec
    np.testing.assert_array_equal(again.y, rows.y)


# fourth moment of a coordinate, all of unit variance
KNOWN_LAWS = {
    "gaussian": 3,
    "student-t": 4,
    "laplace": 6,
    "uniform": 1.8,
    "rademacher": 1,
    "gauss-hermite": 3,
}


@pytest.mark.parametrize("marginal", KNOWN_LAWS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_marginal__has_unit_variance_and_its_fourth_moment(marginal: str, dtype: str) -> None:
    _, rows = whole(make_spec(marginal, rows=100_000, dim=4, seed=1, dtype=dtype))
    X = rows.X.astype(np.float64)
    for power, expected in ((1, 0), (2, 1), (4, KNOWN_LAWS[marginal])):
        values = X.ravel() ** power
        error = values.std() / math.sqrt(values.size) + 1e-6
        # failure probability below 2e-9 for another seed (heavy tails of power 4: below 1e-6)
        assert abs(values.mean() - expected) < SIGMAS * error
    second = X.T @ X / len(X)
    # an off-diagonal entry has standard error 1/sqrt(n); six entries, below 2e-8 for another seed
    assert np.abs(second - np.diag(np.diag(second))).max() < SIGMAS / math.sqrt(len(X))


def index_gaps(dim: int) -> np.ndarray[Any, Any]:
    return np.abs(np.subtract.outer(np.arange(dim), np.arange(dim)))


@pytest.mark.parametrize(
    ("marginal", "mean", "covariance"),
    [
        ("mixture", 0, 1.03 * np.eye(4)),
        ("correlated", 0, np.where(index_gaps(4) == 0, 1, EQUICORRELATION)),
        ("shifted", SHIFT, np.eye(4)),
        ("low-rank", 0, np.where(index_gaps(4) == 0, 1, LOW_RANK_SHARE * np.cos(index_gaps(4)))),
    ],
)
def test_marginal__has_the_mean_and_covariance_it_states(
    marginal: str, mean: float, covariance: np.ndarray[Any, Any]
) -> None:
    _, rows = whole(make_spec(marginal, rows=100_000, dim=4, seed=1))
    X = rows.X.astype(np.float64)
    # an entry has standard error sqrt(2/n) at most (mixture: 1.6/sqrt(n)); failure probability of
    # another seed below 1e-7 over all entries
    limit = SIGMAS * 1.6 / math.sqrt(len(X))
    np.testing.assert_allclose(X.mean(axis=0), mean, atol=limit)
    np.testing.assert_allclose(np.cov(X.T), covariance, atol=limit)


def test_hole_law__has_the_moments_of_a_gaussian() -> None:
    law = hole_law()
    gap = law.gap / law.scale
    assert 0 < law.atom_share < 1
    assert law.gap >= HOLE_HALF_WIDTH
    for power, expected in ((0, 1), (2, 1), (4, 3)):
        tail = 2 * integrate.quad(lambda g, p=power: g**p * stats.norm.pdf(g), gap, 12)[0]
        bulk = law.scale**power * tail / (2 * stats.norm.sf(gap))
        moment = (1 - law.atom_share) * bulk + law.atom_share * HOLE_ATOM**power
        assert moment == pytest.approx(expected, abs=1e-9)


def test_spike_law__has_the_moments_of_a_gaussian() -> None:
    law = spike_law()
    for power, expected in ((0, 1), (2, 1), (4, 3)):
        bulk = stats.norm(loc=law.sign, scale=law.gaussian).expect(lambda z, p=power: z**p)
        spike = SPIKE_HALF_WIDTH**power / (power + 1)
        moment = (1 - SPIKE_SHARE) * bulk + SPIKE_SHARE * spike
        assert moment == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("planted_name", ["axis", "generic"])
@pytest.mark.parametrize("marginal", ["hole", "spike"])
def test_marginal__along_v_matches_moments_and_is_gaussian_across(
    marginal: str, planted_name: str, dtype: str
) -> None:
    spec = make_spec(marginal, rows=100_000, dim=4, planted=planted_name, dtype=dtype)
    planted, rows = whole(spec)
    X = rows.X.astype(np.float64)
    along, across = X @ planted.v, X @ planted.u
    n = len(X)
    if marginal == "hole":
        assert np.abs(along).min() > HOLE_HALF_WIDTH
    else:
        in_spike = np.mean(np.abs(along) < SPIKE_HALF_WIDTH + 1e-6)
        own = 2 * stats.norm(spike_law().sign, spike_law().gaussian).pdf(0) * SPIKE_HALF_WIDTH
        share = SPIKE_SHARE + (1 - SPIKE_SHARE) * own
        # failure probability below 2e-9 for another seed
        assert abs(in_spike - share) < SIGMAS * math.sqrt(share / n)
    for power, expected in ((1, 0), (2, 1), (3, 0), (4, 3), (5, 0)):
        for values in (along**power, across**power):
            # failure probability below 2e-9 for another seed
            assert abs(values.mean() - expected) < SIGMAS * values.std() / math.sqrt(n)
    # across is N(0,1) and independent: Kolmogorov's test at level 1e-6, and no correlation
    assert stats.kstest(across, "norm").pvalue > 1e-6
    assert abs(np.mean(across * along)) < SIGMAS / math.sqrt(n)
    assert abs(np.mean((across**2 - 1) * along**2)) < SIGMAS * math.sqrt(6 / n)


def test_store__two_chunkings_have_identical_contents(tmp_path: Path) -> None:
    spec = make_spec("rademacher", "chow")
    contents = []
    for chunk_rows in (7_001, 10**9):
        url = str(tmp_path / f"{chunk_rows}.zarr")
        write_store(url, spec, chunk_rows=chunk_rows)
        group = zarr.open_group(url, mode="r")
        contents.append((group["X"][:], group["y"][:], dict(group.attrs)))
    _, rows = whole(spec)
    for X, y, _ in contents:
        np.testing.assert_array_equal(X, rows.X)
        np.testing.assert_array_equal(y, rows.y)
    assert contents[0][2] == contents[1][2]


def test_store__records_what_was_planted(tmp_path: Path) -> None:
    spec = make_spec(noise="random")
    url = str(tmp_path / "store.zarr")
    write_store(url, spec, chunk_rows=10_000)
    group = zarr.open_group(url, mode="r")
    record = group.attrs["streamhalf"]
    planted, _ = whole(spec)
    assert record["complete"] is True
    assert SyntheticSpec(**record["synthetic"]) == spec
    np.testing.assert_array_equal(record["planted_vector"], planted.v)
    measured = np.mean((margins(group["X"][:], planted.v) >= 0) != (group["y"][:] > 0))
    assert record["planted_error"] == pytest.approx(measured, abs=1e-12)


def test_create_store__layout(tmp_path: Path) -> None:
    spec = make_spec(rows=25_000)
    url = str(tmp_path / "store.zarr")
    chunks = create_store(Target(url), spec, chunk_rows=10_000)
    group = zarr.open_group(url, mode="r")
    X, y = group["X"], group["y"]
    assert chunks == (RowRange(0, 10_000), RowRange(10_000, 20_000), RowRange(20_000, 25_000))
    assert group.metadata.zarr_format == 3
    assert group.attrs["streamhalf"]["complete"] is False
    assert (X.shape, X.chunks, X.dtype) == ((25_000, 3), (10_000, 3), np.float32)
    assert (y.shape, y.chunks, y.dtype) == ((25_000,), (10_000,), np.int8)
    assert (X.metadata.dimension_names, y.metadata.dimension_names) == (
        ("row", "feature"),
        ("row",),
    )
    assert math.isnan(X.fill_value)
    assert y.fill_value == 0
    for array in (X, y):
        assert [codec["name"] for codec in array.metadata.to_dict()["codecs"]] == [
            "bytes",
            "crc32c",
        ]


def test_create_store__small_data_take_one_small_chunk(tmp_path: Path) -> None:
    url = str(tmp_path / "store.zarr")
    assert create_store(Target(url), make_spec(rows=10)) == (RowRange(0, 10),)
    assert zarr.open_array(url, path="X", mode="r").chunks == (10, 3)


def test_create_store__refuses_to_overwrite(tmp_path: Path) -> None:
    url = str(tmp_path / "store.zarr")
    write_store(url, make_spec(), chunk_rows=20_000)
    with pytest.raises(UsageError, match=r"store\.zarr: .*--overwrite"):
        create_store(Target(url), make_spec(rows=10))
    assert zarr.open_array(url, path="X", mode="r").shape == (40_000, 3)
    create_store(Target(url), make_spec(rows=10), overwrite=True)
    group = zarr.open_group(url, mode="r")
    assert group["X"].shape == (10, 3)
    assert np.isnan(group["X"][:]).all()


def test_create_store__never_empties_what_is_not_a_store(tmp_path: Path) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("kept")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "zarr.json").write_text("{")
    for target in (tmp_path, precious, tmp_path / "damaged"):
        for overwrite in (False, True):
            with pytest.raises(UsageError, match="choose another path"):
                create_store(Target(str(target)), make_spec(), overwrite=overwrite)
    options = {"auto_mkdir": True}
    create_store(Target(f"file://{tmp_path}", options), make_spec(), overwrite=True)
    assert precious.read_text() == "kept"
    assert (tmp_path / "damaged" / "zarr.json").read_text() == "{"


def test_create_store__takes_an_empty_directory(tmp_path: Path) -> None:
    assert create_store(Target(str(tmp_path)), make_spec(rows=10)) == (RowRange(0, 10),)


def test_create_store__bad_chunk_rows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="chunk_rows: 0 given"):
        create_store(Target(str(tmp_path / "store.zarr")), make_spec(), chunk_rows=0)


def test_store__takes_urls_with_storage_options(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/store.zarr"
    spec = make_spec(rows=1_000)
    write_store(url, spec, chunk_rows=300, storage_options={"auto_mkdir": True})
    group = zarr.open_group(url, mode="r")
    np.testing.assert_array_equal(group["X"][:], whole(spec)[1].X)
    with pytest.raises(UsageError, match="--overwrite"):
        create_store(Target(url, {"auto_mkdir": True}), spec)


def test_write_rows__refuses_half_chunks(tmp_path: Path) -> None:
    spec = make_spec()
    url = str(tmp_path / "store.zarr")
    create_store(Target(url), spec, chunk_rows=10_000)
    for part in (RowRange(5, 10_000), RowRange(0, 10_001)):
        with pytest.raises(UsageError, match=r"row_range: .* chunks of 10000 rows"):
            write_rows(Target(url), spec, plant(spec), part)


def test_finish_store__refuses_a_missing_chunk(tmp_path: Path) -> None:
    spec = make_spec()
    url = str(tmp_path / "store.zarr")
    chunks = create_store(Target(url), spec, chunk_rows=10_000)
    planted = plant(spec)
    write_rows(Target(url), spec, planted, RowRange(chunks[0].start, chunks[2].stop))
    with pytest.raises(DataError, match="3 of 4 chunks of X"):
        finish_store(Target(url), spec, planted, 0)
    assert zarr.open_group(url, mode="r").attrs["streamhalf"]["complete"] is False


@pytest.mark.parametrize(("name", "chunk"), [("X", "c/1/0"), ("y", "c/1")])
def test_store__a_flipped_byte_is_seen(tmp_path: Path, name: str, chunk: str) -> None:
    url = str(tmp_path / "store.zarr")
    write_store(url, make_spec(), chunk_rows=10_000)
    path = tmp_path / "store.zarr" / name / chunk
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    array = zarr.open_array(url, path=name, mode="r")
    assert len(array[:10_000]) == 10_000
    with pytest.raises(ValueError, match="checksum"):
        array[10_000:20_000]


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
