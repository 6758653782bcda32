"""Documents that do not say which halfspaces their numbers speak of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamhalf
from streamhalf.kernels.binomial import binomial_upper
from streamhalf.results import (
    Advice,
    AdviceCode,
    Halfspace,
    HalfspaceClass,
    is_as_written,
    replace,
    to_json,
)
from streamhalf.results.document import read_result
from streamhalf.results.results import content_digest

CENTRE = np.array([3.0, -1.0])
SERIAL = {"scheduler": "serial", "certificate_degree": 2}
STORED = {**SERIAL, "feature_transform": "stored"}


def draw(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(8)
    X = CENTRE + rng.standard_normal((n_rows, 2))
    y = np.where(X[:, 0] >= 3, 1, -1).astype(np.int8)
    y[rng.random(n_rows) < 0.05] *= -1
    return X, y


DATA = draw(90_000)
NEW = {
    "error": ("through", "tau", "by_label"),
    "opt": ("through", "tau"),
    "certificate": (
        "through",
        "window_rows",
        "repeated",
        "times",
        "threshold",
        "threshold_low",
        "threshold_high",
        "bounds",
    ),
}


def as_before(result: Any, path: Path) -> dict[str, Any]:
    """Write a result as it was written when numbers named no class."""
    content = json.loads(json.dumps(to_json(result)))
    for part, names in NEW.items():
        for name in names:
            del content[part][name]
    for name in NEW["opt"]:
        del content["certificate"]["opt"][name]
    del content["certificate"]["advice"]["through"]
    for candidate in content.get("candidates", ()):
        del candidate["threshold"], candidate["rate"]
    if "diagnostics" in content:
        del content["diagnostics"]["threshold"]
    # slabs held rows of both labels
    content["certificate"]["n_slabs"] = [n // 2 for n in content["certificate"]["n_slabs"]]
    content["digest"] = content_digest(content)
    path.write_text(json.dumps(content))
    return dict(content)


@pytest.mark.parametrize("whiten", [True, False])
def test_name_classes__of_a_fit_are_those_of_its_position(tmp_path: Path, whiten: bool) -> None:
    X, y = DATA
    data = (X if whiten else X - CENTRE, y)
    result = streamhalf.fit(data, eps=0.25, whiten=whiten, through="centre", **SERIAL)
    own = HalfspaceClass.CENTRE if whiten else HalfspaceClass.ORIGIN
    assert result.error.through is result.opt.through is result.certificate.through is own
    # an older run gave tau in full to each bound, which the document does not repeat
    wrong, share = round(result.error.empirical * result.error.n_rows), result.tau
    upper = binomial_upper(wrong, result.error.n_rows, share / len(result.candidates))
    old = replace(
        result,
        error=replace(result.error, upper=upper),
        certificate=replace(result.certificate, opt=result.opt),
    )
    as_before(old, tmp_path / "old.json")
    found = read_result(tmp_path / "old.json")
    assert is_as_written(found)
    assert found.error.through is found.opt.through is found.certificate.through is own
    assert (found.opt.tau, found.error.tau, found.certificate.window_rows) == (None, None, 1024)
    assert found.ratio == result.ratio
    claims = {
        one.name: one.holds for one in streamhalf.verify(found, data, scheduler="serial").claims
    }
    assert all(claims.values())


def test_name_classes__a_ratio_of_two_classes_goes(tmp_path: Path) -> None:
    data = draw(5_000)
    result = streamhalf.certify(data, weights=Halfspace((1.0, 0.0), -3.0), **STORED)
    tight = Advice(AdviceCode.TIGHT)
    wrong = replace(
        result, ratio=0.14, certificate=replace(result.certificate, ratio=0.14, advice=tight)
    )
    as_before(wrong, tmp_path / "old.json")
    found = read_result(tmp_path / "old.json")
    assert is_as_written(found)
    assert (found.error.through, found.opt.through) == (HalfspaceClass.ANY, HalfspaceClass.ORIGIN)
    assert (found.ratio, found.certificate.ratio) == (None, None)
    assert found.certificate.advice == Advice(AdviceCode.OTHER_CLASS, through=HalfspaceClass.ORIGIN)


def test_name_classes__a_changed_document_stays_one(tmp_path: Path) -> None:
    result = streamhalf.certify(draw(5_000), weights=[1.0, 0.0], **STORED)
    content = as_before(result, tmp_path / "old.json")
    content["tau"] = 0.5
    (tmp_path / "old.json").write_text(json.dumps(content))
    assert not is_as_written(read_result(tmp_path / "old.json"))


def test_name_classes__what_a_document_says_is_left(tmp_path: Path) -> None:
    result = streamhalf.certify(draw(5_000), weights=[1.0, 0.0], **STORED)
    said = replace(result, opt=replace(result.opt, through=HalfspaceClass.ANY))
    (tmp_path / "new.json").write_text(json.dumps(to_json(said)))
    assert read_result(tmp_path / "new.json") == said
