"""Figures of the verdict, the certificate and the path; each is None where numbers are absent."""

from __future__ import annotations

import math

from streamhalf.report import words
from streamhalf.report.codes import (
    ABSENT,
    count,
    degrees,
    evidence_name,
    method_words,
    number,
    percent,
)
from streamhalf.report.features import class_words
from streamhalf.report.figures import Figure, Plot, Points, Role, Rule, Steps
from streamhalf.report.panels import Comparison, Interval
from streamhalf.report.svg import Axis, drawable, span
from streamhalf.report.tables import Cells, Table, evidence_table
from streamhalf.results import CandidateRecord, CertificateRecord, FitResult, Method, TestResult

_LABEL_SHARE = 0.12
"""Of the height of a figure, what a label takes."""

_LINE_SHARE = 0.01
"""Of the width of a figure, how far apart two lines must be to be told apart."""

_BELOW = 1.0
"""What the profile shows below L, in widths of the interval: a narrow one is not to vanish."""

_ABOVE = 2.0
"""What it shows above 0, in errors of this halfspace: larger bounds end at the top."""

_PROFILE: Cells = {
    "from": lambda one: degrees(one.angle_low),
    "to": lambda one: degrees(one.angle_high),
    "bound": lambda one: percent(one.bound),
    "found by": lambda one: one.family,
}
_CANDIDATE: Cells = {
    "found by": lambda one: method_words(one.method),
    "error": lambda one: percent(one.error),
    "angle": lambda one: degrees(one.angle),
    "threshold": lambda one: number(one.threshold),
    "scale delta": lambda one: number(_on_path(one, one.delta)),
    "step": lambda one: number(_on_path(one, one.step)),
    "rows seen": lambda one: count(one.rows_seen) if _is_on_path(one) else ABSENT,
    "accepted": lambda one: count(one.rows_accepted) if _is_on_path(one) else ABSENT,
    "of expected": lambda one: number(acceptance_ratio(one)),
    "wedge bound beta": lambda one: percent(one.beta),
}


def _is_on_path(candidate: CandidateRecord) -> bool:
    """Whether it has a scale and rows of its own; others were learnt in memory, from a sample."""
    return candidate.method is Method.PATH


def _on_path(candidate: CandidateRecord, value: float) -> float:
    return value if _is_on_path(candidate) else math.nan


def interval_figure(certificate: CertificateRecord, upper: float) -> Figure | None:
    """The interval [L, U] on a line, where it is one; `upper` bounds the error on the source."""
    low, high, outer = certificate.opt.lower_empirical, certificate.error, certificate.opt.lower
    if not certificate.comparable or not 0 <= low <= high <= 1 or high == 0:
        return None
    through = class_words(certificate.opt.through, certificate)
    outer_high = upper if high <= upper <= 1 else high
    outer_low = outer if 0 <= outer <= low else low
    picture = Interval(
        "Where the error of the best halfspace lies",
        f"A line from 0. No halfspace {through} errs on less than L = {percent(low)}; this one "
        f"errs on U = {percent(high)}. Whiskers reach to {percent(outer_low)} and "
        f"{percent(outer_high)}.",
        *(100 * end for end in (low, high, outer_low, outer_high)),
    )
    rows = (
        ("L on these rows", percent(low)),
        ("U on these rows", percent(high)),
        ("L on their source", percent(outer)),
        ("U on their source", percent(upper)),
    )
    table = Table(
        f"Certified interval, halfspaces {through}",
        ("quantity", "share of rows"),
        rows,
        words=("quantity",),
    )
    return Figure((picture,), "Solid: on the rows at hand. Whiskers: on their source.", (table,))


def profile_figure(certificate: CertificateRecord) -> Figure | None:
    """The lower bound by the angle of the other halfspace."""
    pieces = sorted(certificate.profile, key=lambda piece: piece.angle_low)
    pieces = [piece for piece in pieces if drawable(piece.bound) and drawable(piece.angle_high)]
    if not pieces:
        return None
    edges = (*(piece.angle_low for piece in pieces), pieces[-1].angle_high)
    bounds = tuple(100 * piece.bound for piece in pieces)
    least = 100 * certificate.opt.lower_empirical
    # an error of another class has no place beside the bound
    error = 100 * certificate.error if certificate.comparable else least
    floor = max(0.0, least - _BELOW * (error - least)) if least > 0 else 0.0
    most = _ABOVE * error if error > 0 else math.inf
    low, high = span((*(min(bound, most) for bound in bounds), error), low=floor, high=floor)
    label = _LABEL_SHARE * (high - low)
    own = Rule(error, f"this halfspace {error:.3f}%", Role.REFERENCE, error - least >= label)
    beside = f", beside the error of this halfspace, {error:.3f}%" if certificate.comparable else ""
    picture = Plot(
        "Lower bound by angle",
        f"Steps of the bound over angles from 0 to 180 degrees; the least is {least:.3f}%{beside}.",
        Axis("angle to the direction of the certificate", 0.0, 180.0, unit="°"),
        Axis("errors of such halfspaces, at least", low, high, unit="%"),
        (
            # apart they stand below their lines; close together one above, one below; and never
            # below the axis, where its ticks have their words
            *((own,) if certificate.comparable else ()),
            Rule(least, f"L = {least:.3f}%", below=least - low > label),
            Steps(tuple(map(math.degrees, edges)), bounds, "lower bound"),
        ),
    )
    through = class_words(certificate.opt.through, certificate)
    caption = f"Every halfspace {through}, at this angle, errs on this share of the rows or more."
    table = Table.of("Lower bound by angle", _PROFILE, pieces, words=("found by",))
    return Figure((picture,), caption, (table,))


def acceptance_ratio(candidate: CandidateRecord) -> float:
    """Accepted rows over those that a Gaussian gives."""
    rate = candidate.delta if candidate.rate is None else candidate.rate
    expected = _on_path(candidate, candidate.rows_seen * rate)
    return candidate.rows_accepted / expected if expected > 0 else math.nan


def path_figure(
    candidates: tuple[CandidateRecord, ...], chosen: int | None, tolerance: float | None
) -> Figure | None:
    """Error, scale and step, angle and acceptance of one candidate after the other."""
    if len(candidates) < 2:
        return None
    errors = tuple(math.nan if one.error is None else 100 * one.error for one in candidates)
    angles = tuple(math.degrees(one.angle) for one in candidates)
    ratios = tuple(acceptance_ratio(one) for one in candidates if _is_on_path(one))
    limits: tuple[Rule, ...] = (Rule(1.0, "expected", Role.REFERENCE, below=True),)
    if tolerance is not None and drawable(tolerance):
        limits += (Rule(1 + tolerance, "limit"), Rule(1 - tolerance, "limit", below=True))
    pictures = (
        _path_plot("Errors on held-out rows", "%", errors, chosen),
        # one feature leaves no room to turn
        _path_plot("Angle to the returned halfspace", "°", angles, chosen) if any(angles) else None,
        _scale_plot(candidates),
        _path_plot("Accepted rows over expected", "", ratios, None, limits),
    )
    caption = "The candidates in the order of the path; the large dot is the one returned."
    if not all(map(_is_on_path, candidates)):
        caption = (
            "The candidates of the path in their order, then those that were learnt from a sample "
            "and have no scale; the large dot is the one returned."
        )
    found = tuple(picture for picture in pictures if picture is not None)
    return Figure(found, caption, (candidate_table(candidates),))


def _path_plot(
    title: str, unit: str, ys: tuple[float, ...], marked: int | None, rules: tuple[Rule, ...] = ()
) -> Plot | None:
    if not any(map(drawable, ys)):
        return None
    low, high = span(ys, low=0.0, high=max((rule.at for rule in rules), default=0.0))
    said = ", ".join(f"{number(y)}{unit}" for y in ys)
    return Plot(
        title,
        f"One point for each candidate from 0: {said}.",
        _candidate_axis(len(ys)),
        Axis(title.lower(), low, high, unit=unit),
        (*rules, Points(ys, title.lower(), marked=marked)),
    )


def _candidate_axis(n: int) -> Axis:
    return Axis("candidate", -0.3, n - 0.7, whole=True)


def _scale_plot(candidates: tuple[CandidateRecord, ...]) -> Plot | None:
    candidates = tuple(filter(_is_on_path, candidates))
    deltas = tuple(one.delta if one.delta > 0 else math.nan for one in candidates)
    steps = tuple(one.step if one.step > 0 else math.nan for one in candidates)
    drawn = [value for value in (*deltas, *steps) if drawable(value) and value > 1e-12]
    if not drawn:
        return None
    said = ", ".join(f"{number(one.delta)} and {number(one.step)}" for one in candidates)
    named = "scale delta and step" if any(map(drawable, steps)) else "scale delta"
    marks = (
        Points(deltas, "scale delta", Role.REFERENCE),
        Points(steps, "step from the one before"),
    )
    return Plot(
        "Scale and step",
        f"Scale delta and step from the candidate before, one pair for each candidate: {said}.",
        _candidate_axis(len(candidates)),
        Axis(named, min(drawn) / 1.5, max(drawn) * 1.5, log=True),
        tuple(mark for mark in marks if any(map(drawable, mark.ys))),
    )


def candidate_table(candidates: tuple[CandidateRecord, ...]) -> Table:
    """All that is known of the candidates; what is known of none is left out."""
    cells = {
        label: cell
        for label, cell in _CANDIDATE.items()
        if any(cell(one) != ABSENT for one in candidates)
    }
    known = Table.of("Candidates", cells, candidates)
    rows = tuple((str(i), *row) for i, row in enumerate(known.rows))
    return Table(known.caption, ("candidate", *known.labels), rows, words=("found by",))


def evidence_figure(test_result: TestResult) -> Figure | None:
    """What a tester measured against what it allows."""
    limit, chance, items = test_result.limit, test_result.null_quantile, test_result.evidence
    if not drawable(limit) or limit <= 0:
        return None
    bars = [
        (
            f"{test_result.tester}: the statistic",
            number(test_result.statistic),
            test_result.statistic,
        )
    ]
    for one in items:
        remark = f"{number(one.observed)}, expected {number(one.expected)}"
        bars.append((evidence_name(one), remark, one.deviation))
    apart = abs(chance - limit) > _LINE_SHARE * max(limit, *(value for _, _, value in bars))
    dotted = apart and drawable(chance)
    picture = Comparison(
        f"Evidence of tester {test_result.tester}",
        f"Bars of the deviation of {len(items)} quantities against the limit {number(limit)}; the "
        f"tester's own statistic is {number(test_result.statistic)}.",
        tuple(bars),
        limit,
        f"limit {number(limit)}",
        chance if dotted else math.nan,
    )
    caption = words.evidence_caption(test_result, dotted)
    if picture.is_log:
        caption += " The scale is logarithmic."
    return Figure((picture,), caption, (evidence_table(test_result),))


def rows_figure(result: FitResult, needed: int) -> Figure:
    """Rows at hand against rows needed."""
    rows = result.data.rows
    picture = Comparison(
        "Rows at hand and rows needed",
        f"{count(rows)} rows at hand, about {count(needed)} needed.",
        ((f"rows at hand: {count(rows)}", "", float(rows)),),
        float(needed),
        f"needed {count(needed)}",
    )
    cells = (("at hand", count(rows)), ("needed, about", count(needed)))
    caption = words.rows_caption(result)
    return Figure((picture,), caption, (Table("Rows", ("rows", "number"), cells, ("rows",)),))
