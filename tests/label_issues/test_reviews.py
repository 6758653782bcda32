from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import hypergeom

from streamhalf import DataError
from streamhalf.label_issues.reviews import judge_reviews, least_wrong, most_wrong, read_reviews
from streamhalf.reductions.suspects import Stratum, share_out

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


HEADER = "row,wrong,stratum,draw,stratum_rows,data_rows\n"


def write_review(path: Path, lines: list[tuple[str, str, int]], sizes: dict[str, int], header: str = HEADER) -> Path:
    """Lines are the answer, the stratum, and the place in the draw."""
    total = sum(sizes.values())
    rows = "".join(f'{i},{said},"{name}",{draw},{sizes[name]},{total}\n' for i, (said, name, draw) in enumerate(lines))
    path.write_text(header + rows, encoding="utf-8")
    return path


def test_read_reviews__takes_answers_up_to_the_first_gap_of_the_draw(tmp_path: Path) -> None:
    top, rest = "top of the list", "unsuspected"
    lines = [("wrong", top, 4), ("", top, 3), ("0", top, 2), ("yes", top, 1), ("No", rest, 2), ("?", rest, 1)]
    path = write_review(tmp_path / "review.csv", [*lines, ("y", rest, 4)], {top: 90, rest: 70})
    sizes, answers = read_reviews(path, 160)
    assert sizes == {Stratum.TOP: 90, Stratum.UNSUSPECTED: 70}
    assert answers == {Stratum.TOP: [True, False], Stratum.UNSUSPECTED: [None, False]}
    path.write_text(path.read_text().replace(",", ";"), encoding="utf-8-sig")  # as a spreadsheet may save it
    assert read_reviews(path) == (sizes, answers)
    with pytest.raises(DataError, match="is of data with 160 rows, these have 161"):
        read_reviews(path, 161)


@pytest.mark.parametrize("way", ["sorted by score", "the surest first", "until bored", "lines deleted"])
def test_reviews__cover_however_a_person_works(tmp_path: Path, way: str) -> None:
    """Files that are sorted again, answered in part, or cut: 125 reviews, 29 misses have probability below 1e-4."""
    rng, misses = np.random.default_rng(len(way)), 0
    numbers = dict(zip(SIZES, share_out(80, tuple(SIZES.values())), strict=True))
    names = {one.value: n for one, n in SIZES.items()}
    for _ in range(125):
        wrong = {one: int(rng.integers(0, 1 + n // rng.integers(1, 20))) for one, n in SIZES.items()}
        drawn = [
            (one, i + 1, row < wrong[one])
            for one in SIZES
            for i, row in enumerate(rng.permutation(SIZES[one])[: numbers[one]])
        ]
        lines = [("yes" if bad else "no", one.value, draw) for one, draw, bad in drawn]
        if way == "sorted by score":  # wrong ones first, and the first third answered
            lines = sorted(lines, reverse=True)
            lines = [(said if i < 30 else "", *rest) for i, (said, *rest) in enumerate(lines)]
        elif way == "the surest first":  # only wrong ones answered
            lines = [(said if said == "yes" or rng.random() < 0.3 else "", *rest) for said, *rest in lines]
        elif way == "until bored":
            lines = [(said if draw < 6 else "", name, draw) for said, name, draw in lines]
        else:
            lines = [line for line in lines if line[2] < 4 or line[0] == "yes"]
        found = judge_reviews(*read_reviews(write_review(tmp_path / "review.csv", lines, names)), 0.1)
        misses += not found.rows.low <= sum(wrong.values()) <= found.rows.high
    assert misses <= 28


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no column 'wrong'"),
        ("row,stratum,draw,stratum_rows,data_rows\n1,unsuspected,1,5,5\n", "no column 'wrong'"),
        (HEADER + "1,maybe so,unsuspected,1,5,5\n", "line 2: wrong is 'maybe so'; answer yes \\(1, true\\), no"),
        (HEADER + "1,yes,elsewhere,1,5,5\n", "line 2: 'elsewhere'"),
        (HEADER + "1,yes,unsuspected,1,many,5\n", "line 2: invalid literal"),
        (HEADER + "1,yes,unsuspected,1,5,5\n1,no,unsuspected,2,5,5\n", "line 3: row 1 is in line 2 too"),
        (HEADER + "1,yes,unsuspected,1,5,5\n2,no,unsuspected,1,5,5\n", "line 3: draw 1 of 5 rows"),
        (HEADER + "1,yes,unsuspected,1,5,5\n2,no,unsuspected,2,6,5\n", "line 3: draw 2 of 6 rows"),
        (HEADER + "1,yes,unsuspected,1,5,9\n", "make 5, but data_rows is 9.* lines are missing of: top of"),
        (HEADER + "1,yes,unsuspected,1,10,9\n", "make 10, but data_rows is 9: one of these .* was changed; restore"),
    ],
)
def test_read_reviews__names_what_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "review.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=said):
        read_reviews(path)
    path.write_bytes(HEADER.encode() + b"1,oui,\xe9,1,5,5\n")
    with pytest.raises(DataError, match="is not UTF-8"):
        read_reviews(path)
    with pytest.raises(DataError, match="cannot be read"):
        read_reviews(tmp_path / "absent.csv")
