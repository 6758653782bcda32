"""The figures of a report, made from its records; each is None where its numbers are absent."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamhalf.kernels.slabs import masses_about
from streamhalf.report.svg import (
    Axis,
    Comparison,
    Dots,
    HeatMap,
    Picture,
    Plot,
    Rule,
    SignedBars,
    Steps,
    drawable,
    span,
)
from streamhalf.report.tables import Cells, Result, Table, candidate_table, evidence_table
from streamhalf.report.words import ABSENT, Names, at_least, count, degrees, number, numbered, percent
from streamhalf.results import CandidateRecord, CertificateRecord, DiagnosticsRecord, FitResult, TestResult

_MOST_FEATURES = 64
"""Columns of a figure that can still be told apart."""

_MOST_BARS = 30
"""Weights that are drawn, the largest first."""

_MOMENTS = ("he₁ mean", "he₂ scale", "he₃ skew", "he₄ tails")
_MARGIN = "distance from the boundary"


@dataclass(frozen=True, slots=True)
class Figure:
    """Pictures that belong together, a caption, and the numbers that they were drawn from."""

    pictures: tuple[Picture, ...]
    caption: str
    tables: tuple[Table, ...]


def evidence_figure(one: TestResult, names: Names) -> Figure | None:
    """Return what a tester measured against what it allows."""
    if not drawable(one.limit) or one.limit <= 0:
        return None
    bars = [(f"{one.tester}: the statistic", number(one.statistic), one.statistic)]
    for found in one.evidence:
        remark = f"{number(found.observed)}, expected {number(found.expected)}"
        bars.append((names.evidence(found), remark, found.deviation))
    picture = Comparison(
        f"Evidence of {one.tester}",
        f"Bars of the deviation of {len(one.evidence)} quantities against the limit "
        f"{number(one.limit)}; the tester's own statistic is {number(one.statistic)}.",
        tuple(bars),
        one.limit,
        f"limit {number(one.limit)}",
    )
    caption = (
        "Length: deviation from a standard Gaussian. Right: observed and expected value. "
        f"Chance alone stays below {number(one.null_quantile)}."
    )
    caption += " The scale is logarithmic." if picture.is_log else ""
    return Figure((picture,), caption, (evidence_table(one, names),))


def profile_figure(certificate: CertificateRecord, names: Names) -> Figure | None:
    """Return the lower bound by the angle of the other halfspace."""
    pieces = sorted(certificate.profile, key=lambda piece: piece.angle_low)
    pieces = [piece for piece in pieces if drawable(piece.bound) and drawable(piece.angle_high)]
    if not pieces or certificate.n_errors == 0:  # nothing lies below no error at all
        return None
    edges = (*(piece.angle_low for piece in pieces), pieces[-1].angle_high)
    bounds = tuple(100 * piece.bound for piece in pieces)
    least = 100 * certificate.opt.lower_empirical
    # an error of another class has no place beside the bound
    error = 100 * certificate.error if certificate.comparable else least
    floor = max(0.0, 2 * least - error) if least > 0 else 0.0
    most = 2 * error if error > 0 else math.inf  # larger bounds end at the top
    low, high = span((*(min(bound, most) for bound in bounds), error), low=floor, high=floor)
    rules = [Rule(f"L = {at_least(least / 100)}", "contrast", least)]
    if certificate.comparable:
        rules.insert(0, Rule(f"this classifier {percent(error / 100)}", "reference", error, left=True))
    picture = Plot(
        "Lower bound by angle",
        f"Steps of the bound over angles from 0 to 180 degrees; the least is {least:.3f}%.",
        Axis("angle to the direction of the certificate", 0.0, 180.0, unit="°"),
        Axis("errors of such classifiers, at least", low, high, unit="%"),
        (*rules, Steps("lower bound", edges=tuple(map(math.degrees, edges)), heights=bounds)),
    )
    through = names.halfspaces(certificate.opt.through, certificate)
    caption = f"A linear classifier {through}, at this angle, errs on this share of the rows or more."
    cells: Cells = {
        "from": lambda one: degrees(one.angle_low),
        "to": lambda one: degrees(one.angle_high),
        "bound": lambda one: at_least(one.bound),
        "found by": lambda one: one.family,
    }
    table = Table.of("Lower bound by angle", cells, pieces, words=("found by",))
    return Figure((picture,), caption, (table,))


def candidate_figure(candidates: tuple[CandidateRecord, ...], chosen: int | None) -> Figure | None:
    """Return the errors of the candidates as points."""
    errors = tuple(math.nan if one.error is None else 100 * one.error for one in candidates)
    if len(candidates) < 2 or not any(map(drawable, errors)):
        return None
    known = [one for one in errors if drawable(one)]
    low, high = span(errors, low=min(known), high=max(known))
    floor = max(0.0, low - 0.1 * (high - low))
    picture = Plot(
        "Errors of the candidates",
        "One point for each candidate from 0: " + ", ".join(f"{number(y)}%" for y in errors) + ".",
        Axis("candidate", -0.4, len(errors) - 0.6, whole=True),
        Axis("error on held-out rows", floor, high, unit="%"),
        (Dots("", values=errors, chosen=chosen),),
    )
    caption = "Each candidate is a linear classifier; the ringed one was returned."
    if chosen is not None and drawable(errors[chosen]) and errors[chosen] > min(known):
        caption += (
            " When chosen, it was the favourite (best of the tested updates, else logistic regression), and no other "
            "was better by more than one standard error."
        )
    return Figure((picture,), caption, (candidate_table(candidates),))


def slab_figure(diagnostics: DiagnosticsRecord, one: TestResult | None, boundary: str = "boundary") -> Figure | None:
    """Return rows along the halfspace against the Gaussian density."""
    counts, width = diagnostics.slab_counts, diagnostics.slab_width
    total, half = sum(counts), len(counts) // 2 - 1
    if half < 1 or len(counts) % 2 or total <= 0 or not (width > 0 and drawable(half * width)):
        return None
    edges = tuple(width * i for i in range(-half, half + 1))
    observed = tuple(100 * n / total for n in counts)
    expected = tuple((100 * masses_about(width, half, diagnostics.threshold)).tolist())
    apart = ""
    if one is not None:
        apart = (
            f"Both differ by {number(one.statistic)} in all; the limit is {number(one.limit)}, and "
            f"chance alone stays below {number(one.null_quantile)}."
        )
    heights = span((*observed[1:-1], *expected[1:-1]), low=0.0, high=0.0)
    picture = Plot(
        "Rows by distance from the boundary",
        f"Histogram of {2 * half} slabs of width {number(width)} beside the Gaussian share of each.",
        Axis(_MARGIN, -edges[-1], edges[-1]),
        Axis("share of rows in a slab", *heights, unit="%"),
        (
            Steps("rows", edges=edges, heights=observed[1:-1], filled=True),
            Steps("Gaussian", "contrast", edges, expected[1:-1]),
            _boundary(diagnostics, boundary),
        ),
    )
    ranges = (f"{low:.4g} to {high:.4g}" for low, high in itertools.pairwise(edges))
    places = (f"below {edges[0]:.4g}", *ranges, f"from {edges[-1]:.4g}")
    rows = tuple(
        (place, count(n), f"{share:.4g}%", f"{mass:.4g}%")
        for place, n, share, mass in zip(places, counts, observed, expected, strict=True)
    )
    labels = (_MARGIN, "rows", "share", "Gaussian")
    table = Table("Rows in slabs", labels, rows, words=labels[:1])
    return Figure((picture,), apart or "Rows of the final pass.", (table,))


def _boundary(diagnostics: DiagnosticsRecord, words: str) -> Rule:
    """Return where the classifier begins, at its threshold t."""
    return Rule(f"{words}, t = {number(diagnostics.threshold)}", "reference", 0.0, vertical=True)


def slice_figure(diagnostics: DiagnosticsRecord, one: TestResult | None, boundary: str = "boundary") -> Figure | None:
    """Return the largest second moment in each slice along the halfspace."""
    inner, values = diagnostics.eigen_edges, diagnostics.eigenvalues
    if not inner or len(values) != len(inner) + 1 or not all(map(drawable, inner)):
        return None
    reach = max(abs(inner[0]), abs(inner[-1])) + 0.4
    rules = [Rule("Gaussian 1", "reference", 1.0, left=True)]
    if one is not None and drawable(one.limit):
        rules.append(Rule(f"limit {number(one.limit)}", "contrast", one.limit))
    heights = span((*values, *(rule.at for rule in rules)), low=0.0, high=1.0)
    largest = max(filter(drawable, values), default=math.nan)
    picture = Plot(
        "Spread by distance from the boundary",
        f"One value for each of {len(values)} slices; the largest is {number(largest)}.",
        Axis(_MARGIN, -reach, reach),
        Axis("largest second moment orthogonal to it", *heights),
        (*rules, _boundary(diagnostics, boundary), Steps("", edges=(-reach, *inner, reach), heights=values)),
    )
    ends = ("", *map(number, inner), "")
    places = (f"{low} to {high}".strip() for low, high in itertools.pairwise(ends))
    labels = (_MARGIN, "largest second moment")
    rows = tuple(zip(places, map(number, values), strict=True))
    table = Table("Second moments in slices", labels, rows, words=labels[:1])
    return Figure((picture,), "The outer two slices have no end.", (table,))


def moment_figure(diagnostics: DiagnosticsRecord, limit: float, names: Names) -> Figure | None:
    """Return moments of single features and of pairs, each against the limit."""
    pictures: list[Picture] = []
    tables = []
    rows, pairs = diagnostics.feature_moments, diagnostics.pair_moments
    degree = len(rows[0]) if rows else 0
    if degree and all(len(row) == degree for row in rows):
        size = [max((abs(one) for one in row if drawable(one)), default=0.0) for row in rows]
        kept = sorted(sorted(range(len(rows)), key=lambda j: -size[j])[:_MOST_FEATURES])
        labels = tuple(map(names.feature, kept))
        orders = (*_MOMENTS, *(f"he{k}" for k in range(5, degree + 1)))[:degree]
        shown = tuple(rows[j] for j in kept)
        said = f"{degree} moments of {len(kept)} of {len(rows)} features."
        title = "Moments of each feature"
        columns = tuple(zip(*shown, strict=True))
        pictures.append(HeatMap(title, said, orders, labels, columns, limit))
        tables.append(_grid(title, labels, orders, shown))
    if pairs and all(len(row) == len(pairs) for row in pairs):
        labels = tuple(map(names.feature, range(len(pairs))))
        title = "Moments of pairs of features"
        said = f"{len(pairs)} by {len(pairs)} moments of degree 2; the diagonal holds squares."
        pictures.append(HeatMap(title, said, labels, labels, pairs, limit))
        tables.append(_grid(title, labels, labels, pairs))
    caption = (
        "Under a standard Gaussian every cell is 0. Blue is above, orange below; "
        f"full colour is reached at the limit, {number(limit)}."
    )
    return Figure(tuple(pictures), caption, tuple(tables)) if pictures else None


def _grid(caption: str, names: Sequence[str], labels: Sequence[str], values: Sequence[tuple[float, ...]]) -> Table:
    rows = tuple((name, *map(number, row)) for name, row in zip(names, values, strict=True))
    return Table(caption, ("feature", *labels), rows, words=("feature",))


def weight_figure(result: Result) -> Figure | None:
    """Return the weights of the halfspace as bars, times the spreads of the features."""
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
    order = sorted(range(len(normal)), key=lambda j: -abs(heights[j]))[:_MOST_BARS]
    picture = SignedBars(
        "Weights of the classifier",
        f"{len(order)} bars, {what}; the largest in size is {number(size)}.",
        tuple((names[j], heights[j]) for j in order),
    )
    columns = [(*names, "offset"), tuple(map(number, (*normal, halfspace.offset)))]
    labels = ["feature", "weight"]
    if spreads is not None:
        columns += [(*map(number, spreads), ABSENT), (*map(number, heights), ABSENT)]
        labels += ["spread", "weight × spread"]
    table = Table("Weights", tuple(labels), tuple(zip(*columns, strict=True)), words=("feature",))
    low, high = data.label_names
    caption = (
        f"Predict {high} where weights·x + offset is 0 or more, else {low}. "
        f"The offset is {number(halfspace.offset)}. Bars: {what}; those to the right speak for {high}."
    )
    caption += f" The {_MOST_BARS} largest of {len(normal)} are drawn." if len(normal) > _MOST_BARS else ""
    return Figure((picture,), caption, (table,))


def feature_spreads(result: Result) -> tuple[float, ...] | None:
    """Return standard deviations of the stored features, as transform or moments know them.

    Of the radial transform they are known up to a common factor.
    """
    with np.errstate(all="ignore"):  # documents may hold any number
        found = _spreads(result)
    if found is None or not np.isfinite(found).all() or not found.any():
        return None
    return tuple(found.tolist())


def _spreads(result: Result) -> NDArray[np.float64] | None:
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
    means, squares = np.array(moments).T
    return np.asarray(np.sqrt(np.maximum(0.0, 1 + math.sqrt(2) * squares - means**2)))
