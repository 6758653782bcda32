"""Sentences about results: each is a macro of templates/words.txt.j2, whoever shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamhalf.records import FitResult, MomentTestResult
from streamhalf.report.jinja import macro

TAU = "probability of a wrong statement"
"""What tau is, wherever it is named."""


def _say(name: str) -> Callable[..., str]:
    """The sentences of a macro, a line for each."""
    write = macro("words.txt.j2", name)

    def say(*values: Any, **named: Any) -> str:
        parts = (" ".join(part.split()) for part in write(*values, **named).split("\n\n"))
        return "\n".join(part for part in parts if part)

    return say


fit_headline = _say("fit_headline")
fit_sentence = _say("fit_sentence")
certify_headline = _say("certify_headline")
certify_details = _say("certify_details")
certify_sentence = _say("certify_sentence")
moment_sentence = _say("moment_sentence")
interval_sentence = _say("interval_sentence")
interval_details = _say("interval_details")
rejection_sentence = _say("rejection_sentence")
evidence_sentence = _say("evidence_sentence")
evidence_features = _say("evidence_features")
first_moment_sentence = _say("first_moment_sentence")
remedy = _say("remedy")
through = _say("through")


def fit_details(result: FitResult) -> list[str]:
    """What an expert wants to know next; nothing that the headline has said."""
    return _say("fit_details")(result).splitlines()


def result_suggestions(result: FitResult | MomentTestResult) -> list[str]:
    """What to do about the leading rejection of a result; nothing where there is none."""
    return _say("result_suggestions")(result).splitlines()


def fit_advice(result: FitResult) -> list[str]:
    """What to do about a verdict that is none."""
    return _say("fit_advice")(result).splitlines()
