"""Every use of random numbers has streams of its own."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import streamhalf
from streamhalf.kernels.margins import row_lengths
from streamhalf.kernels.streams import Stream, chi_radii, generator_of, turns_at, uniforms_at

MANY = 1 << 32
"""More streams than any use that takes several will ever take."""

SEVERAL = (Stream.UPDATES, Stream.SKETCHES, Stream.SYNTHETIC)


def test_streams__no_two_names_share_a_number() -> None:
    assert len(Stream) == len(Stream.__members__)  # an alias would be a second name for one number
    assert len({int(stream) for stream in Stream}) == len(Stream)


def test_streams__a_use_of_several_has_room_before_the_next() -> None:
    ordered = sorted(Stream)
    for stream, following in itertools.pairwise(ordered):
        assert following - stream >= (MANY if stream in SEVERAL else 1)
    assert all(1 <= stream <= 2**64 - MANY for stream in ordered)  # the key takes 64 bits


def test_streams__numbers_stay_what_they_are() -> None:
    # the same seed must give the same answer in every version, and documents verify by it
    assert {stream.name: int(stream) for stream in Stream} == {
        "UPDATES": 1,
        "STEPS": 2**39,
        "SHARES": 2**40,
        "SLAB_SAMPLE": 2**40 + 1,
        "WEDGE_SAMPLE": 2**40 + 2,
        "CERTIFICATE": 2**41,
        "CHUNK_ORDER": 2**42,
        "WINDOW_ORDER": 2**42 + 1,
        "WINDOW_START": 2**42 + 3,
        "PILOT": 2**42 + 2,
        "SKETCHES": 2**43,
        "RADII": 2**44,
        "SIGNS": 2**44 + 1,
        "CONFLICTS": 2**44 + 2,
        "POSITION_SHARE": 2**44 + 3,
        "BASELINE_SAMPLE": 2**44 + 4,
        "POSITION_SAMPLE": 2**44 + 5,
        "REFINE_SAMPLE": 2**44 + 6,
        "BASELINE_PART": 2**44 + 7,
        "REGRESSION_SHARE": 2**44 + 8,
        "REGRESSION_PART": 2**44 + 9,
        "BASELINES": 2**45,
        "FOLDS": 2**45 + 2**20,
        "REVIEW": 2**45 + 2**20 + 1,
        "CONFLICT_SAMPLE": 2**45 + 2**20 + 2,
        "COMPARED": 2**45 + 2**20 + 3,
        "AUDIT_SAMPLE": 2**45 + 2**20 + 4,
        "SYNTHETIC": 0x73796E7468 << 8,
    }


def test_streams__every_name_has_one_use() -> None:
    """One place in the code for each, but for the one number of a row that deals it to passes."""
    root = Path(streamhalf.__file__).parent
    text = "".join(path.read_text("utf-8") for path in sorted(root.rglob("*.py")))
    uses = Counter(re.findall(r"\bStream\.([A-Z_]+)\b", text))
    assert uses.pop("SHARES") > 1
    assert uses == dict.fromkeys(Stream.__members__.keys() - {"SHARES"}, 1)


def test_streams__draw_different_numbers() -> None:
    # 53-bit uniforms of 15 streams and 50 rows agree somewhere with probability below 1e-11
    rows = np.arange(50)
    drawn = np.concatenate([uniforms_at(0, stream, rows) for stream in Stream])
    assert len(np.unique(drawn)) == len(drawn)


@given(start=st.integers(0, 10**12), length=st.integers(1, 50), skip=st.integers(0, 49))
def test_uniforms__depend_on_the_row_alone(start: int, length: int, skip: int) -> None:
    rows = np.arange(start, start + length)
    drawn = uniforms_at(7, 3, rows)
    assert ((drawn >= 0) & (drawn < 1)).all()
    np.testing.assert_array_equal(uniforms_at(7, 3, rows[skip:]), drawn[skip:])
    np.testing.assert_array_equal(uniforms_at(7, 3, rows[::3]), drawn[::3])


@given(starts=st.sets(st.integers(0, 200_000), min_size=1, max_size=8), size=st.integers(1, 40))
def test_uniforms__are_the_same_where_rows_lie_far_apart(starts: set[int], size: int) -> None:
    rows = np.unique([start + i for start in starts for i in range(size)])
    np.testing.assert_array_equal(uniforms_at(7, 3, rows), ALL[rows])


ALL = uniforms_at(7, 3, np.arange(200_040))


def test_uniforms__are_uniform_and_differ_between_seeds_and_streams() -> None:
    # Kolmogorov-Smirnov distance above 2/sqrt(n) has probability 7e-4
    n = 100_000
    draws = [uniforms_at(seed, stream, np.arange(n)) for seed, stream in ((0, 0), (0, 1), (1, 0))]
    for drawn in draws:
        assert np.abs(np.sort(drawn) - np.arange(n) / n).max() < 2 / np.sqrt(n)
    assert abs(np.corrcoef(draws)[0, 1:]).max() < 0.02


def test_generator__depends_on_seed_and_stream() -> None:
    keys = ((0, 1), (0, 1), (0, 2), (1, 1))
    first, again, *others = (generator_of(seed, stream).random() for seed, stream in keys)
    assert first == again
    assert len({first, *others}) == 3


@pytest.mark.parametrize("dim", [1, 2, 3, 10, 300])
def test_chi_radii__are_quantiles_of_the_length_of_a_gaussian_row(dim: int) -> None:
    uniforms = np.concatenate([[1e-12, 1e-6], np.linspace(0.001, 0.999, 997), [1 - 1e-6, 1 - 1e-9]])
    np.testing.assert_allclose(chi_radii(uniforms, dim), stats.chi(dim).ppf(uniforms), atol=2e-6)


@pytest.mark.parametrize("dim", [1, 2, 50])
def test_chi_radii__are_above_0_and_finite_for_every_uniform_number(dim: int) -> None:
    radii = chi_radii(np.array([0.0, 2.0**-53, 1 - 2.0**-53]), dim)
    assert (radii > 0).all()
    assert np.isfinite(radii).all()
    assert (np.diff(radii) >= 0).all()


def test_row_lengths__neither_overflow_nor_vanish() -> None:
    rows = np.array([[3.0, 4.0]]) * np.array([1e300, 1.0, 1e-200, 0.0])[:, None]
    before = rows.copy()
    np.testing.assert_allclose(row_lengths(rows), [5e300, 5.0, 5e-200, 0.0], rtol=1e-15)
    np.testing.assert_array_equal(rows, before)
    assert row_lengths(np.array([[0.0, 1e-300]])) == 0


def test_turns_at__an_even_chance_for_every_row() -> None:
    # 8 standard deviations
    turns = turns_at(1, np.arange(40_000))
    assert abs(turns.mean() - 0.5) < 0.02
    np.testing.assert_array_equal(turns_at(1, np.arange(100, 200)), turns[100:200])
