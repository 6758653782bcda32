"""Where label issues gather: values of columns and segments of rows, beside what chance gives.

If issues were spread over the rows at random, the number among rows with one value would be hypergeometric. Every
value and segment that is looked at counts as a look: one is named if its probability times the number of looks is at
most `LEVEL`, so that chance names any with at most this probability.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.reductions.suspects import SuspectsPartial, ValueCounts, count_values, quantile_edges
from streamhalf.results import Gathering

LEVEL = 0.01
_MOST_NAMED = 20
_MOST_SEGMENTS = 64
_MOST_TEXTS = 64  # Values of a column of text that are looked at, the most frequent ones
_Look = tuple[str, str, int, int]  # Column, value, issues with it, rows with it


def gatherings(
    found: SuspectsPartial, names: tuple[str, ...], kept: Mapping[str, tuple[NDArray[Any], NDArray[Any]]]
) -> tuple[Gathering, ...]:
    """Return where issues gather beyond chance, the surest first.

    `names` are those of the features; `kept` are columns of the user: values of the listed issues, and of all rows or
    some drawn at random.
    """
    looks = [(look, found.n_issues, found.n_rows, True) for look in _segments(found)]
    compared = int(found.row_values.counts[0].sum())
    for j, name in enumerate(names):
        values = _values(name, found.issue_values, found.row_values, j)
        looks += [(look, found.n_issues, compared, compared == found.n_rows) for look in values]
    for name, (issues, rows) in kept.items():
        looks += [(look, len(issues), len(rows), len(rows) == found.n_rows) for look in _own(name, issues, rows)]
    return _surest(looks)


def _surest(looks: list[tuple[_Look, int, int, bool]]) -> tuple[Gathering, ...]:
    from scipy.stats import hypergeom  # takes half a second to import

    named = []
    for (column, value, issues, rows), all_issues, all_rows, inside in looks:
        if not issues or issues * all_rows <= rows * all_issues:
            continue
        # rows drawn apart from the issues have the same law as these: given the sum of both, where it falls is chance
        total, marked = (all_rows, rows) if inside else (all_rows + all_issues, rows + issues)
        chance = min(1.0, len(looks) * float(hypergeom.sf(issues - 1, total, marked, all_issues)))
        if chance <= LEVEL:
            share = rows / all_rows
            named.append(Gathering(column, value, issues, all_issues, share, all_issues * share, chance))
    named.sort(key=lambda one: (one.chance, one.expected - one.n_issues))
    return tuple(named[:_MOST_NAMED])


def _segments(found: SuspectsPartial) -> Iterator[_Look]:
    rows, issues = found.segments[0], found.segments[3]
    edges = np.append(0, np.cumsum(rows))
    for part in np.array_split(np.arange(len(rows)), min(len(rows), _MOST_SEGMENTS)):
        start, stop = edges[part[0]], edges[part[-1] + 1]
        yield "", f"rows {start:,} to {stop - 1:,}", int(issues[part].sum()), int(stop - start)


def _values(name: str, issues: ValueCounts, rows: ValueCounts, j: int) -> Iterator[_Look]:
    seen = issues + rows
    for i in np.flatnonzero(seen.counts[j] > 0).tolist():
        low, high = float(seen.low[j, i]), float(seen.high[j, i])
        value = f"{low:.6g}" if low == high else f"{low:.4g} to {high:.4g}"
        yield name, value, int(issues.counts[j, i]), int(rows.counts[j, i])


def _own(name: str, issues: NDArray[Any], rows: NDArray[Any]) -> Iterator[_Look]:
    """Look at numbers in bins, at others by their text; where values hardly repeat, as those of an id, at none."""
    if rows.dtype.kind in "iuf":
        own, every = issues[:, None].astype(np.float64), rows[:, None].astype(np.float64)
        edges = quantile_edges(every)
        yield from _values(name, count_values(own, edges), count_values(every, edges), 0)
        return
    texts, counts = np.unique(rows.astype(str), return_counts=True)
    if 2 * len(texts) <= len(rows):
        for place in np.argsort(-counts, kind="stable")[:_MOST_TEXTS].tolist():
            yield name, str(texts[place]), int((issues.astype(str) == texts[place]).sum()), int(counts[place])
