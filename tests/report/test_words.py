"""Sentences: one home for each, and true of what they speak of."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import streamhalf
from streamhalf.cli import main
from streamhalf.config import RunConfig
from streamhalf.report.card import result_html
from streamhalf.report.codes import advice_words, evidence_name
from streamhalf.report.html import render_report
from streamhalf.report.rejections import leading_doubt, leading_rejection, telling_evidence
from streamhalf.report.tables import label_table
from streamhalf.report.test_results import wedge_angle
from streamhalf.report.words import (
    TAU,
    certify_headline,
    certify_sentence,
    fit_advice,
    fit_headline,
    fit_sentence,
    interval_details,
    interval_sentence,
    rejection_sentence,
    result_suggestions,
)
from streamhalf.results import (
    Advice,
    AdviceCode,
    FitResult,
    HalfspaceClass,
    LabelErrors,
    Moment,
    Notice,
    NoticeCode,
    OptRecord,
    Outcome,
    PromiseRecord,
    Role,
    SegmentQuantity,
    Transform,
    TransformRecord,
    Verdict,
    replace,
)
from tests.report.conftest import Results
from tests.report.pages import Page

ISOTROPIC = TransformRecord(Transform.ISOTROPIC)


def test_rejection_sentence__is_the_same_everywhere(results: Results) -> None:
    rejected = results.rejected
    test_result = leading_rejection(rejected.testers)
    assert test_result is not None
    said = rejection_sentence(test_result, "stored")
    first = evidence_name(test_result.evidence[0])
    assert said.startswith(f"In pass final the mean of {first} is ")
    assert f"(the mean of {first} is " in fit_headline(rejected)
    assert said in fit_sentence(rejected)
    assert said in result_html(rejected)
    assert said in Page(render_report(rejected)).text


def test_evidence__says_that_features_are_whitened(results: Results) -> None:
    plain, whitened = results.rejected, replace(results.rejected, transform=ISOTROPIC)
    for show in (fit_sentence, render_report, result_html):
        assert "(whitened)" not in show(plain)
        assert "(whitened)" in show(whitened)
    assert "Features are whitened: each is its column, centred" in render_report(whitened)
    assert "Inspect x₁" in render_report(whitened)


def test_interval_details__says_what_the_bound_depends_on(results: Results) -> None:
    certificate = results.accepted.certificate
    assert certificate is not None
    said = interval_details(certificate, 0.01)
    assert "at least (L), whatever the features" in said
    assert "L depends on the direction it is computed from" in said
    assert "every halfspace through the origin is wrong on at least" in fit_sentence(
        results.accepted
    )
    assert "proved to be within a factor" in fit_sentence(results.accepted)
    assert "L depends on" not in fit_sentence(results.accepted)
    none = replace(certificate.opt, lower_empirical=0.0, lower=0.0)
    advised = replace(
        certificate, opt=none, ratio=None, advice=Advice(AdviceCode.MORE_ROWS, rows=9)
    )
    assert "Either one of them errs on no row, or more is needed" in interval_details(advised, 0.01)
    perfect = replace(advised, n_errors=0, error=0.0)
    assert "9 rows" not in interval_details(perfect, 0.01)
    assert "L = 0 is the answer" in interval_details(perfect, 0.01)
    fitted = replace(results.accepted, certificate=perfect)
    assert fit_headline(fitted).startswith("The halfspace is right on all 120,000 rows")


def test_leading_rejection__is_the_strongest_that_the_guarantee_rests_on(results: Results) -> None:
    first = leading_rejection(results.rejected.testers)
    assert first is not None
    stronger = replace(first, tester="second moment", statistic=10 * first.statistic)
    extra = replace(first, tester="quadratics", statistic=100 * first.statistic)
    passed = replace(extra, outcome=Outcome.PASSED)
    assert leading_rejection([passed]) is None
    assert leading_rejection([passed, extra]) == extra
    close = replace(extra, statistic=50 * first.statistic)
    assert leading_rejection([close, first, stronger]) == stronger
    far = replace(extra, statistic=1e4 * first.statistic)  # it names directions, not features
    assert leading_rejection([far, first, stronger]) == far
    localised = replace(stronger, scale=0.25, statistic=100 * first.statistic)
    assert leading_rejection([localised, first]) == first  # off in all rows, off everywhere
    assert leading_rejection([replace(stronger, role=Role.EARLY)]) is None
    led = replace(results.rejected, testers=(first, stronger))
    assert result_suggestions(led) == result_suggestions(results.rejected)


@pytest.mark.parametrize("command", ["test", "plan", "fit", "certify"])
def test_tau__is_the_same_everywhere(
    command: str, results: Results, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--help"]) == 0
    assert TAU in " ".join(capsys.readouterr().out.split())
    assert TAU in (RunConfig.__doc__ or "").lower()
    assert f"tau, {TAU}" in render_report(results.accepted)


def whitened_of(result: Any) -> Any:
    """The same result, as one in the isotropic transform is."""
    opt = replace(result.opt, through=HalfspaceClass.CENTRE)
    certificate = replace(result.certificate, opt=opt, through=HalfspaceClass.CENTRE, bounds=(opt,))
    error = replace(result.error, through=HalfspaceClass.CENTRE)
    return replace(result, transform=ISOTROPIC, error=error, opt=opt, certificate=certificate)


def test_whitened__certificates_speak_of_halfspaces_through_the_mean(results: Results) -> None:
    plain, certified = results.accepted, results.certificate
    whitened, moved = whitened_of(plain), whitened_of(certified)
    for show in (fit_sentence, fit_headline, render_report, result_html):
        assert "through the origin" in show(plain)
        assert "through the mean" not in show(plain)
        assert "through the mean of the features" in show(whitened)
        assert "through the origin" not in show(whitened)
    for page in (render_report(moved), result_html(moved), certify_headline(moved)):
        assert "through the mean of the features" in page
        assert "through the origin" not in page


def erring(result: FitResult, error: float, lower: float) -> FitResult:
    """The same result with another error and bound."""
    assert result.error is not None
    return replace(
        result,
        error=replace(result.error, empirical=error),
        opt=OptRecord(lower, lower),
    )


@pytest.mark.parametrize(
    ("error", "lower", "said"),
    [
        (0.495, 0.0, "No better than a coin toss: the halfspace is wrong on 49.500%"),
        (0.42, 0.1, "Hardly better than a coin toss: the halfspace is wrong on 42.000%"),
        (0.495, 0.45, "every halfspace through the origin is wrong on 45.000% at least"),
    ],
)
def test_accepted__says_that_it_is_of_no_use(
    results: Results, error: float, lower: float, said: str
) -> None:
    result = erring(results.accepted, error, lower)
    assert fit_sentence(result).startswith(fit_headline(result))
    assert said in fit_headline(result)
    assert said in Page(render_report(result)).text
    assert "coin" not in render_report(results.accepted)


@pytest.mark.parametrize("through", ["any", "centre"])
def test_one_class__is_told_first_and_not_accepted(through: str) -> None:
    X = np.random.default_rng(8).standard_normal((100_000, 2))
    for label, said in ((1, "All labels are +1, "), (-1, "All labels are -1, ")):
        labels = np.full(len(X), label)
        result = streamhalf.fit((X, labels), eps=0.25, certificate_degree=0, through=through)
        assert result.verdict == "inconclusive"
        assert result.rows_needed is None
        assert "rows" not in " ".join(fit_advice(result))
        assert fit_headline(result).startswith(said)
        assert fit_sentence(result).startswith(said)
        assert "must beat the constant guess" in fit_sentence(result)
        assert "no better than always guessing" not in fit_sentence(result)
        assert render_report(result).count(said) == 1


def advice(X: np.ndarray) -> tuple[str, str]:
    """What a fit and a moment test advise about these features."""
    y = np.where(X[:, 0] > X[:, 0].mean(), 1, -1)
    fitted, tested = (
        run((X, y), feature_transform="stored", **more)
        for run, more in ((streamhalf.fit, {"eps": 0.25}), (streamhalf.test, {}))
    )
    return " ".join(result_suggestions(fitted)), " ".join(result_suggestions(tested))


def test_suggestions__whitening_is_for_means_and_covariances_alone() -> None:
    X = np.random.default_rng(9).standard_normal((100_000, 3))
    for text in advice(X * 1000 + 5000):
        assert "--feature-transform auto" in text
    for text in advice(X**3):
        assert "--feature-transform auto" not in text
        assert "shape of the features differs" in text
    for text in advice(np.column_stack([X[:, :2], np.full(len(X), 7.0)])):
        assert text.startswith("Feature x₃ is constant: remove it")


def test_rejection_sentence__tells_one_quantity_with_its_own_limit() -> None:
    X = 1000 * np.random.default_rng(9).standard_normal((100_000, 2)) + 5000
    (first, *_) = streamhalf.test((X, np.ones(len(X))), feature_transform="stored").testers
    said = rejection_sentence(first, "stored")
    assert first.statistic > 1e9
    assert "e+" not in said
    assert f"off by {first.evidence[0].deviation:.4g}; the limit is 0.1" in said
    assert "chance alone stays below" in said


def test_interval__of_two_classes_is_none(results: Results) -> None:
    advice = Advice(AdviceCode.OTHER_CLASS, through=HalfspaceClass.ORIGIN)
    old = results.certificate.certificate
    for lower, n_errors in ((old.opt.lower_empirical, old.n_errors), (0.0, 5), (0.04, 0)):
        opt = OptRecord(lower, lower / 2, HalfspaceClass.ORIGIN)
        certificate = replace(
            old,
            n_errors=n_errors,
            error=n_errors / old.n_rows,
            opt=opt,
            ratio=None,
            advice=advice,
            through=HalfspaceClass.ANY,
        )
        error = replace(results.certificate.error, empirical=n_errors / old.n_rows)
        result = replace(results.certificate, error=error, opt=opt, certificate=certificate)
        page = render_report(result)
        assert interval_sentence(certificate) in page
        assert "It is not through the origin; of those that are" in page
        assert "so they have no ratio" in page
        assert "Certified interval" not in page  # there is none between U and L
        for text in (page, certify_headline(result), result_html(result)):
            assert "tight" not in text
            assert "L = 0 is the answer" not in text
            assert "Their ratio" not in text
    assert advice_words(advice) == (
        "the halfspace does not go through the origin, L is for halfspaces that do: the two cannot "
        "be compared"
    )


def test_errors_that_disagree__lead_the_report(results: Results) -> None:
    found = Notice.of(NoticeCode.ERRORS_DISAGREE, held_out=0.001, upper=0.0014, all_rows=0.05086)
    said = "The errors disagree: held-out rows say 0.100%, 0.140% at most, but on all rows it is "
    for fit in (results.accepted, results.rejected):
        result = replace(fit, notices=(found, *fit.notices))
        page = Page(render_report(result))
        headline = next(one for one in page.all("p") if one.attributes.get("class") == "headline")
        for text in (fit_headline(result), fit_sentence(result), headline.text):
            assert text.startswith(said)
        assert page.text.count("The errors disagree") == 1
        assert said in result_html(result)
        assert fit_headline(result).endswith(fit_headline(fit))


def test_repeated_rows__are_said(results: Results) -> None:
    result = replace(
        results.accepted, notices=(Notice.of(NoticeCode.REPEATED_ROWS, share=0.25, times=1.2),)
    )
    said = "about 25.000% of the rows are met more than once (a row 1.2 times on average)"
    assert said in fit_sentence(result).replace("About", "about")
    assert said in Page(render_report(result)).text
    assert said in result_html(result).replace("About", "about")


def test_advice_words__name_the_option() -> None:
    advice = Advice(AdviceCode.HIGHER_DEGREE, degree=6)
    assert advice_words(advice) == "`--certificate-degree 6` would tighten it"


def test_promise__has_its_number_and_says_what_it_is(results: Results) -> None:
    result = replace(
        results.accepted, constant=5.01, eps=0.125, seed_drawn=True, rows_for_five=9_000
    )
    said = (
        "These tests support: error at most 5.1 opt + 0.125, whichever labels were flipped; opt is "
        "the least error of a halfspace through the origin. 5.1 is a lower bound on the worst "
        "case: the worst that a linear program found over a family of laws (in a plane, on a grid) "
        "that pass tests like these, not a theorem. In numbers: if opt were as large "
        "as the error above, that would allow "
    )
    for show in (fit_sentence, render_report, result_html):
        assert said in show(result)
        assert "within a constant" not in show(result)
        assert "did not know the seed" not in show(result)
        assert "About 9,000 rows would support 5 at this eps." in show(result)
        assert "provided that whoever flipped them did not know the seed" in show(
            replace(result, seed_drawn=False)
        )
        assert "which says nothing" not in show(result)
        weak = replace(result, eps=0.45)
        assert ", which says nothing." in show(weak)
        assert "would support 5" not in show(replace(result, constant=4.99))
    assert "Proved of the held-out rows looked at" in fit_sentence(result)


def test_promise__without_a_number_says_why(results: Results) -> None:
    result = replace(results.accepted, constant=None)
    sketched = tuple(replace(one, directions=24) for one in result.testers)
    old = replace(result, promises=())
    finer = replace(result, promises=(PromiseRecord(0.01, 0.005, 0.1, None, 0.01),))
    for case, said in (
        (replace(result, testers=sketched), "at every scale (of 3 features, only a sketch"),
        (result, "not tested in every direction at every scale (that takes moments of degree 4"),
        (finer, "the program that looks for C stops at a scale of 0.01562, eps = 0.007812."),
        (old, "This older document does not say which number C"),
    ):
        for show in (fit_sentence, render_report, result_html):
            assert said in show(case)
            assert "These tests support" not in show(case)


def test_promise__with_a_threshold_has_no_number(results: Results) -> None:
    accepted = results.accepted
    moved = tuple(replace(one, threshold=1.2) for one in accepted.candidates)
    bare = tuple(replace(one, constant=None, deviation=None) for one in accepted.promises)
    result = replace(accepted, constant=None, candidates=moved, promises=bare)
    known = replace(result, opt=replace(accepted.opt, through=HalfspaceClass.ANY))
    for show in (fit_sentence, render_report, result_html):
        assert "for those no number C in “error at most C opt + eps” is known." in show(result)
        assert "is known; what is proved of them is the certificate." in show(known)
        assert "quadratics were not tested" not in " ".join(show(result).split())


def test_interval__names_the_bounds_of_both_classes(results: Results) -> None:
    found = results.accepted.certificate
    assert found is not None
    plain = replace(
        found, opt=OptRecord(0.04, 0.03, HalfspaceClass.ORIGIN), through=HalfspaceClass.ORIGIN
    )
    known = {name: getattr(plain, name) for name in plain.__struct_fields__}
    every = OptRecord(0.03, 0.02, HalfspaceClass.ANY)
    known |= {"comparable": True, "bounds": (plain.opt, every)}
    known |= {"threshold_low": -0.25, "threshold_high": 0.5}
    said = interval_details(SimpleNamespace(**known), 0.01)
    assert "Their ratio is" in said
    assert " Of halfspaces with any threshold, each errs on 3.000% at least. For the" in said
    assert "away from it, with thresholds from -0.25 to 0.5; " in said
    assert "with any threshold" not in interval_details(replace(plain, bounds=()), 0.01)
    known |= {"opt": every, "through": HalfspaceClass.ANY}
    said = interval_sentence(SimpleNamespace(**known))
    assert "any other halfspace with any threshold errs on 3.000% at least (L)" in said
    assert "Of halfspaces through the origin, each errs on" in said


def test_wedge__of_any_halfspace_says_how_far_it_may_move(results: Results) -> None:
    accepted = results.accepted
    assert "of this one disagrees with it on" in fit_sentence(accepted)
    any_one = replace(accepted, error=replace(accepted.error, through=HalfspaceClass.ANY))
    shift = re.search(
        r"of this one whose threshold differs by (0\.\d+) at most disagrees", fit_sentence(any_one)
    )
    assert shift is not None
    assert float(shift[1]) < wedge_angle(any_one)  # of normals of length 1, not of t' / cos


def test_promise__of_any_halfspace_says_whom_it_compares_with(results: Results) -> None:
    accepted = results.accepted
    assert "For halfspaces with a threshold" not in fit_sentence(accepted)
    any_one = replace(accepted, error=replace(accepted.error, through=HalfspaceClass.ANY))
    said = fit_sentence(any_one)
    assert "opt is the least error of a halfspace through the origin" in said
    assert "For halfspaces with a threshold no such number is known." in said


def guessed(result: FitResult, *notices: Notice, **changes: Any) -> FitResult:
    """A result whose labels are rare, with these notices."""
    labels = LabelErrors(4_000, 56_000, 2_500, 500)
    error = replace(result.error, empirical=0.05, upper=0.055, by_label=labels)
    return replace(result, error=error, notices=notices, **changes)


def test_guess__stands_beside_the_error(results: Results) -> None:
    result = guessed(results.accepted, certificate=None)
    said = fit_sentence(result)
    assert said.startswith(
        "The halfspace is wrong on 5.000% of rows it did not learn from, at most 5.500%"
    )
    assert "always guessing -1 is wrong on 6.667% of them" in said
    page = Page(render_report(result))
    assert "always guessing -1 is wrong on 6.667% of them" in page.text
    assert page.body("By label") == [
        ["+1", "4,000", "2,500", "62.500%"],
        ["-1", "56,000", "500", "0.893%"],
        ["both", "60,000", "3,000", "5.000%"],
        ["balanced (mean of the two)", "–", "–", "31.696%"],
        ["always guessing -1", "60,000", "4,000", "6.667%"],
    ]
    assert "31.696%" in result_html(result)
    assert "always guessing -1 on" in certify_sentence(results.certificate)


def test_guess__that_does_as_well_is_told_first_and_why_it_is_not_accepted(
    results: Results,
) -> None:
    notice = Notice.of(NoticeCode.NO_BETTER_THAN_GUESS, label=-1, error=0.0667)
    changes = {"verdict": Verdict.INCONCLUSIVE, "rows_needed": None}
    result = guessed(results.accepted, notice, **changes)
    first = "The halfspace is no better than always guessing -1, which is wrong on 6.670%"
    for show in (fit_headline, fit_sentence):
        assert show(result).startswith(first)
        assert "Not accepted: a halfspace must beat the constant guess" in show(result)
        assert "These tests support" not in show(result)
    assert "Look for features that tell the labels apart" in fit_sentence(result)
    page = render_report(result)
    assert page.count("no better than always guessing") == 1
    assert "What the tests support" not in page
    few = guessed(results.accepted, notice, **{**changes, "rows_needed": 9_999_999})
    assert fit_headline(few).startswith(first)
    assert "about 9,999,999 rows would settle it" in fit_headline(few)


def test_rare_label__is_told_first(results: Results) -> None:
    result = guessed(results.rejected, Notice.of(NoticeCode.NEARLY_ONE_CLASS, label=1, share=0.004))
    said = "Only 0.400% of the rows have label +1: always guessing -1 is wrong on no more than"
    for show in (fit_headline, fit_sentence):
        assert show(result).startswith(said)
    assert render_report(result).count("Only 0.400% of the rows") == 1


def test_label_table__an_absent_label_has_no_rate(results: Results) -> None:
    alone = replace(results.accepted.error, by_label=LabelErrors(0, 10, 0, 3))
    rows = label_table(replace(results.accepted, error=alone)).rows
    assert [row[-1] for row in rows] == ["–", "30.000%", "30.000%", "–", "0.000%"]
    old = replace(results.accepted.error, by_label=None)
    assert label_table(replace(results.accepted, error=old)).rows == ()
    assert "always guessing" not in fit_sentence(replace(results.accepted, error=old))


def test_promise__is_made_only_where_the_tests_passed(results: Results) -> None:
    assert "These tests support" in fit_sentence(results.accepted)
    for result in (results.rejected, results.inconclusive):
        for show in (fit_sentence, render_report, result_html):
            assert "These tests support" not in show(replace(result, constant=5.0))


def test_rejected__says_what_holds_all_the_same(results: Results) -> None:
    result = results.rejected
    assert result.error is not None
    for show in (fit_sentence, render_report, result_html):
        assert f"at most {100 * result.error.upper:.3f}% (confidence 99%)" in show(result)
        assert "This holds whatever the features are" in show(result)
        assert "ore is not promised" in show(result)


@pytest.mark.parametrize(
    ("rows_needed", "notice", "said"),
    [
        (
            9_000,
            None,
            "120,000 rows are too few for all of them to pass: about 9,000 rows would",
        ),
        (
            9_000,
            Notice.of(NoticeCode.EPS_NOT_REACHED, asked=0.1, reached=0.2, noise=False),
            "would settle it at accuracy eps = 0.1. These rows reach eps = 0.2.",
        ),
        (
            None,
            Notice.of(NoticeCode.EPS_NOT_REACHED, asked=0.1, reached=0.2, noise=True),
            "The eps that was asked for, 0.1, was not reached (0.2 was): label noise is larger "
            "than that scale, and more rows would not help.",
        ),
    ],
)
def test_inconclusive__has_its_reasons(
    results: Results, rows_needed: int | None, notice: Notice | None, said: str
) -> None:
    result = replace(
        results.accepted,
        verdict=Verdict.INCONCLUSIVE,
        eps=0.1,
        constant=None,
        rows_needed=rows_needed,
        notices=() if notice is None else (notice,),
    )
    assert said in fit_headline(result)
    assert said in Page(render_report(result)).text
    larger = notice.code is NoticeCode.EPS_NOT_REACHED and notice["noise"]
    assert ("Ask for a larger `--eps`" in fit_sentence(result)) is larger


def test_telling_evidence__is_the_strongest_unless_a_low_degree_is_clear(results: Results) -> None:
    test_result = leading_rejection(results.rejected.testers)
    assert test_result is not None
    one = test_result.evidence[0]
    skew = replace(one, subject=Moment((0, 0, 0)), deviation=0.107, limit=0.1)
    tails = replace(one, subject=Moment((0, 0, 0, 0)), deviation=0.82, limit=0.1)
    weak = replace(test_result, null_quantile=0.02, evidence=(skew, tails))
    assert telling_evidence(weak) == tails
    assert "mean of x₁⁴" in rejection_sentence(weak, "stored")
    mean = replace(one, subject=Moment((0,)), deviation=0.5, limit=0.1)
    assert telling_evidence(replace(weak, evidence=(mean, tails))) == mean


def test_inconclusive__says_what_was_seen_and_what_would_change_it(results: Results) -> None:
    result = results.inconclusive
    said = fit_headline(result)
    assert "No test speaks against the features, but 300 rows are too few" in said
    assert f"about {result.rows_needed:,} rows would settle it" in said
    doubt = leading_doubt(result.testers)
    assert doubt is not None
    assert f"Tester “{doubt.tester}” saw {doubt.statistic:.4g}" in said
    assert f"chance alone reaches {doubt.null_quantile:.4g}" in said


def test_early_warning__is_one_line_where_nothing_confirmed_it(results: Results) -> None:
    early = replace(
        results.accepted.testers[0],
        tester="second moment",
        outcome=Outcome.REJECTED,
        pass_name="update-3",
        role=Role.EARLY,
    )
    result = replace(results.accepted, testers=(*results.accepted.testers, early))
    said = "Tester “second moment” warned in pass update-3, of that pass's own rows; the tests on"
    for show in (fit_sentence, lambda one: Page(render_report(one)).text):
        assert show(result).count(said) == 1
        assert said not in show(replace(result, verdict=Verdict.REJECTED))
    assert leading_rejection(result.testers) is None


def test_held_out__says_how_the_bound_was_had(results: Results) -> None:
    result = results.accepted
    assert result.error is not None
    said = "The bound is for all rows of these data and, if rows are independent, for new rows"
    bare = replace(result, certificate=None, opt=None)
    for one in (result, bare):
        assert said in fit_sentence(one)
        upper = f"{100 * result.error.upper:.3f}%"
        assert fit_sentence(one).count(upper) == 1
    clustered = replace(bare, error=replace(result.error, segments=64))
    assert "from the means of 64 segments of rows, as errors come in clusters" in fit_sentence(
        clustered
    )


def test_row_notices__go_with_every_verdict(results: Results) -> None:
    notices = (
        Notice.of(
            NoticeCode.ROWS_IN_ORDER, quantity=SegmentQuantity.LABEL, feature=None, factor=31.0
        ),
        Notice.of(NoticeCode.ERRORS_CLUSTER, segments=64, factor=14.0),
        Notice.of(NoticeCode.REPEATED_ROWS, share=0.25, times=1.2),
    )
    for one in (results.accepted, results.rejected, results.inconclusive):
        result = replace(one, notices=notices)
        for show in (fit_sentence, render_report, result_html):
            for said in ("ows come in an order", "rrors come in clusters", "met more than once"):
                assert said in show(result)


def test_bound__says_what_must_be_independent(results: Results) -> None:
    fitted, certified = results.accepted, results.certificate
    said = {
        None: ("if rows are independent, for new rows", "if they are independent"),
        64: ("if segments of rows are independent, for new rows", "if segments of them are"),
        1: ("and not for new ones", "Nothing is said about the source of the rows"),
    }
    for segments, (of_fit, of_certify) in said.items():
        fit, weights = (
            replace(one, error=replace(one.error, segments=segments)) for one in (fitted, certified)
        )
        assert of_fit in fit_sentence(fit)
        assert of_certify in certify_sentence(weights)
        assert of_certify in " ".join(Page(render_report(weights)).text.split())
