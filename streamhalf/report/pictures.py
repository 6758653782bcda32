"""Figures of the verdict, the certificate and the path; each is None where numbers are absent."""

from __future__ import annotations

import math

from streamhalf.records import (
    CandidateRecord,
    CertificateRecord,
    Judgement,
)
from streamhalf.report.figures import (
    Axis,
    Column,
    Comparison,
    Figure,
    Interval,
    Plot,
    Points,
    Role,
    Rule,
    Steps,
    Table,
    drawable,
    span,
)
from streamhalf.report.words import count, degrees, number, percent

_LABEL_SHARE = 0.12
"""Of the height of a figure, what a label takes."""

_LINE_SHARE = 0.01
"""Of the width of a figure, how far apart two lines must be to be told apart."""


_BELOW = 1.0
"""What the profile shows below L, in widths of the interval: a narrow one is not to vanish."""


_ABOVE = 2.0
"""What it shows above 0, in errors of this halfspace: larger bounds end at the top."""


def interval_figure(certificate: CertificateRecord, upper: float) -> Figure | None:
    """The interval [L, U] on a line; `upper` bounds the error on the source."""
    low, high, outer = certificate.opt.lower_empirical, certificate.error, certificate.opt.lower
    if not 0 <= low <= high <= 1 or high == 0:
        return None
    outer_high = upper if high <= upper <= 1 else high
    outer_low = outer if 0 <= outer <= low else low
    ends = (100 * low, 100 * high, 100 * outer_low, 100 * outer_high)
    picture = Interval(
        "Where the error of the best halfspace lies",
        f"A line from 0. No halfspace errs on less than L = {percent(low)}; this one errs on "
        f"U = {percent(high)}. Whiskers reach to {percent(outer_low)} and {percent(outer_high)}.",
        *ends,
    )
    table = Table(
        "Certified interval",
        (Column("quantity", numeric=False), Column("share of rows")),
        (
            ("L on these rows", percent(low)),
            ("U on these rows", percent(high)),
            ("L on their source", percent(outer)),
            ("U on their source", percent(upper)),
        ),
    )
    caption = "Solid: on the rows at hand. Whiskers: on their source."
    return Figure((picture,), caption, (table,))


def profile_figure(certificate: CertificateRecord) -> Figure | None:
    """The lower bound by the angle of the other halfspace."""
    pieces = sorted(certificate.profile, key=lambda piece: piece.angle_low)
    pieces = [piece for piece in pieces if drawable(piece.bound) and drawable(piece.angle_high)]
    if not pieces:
        return None
    edges = [math.degrees(piece.angle_low) for piece in pieces]
    edges.append(math.degrees(pieces[-1].angle_high))
    bounds = tuple(100 * piece.bound for piece in pieces)
    error, least = 100 * certificate.error, 100 * certificate.opt.lower_empirical
    floor = max(0.0, least - _BELOW * (error - least)) if least > 0 else 0.0
    most = _ABOVE * error if error > 0 else math.inf
    low, high = span((*(min(bound, most) for bound in bounds), error), low=floor, high=floor)
    close = error - least < _LABEL_SHARE * (high - low)
    picture = Plot(
        "Lower bound by angle",
        f"Steps of the bound over angles from 0 to 180 degrees; the least is {least:.3f}%, beside "
        f"the error of this halfspace, {error:.3f}%.",
        Axis("angle to the direction of the certificate", 0.0, 180.0, unit="°"),
        Axis("errors of such halfspaces, at least", low, high, unit="%"),
        (
            # apart they stand below their lines; close together one above, one below; and never
            # below the axis, where its ticks have their words
            Rule(error, f"this halfspace {error:.3f}%", Role.REFERENCE, below=not close),
            Rule(least, f"L = {least:.3f}%", below=least - low > _LABEL_SHARE * (high - low)),
            Steps(tuple(edges), bounds, "lower bound"),
        ),
    )
    table = Table(
        "Lower bound by angle",
        (Column("from"), Column("to"), Column("bound"), Column("found by", numeric=False)),
        tuple(
            (degrees(one.angle_low), degrees(one.angle_high), percent(one.bound), one.family)
            for one in pieces
        ),
    )
    caption = "Every halfspace at this angle errs on this share of the rows or more."
    return Figure((picture,), caption, (table,))


def acceptance_ratio(candidate: CandidateRecord) -> float:
    """Accepted rows over those that a Gaussian gives."""
    expected = candidate.rows_seen * candidate.delta
    return candidate.rows_accepted / expected if expected > 0 else math.nan


def path_figure(
    candidates: tuple[CandidateRecord, ...], chosen: int | None, tolerance: float | None
) -> Figure | None:
    """Error, scale and step, angle and acceptance of one candidate after the other."""
    if len(candidates) < 2:
        return None
    xs = tuple(float(i) for i in range(len(candidates)))
    errors = tuple(100 * one.error for one in candidates)
    angles = tuple(math.degrees(one.angle) for one in candidates)
    ratios = tuple(acceptance_ratio(one) for one in candidates)
    limits: tuple[Rule, ...] = (Rule(1.0, "expected", Role.REFERENCE, below=True),)
    if tolerance is not None and drawable(tolerance):
        limits += (Rule(1 + tolerance, "limit"), Rule(1 - tolerance, "limit", below=True))
    reach = [rule.at for rule in limits]
    pictures = [
        _path_plot("Errors on fresh rows", "%", xs, errors, chosen),
        _path_plot("Angle to the returned halfspace", "°", xs, angles, chosen)
        if any(angles)  # one feature leaves no room to turn
        else None,
        _scale_plot(xs, candidates),
        _path_plot("Accepted rows over expected", "", xs, ratios, None, limits, (0.0, max(reach))),
    ]
    found = tuple(picture for picture in pictures if picture is not None)
    caption = "Each candidate starts from the one before; the large dot is the one returned."
    return Figure(found, caption, (candidate_table(candidates),))


def _path_plot(
    title: str,
    unit: str,
    xs: tuple[float, ...],
    ys: tuple[float, ...],
    marked: int | None,
    rules: tuple[Rule, ...] = (),
    reach: tuple[float, float] = (0.0, 0.0),
) -> Plot | None:
    if not any(drawable(y) for y in ys):
        return None
    low, high = span(ys, low=reach[0], high=reach[1])
    words = ", ".join(f"{number(y)}{unit}" for y in ys)
    return Plot(
        title,
        f"One point for each candidate from 0: {words}.",
        _candidate_axis(xs),
        Axis(title.lower(), low, high, unit=unit),
        (*rules, Points(xs, ys, title.lower(), marked=marked)),
    )


def _candidate_axis(xs: tuple[float, ...]) -> Axis:
    return Axis("candidate", -0.3, xs[-1] + 0.3, whole=True)


def _scale_plot(xs: tuple[float, ...], candidates: tuple[CandidateRecord, ...]) -> Plot | None:
    deltas = tuple(one.delta if one.delta > 0 else math.nan for one in candidates)
    steps = tuple(one.step if one.step > 0 else math.nan for one in candidates)
    drawn = [value for value in (*deltas, *steps) if drawable(value) and value > 1e-12]
    if not drawn:
        return None
    words = ", ".join(f"{number(one.delta)} and {number(one.step)}" for one in candidates)
    named = "scale delta and step" if any(map(drawable, steps)) else "scale delta"
    return Plot(
        "Scale and step",
        f"Scale delta and step from the candidate before, one pair for each candidate: {words}.",
        _candidate_axis(xs),
        Axis(named, min(drawn) / 1.5, max(drawn) * 1.5, log=True),
        tuple(
            points
            for points in (
                Points(xs, deltas, "scale delta", Role.REFERENCE),
                Points(xs, steps, "step from the one before"),
            )
            if any(drawable(y) for y in points.ys)
        ),
    )


def candidate_table(candidates: tuple[CandidateRecord, ...]) -> Table:
    """All that is known of the candidates."""
    labels = ("scale delta", "step", "angle", "rows seen", "accepted", "of expected", "error")
    return Table(
        "Candidates",
        tuple(Column(label) for label in ("candidate", *labels, "wedge bound beta")),
        tuple(
            (
                str(i),
                number(one.delta),
                number(one.step),
                degrees(one.angle),
                count(one.rows_seen),
                count(one.rows_accepted),
                number(acceptance_ratio(one)),
                percent(one.error),
                percent(one.beta),
            )
            for i, one in enumerate(candidates)
        ),
    )


def evidence_figure(judgement: Judgement) -> Figure | None:
    """What a tester measured against what it allows."""
    if not drawable(judgement.limit) or judgement.limit <= 0:
        return None
    items = judgement.evidence
    observed = [f"{number(one.observed)}, expected {number(one.expected)}" for one in items]
    longest = max(judgement.limit, judgement.statistic, *(one.deviation for one in items))
    apart = abs(judgement.null_quantile - judgement.limit) > _LINE_SHARE * longest
    chance = judgement.null_quantile if apart else math.nan
    picture = Comparison(
        f"Evidence of tester {judgement.tester}",
        f"Bars of the deviation of {len(items)} quantities against the limit "
        f"{number(judgement.limit)}; the tester's own statistic is {number(judgement.statistic)}.",
        (f"{judgement.tester}: the statistic", *(one.name for one in items)),
        (number(judgement.statistic), *observed),
        (judgement.statistic, *(one.deviation for one in items)),
        judgement.limit,
        f"limit {number(judgement.limit)}",
        chance,
    )
    labels = ("observed", "expected", "deviation", "limit")
    table = Table(
        f"Evidence of tester {judgement.tester}",
        (Column("quantity", numeric=False), *(Column(label) for label in labels)),
        tuple(
            (one.name, *map(number, (one.observed, one.expected, one.deviation, one.limit)))
            for one in items
        ),
    )
    reached = number(judgement.null_quantile)
    lines = (
        f"Solid line: the limit. Dotted line: chance alone stays below it, {reached}."
        if drawable(chance)
        else f"Line: the limit; chance alone stays below {reached}."
    )
    caption = (
        "Length: deviation from a standard Gaussian in the tester's unit, with the observed and "
        f"the expected value at the right. {lines}"
    )
    return Figure((picture,), caption, (table,))


def rows_figure(rows: int, needed: int, coarser: bool) -> Figure:
    """Rows at hand against rows needed; `coarser` says that a question for fewer can be asked."""
    picture = Comparison(
        "Rows at hand and rows needed",
        f"{count(rows)} rows at hand, about {count(needed)} needed.",
        (f"rows at hand: {count(rows)}",),
        ("",),
        (float(rows),),
        float(needed),
        f"needed {count(needed)}",
    )
    table = Table(
        "Rows",
        (Column("rows", numeric=False), Column("number")),
        (("at hand", count(rows)), ("needed, about", count(needed))),
    )
    caption = (
        "Fewer rows settle a coarser question (a larger eps)."
        if coarser
        else "This is the coarsest question there is: eps cannot be larger."
    )
    return Figure((picture,), caption, (table,))
