"""Sentences: one home for each, and true of what they speak of."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from streamhalf.cli import main
from streamhalf.config import RunConfig
from streamhalf.records import Judgement, Outcome
from streamhalf.report.html import render_report
from streamhalf.report.jupyter import result_html
from streamhalf.report.terminal import fit_sentence
from streamhalf.report.words import (
    TAU,
    fit_headline,
    interval_details,
    outcome_words,
    rejection_sentence,
    worst_judgement,
)
from tests.report.conftest import Results
from tests.report.pages import Page


def judge(statistic: float, outcome: Outcome = Outcome.PASSED) -> Judgement:
    return Judgement("quadratics", outcome, statistic, 0.3, 0.1, 100)


def test_rejection_sentence__is_the_same_everywhere(results: Results) -> None:
    rejected = results.rejected
    judgement = next(one for one in rejected.testers if one.outcome is Outcome.REJECTED)
    said = rejection_sentence(judgement, whitened=False)
    assert said.startswith(f"In pass initial the mean of {judgement.evidence[0].name} is ")
    assert said in fit_sentence(rejected)
    assert said in result_html(rejected)
    assert said in Page(render_report(rejected)).text


def test_evidence__says_that_features_are_whitened(results: Results) -> None:
    plain, whitened = results.rejected, dataclasses.replace(results.rejected, whitened=True)
    for show in (fit_sentence, render_report, result_html):
        assert "whitened features" not in show(plain)
        assert "whitened features" in show(whitened)
    assert "x1, x2, ... are the whitened features" in render_report(whitened)
    assert "Inspect the features behind whitened x1" in render_report(whitened)


def test_interval_details__says_what_the_bound_depends_on(results: Results) -> None:
    certificate = results.accepted.certificate
    assert certificate is not None
    said = interval_details(certificate, 0.01)
    assert "at least (L), whatever the features" in said
    assert "L depends on the direction it is computed from" in said
    assert said in fit_sentence(results.accepted)
    none = dataclasses.replace(certificate.opt, lower_empirical=0.0, lower=0.0)
    advised = dataclasses.replace(certificate, opt=none, ratio=None, advice="about 9 rows help")
    assert "if some halfspace errs on no row, 0 is the answer" in interval_details(advised, 0.01)
    perfect = dataclasses.replace(advised, n_errors=0, error=0.0)
    assert "9 rows" not in interval_details(perfect, 0.01)
    assert "L = 0 is the answer" in interval_details(perfect, 0.01)
    fitted = dataclasses.replace(results.accepted, certificate=perfect)
    assert fit_headline(fitted).startswith("The halfspace is right on all 120,000 rows")


def test_worst_judgement__had_a_say() -> None:
    extra = judge(30.0, Outcome.NOT_JUDGED)
    assert worst_judgement([extra]) is None
    assert worst_judgement([extra, judge(0.1), judge(0.2)]) == judge(0.2)
    rejected = judge(0.1, Outcome.REJECTED)
    assert worst_judgement([judge(np.nan), judge(0.2), rejected]) == rejected
    assert outcome_words(Outcome.NOT_JUDGED, 2) == "2 extra, not judged"
    assert outcome_words(Outcome.PASSED) == "passed"


@pytest.mark.parametrize("command", ["test", "plan", "fit", "certify"])
def test_tau__is_the_same_everywhere(
    command: str, results: Results, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert TAU in " ".join(capsys.readouterr().out.split())
    assert TAU in (RunConfig.__doc__ or "").lower()
    assert f"tau, {TAU}" in render_report(results.accepted)
