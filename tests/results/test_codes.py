from __future__ import annotations

import json
import math
import sys
from typing import Any

import numpy as np
import pytest

import streamhalf
from streamhalf import DataError, MomentTestResult, Outcome, Verdict
from streamhalf.kernels.plane import Plane
from streamhalf.results import (
    Halfspace,
    Moment,
    SecondMoment,
    StopReason,
    Transform,
    document_digest,
    finite,
    from_json,
    is_as_written,
    replace,
    seal,
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
    assert again.transform.kind == Transform.ISOTROPIC
    assert isinstance(again.testers[0].evidence[0].subject, Moment)
    subject = again.testers[1].evidence[0].subject
    assert isinstance(subject, SecondMoment)
    assert isinstance(subject.direction, tuple)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (1.5, 1.5),
        (np.float32(0.25), 0.25),
        (math.nan, sys.float_info.max),
        (math.inf, sys.float_info.max),
        (-math.inf, -sys.float_info.max),
        (np.float32("nan"), sys.float_info.max),
    ],
)
def test_finite__is_the_nearest_number_that_json_can_hold(value: float, written: float) -> None:
    assert finite(value) == written
    assert type(finite(value)) is float
    assert json.loads(json.dumps(finite(value), allow_nan=False)) == written


def test_to_json__turns_numpy_and_containers_into_plain_values() -> None:
    value = {
        1: np.int64(3),
        "array": np.array([[1.5, 2.0]]),
        "flag": np.bool_(True),
        "code": StopReason.REACHED_EPS,
        "list": [np.float32(0.5), (1, None, "x")],
    }
    document = to_json(value)
    assert type(document["1"]) is int
    assert type(document["flag"]) is bool
    assert json.loads(json.dumps(document, allow_nan=False)) == {
        "1": 3,
        "array": [[1.5, 2.0]],
        "flag": True,
        "code": "reached eps",
        "list": [0.5, [1, None, "x"]],
    }


WRONG = {
    "no object": ((), [1], r"document: expected object, got \[1\]"),
    "unknown key": (("extra",), 1, "document: object contains unknown field extra"),
    "unknown inner key": (("data", "extra"), 1, r"document\.data: .*unknown field extra"),
    "key missing": (("tau",), ..., "document: object missing required field tau"),
    "inner key missing": (("testers", 1, "limit"), ..., r"document\.testers\[1\]: object missing required field limit"),
    "verdict unknown": (("verdict",), "maybe", r"document\.verdict: .*'maybe'"),
    "verdict a list": (("verdict",), [], r"document\.verdict: expected str, got \[\]"),
    "number as text": (("tau",), "0.1", r"document\.tau: expected float, got '0\.1'"),
    "bool as float": (("tau",), True, r"document\.tau: expected float, got True"),
    "bool as int": (("seed",), True, r"document\.seed: expected int, got True"),
    "float as int": (("seed",), 1.5, r"document\.seed: expected int, got 1\.5"),
    "null as int": (("seed",), None, r"document\.seed: expected int, got None"),
    "int as text": (("data", "fingerprint"), 3, r"document\.data\.fingerprint: .* got 3"),
    "object as list": (("passes",), {}, r"document\.passes: expected array, got {}"),
    "backslashes": (("tau",), "\\d\x00", r"document\.tau: expected float, got '\\\\d\\x00'"),
    "text in a list": (
        ("testers", 0, "evidence", 0, "limit"),
        "x",
        r"document\.testers\[0\]\.evidence\[0\]\.limit: expected float, got 'x'",
    ),
    "notice of text": (("notices",), ["x"], r"document\.notices\[0\]: expected object, got 'x'"),
    "notice of no kind": (("notices",), [{"code": "x"}], r"document\.notices\[0\]\.code: .*'x'"),
    "subject without a kind": (
        ("testers", 0, "evidence", 0, "subject"),
        {"variables": [1]},
        r"document\.testers\[0\]\.evidence\[0\]\.subject: .*type",
    ),
    "role unknown": (("testers", 0, "role"), "x", r"document\.testers\[0\]\.role: .*'x'"),
    "transform no text": (("transform", "kind"), 3, r"document\.transform\.kind: expected str, got 3"),
    "huge number": (("tau",), 10**400, r"document\.tau: .*out of range"),
    "other schema": (("schema",), "streamhalf-test-9", r"document\.schema: .*'streamhalf-test-9'"),
}


@pytest.mark.parametrize(("place", "value", "message"), WRONG.values(), ids=WRONG)
def test_from_json__names_what_does_not_fit(
    result: MomentTestResult, place: tuple[Any, ...], value: Any, message: str
) -> None:
    document = change(to_json(result), place, value) if place else value
    with pytest.raises(DataError, match=message):
        from_json(MomentTestResult, document)


@pytest.mark.parametrize("threshold", [0.0, -0.0, 0.5])
def test_halfspace__is_a_plane_with_the_sign_of_its_threshold_turned(threshold: float) -> None:
    halfspace = Halfspace.of(Plane(np.array([1.0, -2.0]), threshold))
    assert halfspace == Halfspace((1.0, -2.0), -threshold)
    assert math.copysign(1, halfspace.offset) == (1 if threshold == 0 else -1)  # 0, not -0
    assert halfspace.plane.threshold == threshold
    assert halfspace.plane.normal.tolist() == [1.0, -2.0]


def test_seal__a_changed_number_breaks_it() -> None:
    sealed = streamhalf.certify(ROWS, weights=[1.0, 0.0], scheduler="serial")
    assert is_as_written(sealed)
    assert sealed.digest == document_digest(sealed)
    again = from_json(type(sealed), json.loads(json.dumps(to_json(sealed))))
    assert is_as_written(again)
    changed = replace(sealed, tau=0.02)
    assert not is_as_written(changed)
    assert seal(changed).digest != sealed.digest
    assert not is_as_written(replace(sealed, tau=math.nan))
