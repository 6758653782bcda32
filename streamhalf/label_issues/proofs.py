"""Sets of rows of which at least one label is wrong under every linear rule, with exact proofs.

With a = y (x, 1) a halfspace (w, t) is right on a row only if (w, -t)·a >= 0; for y = -1 only if
it is above 0. So where weights >= 0, not all 0, make the weighted sum of the a's exactly 0, no
halfspace is right on all rows that have a weight: the labels cancel, hence one of them is -1.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from streamhalf.certificate.packing import exact_weights
from streamhalf.data.block import Block, RowRange, RowRanges
from streamhalf.results.audit import ConflictSet, ConflictSets
from streamhalf.results.results import Claim

_POOL = 24  # Rows a linear program chooses from, for each of its equations
_LEAST_WEIGHT = 1e-9
_ANY_BITS = 4096  # As many as any finite numbers need


def find_sets(
    sample: Block, suspects: Iterable[int], margins: NDArray[np.float64], most: int
) -> tuple[ConflictSet, ...]:
    """Return up to `most` disjoint sets, each around one suspect of the sample, a place in it, the surest first.

    `margins` are those of all rows of the sample about a good halfspace.
    """
    X = sample.X.astype(np.float64)
    centre, spread = np.median(X, axis=0), X.std(axis=0)
    scaled = np.column_stack([(X - centre) / np.where(spread > 0, spread, 1.0), np.ones(len(X))])
    signed = scaled * sample.y[:, None].astype(np.float64)
    free = np.ones(len(X), dtype=bool)
    nearest = np.argsort(np.abs(margins), kind="stable")
    found: list[ConflictSet] = []
    for seed in suspects:
        if len(found) == most:
            break
        if not free[seed]:
            continue
        pool = nearest[free[nearest] & (nearest != seed)][: _POOL * signed.shape[1]]
        others = _combine(signed, seed, pool)
        if others is None:
            continue
        members = np.array([seed, *others])
        exact = np.column_stack([X[members], np.ones(len(members))]) * sample.y[members, None].astype(np.float64)
        weights = exact_weights(exact, _ANY_BITS)
        if weights is None:
            continue
        kept = [i for i, weight in enumerate(weights) if weight]
        free[members[kept]] = False
        found.append(
            ConflictSet(
                rows=tuple(int(sample.rows[members[i]]) for i in kept),
                labels=tuple(int(sample.y[members[i]]) for i in kept),
                features=tuple(tuple(X[members[i]].tolist()) for i in kept),
                weights=tuple(str(weights[i]) for i in kept),
            )
        )
    return tuple(found)


def _combine(signed: NDArray[np.float64], seed: int, pool: NDArray[np.intp]) -> NDArray[np.intp] | None:
    """Return the rows of the pool of which minus the seed is a combination, weights above 0."""
    from scipy.optimize import linprog  # takes a third of a second to import

    solved = linprog(
        np.arange(len(pool)) + 1.0, A_eq=signed[pool].T, b_eq=-signed[seed], bounds=(0, None), method="highs-ds"
    )
    weights = np.asarray(solved.x if solved.status == 0 else 0.0, dtype=np.float64)
    return pool[weights > _LEAST_WEIGHT] if weights.any() else None


def is_proof(one: ConflictSet) -> bool:
    """Return whether the weights of a set prove that no halfspace is right on all of its rows."""
    sizes = {len(one.labels), len(one.features), len(one.weights)}
    if sizes != {len(one.rows)} or not set(one.labels) <= {-1, 1} or not one.rows:
        return False
    try:
        weights = [Fraction(weight) for weight in one.weights]
    except (ValueError, ZeroDivisionError):
        return False
    if min(weights) < 0 or not any(weights) or len({len(row) for row in one.features}) != 1:
        return False
    rows = zip(one.features, one.labels, weights, strict=True)
    terms = [[weight * label * Fraction(v) for v in (*row, 1)] for row, label, weight in rows]
    return not any(sum(column) for column in zip(*terms, strict=True))


def rows_of(sets: ConflictSets, n_rows: int) -> RowRanges:
    """Return the rows of all sets that the data have."""
    rows = sorted({row for one in sets.sets for row in one.rows if 0 <= row < n_rows})
    return RowRanges.of(tuple(RowRange(row, row + 1) for row in rows))


def check_sets(sets: ConflictSets, block: Block) -> tuple[Claim, ...]:
    """Return one claim for each set: its proof, its rows in the data (`block`), and that it shares none."""
    used: set[int] = set()
    claims = []
    for number, one in enumerate(sets.sets, start=1):
        problem = _problem(one, block, used)
        used |= set(one.rows)
        statement = f"no halfspace is right on rows {', '.join(map(str, one.rows))}"
        claims.append(Claim(f"set {number}", statement, problem or "proved", not problem))
    return tuple(claims)


def _problem(one: ConflictSet, block: Block, used: set[int]) -> str:
    if not is_proof(one):
        return "the weighted sum of the rows is not 0"
    for row, features, label in zip(one.rows, one.features, one.labels, strict=True):
        place = int(np.searchsorted(block.rows, row))
        if row in used:
            return f"row {row} is in another set too"
        if place == block.n_rows or int(block.rows[place]) != row:
            return f"row {row} is not in the data"
        found = tuple(block.X[place].astype(np.float64).tolist())
        if found != tuple(features) or int(block.y[place]) != label:
            return f"row {row} is another one in the data"
    return ""
