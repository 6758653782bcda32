"""Figures of the features and of the halfspace; each is None where its numbers are absent.

Nothing is estimated here: counts become shares, and the Gaussian curve that a histogram is held
against comes from the error function.
"""

from __future__ import annotations

import itertools
import math

from streamhalf.records import (
    DiagnosticsRecord,
    Halfspace,
    Judgement,
)
from streamhalf.report.figures import (
    Axis,
    Bars,
    Column,
    Figure,
    HeatMap,
    Plot,
    Role,
    Rule,
    Steps,
    Table,
    drawable,
    span,
)
from streamhalf.report.words import count, number

_MOST_FEATURES = 64
"""Columns of a figure that can still be told apart."""

_MOMENT_NAMES = ("mean", "scale", "skew", "tails")


def slab_figure(diagnostics: DiagnosticsRecord, judgement: Judgement | None) -> Figure | None:
    """Rows along the halfspace against the Gaussian bell."""
    counts, width = diagnostics.slab_counts, diagnostics.slab_width
    total, half = sum(counts), len(counts) // 2 - 1
    if half < 1 or len(counts) % 2 or total <= 0 or not (width > 0 and drawable(half * width)):
        return None
    edges = tuple(width * i for i in range(-half, half + 1))
    observed = tuple(100 * one / total for one in counts[1:-1])
    expected = tuple(100 * _gaussian_mass(*pair) for pair in itertools.pairwise(edges))
    tail = 100 * _gaussian_mass(edges[-1], math.inf)
    tails = (100 * counts[0] / total, 100 * counts[-1] / total)
    distance = "" if judgement is None else _distance_words(judgement)
    picture = Plot(
        "Rows along the halfspace",
        f"Histogram of {len(observed)} slabs of width {width:.4g} against the Gaussian mass of "
        f"each. {distance}",
        Axis("v·x, distance from the boundary", edges[0], edges[-1]),
        Axis("share of rows in a slab", *span((*observed, *expected), low=0.0, high=0.0), unit="%"),
        (
            Steps(edges, observed, "rows", filled=True),
            Steps(edges, expected, "Gaussian", Role.CONTRAST),
        ),
    )
    ranges = [f"{low:.4g} to {high:.4g}" for low, high in itertools.pairwise(edges)]
    names = (f"below {edges[0]:.4g}", *ranges, f"from {edges[-1]:.4g}")
    shares = ((tails[0], tail), *zip(observed, expected, strict=True), (tails[1], tail))
    table = Table(
        "Rows in slabs",
        (Column("v·x", numeric=False), Column("rows"), Column("share"), Column("Gaussian")),
        tuple(
            (name, count(one), f"{share:.4g}%", f"{mass:.4g}%")
            for name, one, (share, mass) in zip(names, counts, shares, strict=True)
        ),
    )
    return Figure((picture,), distance or "Rows of the final pass.", (table,))


def _distance_words(judgement: Judgement) -> str:
    return (
        f"The two differ by {number(judgement.statistic)} in all (sum of absolute differences); "
        f"the limit is {number(judgement.limit)}, and chance alone stays below "
        f"{number(judgement.null_quantile)}."
    )


def _gaussian_mass(low: float, high: float) -> float:
    return 0.5 * (math.erf(high / math.sqrt(2)) - math.erf(low / math.sqrt(2)))


def eigen_figure(diagnostics: DiagnosticsRecord, judgement: Judgement | None) -> Figure | None:
    """The largest second moment in each slice along the halfspace."""
    inner, values = diagnostics.eigen_edges, diagnostics.eigenvalues
    if not inner or len(values) != len(inner) + 1 or not all(map(drawable, inner)):
        return None
    reach = max(abs(inner[0]), abs(inner[-1])) + 0.4
    rules = [Rule(1.0, "Gaussian 1", Role.REFERENCE, below=True)]
    if judgement is not None and drawable(judgement.limit):
        rules.append(Rule(judgement.limit, f"limit {number(judgement.limit)}"))
    axis = Axis(
        "largest second moment orthogonal to v",
        *span((*values, *(rule.at for rule in rules)), low=0.0, high=1.0),
    )
    largest = max((value for value in values if drawable(value)), default=math.nan)
    picture = Plot(
        "Spread in slices along the halfspace",
        f"One value for each of {len(values)} slices; the largest is {number(largest)}.",
        Axis("v·x, distance from the boundary", -reach, reach),
        axis,
        (*rules, Steps((-reach, *inner, reach), values, "largest second moment")),
    )
    lows, highs = ("", *map(number, inner)), (*map(number, inner), "")
    names = (f"{a} to {b}".strip() for a, b in zip(lows, highs, strict=True))
    table = Table(
        "Second moments in slices",
        (Column("v·x", numeric=False), Column("largest second moment")),
        tuple((name, number(value)) for name, value in zip(names, values, strict=True)),
    )
    return Figure((picture,), "The outer two slices have no end.", (table,))


def moment_figure(diagnostics: DiagnosticsRecord, limit: float) -> Figure | None:
    """Moments of single features and of pairs, each against the limit."""
    pictures, tables = [], []
    rows = diagnostics.feature_moments
    degree = len(rows[0]) if rows else 0
    if degree and all(len(row) == degree for row in rows):
        kept = _largest(rows)
        names = tuple(f"x{i + 1}" for i in kept)
        kinds = [f" {_MOMENT_NAMES[k]}" if k < len(_MOMENT_NAMES) else "" for k in range(degree)]
        orders = tuple(f"he{k + 1}{kinds[k]}" for k in range(degree))
        values = tuple(tuple(rows[i][k] for i in kept) for k in range(degree))
        said = f"{degree} moments of {len(kept)} of {len(rows)} features."
        pictures.append(HeatMap("Moments of each feature", said, orders, names, values, limit))
        tables.append(
            _grid("Moments of each feature", names, orders, tuple(zip(*values, strict=True)))
        )
    pairs = diagnostics.pair_moments
    if pairs and all(len(row) == len(pairs) for row in pairs):
        names = tuple(f"x{i + 1}" for i in range(len(pairs)))
        said = f"{len(pairs)} by {len(pairs)} moments of degree 2; the diagonal holds squares."
        pictures.append(HeatMap("Moments of pairs of features", said, names, names, pairs, limit))
        tables.append(_grid("Moments of pairs", names, names, pairs))
    caption = (
        f"Blue is above a Gaussian, orange below; full colour is reached at the limit, "
        f"{number(limit)}. Under N(0, I) every cell is 0."
    )
    return Figure(tuple(pictures), caption, tuple(tables)) if pictures else None


def _largest(rows: tuple[tuple[float, ...], ...]) -> list[int]:
    """Features to show, in order: all, or those with the largest moments where they are many."""
    size = [max((abs(value) for value in row if drawable(value)), default=0.0) for row in rows]
    ranked = sorted(range(len(rows)), key=lambda i: -size[i])
    return sorted(ranked[:_MOST_FEATURES])


def _grid(
    caption: str,
    rows: tuple[str, ...],
    columns: tuple[str, ...],
    values: tuple[tuple[float, ...], ...],
) -> Table:
    return Table(
        caption,
        (Column("feature", numeric=False), *(Column(name) for name in columns)),
        tuple((name, *map(number, row)) for name, row in zip(rows, values, strict=True)),
    )


def weight_figure(halfspace: Halfspace) -> Figure | None:
    """The weights of the halfspace as bars."""
    normal = halfspace.normal
    table = Table(
        "Weights",
        (Column("feature", numeric=False), Column("weight")),
        (
            *((f"x{i + 1}", number(weight)) for i, weight in enumerate(normal)),
            ("offset", number(halfspace.offset)),
        ),
    )
    if not normal or not all(map(drawable, normal)):
        return None
    size = max(abs(weight) for weight in normal) or 1.0
    picture = Plot(
        "Weights of the halfspace",
        f"{len(normal)} weights, the largest in size {number(size)}.",
        Axis("feature", 0.4, len(normal) + 0.6, whole=True),
        Axis("weight", -1.1 * size, 1.1 * size),
        (Bars(normal, "weight"),),
    )
    return Figure((picture,), f"Offset {number(halfspace.offset)}.", (table,))
