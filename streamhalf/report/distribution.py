"""Figures of the features and of the halfspace; each is None where its numbers are absent."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from streamhalf.kernels.slabs import masses_about
from streamhalf.report import words
from streamhalf.report.codes import ABSENT, count, number
from streamhalf.report.features import feature_name, numbered
from streamhalf.report.figures import Bars, Cut, Figure, Plot, Role, Rule, Steps
from streamhalf.report.panels import HeatMap
from streamhalf.report.svg import Axis, drawable, span
from streamhalf.report.tables import Table
from streamhalf.results import CertifyResult, DiagnosticsRecord, FitResult, TestResult

_MOST_FEATURES = 64
"""Columns of a figure that can still be told apart."""

_MOMENT_NAMES = ("he₁ mean", "he₂ scale", "he₃ skew", "he₄ tails")


def _margin(diagnostics: DiagnosticsRecord) -> str:
    """What slabs and slices are cut along."""
    return "v·x - t" if diagnostics.threshold else "v·x"


def _margin_axis(diagnostics: DiagnosticsRecord, reach: float) -> Axis:
    return Axis(f"{_margin(diagnostics)}, distance from the boundary", -reach, reach)


def _boundary(diagnostics: DiagnosticsRecord) -> tuple[Cut, ...]:
    """Where the halfspace begins, if that is not the middle of the bell."""
    threshold = diagnostics.threshold
    return (Cut(0.0, f"boundary, t = {number(threshold)}"),) if threshold else ()


def slab_figure(diagnostics: DiagnosticsRecord, test_result: TestResult | None) -> Figure | None:
    """Rows along the halfspace against the Gaussian bell."""
    counts, width = diagnostics.slab_counts, diagnostics.slab_width
    total, half, along = sum(counts), len(counts) // 2 - 1, _margin(diagnostics)
    if half < 1 or len(counts) % 2 or total <= 0 or not (width > 0 and drawable(half * width)):
        return None
    edges = tuple(width * i for i in range(-half, half + 1))
    observed = tuple(100 * one / total for one in counts)
    expected = tuple((100 * masses_about(width, half, diagnostics.threshold)).tolist())
    distance = "" if test_result is None else words.slab_distance(test_result)
    heights = span((*observed[1:-1], *expected[1:-1]), low=0.0, high=0.0)
    picture = Plot(
        "Rows along the halfspace",
        f"Histogram of {2 * half} slabs of width {width:.4g} against the Gaussian mass of "
        f"each. {distance}",
        _margin_axis(diagnostics, edges[-1]),
        Axis("share of rows in a slab", *heights, unit="%"),
        (
            Steps(edges, observed[1:-1], "rows", filled=True),
            Steps(edges, expected[1:-1], "Gaussian", Role.CONTRAST),
            *_boundary(diagnostics),
        ),
    )
    ranges = (f"{low:.4g} to {high:.4g}" for low, high in itertools.pairwise(edges))
    names = (f"below {edges[0]:.4g}", *ranges, f"from {edges[-1]:.4g}")
    rows = tuple(
        (name, count(one), f"{share:.4g}%", f"{mass:.4g}%")
        for name, one, share, mass in zip(names, counts, observed, expected, strict=True)
    )
    table = Table("Rows in slabs", (along, "rows", "share", "Gaussian"), rows, words=(along,))
    residual = _residual_plot(diagnostics, edges, observed[1:-1], expected[1:-1])
    said = distance or "Rows of the final pass."
    return Figure((picture, residual), said, (table,), stacked=True)


def _residual_plot(
    diagnostics: DiagnosticsRecord,
    edges: tuple[float, ...],
    observed: tuple[float, ...],
    expected: tuple[float, ...],
) -> Plot:
    """Rows minus Gaussian, with what chance gives each slab: two standard deviations."""
    total = sum(diagnostics.slab_counts)
    apart = tuple(one - mass for one, mass in zip(observed, expected, strict=True))
    chance = tuple(200 * math.sqrt(m / 100 * (1 - m / 100) / total) for m in expected)
    reach = 1.1 * max(map(abs, (*apart, *chance))) or 1.0
    return Plot(
        "Difference from the Gaussian",
        f"Share of rows minus Gaussian share in each slab; the largest difference is "
        f"{number(max(map(abs, apart)))} percentage points.",
        _margin_axis(diagnostics, edges[-1]),
        Axis("rows minus Gaussian, in percentage points", -reach, reach),
        (
            Rule(0.0, "", Role.REFERENCE),
            Steps(edges, chance, "two standard deviations of chance", Role.CONTRAST),
            Steps(edges, tuple(-one for one in chance), "", Role.CONTRAST),
            Steps(edges, apart, "rows minus Gaussian"),
        ),
    )


def eigen_figure(diagnostics: DiagnosticsRecord, test_result: TestResult | None) -> Figure | None:
    """The largest second moment in each slice along the halfspace."""
    inner, values = diagnostics.eigen_edges, diagnostics.eigenvalues
    if not inner or len(values) != len(inner) + 1 or not all(map(drawable, inner)):
        return None
    reach = max(abs(inner[0]), abs(inner[-1])) + 0.4
    rules = [Rule(1.0, "Gaussian 1", Role.REFERENCE, below=True)]
    if test_result is not None and drawable(test_result.limit):
        rules.append(Rule(test_result.limit, f"limit {number(test_result.limit)}"))
    if test_result is not None and _is_apart(test_result.null_quantile, rules):
        said = f"chance alone stays below {number(test_result.null_quantile)}"
        rules.append(Rule(test_result.null_quantile, said, Role.REFERENCE, at_left=True))
    heights = span((*values, *(rule.at for rule in rules)), low=0.0, high=1.0)
    largest = max(filter(drawable, values), default=math.nan)
    picture = Plot(
        "Spread in slices along the halfspace",
        f"One value for each of {len(values)} slices; the largest is {number(largest)}.",
        _margin_axis(diagnostics, reach),
        Axis("largest second moment orthogonal to v", *heights),
        (
            *rules,
            *_boundary(diagnostics),
            Steps((-reach, *inner, reach), values, "largest second moment"),
        ),
    )
    ends = ("", *map(number, inner), "")
    names = (f"{low} to {high}".strip() for low, high in itertools.pairwise(ends))
    rows = tuple(zip(names, map(number, values), strict=True))
    labels = (_margin(diagnostics), "largest second moment")
    table = Table("Second moments in slices", labels, rows, words=labels[:1])
    return Figure((picture,), "The outer two slices have no end.", (table,))


def _is_apart(value: float, rules: Sequence[Rule]) -> bool:
    """Whether a line has room for its words between the others."""
    highest = max(rule.at for rule in rules)
    return drawable(value) and all(abs(value - rule.at) > 0.1 * highest for rule in rules)


def moment_figure(diagnostics: DiagnosticsRecord, limit: float) -> Figure | None:
    """Moments of single features and of pairs, each against the limit."""
    pictures, tables = [], []
    rows = diagnostics.feature_moments
    degree = len(rows[0]) if rows else 0
    if degree and all(len(row) == degree for row in rows):
        kept = _largest(rows)
        names = tuple(map(feature_name, kept))
        orders = (*_MOMENT_NAMES, *(f"he{k}" for k in range(5, degree + 1)))[:degree]
        shown = tuple(rows[i] for i in kept)
        said = f"{degree} moments of {len(kept)} of {len(rows)} features."
        turned = tuple(zip(*shown, strict=True))
        pictures.append(HeatMap("Moments of each feature", said, orders, names, turned, limit))
        tables.append(_grid("Moments of each feature", names, orders, shown))
    pairs = diagnostics.pair_moments
    if pairs and all(len(row) == len(pairs) for row in pairs):
        names = tuple(map(feature_name, range(len(pairs))))
        said = f"{len(pairs)} by {len(pairs)} moments of degree 2; the diagonal holds squares."
        pictures.append(HeatMap("Moments of pairs of features", said, names, names, pairs, limit))
        tables.append(_grid("Moments of pairs", names, names, pairs))
    return Figure(tuple(pictures), words.moment_caption(limit), tuple(tables)) if pictures else None


def _largest(rows: tuple[tuple[float, ...], ...]) -> list[int]:
    """Features to show, in order: all, or those with the largest moments where they are many."""
    size = [max((abs(value) for value in row if drawable(value)), default=0.0) for row in rows]
    ranked = sorted(range(len(rows)), key=lambda i: -size[i])
    return sorted(ranked[:_MOST_FEATURES])


def _grid(
    caption: str, names: Sequence[str], labels: Sequence[str], values: Sequence[tuple[float, ...]]
) -> Table:
    rows = tuple((name, *map(number, row)) for name, row in zip(names, values, strict=True))
    return Table(caption, ("feature", *labels), rows, words=("feature",))


def weight_figure(result: FitResult | CertifyResult) -> Figure | None:
    """The weights of the halfspace as bars, by what they come to: times the features' spreads."""
    halfspace, data = result.halfspace, result.data
    if halfspace is None or not halfspace.normal or not all(map(drawable, halfspace.normal)):
        return None
    normal, spreads = halfspace.normal, feature_spreads(result)
    scales = (1.0,) * len(normal) if spreads is None else spreads
    heights = tuple(weight * scale for weight, scale in zip(normal, scales, strict=True))
    if not all(map(drawable, heights)):
        return None
    size = max(map(abs, heights)) or 1.0
    what = "weight" if spreads is None else "weight × spread of the feature"
    names = data.features or tuple(map(numbered, range(len(normal))))
    picture = Plot(
        "Weights of the halfspace",
        f"{len(normal)} bars, {what}; the largest in size is {number(size)}.",
        Axis("feature", 0.4, len(normal) + 0.6, whole=True, names=names),
        Axis(what, -1.1 * size, 1.1 * size),
        (Bars(heights),),
    )
    columns = [(*names, "offset"), tuple(map(number, (*normal, halfspace.offset)))]
    labels = ["feature", "weight"]
    if spreads is not None:
        columns += [(*map(number, spreads), ABSENT), (*map(number, heights), ABSENT)]
        labels += ["spread", "weight × spread"]
    table = Table("Weights", tuple(labels), tuple(zip(*columns, strict=True)), words=("feature",))
    low, high = data.label_names
    caption = (
        f"{high} where weights·x + offset is 0 or more, else {low}; the offset is "
        f"{number(halfspace.offset)}. Bars above 0 speak for {high}."
    )
    return Figure((picture,), caption, (table,))


def feature_spreads(result: FitResult | CertifyResult) -> tuple[float, ...] | None:
    """Standard deviations of the stored features, as the transform or the moments know them.

    In radial transform they are known up to a common factor.
    """
    with np.errstate(all="ignore"):  # documents may hold any number
        found = _spreads(result)
    if found is None or not np.isfinite(found).all() or not found.any():
        return None
    return tuple(found.tolist())


def _spreads(result: FitResult | CertifyResult) -> NDArray[np.float64] | None:
    if matrix := result.transform.matrix:
        try:
            root = np.linalg.pinv(np.array(matrix))  # root·rootᵀ is the covariance
        except np.linalg.LinAlgError:
            return None
        return np.asarray(np.linalg.norm(root, axis=1))
    measured = result.measurements if isinstance(result, FitResult) else None
    moments = () if measured is None else [row[:2] for row in measured.feature_moments]
    if len(moments) != result.data.dim or any(len(row) < 2 for row in moments):
        return None
    means, seconds = np.array(moments).T
    return np.asarray(np.sqrt(np.maximum(0.0, 1 + math.sqrt(2) * seconds - means**2)))
