"""Verdicts, transforms and methods in words: what holds comes first, and every class is named."""

from __future__ import annotations

import re
from io import StringIO

import pytest
from rich.console import Console

from streamhalf.report.card import result_html
from streamhalf.report.codes import factor, method_words, percent
from streamhalf.report.facts import fact_table
from streamhalf.report.features import class_words, speaking_of
from streamhalf.report.html import render_report
from streamhalf.report.live_html import COLOURS
from streamhalf.report.pictures import candidate_table, path_figure
from streamhalf.report.rejections import leading_rejection, telling_evidence
from streamhalf.report.tables import transform_table
from streamhalf.report.terminal import show_fit
from streamhalf.report.words import (
    fit_headline,
    fit_sentence,
    position_sentence,
    source_sentence,
)
from streamhalf.results import (
    CandidateRecord,
    FitResult,
    HalfspaceClass,
    Method,
    Moment,
    OptRecord,
    Outcome,
    Role,
    Transform,
    TransformRecord,
    TransformTrial,
    Verdict,
    replace,
)
from tests.report.conftest import Results
from tests.report.pages import Page

RADIAL = TransformRecord(Transform.RADIAL, (1.0, 2.0, 3.0), seed=1)
ON_PATH = CandidateRecord(0.5, 0.1, 0.9, 1_000, 480, 0.02, 0.06, 0.01)
MEMBER = replace(
    ON_PATH, method=Method.SQUARES, delta=1.0, rows_seen=0, rows_accepted=0, error=0.05, beta=None
)


def certified(result: FitResult, *, through: HalfspaceClass = HalfspaceClass.ANY) -> FitResult:
    """The same run as one whose certificate is within the factor."""
    assert result.certificate is not None
    opt = OptRecord(0.04, 0.03, through)
    certificate = replace(
        result.certificate,
        error=0.05,
        n_rows=result.data.rows,
        share=1.0,
        n_errors=6_000,
        opt=opt,
        ratio=1.2501,
        through=through,
    )
    return replace(
        result, verdict=Verdict.CERTIFIED, certificate=certificate, opt=opt, ratio=1.2501
    )


def test_certified__says_what_is_proved_and_that_the_tests_do_not_vouch(results: Results) -> None:
    result = certified(results.rejected)
    for said in (
        "every halfspace with any threshold is wrong on at least",
        "of all 120,000 rows. ",
        "proved to be within a factor 1.26 of the best of those",
    ):
        assert said in fit_headline(result)
        assert said in fit_sentence(result)
    for show in (fit_sentence, lambda one: Page(render_report(one)).text, result_html):
        text = show(result)
        assert "The tests do not vouch for it: the features are not standard Gaussian." in text
        assert "These tests support" not in text
        assert "did not confirm it" not in text
    few = certified(results.inconclusive)
    assert "The tests do not vouch for it. No test speaks against the features" in fit_sentence(few)
    assert "For the promise of the tests as well, gather more rows" in Page(render_report(few)).text


def test_certified__has_a_badge_everywhere(results: Results) -> None:
    result = certified(results.rejected)
    assert f"{COLOURS['certified']};color:#fff" in result_html(result)
    page = Page(render_report(result))
    badge = next(one for one in page.all("p") if one.attributes.get("class") == "badge")
    assert badge.text.endswith("Certified")
    out = StringIO()
    show_fit(Console(file=out, width=80, force_terminal=True, color_system="standard"), result)
    assert re.search("\x1b\\[36mCERTIFIED", out.getvalue())
    assert set(Verdict) <= set(COLOURS)


def test_certified__of_a_sample_speaks_of_its_rows(results: Results) -> None:
    result = certified(results.rejected)
    some = replace(result.certificate, share=0.5, n_rows=60_000)
    said = fit_headline(replace(result, certificate=some))
    assert "of the 60,000 rows of the certificate. It is proved to be within a factor 1.26" in said


def test_factor__is_never_below_what_it_is() -> None:
    assert [factor(value) for value in (1.0, 1.2500001, 1.999, 2.0)] == ["1", "1.26", "2", "2"]


def test_rejected__says_first_what_holds(results: Results) -> None:
    result = results.rejected
    assert result.error is not None
    text = fit_sentence(result)
    places = [
        text.index(f"at most {100 * result.error.upper:.3f}% (confidence 99%)"),
        text.index("every halfspace with any threshold is wrong on at least"),
        text.index("More is not promised: they are not standard Gaussian (120,000 rows"),
        text.index("chance alone stays below"),
    ]
    assert places == sorted(places)
    assert fit_headline(result).startswith("The halfspace is wrong on ")
    assert fit_headline(result).endswith("so there is no promise beyond that.")


def test_inconclusive__says_what_was_found_and_what_would_change_it(results: Results) -> None:
    result = results.inconclusive
    assert result.error is not None
    assert result.halfspace is not None
    assert fit_headline(result).startswith("The halfspace is wrong on ")
    for text in (fit_headline(result), fit_sentence(result)):
        assert "300 rows are too few for all of them to pass: about" in text
        assert f"{result.rows_needed:,} rows would settle it" in text
        assert f"at most {100 * result.error.upper:.3f}% (confidence 99%)" in text


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Transform.ISOTROPIC, "through the mean of the features"),
        (Transform.RADIAL, "through the estimated centre"),
    ],
)
def test_class_words__name_the_centre_of_the_position(
    results: Results, kind: Transform, said: str
) -> None:
    assert class_words(HalfspaceClass.CENTRE) == "through the centre"
    assert class_words(HalfspaceClass.ORIGIN) == "through the origin"
    transform = TransformRecord(kind, (1.0, 2.0, 3.0))
    with speaking_of(replace(results.accepted, feature_transform=transform)):
        assert class_words(HalfspaceClass.CENTRE) == said
        assert class_words(HalfspaceClass.ANY) == "with any threshold"
        # the certificate of all halfspaces is in an affine transform about the same centre
        affine = TransformRecord(Transform.ISOTROPIC, transform.centre)
        own = replace(results.radial.certificate, transform=affine)
        assert class_words(HalfspaceClass.CENTRE, own) == said


def test_radial__is_never_whitened_nor_about_the_mean(results: Results) -> None:
    result = results.radial
    assert result.transform.kind == Transform.RADIAL
    for show in (fit_sentence, render_report, result_html):
        text = " ".join(show(result).split())
        assert "whitened" not in text
        assert "mean of the features" not in text
        assert "opt is the least error of a halfspace through the estimated centre" in text
        assert "the tests are about every elliptical law (Gaussian, Student, Cauchy)" in text
        assert "with lengths and signs drawn anew" in text
    assert position_sentence(result).startswith(
        "Transform: radial, the first of stored, isotropic and radial that nothing speaks against."
    )
    assert ("transform of the rows", "radial") in fact_table(result).rows


def trials(result: FitResult) -> tuple[TransformTrial, ...]:
    """A rejection by a sample, a transform that does not exist, and a rejection by a run."""
    rejection = leading_rejection(result.testers)
    assert rejection is not None
    evidence = replace(rejection.evidence[0], subject=Moment((1, 1)), observed=3.0, expected=1.0)
    found = replace(rejection, evidence=(evidence,))
    return (
        TransformTrial(Transform.STORED, Outcome.REJECTED, found),
        TransformTrial(Transform.ISOTROPIC, Outcome.REJECTED, problem="size is constant"),
        TransformTrial(Transform.RADIAL, Outcome.REJECTED, found, tried=True),
    )


def test_position_table__tells_of_each_what_speaks_most_against_it(results: Results) -> None:
    plain = results.rejected
    data = replace(plain.data, features=("age", "size", "weight"))
    result = replace(plain, data=data, transform=RADIAL, transforms=trials(plain))
    assert transform_table(result).rows == (
        ("stored", "rejected", "a sample", "size²: 3, a Gaussian has 1"),
        ("isotropic", "impossible", "a sample", "size is constant"),
        ("radial, taken", "rejected", "held-out rows", "size²: 3, a Gaussian has 1"),
    )
    said = "Transform: radial; the features pass the tests in none of the three."
    assert position_sentence(result).startswith(said)
    assert "In no transform (stored, isotropic, radial) do the features pass" in fit_headline(
        result
    )
    assert Page(render_report(result)).body("Positions")[1][-1] == "size is constant"
    out = StringIO()
    show_fit(Console(file=out, width=80), result)
    assert max(map(len, out.getvalue().splitlines())) <= 80
    assert "radial, taken" in out.getvalue()


def test_position_sentence__says_why(results: Results) -> None:
    accepted = results.accepted
    passed = tuple(TransformTrial(kind, Outcome.PASSED) for kind in Transform)
    chosen = replace(accepted, transforms=passed)
    assert position_sentence(chosen) == (
        "Transform: stored; nothing speaks against the rows as they are."
    )
    early = (replace(passed[0], outcome=Outcome.REJECTED), *passed[1:])
    assert "others were not tried" in position_sentence(replace(accepted, transforms=early))
    assert position_sentence(replace(accepted, transforms=())) == ""
    given = replace(accepted, transforms=(), transform=TransformRecord(Transform.ISOTROPIC))
    assert position_sentence(given).startswith("Transform: isotropic. Rows are centred and scaled")


def test_candidates__of_the_pool_have_no_scale_and_no_rows() -> None:
    table = candidate_table((ON_PATH, MEMBER))
    rows = [dict(zip(table.labels, row, strict=True)) for row in table.rows]
    assert rows[0]["found by"] == "localised updates"
    assert (rows[0]["scale delta"], rows[0]["rows seen"], rows[0]["step"]) == (
        "0.5",
        "1,000",
        "0.1",
    )
    assert rows[1]["found by"] == "local least squares"
    assert rows[1]["error"] == "5.000%"
    absent = ("scale delta", "step", "rows seen", "accepted", "of expected", "wedge bound beta")
    assert {rows[1][label] for label in absent} == {"–"}
    figure = path_figure((ON_PATH, ON_PATH, MEMBER), 2, None)
    assert figure is not None
    assert "learnt from a sample" in figure.caption
    alone = path_figure((ON_PATH, ON_PATH), 1, None)
    assert alone is not None
    assert "sample" not in alone.caption


def test_source_sentence__names_the_recipe_of_the_winner(results: Results) -> None:
    result = replace(results.accepted, candidates=(ON_PATH, MEMBER), chosen=1)
    said = source_sentence(result)
    assert said.startswith(
        "The halfspace was found by local least squares, and chosen on the held-out rows among 2"
    )
    assert "this halfspace is wrong on fewer held-out rows than any of those" in said
    worse = replace(result, candidates=(replace(ON_PATH, error=0.04), MEMBER))
    assert "errs less" not in source_sentence(worse)
    assert source_sentence(replace(result, candidates=(ON_PATH,), chosen=0)) == ""
    assert all(method_words(one) for one in Method)


def test_slabs__of_another_candidate_say_so(results: Results) -> None:
    accepted = results.accepted
    members = tuple(replace(MEMBER, method=Method.REGRESSION) for _ in range(2))
    path = tuple(one for one in accepted.candidates if one.method is Method.PATH)
    moved = replace(accepted, candidates=(*path, *members), chosen=len(path))
    own = replace(accepted, candidates=path, chosen=len(path) - 1)
    said = "This is along the last candidate of the path, which the tests are about"
    assert Page(render_report(moved)).text.count(said) == 2
    assert said not in Page(render_report(own)).text


def test_telling_evidence__is_beyond_chance(results: Results) -> None:
    rejection = leading_rejection(results.rejected.testers)
    assert rejection is not None
    small = replace(rejection.evidence[0], deviation=0.5 * rejection.null_quantile)
    large = replace(small, deviation=2 * rejection.null_quantile)
    assert telling_evidence(replace(rejection, evidence=(small, large))) == large
    assert telling_evidence(replace(rejection, evidence=(small,))) == small
    assert telling_evidence(replace(rejection, evidence=(), role=Role.EXTRA)) is None


def test_found__has_the_error_on_the_rows_of_a_bound_above_it(results: Results) -> None:
    """The two are of different rows: alone, they read as if the halfspace beat every halfspace."""
    certificate = results.certified.certificate
    assert certificate is not None
    result = replace(results.certified, certificate=replace(certificate, share=0.5))
    assert result.error is not None
    assert result.certificate is not None
    lower, counted = result.certificate.opt.lower_empirical, percent(result.certificate.error)
    rows = f"the {result.certificate.n_rows:,} rows of the certificate"
    both = f", and on {counted} of {rows}; every halfspace"
    lucky = replace(result, error=replace(result.error, empirical=0.9 * lower))
    usual = replace(result, error=replace(result.error, empirical=1.1 * lower))
    for say in (fit_headline, fit_sentence):
        assert both in say(lucky)
        assert both not in say(usual)
