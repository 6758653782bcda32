"""Compiled loops over rows (Numba), each visiting a row once.

Rows are turned into float64 columns 128 at a time, so that the loops over rows vectorise. A sum over features is one
fused multiply-add after the other, in the order of the features: its bits depend on the row alone, not on its chunk,
and are the same on every machine.

The modules of this package call these functions, with arrays in C order; rows, labels and row numbers are read-only
(`frozen`). All of them stand in this file: Numba renews its cache of machine code when the file of a function changes,
whatever that function calls.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numba
import numba.extending
import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from streamhalf.kernels.compiling import compiled

Rows = NDArray[np.floating[Any]]
Doubles = NDArray[np.float64]
Counts = NDArray[np.int64]
Words = NDArray[np.uint64]
Labels = NDArray[np.int8]
Slabs = NDArray[np.int32]
_intrinsic: Callable[[Callable[..., Any]], Callable[..., Any]] = numba.extending.intrinsic
ROWS = 128  # rows that are turned into columns at once: up to 32 features stay in the first cache
TILE = 256  # rows whose products are summed at once in their own precision
_STRIDE = ROWS + 8  # numbers from one column to the next; at a power of two columns would displace each other
CELL_SHIFT = 17  # bits of a float32 number that do not name its cell
_LN2 = math.log(2.0)
_ODD = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_PHILOX_A, _PHILOX_B = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
_PHILOX_STEP = np.uint64(0xBB67AE8584CAA73B)


@_intrinsic
def _fma(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a·b + c, rounded once."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return numba.float64(numba.float64, numba.float64, numba.float64), generate


@_intrinsic
def _wide_product(typing: Any, a: Any, b: Any) -> Any:
    """Return the upper and the lower 64 bits of the product of two words."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide, half = ir.IntType(128), ir.IntType(64)
        product = builder.mul(*(builder.zext(one, wide) for one in arguments))
        upper = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), half)
        pair = (upper, builder.trunc(product, half))
        return context.make_tuple(builder, signature.return_type, pair)

    return numba.types.UniTuple(numba.uint64, 2)(numba.uint64, numba.uint64), generate


@_intrinsic
def _count_bits(typing: Any, word: Any) -> Any:
    """Return how many bits of a word are 1."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(*arguments)

    return numba.uint64(numba.uint64), generate


@compiled
def _load(X: Rows, first: int, columns: Doubles) -> int:
    """Turn the next `ROWS` rows into columns, and return how many there are."""
    count = min(ROWS, len(X) - first)
    for r in range(count):
        for j in range(X.shape[1]):
            columns[j, r] = X[first + r, j]
    return count


@compiled
def _sum_products(columns: Doubles, V: Doubles, i: int, out: Doubles) -> None:
    """v·x for vectors i, ..., i + 3 of V, whose shape is padded to multiples of 4."""
    p, q, s, t = out[0], out[1], out[2], out[3]
    for r in range(ROWS):
        p[r] = q[r] = s[r] = t[r] = 0.0
    for j in range(0, V.shape[1], 4):
        a, b, c, d = columns[j], columns[j + 1], columns[j + 2], columns[j + 3]
        p0, p1, p2, p3 = V[i, j], V[i, j + 1], V[i, j + 2], V[i, j + 3]
        q0, q1, q2, q3 = V[i + 1, j], V[i + 1, j + 1], V[i + 1, j + 2], V[i + 1, j + 3]
        s0, s1, s2, s3 = V[i + 2, j], V[i + 2, j + 1], V[i + 2, j + 2], V[i + 2, j + 3]
        t0, t1, t2, t3 = V[i + 3, j], V[i + 3, j + 1], V[i + 3, j + 2], V[i + 3, j + 3]
        for r in range(ROWS):
            w, x, y, z = a[r], b[r], c[r], d[r]
            p[r] = _fma(z, p3, _fma(y, p2, _fma(x, p1, _fma(w, p0, p[r]))))
            q[r] = _fma(z, q3, _fma(y, q2, _fma(x, q1, _fma(w, q0, q[r]))))
            s[r] = _fma(z, s3, _fma(y, s2, _fma(x, s1, _fma(w, s0, s[r]))))
            t[r] = _fma(z, t3, _fma(y, t2, _fma(x, t1, _fma(w, t0, t[r]))))


@compiled
def _scratch(V: Doubles) -> tuple[Doubles, Doubles]:
    """Room for rows as columns, and for their margins: (c, ROWS)."""
    return np.zeros((V.shape[1], _STRIDE)), np.empty((len(V), ROWS))


@compiled
def _fill_margins(X: Rows, first: int, V: Doubles, shifts: Doubles, columns: Doubles, sums: Doubles) -> int:
    """Fill `sums` with v·x - shift of the next `ROWS` rows, and return how many there are."""
    count = _load(X, first, columns)
    for i in range(0, len(V), 4):
        _sum_products(columns, V, i, sums[i : i + 4])
        for k in range(i, i + 4):
            margin, shift = sums[k], shifts[k]
            for r in range(ROWS):
                margin[r] -= shift
    return count


@compiled
def margins(X: Rows, V: Doubles, out: Doubles) -> None:
    """Fill `out` (c, n) with v·x; V is padded, `out` is not."""
    columns, sums = _scratch(V)
    for first in range(0, len(X), ROWS):
        count = _load(X, first, columns)
        for i in range(0, len(out), 4):  # four at a time stay in the first cache
            _sum_products(columns, V, i, sums)
            for k in range(min(4, len(out) - i)):
                margin, filled = sums[k], out[i + k, first : first + count]
                for r in range(count):
                    filled[r] = margin[r]


@compiled
def transform(X: Rows, centre: Doubles, W: Doubles, out: Doubles) -> None:
    """Fill `out` (n, k) with W (x - centre); W is padded."""
    columns, sums = _scratch(W)
    for first in range(0, len(X), ROWS):
        count = min(ROWS, len(X) - first)
        for r in range(count):
            for j in range(X.shape[1]):
                columns[j, r] = X[first + r, j] - centre[j]
        for i in range(0, out.shape[1], 4):
            _sum_products(columns, W, i, sums[i : i + 4])
        for r in range(count):
            for i in range(out.shape[1]):
                out[first + r, i] = sums[i, r]


@compiled
def count_errors(X: Rows, y: Labels, V: Doubles, shifts: Doubles, shared: Counts, positive: Counts) -> None:
    """Add to `shared` (c, c), lower half, the rows whose label is neither sgn(v·x - shift) of two planes.

    And to `positive` (c,) those labelled +1 among the errors of each. Errors of 64 rows are the bits of one word.
    """
    (columns, sums), c = _scratch(V), len(shared)
    labels, wrong, words = np.empty(ROWS, np.bool_), np.empty(ROWS, np.uint8), np.empty((2, c + 1), np.uint64)
    for first in range(0, len(X), ROWS):
        count = _fill_margins(X, first, V, shifts, columns, sums)
        words[:] = 0
        for r in range(count):
            labels[r] = y[first + r] > 0
            words[r >> 6, c] |= np.uint64(labels[r]) << np.uint64(r & 63)
        for i in range(c):
            margin = sums[i]
            for r in range(ROWS):
                wrong[r] = np.uint8((margin[r] >= 0) != labels[r])
            for r in range(count):
                words[r >> 6, i] |= np.uint64(wrong[r]) << np.uint64(r & 63)
        for h in range(2):
            word = words[h]
            for i in range(c):
                if word[i]:
                    positive[i] += _count_bits(word[i] & word[c])
                    for k in range(i + 1):
                        shared[i, k] += _count_bits(word[i] & word[k])


@compiled
def count_slabs(X: Rows, V: Doubles, shifts: Doubles, width: float, counts: Counts) -> None:
    """Add rows to `counts` (c, 2 h + 2) by 1 + h + floor((v·x - shift) / width), tails clipped."""
    (columns, sums), slab = _scratch(V), np.empty(ROWS, np.int32)
    half, inverse = counts.shape[1] // 2 - 1, 1.0 / width
    low, high = -half - 1.0, float(half)
    for first in range(0, len(X), ROWS):
        count = _fill_margins(X, first, V, shifts, columns, sums)
        for i in range(len(counts)):
            margin, row = sums[i], counts[i]
            for r in range(ROWS):
                place = np.floor(margin[r] * inverse)
                place = place if place > low else low  # as is what is not a number
                slab[r] = np.int32(place if place < high else high)
            for r in range(count):
                row[half + 1 + slab[r]] += 1


@compiled
def _locate(values: Doubles, edges: Doubles, first: Slabs, steps: int, out: Slabs) -> None:
    """Fill `out` with the number of rising edges <= value, for at most `ROWS` values.

    The leading bits of a value in float32 name a cell; `first[cell]` edges lie in cells before, and so many `steps` of
    a binary search find an edge in the fullest one.
    """
    narrow = np.empty(ROWS, np.float32)
    bits = narrow.view(np.uint32)
    for r in range(len(values)):
        narrow[r] = values[r] + 0.0  # -0.0 is 0.0
    for r in range(len(values)):
        negative = np.uint32(np.int32(bits[r]) >> np.int32(31))
        out[r] = (bits[r] ^ (negative | np.uint32(0x80000000))) >> np.uint32(CELL_SHIFT)
    last = len(edges) - 1
    for r in range(len(values)):  # without a branch, which would be mistaken every other time
        low, high = first[out[r]], first[out[r] + 1]
        for _ in range(steps - 1):
            middle = (low + high) >> 1
            beyond = (low < high) & (edges[min(middle, last)] <= values[r])
            low, high = (middle + 1 if beyond else low), (high if beyond else middle)
        out[r] = low + np.int32((low < high) & (edges[min(low, last)] <= values[r]))


@compiled
def number_cells(values: Doubles, edges: Doubles, first: Slabs, steps: int, out: Slabs) -> None:
    """Fill `out` with the number of rising edges <= value."""
    for start in range(0, len(values), ROWS):
        _locate(values[start : start + ROWS], edges, first, steps, out[start : start + ROWS])


@compiled
def scan_thresholds(
    X: Rows, y: Labels, V: Doubles, shifts: Doubles, edges: Doubles, first: Slabs, steps: int, counts: Counts
) -> None:
    """Add rows to `counts` (c, 2, k + 1) by label, -1 first, and the number of edges <= v·x - shift."""
    columns, sums = _scratch(V)
    cell, label = np.empty(ROWS, np.int32), np.empty(ROWS, np.int64)
    for start in range(0, len(X), ROWS):
        count = _fill_margins(X, start, V, shifts, columns, sums)
        for r in range(count):
            label[r] = np.int64(y[start + r] > 0)
        for i in range(len(counts)):
            into = counts[i]
            _locate(sums[i, :count], edges, first, steps, cell)
            for r in range(count):
                into[label[r], cell[r]] += 1


@compiled
def count_margin_bins(X: Rows, y: Labels, V: Doubles, shifts: Doubles, first: int, counts: Counts) -> None:
    """Add rows to `counts` (c, 2, bins) by label, -1 first, and the size and sign of v·x - shift.

    The upper 13 bits below the sign are the octave and quarter of a size; `first` is bin 0 of either side.
    """
    (columns, sums), side = _scratch(V), counts.shape[2] // 2
    bits = sums.view(np.uint64)
    for start in range(0, len(X), ROWS):
        count = _fill_margins(X, start, V, shifts, columns, sums)
        for i in range(len(counts)):
            margin, size, into = sums[i], bits[i], counts[i]
            for r in range(count):
                place = np.int64((size[r] >> np.uint64(50)) & np.uint64(0x1FFF))
                place = min(max(place - first, np.int64(0)), np.int64(side - 1))
                into[np.int64(y[start + r] > 0), side + place if margin[r] >= 0 else side - 1 - place] += 1


@compiled
def count_values(X: Rows, places: Counts, edges: Doubles, counts: Counts, low: Doubles, high: Doubles) -> None:
    """Add rows at some places to `counts` (d, b + 1) by the number of `edges` (d, b) <= value, feature by feature.

    `low` and `high` (d, b + 1) receive the smallest and largest values; what is not a number counts last.
    """
    for i in range(len(places)):
        for j in range(X.shape[1]):
            value, place = np.float64(X[places[i], j]), 0
            for e in range(edges.shape[1]):  # a binary search takes five times as long
                place += int(not value < edges[j, e])
            counts[j, place] += 1
            if value < low[j, place] or value != value:
                low[j, place] = value
            if value > high[j, place] or value != value:
                high[j, place] = value


@compiled
def sum_slab_products(X: Rows, slabs: Slabs, sums: Doubles) -> None:
    """Add the products of every row's features, in the precision of X, to those of its slabs: (c, n_slabs, p)."""
    products = np.empty(sums.shape[2])
    for r in range(len(X)):
        place = 0
        for i in range(X.shape[1]):
            for j in range(i, X.shape[1]):
                products[place] = X[r, i] * X[r, j]
                place += 1
        for k in range(len(slabs)):
            into = sums[k, slabs[k, r]]
            for t in range(len(products)):
                into[t] += products[t]


@compiled
def sum_wedges(
    X: Rows,
    V: Doubles,
    shifts: Doubles,
    kappa: float,
    gamma: float,
    weights: Doubles,
    masses: Doubles,
    means: Doubles,
    products: Doubles,
) -> None:
    """Add a to `masses` (c,), a t x to `means` (c, d), a t² x x^T to `products` (c, p) if it has room.

    t = sgn(m) (|m| - kappa)_+ / gamma of m = v·x - shift, and a = 1 / (1 + t²)²; `weights` (c, n) receives t / (1 +
    t²).
    """
    (columns, sums), c, dim = _scratch(V), len(masses), X.shape[1]
    root, pairs = np.empty((c, ROWS)), np.empty(products.shape[1])
    for first in range(0, len(X), ROWS):
        count = _fill_margins(X, first, V, shifts, columns, sums)
        for i in range(c):
            for r in range(count):
                m = sums[i, r]
                t = (m - min(max(m, -kappa), kappa)) / gamma
                root[i, r] = 1 / (1 + t * t)
                weights[i, first + r] = t * root[i, r]
                masses[i] += root[i, r] * root[i, r]
        for r in range(count):
            row, place = X[first + r], 0
            if len(pairs):
                for i in range(dim):
                    for j in range(i, dim):
                        pairs[place] = np.float64(row[i]) * np.float64(row[j])
                        place += 1
            for k in range(c):
                w, mean, product = weights[k, first + r], means[k], products[k]
                for j in range(dim):
                    mean[j] += w * root[k, r] * row[j]
                for t in range(len(pairs)):
                    product[t] += w * w * pairs[t]


@compiled
def sum_slab_monomials(
    X: Rows, signs: Labels, basis: Doubles, order: Counts, bounds: Counts, degree: int, sums: Doubles
) -> None:
    """Add to `sums` (n_slabs, m) every monomial of degree <= `degree` of s = sign · x basis, in rank order.

    `order` puts rows slab by slab; those of slab i are bounds[i] to bounds[i + 1] of it. Four rows at a time: a
    monomial of degree m is one of degree m - 1 times its largest variable.
    """
    dim, some = basis.shape[1], np.zeros((4, sums.shape[1]))
    a, b, c, d = some[0], some[1], some[2], some[3]
    for slab in range(len(bounds) - 1):
        into = sums[slab]
        for i in range(bounds[slab], bounds[slab + 1], 4):
            count = min(4, bounds[slab + 1] - i)
            for k in range(4):
                some[k, : dim + 1] = 0.0
                if k < count:
                    row, one = order[i + k], some[k]
                    one[0] = 1.0
                    for j in range(X.shape[1]):
                        value = np.float64(signs[row]) * X[row, j]
                        for t in range(dim):
                            one[1 + t] += value * basis[j, t]
            for t in range(dim + 1):
                into[t] += a[t] + b[t] + c[t] + d[t]
            source, target = 1, dim + 1
            for m in range(2, degree + 1):
                begin, width = target, 1
                for j in range(dim):
                    if j > 0:
                        width = width * (j + m - 1) // j
                    w, x, y, z = a[1 + j], b[1 + j], c[1 + j], d[1 + j]
                    for t in range(width):
                        p, q, s, u = a[source + t] * w, b[source + t] * x, c[source + t] * y, d[source + t] * z
                        a[target + t], b[target + t], c[target + t], d[target + t] = p, q, s, u
                        into[target + t] += p + q + s + u
                    target += width
                source = begin


@functools.partial(compiled, any_order=True)
def sum_quartics(X: Rows, sums: Doubles) -> None:
    """Add every x_i x_j x_k x_l, i <= j <= k <= l and x_0 = 1, to `sums`: rising j, then i, falling k, then rising l.

    Pairs (i, j) meet pairs (k, l); products stay in the precision of X within a tile of rows.
    """
    last = X.shape[1] + 1
    one, low = np.zeros((last, TILE), X.dtype), np.empty((last * (last + 1) // 2, TILE), X.dtype)
    high, none = np.empty_like(low), X.dtype.type(0)
    for first in range(0, len(X), TILE):
        count = min(TILE, len(X) - first)
        one[:, count:] = none
        for r in range(count):
            one[0, r] = X.dtype.type(1)
            for j in range(1, last):
                one[j, r] = X[first + r, j - 1]
        pair = 0
        for j in range(last):
            for i in range(j + 1):
                a, b, c, d = one[i], one[j], one[last - 1 - j], one[last - 1 - j + i]
                into, other = low[pair], high[pair]
                for r in range(TILE):
                    into[r] = a[r] * b[r]
                    other[r] = c[r] * d[r]
                pair += 1
        pair = place = 0
        for j in range(last):
            partners = (last - j) * (last - j + 1) // 2
            for _ in range(j + 1):
                own, met = low[pair], 0
                while met + 4 <= partners:
                    a, b, c, d = high[met], high[met + 1], high[met + 2], high[met + 3]
                    p = q = s = t = none
                    for r in range(TILE):
                        p += own[r] * a[r]
                        q += own[r] * b[r]
                        s += own[r] * c[r]
                        t += own[r] * d[r]
                    sums[place] += p
                    sums[place + 1] += q
                    sums[place + 2] += s
                    sums[place + 3] += t
                    place, met = place + 4, met + 4
                for k in range(met, partners):
                    a, p = high[k], none
                    for r in range(TILE):
                        p += own[r] * a[r]
                    sums[place] += p
                    place += 1
                pair += 1


@compiled
def find_accepted(
    X: Rows, uniforms: Doubles, V: Doubles, frames: Doubles, places: Counts, along: Doubles, counts: Counts
) -> None:
    """Find the rows with u / top < exp(-steepness (v·x - aim)²), for each frame v.

    `frames` (f, 3) holds aims, steepnesses and tops; V is padded. Of frame i, `places` (f, n) and `along` (f, n)
    receive the place and v·x of `counts[i]` rows. A bound on -ln u from the exponent of u settles most rows without an
    exponential function.
    """
    (columns, sums), zeros = _scratch(V), np.zeros(len(V))
    bound, near, bits = np.empty(ROWS), np.empty(ROWS, np.bool_), uniforms.view(np.uint64)
    counts[:] = 0
    for first in range(0, len(X), ROWS):
        count = _fill_margins(X, first, V, zeros, columns, sums)
        for r in range(count):  # u >= 2^(exponent - 1023), with room for rounding
            exponent = np.int32(bits[first + r] >> np.uint64(52))
            bound[r] = (1023 - exponent) * _LN2 + 1e-9
        for i in range(len(frames)):
            aim, steepness, top = frames[i]
            margin, beside, found = sums[i], math.log(top), counts[i]
            for r in range(ROWS):
                away = margin[r] - aim
                near[r] = away * away * steepness <= bound[r] + beside
            for r in range(count):
                if near[r]:
                    away = margin[r] - aim
                    if uniforms[first + r] / top < math.exp(-away * away * steepness):
                        places[i, found], along[i, found] = first + r, margin[r]
                        found += 1
            counts[i] = found


@compiled
def show(X: Rows, places: Counts, along: Doubles, threshold: float, factor: float, v: Rows, out: Rows) -> None:
    """Fill `out` with rows at some places, moved along v by (v·x - threshold) factor - threshold."""
    for i in range(len(places)):
        row, moved = X[places[i]], out[i]
        shift = v.dtype.type((along[i] - threshold) * factor - threshold)
        for j in range(len(v)):
            moved[j] = row[j] + shift * v[j]


@compiled
def _philox(counter: Any, first_key: Any, second_key: Any) -> Any:
    """Four words from one value of the counter (Philox 4x64, ten rounds)."""
    a, b, c, d = counter, np.uint64(0), np.uint64(0), np.uint64(0)
    for _ in range(10):
        upper, lower = _wide_product(_PHILOX_A, a)
        other_upper, other_lower = _wide_product(_PHILOX_B, c)
        a, b = other_upper ^ b ^ first_key, other_lower
        c, d = upper ^ d ^ second_key, lower
        first_key += _ODD
        second_key += _PHILOX_STEP
    return a, b, c, d


@compiled
def draw(rows: Counts, keys: Words, low: float, high: float, places: Counts, left: Doubles) -> int:
    """Draw a number u for each rising row number, and keep those in [low, high).

    Fills in their places, if there is room, and (u - low) / (high - low), and returns how many there are. Bits are
    those of `numpy.random.Generator(Philox)`: the upper 53 of word `row`.
    """
    count, reached, width, placed = 0, np.int64(-1), high - low, len(places) > 0
    words = (np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(0))
    for i in range(len(rows)):
        row = rows[i]
        if row >> 2 != reached:
            reached = row >> 2
            words = _philox(np.uint64(reached + 1), keys[0], keys[1])
        uniform = (words[row & 3] >> np.uint64(11)) * (1.0 / 9007199254740992.0)
        if placed:
            places[count] = i
        left[count] = (uniform - low) / width
        count += int(low <= uniform < high)
    return count


@compiled
def _mix(word: Any) -> Any:
    """Scramble a word (the finaliser of SplitMix64)."""
    word = (word ^ (word >> np.uint64(30))) * _FIRST
    word = (word ^ (word >> np.uint64(27))) * _SECOND
    return word ^ (word >> np.uint64(31))


@compiled
def digest(bits: NDArray[np.uint32], y: Labels, rows: Counts, limit: Any, small: Words) -> tuple[Any, int]:
    """Return the sum of the rows' hashes, and how many hashes of content up to `limit` went to `small`."""
    total, count, width = np.uint64(0), 0, bits.shape[1]
    keys = np.empty(width + 1, np.uint64)  # one odd multiplier per word
    for j in range(width + 1):
        keys[j] = _mix(np.uint64(j + 1) * _ODD) | np.uint64(1)
    for r in range(len(y)):
        content = keys[width] if y[r] > 0 else np.uint64(0)
        for j in range(width):
            content += np.uint64(bits[r, j]) * keys[j]
        total += _mix(content ^ (np.uint64(rows[r]) * _ODD))
        spread = (content ^ (content >> np.uint64(32))) * _ODD
        if spread <= limit:
            small[count] = spread
            count += 1
    return total, count
