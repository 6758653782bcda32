"""Sentences about results: each is a macro of a template in templates/, whoever shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamhalf.report.features import speaking_of
from streamhalf.report.jinja import macro

TAU = "probability of a wrong statement"
"""What tau is, wherever it is named."""

_CAPTIONS = "captions.txt.j2"


def _say(name: str, file: str = "words.txt.j2") -> Callable[..., str]:
    """The sentences of a macro, a line for each."""
    write = macro(file, name, TAU=TAU)

    def say(*values: Any, **named: Any) -> str:
        with speaking_of(values[0] if values else None):
            text = write(*values, **named)
        parts = (" ".join(part.split()) for part in text.split("\n\n"))
        return "\n".join(part for part in parts if part)

    return say


def _say_each(name: str) -> Callable[..., list[str]]:
    """The sentences of a macro, one by one."""
    say = _say(name)
    return lambda *values: say(*values).splitlines()


fit_headline = _say("fit_headline")
fit_sentence = _say("fit_sentence")
source_sentence = _say("source_sentence")
certify_headline = _say("certify_headline")
certify_details = _say("certify_details")
certify_sentence = _say("certify_sentence")
moment_sentence = _say("moment_sentence")
suspects_sentence = _say("suspects_sentence")
interval_sentence = _say("interval_sentence")
interval_details = _say("interval_details")
rejection_sentence = _say("rejection_sentence")
evidence_sentence = _say("evidence_sentence")
evidence_features = _say("evidence_features")
first_moment_sentence = _say("first_moment_sentence")
evidence_caption = _say("evidence_caption", _CAPTIONS)
rows_caption = _say("rows_caption", _CAPTIONS)
slab_distance = _say("slab_distance", _CAPTIONS)
moment_caption = _say("moment_caption", _CAPTIONS)
plan_sentence = _say("plan_sentence", _CAPTIONS)
plan_details = _say("plan_details", _CAPTIONS)
dry_run_sentence = _say("dry_run_sentence", _CAPTIONS)
dry_run_details = _say("dry_run_details", _CAPTIONS)
remedy = _say("remedy")
position_sentence = _say("position_sentence")

fit_details = _say_each("fit_details")
fit_advice = _say_each("fit_advice")
result_suggestions = _say_each("result_suggestions")
result_sentences = _say_each("result_sentences")
