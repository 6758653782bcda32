from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import hypergeom

from streamhalf import DataError
from streamhalf.label_issues.reviews import judge_reviews, least_wrong, most_wrong, read_reviews
from streamhalf.reductions.review_sample import Stratum, share_out

SIZES = {Stratum.TOP: 300, Stratum.LIST: 400, Stratum.CONTRADICTED: 50, Stratum.UNSUSPECTED: 9_250}


@pytest.mark.parametrize(("n_rows", "n_reviewed", "n_wrong"), [(500, 40, 3), (60, 60, 7), (9, 0, 0)])
def test_bounds__are_the_exact_ones(n_rows: int, n_reviewed: int, n_wrong: int) -> None:
    kept = [
        wrong
        for wrong in range(n_wrong, n_rows - n_reviewed + n_wrong + 1)
        if hypergeom.cdf(n_wrong, n_rows, wrong, n_reviewed) > 0.05
    ]
    assert most_wrong(n_rows, n_reviewed, n_wrong, 0.05) == max(kept)
    turned = [
        wrong
        for wrong in range(n_wrong, n_rows - n_reviewed + n_wrong + 1)
        if hypergeom.sf(n_wrong - 1, n_rows, wrong, n_reviewed) > 0.05
    ]
    assert least_wrong(n_rows, n_reviewed, n_wrong, 0.05) == min(turned)


def test_judge_reviews__covers_the_number_of_wrong_labels() -> None:
    """500 reviews at tau 0.1: 79 misses or more have probability below 1e-4 if each has 0.1."""
    rng, misses = np.random.default_rng(3), 0
    for _ in range(500):
        wrong = {one: int(rng.integers(0, 1 + n // rng.integers(1, 50))) for one, n in SIZES.items()}
        numbers = dict(zip(SIZES, share_out(200, tuple(SIZES.values())), strict=True))
        answers = {}
        for one, n in SIZES.items():
            drawn = rng.permutation(n)[: numbers[one]]
            answers[one] = [bool(row < wrong[one]) for row in drawn]
        found = judge_reviews(SIZES, answers, 0.1)
        misses += not found.rows.low <= sum(wrong.values()) <= found.rows.high
        assert found.listed.n_rows == 700
    assert misses <= 78


def test_judge_reviews__unsure_answers_widen_both_ends() -> None:
    sure = judge_reviews(SIZES, {Stratum.TOP: [True] * 40}, 0.05).strata[0]
    unsure = judge_reviews(SIZES, {Stratum.TOP: [True] * 35 + [None] * 5}, 0.05).strata[0]
    assert unsure.low < sure.low <= sure.high == unsure.high == 300


def test_more_reviews__halve_the_interval() -> None:
    rng = np.random.default_rng(0)
    answers = {one: (rng.random(60) < 0.3).tolist() for one in SIZES}
    first = judge_reviews(SIZES, answers, 0.05)
    assert first.more_reviews is not None
    part = 1 + first.more_reviews / 230
    more = {one: (rng.random(min(n, int(60 * part))) < 0.3).tolist() for one, n in SIZES.items()}
    second = judge_reviews(SIZES, more, 0.05)
    width, before = (one.rows.high - one.rows.low for one in (second, first))
    assert width < 0.62 * before


@pytest.mark.parametrize("number", [0, 1, 7, 200, 20_000])
def test_share_out__gives_what_there_is(number: int) -> None:
    shares = share_out(number, tuple(SIZES.values()))
    assert sum(shares) == min(number, sum(SIZES.values()))
    assert all(share <= size for share, size in zip(shares, SIZES.values(), strict=True))
    assert share_out(10, (0, 0, 0, 4)) == (0, 0, 0, 4)


def test_read_reviews__takes_answers_up_to_the_first_gap(tmp_path: Path) -> None:
    path = tmp_path / "review.csv"
    lines = [("yes", "top of the list"), ("0", "top of the list"), ("", "top of the list")]
    lines += [("wrong", "top of the list"), ("?", "unsuspected"), ("No", "unsuspected")]
    rows = "".join(f"{i},{said},{name},90\n" for i, (said, name) in enumerate(lines))
    path.write_text("row,wrong,stratum,stratum_rows\n" + rows, encoding="utf-8")
    sizes, answers = read_reviews(path)
    assert sizes == {Stratum.TOP: 90, Stratum.UNSUSPECTED: 90}
    assert answers == {Stratum.TOP: [True, False], Stratum.UNSUSPECTED: [None, False]}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no column 'stratum'"),
        ("row,stratum,stratum_rows\n1,unsuspected,5\n", "no column 'wrong'"),
        ("wrong,stratum,stratum_rows\nmaybe so,unsuspected,5\n", "line 2: wrong is 'maybe so'"),
        ("wrong,stratum,stratum_rows\nyes,elsewhere,5\n", "line 2: 'elsewhere'"),
        ("wrong,stratum,stratum_rows\nyes,unsuspected,many\n", "line 2: invalid literal"),
    ],
)
def test_read_reviews__names_what_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "review.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=said):
        read_reviews(path)
    with pytest.raises(DataError, match="cannot be read"):
        read_reviews(tmp_path / "absent.csv")
