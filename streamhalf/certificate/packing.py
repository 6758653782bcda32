"""How many disjoint sets of rows there are, on none of which any halfspace is right everywhere.

Every halfspace is wrong on at least one row of each, so with k sets among n rows none errs on less than k/n: whatever
the rows are like, and with as few of them as there are. A set has d + 2 rows at most, so that k/n cannot exceed 1/(d +
2) by much unless rows share values; slab moments tell more of many rows near to normal, these sets more of few rows,
flags and heavy tails.

With a = y (x, 1) a halfspace u is right on a row only if u·a >= 0, and where y = -1 only if u·a > 0 (sgn(0) = +1). So
if weights > 0 make the sum of the a's 0, no u is right on all rows that have a weight, provided that one of them has y
= -1: the sum of u·a would be above 0. With the constant coordinate there is one, as the labels must cancel; without it
(halfspaces through the origin) that is asked for. A linear program finds such weights for a row that the halfspace gets
wrong. They are only about right in floating point: `are_conflicts` and `exact_weights` prove that exact ones exist.

Which rows a program takes decides how many sets there will be. Rows next to the boundary can do what those far from it
cannot, so wrong rows next to it come first, programs see rows next to it first, and the costs spare them. Programs are
thousands and small: a compiled simplex method takes tens of microseconds each, a hundredth of what a general solver
takes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamhalf.kernels.compiling import compiled
from streamhalf.kernels.plane import Plane

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
_UNIT = 2.0**-53
_TINY = 2.0**-900  # more than what underflow can change in the sums below
_SMALLEST, _LARGEST = 2.0**-200, 2.0**200  # of weights; beyond, scaled numbers could be rounded to 0
_MOST_BITS = 64  # of the integers that quick exact proofs begin with


def are_conflicts(rows: Array, others: Array, weights: Array) -> NDArray[np.bool_]:
    """Return True where row (b, r) is minus a combination of its others (b, r, r), all weights above 0.

    `weights` (b, r) are the weights of the others, about. With A the others as columns, scaled by powers of two so that
    the weights sought are about 1, and C about its inverse: if the norm e of I - C A is below 1, A has an inverse, and
    the weights differ from g = -C row by at most e / (1 - e) times the largest |g|. All sums are taken with a bound on
    what they were rounded by.
    """
    usable = np.asarray(((weights > _SMALLEST) & (weights < _LARGEST)).all(axis=1))
    scales = np.exp2(np.round(np.log2(np.where(usable[:, None], weights, 1.0))))
    A = np.swapaxes(others * scales[:, :, None], 1, 2)
    size = A.shape[1]
    rounding = 2 * (size + 2) * _UNIT
    C = _inverses(A)
    with np.errstate(invalid="ignore", over="ignore"):
        product, reach = C @ A, np.abs(C) @ np.abs(A)
        away = np.abs(product - np.eye(size)) + rounding * reach + _UNIT
        e = (1 + rounding) * away.sum(axis=2).max(axis=1) + _TINY
        g = -np.einsum("bij,bj->bi", C, rows)
        slack = rounding * np.einsum("bij,bj->bi", np.abs(C), np.abs(rows)) + _TINY
        low, high = (g - slack).min(axis=1), (np.abs(g) + slack).max(axis=1)
        return np.asarray(usable & (e < 0.5) & (low > (1 + 8 * _UNIT) * high * e / (1 - e)))


def _inverses(A: Array) -> Array:
    """About the inverses of a stack of matrices; of one that has none, 0."""
    try:
        return np.asarray(np.linalg.inv(A), dtype=np.float64)
    except np.linalg.LinAlgError:
        return np.concatenate([_inverses(one[None]) for one in A]) if len(A) > 1 else np.zeros_like(A)


def exact_weights(rows: Array, most_bits: int = _MOST_BITS) -> tuple[int, ...] | None:
    """Integers >= 0, not all 0, whose combination of the rows (s, r) is 0; None if not found.

    Rows are those of a basis and one more, so that there is one such combination at most but for its scale. Exact, in
    integers; given up where those of the rows have more than `most_bits`.
    """
    matrix = _integers(rows.T, most_bits)
    kernel = [] if matrix is None else _kernel(matrix, len(rows))
    if kernel and max(kernel) <= 0:
        kernel = [-number for number in kernel]
    return tuple(kernel) if kernel and min(kernel) >= 0 else None


def _integers(coordinates: Array, most_bits: int) -> list[list[int]] | None:
    """Each coordinate times a power of two, as integers; those that say nothing new left out."""
    found: dict[tuple[int, ...], None] = {}
    for values in coordinates:
        if not values.any():
            continue
        ratios = [value.as_integer_ratio() for value in values.tolist()]
        shared = max(below for _, below in ratios)
        numbers = [above * (shared // below) for above, below in ratios]
        common = math.gcd(*numbers)
        numbers = [number // common for number in numbers]
        if max(map(abs, numbers)).bit_length() > most_bits:
            return None
        found[tuple(numbers)] = None
    return [list(numbers) for numbers in found]


def _kernel(matrix: list[list[int]], width: int) -> list[int]:
    """The vector that the matrix takes to 0, if there is just one but for its scale; else empty.

    Elimination without fractions (Bareiss): every division is exact.
    """
    pivots: list[int] = []
    previous = 1
    for column in range(width):
        top = len(pivots)
        row = next((i for i in range(top, len(matrix)) if matrix[i][column]), None)
        if row is None:
            continue
        matrix[top], matrix[row] = matrix[row], matrix[top]
        first = matrix[top]
        pivot = first[column]
        for i, line in enumerate(matrix):
            if i != top:
                factor = line[column]
                matrix[i] = [(pivot * a - factor * b) // previous for a, b in zip(line, first, strict=True)]
        previous = pivot
        pivots.append(column)
    free = [column for column in range(width) if column not in pivots]
    if len(free) != 1:
        return []
    kernel = [0] * width
    kernel[free[0]] = previous
    for line, column in zip(matrix, pivots, strict=False):
        kernel[column] = -line[free[0]]
    common = math.gcd(*kernel)
    return [number // common for number in kernel]


# Points that a program sees, for each equation, and whether other wrong ones are among them
_ROUNDS = ((12, False), (24, False), (24, True), (48, True))
# From so many wrong points for each set that there is room for, they need not be spared
_MANY_WRONG, _ROUNDS_OF_MANY = 0.7, ((12, False), (12, True), (24, True))
# A round for right points alone ends where, of so many programs, less than this share had a solution, if there is not
# enough effort for all
_TRIED, _SERVED = 32, 0.2
_FEW = 50  # sets; while there are fewer, a round that found none does not end the search
_CELLS = 1 << 16  # numbers in the columns of all programs that are solved at once: what fits in a cache
_SPARE_TURNS = 30
# Points nearer than that cost no more; a wrong point costs so many times the most of others
_NEAREST, _WRONG_COSTS = 1e-3, 1e2
_NO_WEIGHT = 1e-7  # of vectors of length 1; less is what moving targets leaves
_NARROWEST = 2.0**-400  # of scaled features other than 0: products of smaller ones could be rounded to 0
# Smallest pivot and smallest gain that are no rounding, and what is left of a target that was met; columns are of the
# order of 1
_PIVOT, _GAIN, _RESIDUAL = 1e-9, 1e-9, 1e-7
_NUDGE = 1e-9  # targets are moved by as much, or ties would make the method turn in circles
_TURNS, _MORE_TURNS = 6, 20  # turns for each equation, and in addition, after which a program is given up
_EXACT_OPERATIONS = 150  # cost of an exact proof, in operations on an array, over the cube of its rows
PROGRAM_OPERATIONS = 36  # the same of one program of the first round, about: three turns for each equation


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Different points with one label each, and how often each is there."""

    n_settled: int  # of p rows with one label and q with the other at one point every halfspace is wrong on min(p, q)
    labels: NDArray[np.int8]
    counts: Indices
    exact: Array  # (n, r) y (x, 1), y x where halfspaces go through the origin; features times powers of two
    scaled: Array  # the same in units that suit computing, at length 1
    lengths: Array  # what these were before
    margins: Array  # of a plane, in these units too, about; below 0 where it is wrong

    @classmethod
    def of(cls, X: Array, y: NDArray[np.int8], plane: Plane, *, central: bool) -> Points:
        """The points of rows with the coordinates that tell them apart; `central` for planes through the origin."""
        points, place = np.unique(X + 0.0, axis=0, return_inverse=True)  # -0 is 0
        positive = np.bincount(place.ravel()[y > 0], minlength=len(points))
        negative = np.bincount(place.ravel()[y < 0], minlength=len(points))
        settled, left = np.minimum(positive, negative), np.abs(positive - negative)
        if central:  # sgn(0) = +1 whatever the direction
            zero = ~points.any(axis=1)
            settled[zero], left[zero] = negative[zero], 0
        largest = np.abs(points).max(axis=0, initial=0.0)
        exponents = np.where(largest > 0, np.frexp(largest)[1], 0)
        exact = np.ldexp(points, -exponents)
        left[((points != 0) & (np.abs(exact) < _NARROWEST)).any(axis=1)] = 0
        kept = np.flatnonzero(left)
        exact, labels = exact[kept], np.where(positive > negative, 1, -1).astype(np.int8)[kept]
        normal, centre = np.ldexp(plane.normal, exponents), np.zeros(exact.shape[1])
        spread = centre
        if len(exact):  # how far points lie from the centre, typically; 0 where none does
            centre = centre if central else np.median(exact, axis=0)
            typical = np.median(np.abs(exact - centre), axis=0)
            spread = np.where(typical > 0, typical, np.sqrt(np.mean((exact - centre) ** 2, axis=0)))
        varies = spread > 0  # what is the same for all says nothing that the constant does not
        scaled = (exact - centre)[:, varies] / spread[varies]
        along = (normal * spread)[varies]
        exact = exact[:, varies]
        if not central:
            ones = np.ones((len(exact), 1))
            scaled, exact = np.hstack([scaled, ones]), np.hstack([exact, ones])
            along = np.append(along, normal @ centre - plane.threshold)
        lengths = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
        scaled = scaled * (labels / lengths)[:, None]
        return cls(
            n_settled=int(settled.sum()),
            labels=labels,
            counts=left[kept],
            exact=exact * labels[:, None],
            scaled=scaled,
            lengths=lengths,
            margins=np.einsum("ij,j->i", scaled, along / (np.linalg.norm(along) or 1.0)),
        )


class Packing:
    """Disjoint sets of rows on none of which any halfspace is right everywhere: how many, and what it took.

    They are built about the rows that a `plane` gets wrong, of a good halfspace, until so many operations (`effort`)
    were spent. `central` is for halfspaces through the origin; another `turn` makes another search.
    """

    def __init__(
        self, X: Array, y: NDArray[np.int8], plane: Plane, *, effort: int, central: bool = False, turn: int = 0
    ) -> None:
        self.points = Points.of(X, y, plane, central=central)
        self.effort, self.turn = effort, turn
        self.size = int(self.points.scaled.shape[1])  # equations of a program
        self.left: Indices = self.points.counts.copy()
        self.nearest: Indices = np.argsort(np.abs(self.points.margins), kind="stable")
        self.n_found = self.operations = 0
        self._run()

    @property
    def n_sets(self) -> int:
        """Sets, of which `points.n_settled` are two rows at one point."""
        return self.points.n_settled + self.n_found

    def _run(self) -> None:
        """Round after round, for the wrong points that earlier ones could not serve."""
        wrong = self.nearest[self.points.margins[self.nearest] < 0]
        hurried = PROGRAM_OPERATIONS * self.size**3 * len(wrong) > self.effort / 2
        if hurried:
            wrong = wrong[::-1]  # those far from the boundary take least
        many = len(wrong) * (self.size + 1) > _MANY_WRONG * len(self.left)
        share, any_others = 0, True
        for share, any_others in _ROUNDS_OF_MANY if many else _ROUNDS:
            wrong = self._round(wrong, share, any_others, hurried and not any_others)
        before = -1
        while share * self.size < len(self.left) and (self.n_found > before or before < _FEW):
            before, share = self.n_found, 2 * share
            wrong = self._round(wrong, share, any_others, False)

    def _round(self, wrong: Indices, share: int, any_others: bool, hurried: bool) -> Indices:
        """Serve wrong points while they last, and return those for which nothing was found."""
        queue, failed = wrong, [wrong[:0]]
        n_tried = n_served = 0
        while len(queue := queue[self.left[queue] > 0]) and self.operations < self.effort:
            if hurried and n_tried >= _TRIED and n_served < _SERVED * n_tried:
                break
            pools = self._candidates(queue, (share + self.turn) * self.size, any_others)
            if pools.size == 0:
                break
            first, queue = queue[: len(pools)], queue[len(pools) :]
            served = self._serve(first, pools)
            failed.append(first[~served])
            queue = np.concatenate([queue, first[served]])
            n_tried, n_served = n_tried + len(first), n_served + int(np.count_nonzero(served))
        return np.concatenate([*failed, queue])

    def _candidates(self, queue: Indices, width: int, any_others: bool) -> Indices:
        """Points for the first few of the queue, (b, m), none of them twice."""
        free = self.left > 0
        if not any_others:
            free &= self.points.margins > 0
        n_free = int(np.count_nonzero(free))
        batch = max(1, min(len(queue), n_free // (width + 1), _CELLS // (width * self.size)))
        free[queue[:batch]] = False
        near = self.nearest[free[self.nearest]]
        width = min(width, len(near) // batch)
        return near[: batch * width].reshape(width, batch).T

    def _serve(self, first: Indices, pools: Indices) -> NDArray[np.bool_]:
        """Find a set for each, prove it and take its rows away."""
        points = self.points
        margins = points.margins[pools]
        costs = 1 / np.maximum(np.abs(margins), _NEAREST)
        costs[margins < 0] = _WRONG_COSTS / _NEAREST
        basis = np.empty((len(first), self.size), dtype=np.int64)
        weights, met = np.empty(basis.shape), np.zeros(len(first), dtype=np.bool_)
        for place, pool in enumerate(pools):
            columns, target = points.scaled[pool], -points.scaled[first[place]]
            met[place], spent = feasible_basis(
                columns, target, costs[place], _SPARE_TURNS, basis[place], weights[place]
            )
            self.operations += int(spent)
        used = (basis >= 0) & (weights > _NO_WEIGHT) & met[:, None]
        sets = np.take_along_axis(pools, np.maximum(basis, 0), axis=1)
        proved: NDArray[np.bool_] = np.asarray(used.all(axis=1))
        if proved.any():  # sets of full size
            wrong, others = first[proved], sets[proved]
            about = weights[proved] * points.lengths[wrong][:, None] / points.lengths[others]
            proved[proved] = are_conflicts(points.exact[wrong], points.exact[others], about)
        for place in np.flatnonzero(met).tolist():
            chosen = np.append(sets[place][used[place]], first[place])
            if not proved[place]:  # those that have a weight in an exact combination, if there is one
                self.operations += _EXACT_OPERATIONS * len(chosen) ** 3
                exact = exact_weights(points.exact[chosen])
                chosen = chosen[:0] if exact is None else chosen[np.array(exact, dtype=object) > 0]
            proved[place] = len(chosen) > 0 and bool((points.labels[chosen] < 0).any())
            if proved[place]:
                times = int(self.left[chosen].min())
                self.left[chosen] -= times
                self.n_found += times
        return proved


@compiled
def feasible_basis(
    columns: Array, target: Array, costs: Array, spare: int, basis: Indices, weights: Array
) -> tuple[bool, int]:
    """Write weights >= 0 (r,) with `weights @ columns = target`, of small costs, and their columns (-1 for none).

    Of `columns` (m, r) with `costs` (m,); `spare` turns save costs once the target is met. Returns whether it was met,
    and the operations that this took.
    """
    width, size = columns.shape
    # equations, then reduced costs of artificial columns and of those given; values stand last
    table = np.empty((size + 2, width + 1))
    for i in range(size + 2):
        for j in range(width + 1):
            table[i, j] = 0.0
    for i in range(size):
        sign = -1.0 if target[i] < 0 else 1.0
        for j in range(width):
            table[i, j] = columns[j, i] * sign
        table[i, width] = target[i] * sign + _NUDGE * (1 + i / size)
        basis[i] = -1
        for j in range(width + 1):
            table[size, j] -= table[i, j]
    for j in range(width):
        table[size + 1, j] = costs[j]
    turns = 0
    while turns < _TURNS * size + _MORE_TURNS:
        met = -table[size, width] <= _RESIDUAL
        if met and spare <= 0:
            break
        phase, column, least = size + 1 if met else size, -1, -_GAIN
        for j in range(width):
            if table[phase, j] < least:
                column, least = j, table[phase, j]
        row, shortest = -1, math.inf
        for i in range(size if column >= 0 else 0):
            if table[i, column] > _PIVOT and table[i, width] / table[i, column] < shortest:
                row, shortest = i, table[i, width] / table[i, column]
        if row < 0:
            break
        spare -= 1 if met else 0
        pivot = table[row, column]
        for j in range(width + 1):
            table[row, j] /= pivot
        for i in range(size + 2):
            slope = table[i, column]
            if i != row and slope != 0:
                for j in range(width + 1):
                    table[i, j] -= slope * table[row, j]
        basis[row] = column
        turns += 1
    for i in range(size):
        weights[i] = table[i, width]
    return bool(-table[size, width] <= _RESIDUAL), (turns + 1) * (size + 2) * (width + 1)
