"""The figures of a report, made from its records; each is None where its numbers are absent."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamhalf.kernels.monomials import feature_spreads
from streamhalf.kernels.slabs import masses_about
from streamhalf.report.svg import FARTHEST, Axis, Bars, Dots, HeatMap, Picture, Plot, Rule, Steps, drawable, span
from streamhalf.report.tables import Cells, Table, candidate_table, evidence_table
from streamhalf.report.words import ABSENT, Names, at_least, count, degrees, number, numbered, percent
from streamhalf.results import CandidateRecord, CertificateRecord, DiagnosticsRecord, Result, TestResult

_MOST_FEATURES = 64  # Columns of a figure that can still be told apart
_MOST_BARS = 30  # Weights that are drawn, the largest first
_MOMENTS = ("he₁ mean", "he₂ scale", "he₃ skew", "he₄ tails")
_MARGIN = "distance from the boundary"
Array = NDArray[np.float64]


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
    picture = Bars(
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
    if any(value > FARTHEST * one.limit for _, _, value in bars):
        caption += f" Bars end at {FARTHEST:g} times the limit."
    return Figure((picture,), caption, (evidence_table(one, names),))


def bound_plot(pieces: Sequence[tuple[float, float, float]], error: float | None, least: float) -> Plot:
    """Return the steps of a lower bound, in shares: each from an angle to the next, in degrees.

    `error` is that of the classifier, where it may stand beside the bound.
    """
    bounds, least = [100 * bound for _, _, bound in pieces], 100 * least
    own = least if error is None else 100 * error
    floor = max(0.0, 2 * least - own) if least > 0 else 0.0
    most = 2 * own if own > 0 else math.inf  # larger bounds end at the top
    low, high = span((*(min(bound, most) for bound in bounds), own), low=floor, high=floor)
    rules = [Rule(f"L = {at_least(least / 100)}", "contrast", least)]
    if error is not None:
        rules.insert(0, Rule(f"this classifier {percent(error)}", "reference", own, left=True))
    edges = (*(start for start, _, _ in pieces), pieces[-1][1])
    return Plot(
        "Lower bound by angle",
        f"Steps of the bound over angles from 0 to 180 degrees; the least is {least:.3f}%.",
        Axis("angle to the direction of the certificate", 0.0, 180.0, unit="°"),
        Axis("errors of such classifiers, at least", low, high, unit="%"),
        (*rules, Steps("lower bound", edges=edges, heights=tuple(bounds))),
    )


def profile_figure(certificate: CertificateRecord, names: Names) -> Figure | None:
    """Return the lower bound by the angle of the other halfspace."""
    pieces = sorted(certificate.profile, key=lambda piece: piece.angle_low)
    pieces = [piece for piece in pieces if drawable(piece.bound) and drawable(piece.angle_high)]
    if not pieces or certificate.n_errors == 0:  # nothing lies below no error at all
        return None
    picture = bound_plot(
        [(math.degrees(one.angle_low), math.degrees(one.angle_high), one.bound) for one in pieces],
        certificate.error if certificate.comparable else None,
        certificate.opt.lower_empirical,
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


def candidate_plot(errors: Sequence[float | None], chosen: int | None) -> Plot | None:
    """Return the errors of candidates, in shares, as points; None where there is no path to see."""
    heights = tuple(math.nan if one is None else 100 * one for one in errors)
    known = [one for one in heights if drawable(one)]
    if len(heights) < 2 or not known:
        return None
    low, high = span(known, low=min(known), high=max(known))
    return Plot(
        "Errors of the candidates",
        "One point for each candidate from 0: " + ", ".join(f"{number(y)}%" for y in heights) + ".",
        Axis("candidate", -0.4, len(heights) - 0.6, whole=True),
        Axis("error on held-out rows", max(0.0, low - 0.1 * (high - low)), high, unit="%"),
        (Dots("", values=heights, chosen=chosen),),
    )


def candidate_figure(candidates: tuple[CandidateRecord, ...], chosen: int | None) -> Figure | None:
    """Return the errors of the candidates."""
    errors = [one.error for one in candidates]
    picture = candidate_plot(errors, chosen)
    if picture is None:
        return None
    caption = "Each candidate is a linear classifier; the ringed one was returned."
    known = [one for one in errors if one is not None and drawable(one)]
    if chosen is not None and (own := errors[chosen]) in known and own > min(known):
        caption += (
            " When chosen, it was the favourite (best of the tested updates, else logistic regression), and no other "
            "was better by more than one standard error."
        )
    return Figure((picture,), caption, (candidate_table(candidates),))


def slab_shares(counts: Sequence[int], width: float, threshold: float) -> tuple[Array, Array]:
    """Return the observed and the Gaussian share of every slab, the two tails included."""
    observed = np.array(counts, dtype=np.float64) / max(1, sum(counts))
    return observed, masses_about(width, len(counts) // 2 - 1, threshold)


def slab_plot(counts: Sequence[int], width: float, threshold: float, boundary: str = "boundary") -> Plot | None:
    """Return rows by their place along a halfspace beside the Gaussian share of each slab."""
    half = len(counts) // 2 - 1
    if half < 1 or len(counts) % 2 or sum(counts) <= 0 or not (width > 0 and drawable(half * width)):
        return None
    edges = tuple(width * i for i in range(-half, half + 1))
    observed, expected = (tuple((100 * one[1:-1]).tolist()) for one in slab_shares(counts, width, threshold))
    return Plot(
        "Rows by distance from the boundary",
        f"Histogram of {2 * half} slabs of width {number(width)} beside the Gaussian share of each.",
        Axis(_MARGIN, -edges[-1], edges[-1]),
        Axis("share of rows in a slab", *span((*observed, *expected), low=0.0, high=0.0), unit="%"),
        (
            Steps("rows", edges=edges, heights=observed, filled=True),
            Steps("Gaussian", "contrast", edges, expected),
            _boundary(threshold, boundary),
        ),
    )


def slab_figure(diagnostics: DiagnosticsRecord, one: TestResult | None, boundary: str = "boundary") -> Figure | None:
    """Return rows along the halfspace against the Gaussian density."""
    counts, width, threshold = diagnostics.slab_counts, diagnostics.slab_width, diagnostics.threshold
    picture = slab_plot(counts, width, threshold, boundary)
    if picture is None:
        return None
    caption = "Rows of the final pass."
    if one is not None:
        caption = (
            f"Shares of rows and density differ by {number(one.statistic)}, summed over slabs; the limit is "
            f"{number(one.limit)}; chance alone stays below {number(one.null_quantile)}."
        )
    half = len(counts) // 2 - 1
    edges = [width * i for i in range(-half, half + 1)]
    ranges = (f"{low:.4g} to {high:.4g}" for low, high in itertools.pairwise(edges))
    places = (f"below {edges[0]:.4g}", *ranges, f"from {edges[-1]:.4g}")
    rows = tuple(
        (place, count(n), f"{100 * share:.4g}%", f"{100 * mass:.4g}%")
        for place, n, share, mass in zip(places, counts, *slab_shares(counts, width, threshold), strict=True)
    )
    table = Table("Rows in slabs", (_MARGIN, "rows", "share", "Gaussian"), rows, words=(_MARGIN,))
    return Figure((picture,), caption, (table,))


def _boundary(threshold: float, words: str) -> Rule:
    """Return where the classifier begins, at its threshold t."""
    return Rule(f"{words}, t = {number(threshold)}", "reference", 0.0, vertical=True)


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
        (*rules, _boundary(diagnostics.threshold, boundary), Steps("", edges=(-reach, *inner, reach), heights=values)),
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
    tables: list[Table] = []
    rows, pairs = diagnostics.feature_moments, diagnostics.pair_moments
    degree = len(rows[0]) if rows else 0
    if degree and all(len(row) == degree for row in rows):
        size = [max((abs(one) for one in row if drawable(one)), default=0.0) for row in rows]
        kept = sorted(sorted(range(len(rows)), key=lambda j: -size[j])[:_MOST_FEATURES])
        features, title = tuple(map(names.feature, kept)), "Moments of each feature"
        orders = (*_MOMENTS, *(f"he{k}" for k in range(5, degree + 1)))[:degree]
        shown = [rows[j] for j in kept]
        said = f"{degree} moments of {len(kept)} of {len(rows)} features."
        pictures.append(HeatMap(title, said, orders, features, tuple(zip(*shown, strict=True)), limit))
        tables.append(_grid(title, features, orders, shown))
    if pairs and all(len(row) == len(pairs) for row in pairs):
        features, title = tuple(map(names.feature, range(len(pairs)))), "Moments of pairs of features"
        said = f"{len(pairs)} by {len(pairs)} moments of degree 2; the diagonal holds squares."
        pictures.append(HeatMap(title, said, features, features, pairs, limit))
        tables.append(_grid(title, features, features, pairs))
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
    normal, spreads = halfspace.normal, _spreads(result)
    scales = (1.0,) * len(normal) if spreads is None else spreads
    heights = tuple(weight * scale for weight, scale in zip(normal, scales, strict=True))
    if not all(map(drawable, heights)):
        return None
    size = max(map(abs, heights)) or 1.0
    what = "weight" if spreads is None else "weight × spread of the feature"
    names = data.features or tuple(map(numbered, range(len(normal))))
    order = sorted(range(len(normal)), key=lambda j: -abs(heights[j]))[:_MOST_BARS]
    picture = Bars(
        "Weights of the classifier",
        f"{len(order)} bars, {what}; the largest in size is {number(size)}.",
        tuple((names[j], f"{heights[j]:+.4g}", heights[j]) for j in order),
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


def _spreads(result: Result) -> tuple[float, ...] | None:
    """Return standard deviations of the stored features, where they are known."""
    rows = () if result.measurements is None else result.measurements.feature_moments
    known = len(rows) == result.data.dim and all(len(row) > 1 for row in rows)
    found = feature_spreads(result.transform.matrix, np.array([row[:2] for row in rows]) if known else None)
    return tuple(found.tolist()) if found is not None and np.isfinite(found).all() and found.any() else None
