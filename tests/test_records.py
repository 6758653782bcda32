from __future__ import annotations

import dataclasses
import enum
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamhalf
from streamhalf import DataError, MomentTestResult, Outcome, Verdict
from streamhalf.records import (
    Evidence,
    Halfspace,
    Judgement,
    PassRecord,
    Versions,
    from_json,
    overall_outcome,
    to_json,
)
from tests.conftest import make_rows

ROWS = make_rows(300, 2)


@pytest.fixture(scope="module")
def result() -> MomentTestResult:
    return streamhalf.test(ROWS, scheduler="serial", whiten=True)


def change(document: Any, place: tuple[Any, ...], value: Any) -> Any:
    """A copy of a JSON document with the value at a place replaced, or removed by `...`."""
    document = json.loads(json.dumps(document))
    *path, last = place
    target = document
    for key in path:
        target = target[key]
    if value is ...:
        del target[last]
    else:
        target[last] = value
    return document


def test_result__survives_json(result: MomentTestResult) -> None:
    text = json.dumps(to_json(result), allow_nan=False)
    again = from_json(MomentTestResult, json.loads(text))
    assert again == result
    assert isinstance(again.verdict, Verdict)
    assert isinstance(again.testers[0].outcome, Outcome)
    assert isinstance(again.testers[1].evidence[0].direction, tuple)


def test_results__print_as_one_short_line(result: MomentTestResult) -> None:
    X, y = ROWS
    fitted = streamhalf.fit((X, y), scheduler="serial")
    certified = streamhalf.certify((X, y), weights=[1.0, 0.0], scheduler="serial")
    verified = streamhalf.verify(certified, (X, y), scheduler="serial")
    lines = [str(one) for one in (result, fitted, certified, verified)]
    assert all(len(line) < 160 and "\n" not in line for line in lines)
    assert lines[0].endswith(": 300 rows of 2 features>")
    assert lines[1].startswith("<FitResult inconclusive: ")
    assert f"{fitted.rows_needed:,} rows needed" in lines[1]
    assert f"error {certified.error.empirical:.4g}" in lines[2]
    assert lines[3] == f"<VerifyResult: {len(verified.claims)} claims, none wrong>"
    damaged = streamhalf.verify(certified, (X, -y), scheduler="serial")
    assert "error" in str(damaged)


finite = st.floats(allow_nan=False, allow_infinity=False)
evidences = st.builds(
    Evidence,
    name=st.text(),
    observed=finite,
    expected=finite,
    deviation=finite,
    limit=finite,
    direction=st.none() | st.lists(finite, max_size=3).map(tuple),
)
judgements = st.builds(
    Judgement,
    tester=st.text(),
    outcome=st.sampled_from(Outcome),
    statistic=finite,
    limit=finite,
    null_quantile=finite,
    n_rows=st.integers(0),
    rows_needed=st.none() | st.integers(0),
    evidence=st.lists(evidences, max_size=2).map(tuple),
)


@given(judgements)
def test_judgement__survives_json(judgement: Judgement) -> None:
    text = json.dumps(to_json(judgement), allow_nan=False)
    assert from_json(Judgement, json.loads(text)) == judgement


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float32("nan")])
def test_to_json__writes_null_for_what_is_not_finite(value: float) -> None:
    document = to_json(Halfspace((1.0, value), offset=value))
    assert document == {"normal": [1.0, None], "offset": None}
    again = from_json(Halfspace, document)
    assert again.normal[0] == 1.0
    assert math.isnan(again.normal[1])
    assert math.isnan(again.offset)


class Colour(enum.Enum):
    RED = 3


def test_to_json__turns_numpy_and_containers_into_plain_values() -> None:
    value = {
        1: np.int64(3),
        "array": np.array([[1.5, np.nan]]),
        "flag": np.bool_(True),
        "colour": Colour.RED,
        "list": [np.float32(0.5), (1, None, "x")],
    }
    document = to_json(value)
    expected = {
        "1": 3,
        "array": [[1.5, None]],
        "flag": True,
        "colour": 3,
        "list": [0.5, [1, None, "x"]],
    }
    assert document == expected
    assert type(document["1"]) is int
    assert type(document["flag"]) is bool
    assert json.loads(json.dumps(document, allow_nan=False)) == expected


WRONG = {
    "no object": ((), [1], "document: expected an object, got list"),
    "unknown key": (("extra",), 1, "document: unknown key 'extra'; expected schema, verdict"),
    "unknown inner key": (("data", "extra"), 1, r"document\.data: unknown key 'extra'"),
    "key missing": (("tau",), ..., "document: key 'tau' is missing"),
    "inner key missing": (
        ("testers", 1, "limit"),
        ...,
        r"document\.testers\[1\]: key 'limit' is missing",
    ),
    "verdict unknown": (
        ("verdict",),
        "maybe",
        r"document\.verdict: 'maybe' is not one of accepted, passed, rejected, inconclusive",
    ),
    "verdict a list": (("verdict",), [], r"document\.verdict: \[\] is not one of"),
    "number as text": (("tau",), "0.1", r"document\.tau: expected float, got '0.1'"),
    "bool as float": (("tau",), True, r"document\.tau: expected float, got True"),
    "bool as int": (("seed",), True, r"document\.seed: expected int, got True"),
    "float as int": (("seed",), 1.5, r"document\.seed: expected int, got 1.5"),
    "null as int": (("seed",), None, r"document\.seed: expected int, got None"),
    "int as bool": (("whitened",), 1, r"document\.whitened: expected bool, got 1"),
    "int as text": (("data", "fingerprint"), 3, r"document\.data\.fingerprint: expected str"),
    "object as list": (("passes",), {}, r"document\.passes: expected a list, got dict"),
    "text in a list": (
        ("testers", 0, "evidence", 0, "limit"),
        "x",
        r"document\.testers\[0\]\.evidence\[0\]\.limit: expected float",
    ),
    "list of texts": (("notices",), [3], r"document\.notices\[0\]: expected str, got 3"),
    "huge number": (("tau",), 10**400, r"document\.tau: a whole number too large"),
    "other schema": (
        ("schema",),
        "streamhalf-test-9",
        r"document\.schema: 'streamhalf-test-9' is another kind .* expected 'streamhalf-test-1'",
    ),
}


@pytest.mark.parametrize(("place", "value", "message"), WRONG.values(), ids=WRONG)
def test_from_json__names_what_does_not_fit(
    result: MomentTestResult, place: tuple[Any, ...], value: Any, message: str
) -> None:
    document = change(to_json(result), place, value) if place else value
    with pytest.raises(DataError, match=message):
        from_json(MomentTestResult, document)


def test_from_json__says_where_it_was_told(result: MomentTestResult) -> None:
    with pytest.raises(DataError, match=r"run\.json\.tau: expected float"):
        from_json(MomentTestResult, change(to_json(result), ("tau",), []), where="run.json")


def test_from_json__fills_defaults_in(result: MomentTestResult) -> None:
    document = change(to_json(result), ("notices",), ...)
    assert from_json(MomentTestResult, document).notices == ()


def test_from_json__takes_records_only() -> None:
    with pytest.raises(TypeError, match="is no record"):
        from_json(int, {})


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        (Verdict.ACCEPTED, 0),
        (Verdict.PASSED, 0),
        (Verdict.REJECTED, 10),
        (Verdict.INCONCLUSIVE, 11),
    ],
)
def test_verdict__has_an_exit_code(verdict: Verdict, code: int) -> None:
    assert verdict.exit_code == code


@pytest.mark.parametrize(
    ("outcomes", "overall"),
    [
        ("passed", "passed"),
        ("passed,not judged", "passed"),
        ("passed,inconclusive", "inconclusive"),
        ("inconclusive,rejected,passed", "rejected"),
        ("", "passed"),
    ],
)
def test_overall_outcome__takes_the_worst(outcomes: str, overall: str) -> None:
    given = tuple(
        Judgement("t", Outcome(word), 0.0, 0.0, 0.0, 1) for word in outcomes.split(",") if word
    )
    assert overall_outcome(given) is Outcome(overall)


def test_versions__are_those_at_work() -> None:
    assert Versions.current().streamhalf == streamhalf.__version__
    assert Versions.current().numpy == np.__version__


def test_records__are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        PassRecord("p", 1, 1, 1, 0.0).name = "q"  # type: ignore[misc]
