from __future__ import annotations

import numpy as np
import pytest

from streamhalf.data.block import Block
from streamhalf.label_issues.proofs import check_sets, find_sets, is_proof
from streamhalf.results import ConflictSet, ConflictSets, DataRecord, Versions, from_json, replace, to_json


def draw(dim: int, dtype: str, *, rate: float = 0.05) -> tuple[Block, np.ndarray]:
    rng = np.random.default_rng(dim)
    X = rng.standard_normal((2_000, dim)).astype(dtype)
    flips = np.where(rng.random(2_000) < rate, -1, 1)
    y = (np.where(X[:, 0] >= 0, 1, -1) * flips).astype(np.int8)
    return Block(X, y, np.arange(10, 2_010)), X[:, 0].astype(np.float64)


@pytest.mark.parametrize(("dim", "dtype"), [(1, "float64"), (3, "float32"), (6, "float64")])
def test_find_sets__are_disjoint_and_proved(dim: int, dtype: str) -> None:
    block, margins = draw(dim, dtype)
    wrong = np.flatnonzero((margins >= 0) != (block.y > 0))
    sets = find_sets(block, wrong.tolist(), margins, 8)
    assert len(sets) == 8
    rows = [row for one in sets for row in one.rows]
    assert len(set(rows)) == len(rows)
    rng = np.random.default_rng(0)
    for one in sets:
        assert is_proof(one)
        assert len(one.rows) <= dim + 2
        X, y = np.array(one.features), np.array(one.labels)
        for _ in range(200):  # no halfspace is right on all of them
            w, t = rng.standard_normal(dim), rng.standard_normal()
            assert (np.where(X @ w - t >= 0, 1, -1) != y).any()


def test_find_sets__none_where_a_halfspace_is_right() -> None:
    block, margins = draw(3, "float64", rate=0.0)
    near = np.argsort(np.abs(margins))[:20]
    assert find_sets(block, near.tolist(), margins, 20) == ()


def test_check__finds_what_was_changed() -> None:
    block, margins = draw(2, "float64")
    wrong = np.flatnonzero((margins >= 0) != (block.y > 0))
    first, *_ = found = find_sets(block, wrong.tolist(), margins, 3)

    def problems(*sets: ConflictSet) -> list[str]:
        record = DataRecord(2_010, 2, "0")
        document = ConflictSets(data=record, sets=sets, versions=Versions.current())
        assert from_json(ConflictSets, to_json(document)) == document
        rows = block.rows[np.isin(block.rows, [row for one in sets for row in one.rows])]
        claims = check_sets(document, block.take(rows - 10))
        return [one.recomputed for one in claims if not one.holds]

    assert problems(*found) == []
    assert "not 0" in problems(replace(first, weights=("1", *first.weights[1:])))[0]
    other = next(row for row in range(10, 2_010) if row not in first.rows)
    assert "another one" in problems(replace(first, rows=(other, *first.rows[1:])))[0]
    assert "another set" in problems(first, first)[0]
    assert "not in the data" in problems(replace(first, rows=(9_999, *first.rows[1:])))[0]
    for bad in (
        replace(first, weights=("-1",) * len(first.rows)),
        replace(first, weights=("0",) * len(first.rows)),
        replace(first, weights=("1/0", *first.weights[1:])),
        replace(first, labels=(2, *first.labels[1:])),
        replace(first, rows=first.rows[1:]),
    ):
        assert not is_proof(bad)
