"""Result files: those of today, and those that version 0.1 wrote (tests/documents)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamhalf
from streamhalf import CertifyResult, DataError, FitResult, Halfspace, MomentTestResult
from streamhalf.results import (
    Advice,
    AdviceCode,
    HalfspaceClass,
    LabelsAreBits,
    Moment,
    Named,
    OneClass,
    Outcome,
    Remark,
    Role,
    Sampling,
    Stop,
    StopReason,
    Transform,
    Verdict,
    from_json,
    is_as_written,
    to_json,
)
from streamhalf.results.document import (
    read_fit,
    read_model,
    read_result,
    read_weights,
    write_json,
)
from streamhalf.results.first_version import upgrade
from streamhalf.results.results import content_digest
from tests.conftest import StoreWriter
from tests.first_documents import FOLDER, NORMAL, OFFSET, PARAMETERS, rows_of

SERIAL = {"scheduler": "serial"}
FITS = [name for name in PARAMETERS if name.startswith("fit")]
CERTIFIED = ["fit-accepted", "fit-whitened", "certificate"]


def first(name: str) -> Path:
    return FOLDER / f"{name}.json"


def content_of(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(first(name).read_text())
    return content


def write(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content))
    return path


# ---------------------------------------------------------------------- documents of version 0.1


def test_first__documents_are_those_of_version_0_1_and_small() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(PARAMETERS)
    for name in PARAMETERS:
        assert content_of(name)["schema"].endswith("-1")
        assert content_of(name)["versions"]["streamhalf"] == "0.1.0"
        assert first(name).stat().st_size < 30 << 10


@pytest.mark.parametrize("name", [*FITS, "certificate"])
def test_first__is_read_and_sealed_in_todays_form(name: str) -> None:
    found = read_result(first(name))
    assert isinstance(found, CertifyResult if name == "certificate" else FitResult)
    assert found.schema.endswith("-2")
    assert is_as_written(found)
    assert found.digest != content_of(name)["digest"]


@pytest.mark.parametrize("name", [*FITS, "certificate"])
def test_first__goes_through_todays_json(name: str, tmp_path: Path) -> None:
    found = read_result(first(name))
    write_json(tmp_path / "new.json", found)
    assert read_result(tmp_path / "new.json") == found


@pytest.mark.parametrize("name", [*FITS, "certificate"])
def test_first__numbers_are_what_they_were(name: str) -> None:
    old, found = content_of(name), to_json(read_result(first(name)))
    renamed = {
        "schema",
        "digest",
        "testers",
        "notices",
        "transform",
        "stop",
        "certificate",
        "split",
    }
    if name == "certificate":  # of a halfspace with a threshold, which has no ratio
        renamed.add("ratio")
        del old["certificate"]["ratio"]
    gone = {"whitened", "whitening", "stopped_because"}
    assert set(old) - set(found) == gone & set(old)
    for key in (set(found) & set(old)) - renamed:
        # tuples are lists in JSON
        assert _as_in(old[key], found[key]) == old[key]
    if old.get("certificate"):
        assert old["certificate"].pop("advice") != found["certificate"]["advice"]
        assert _as_in(old["certificate"], found["certificate"]) == old["certificate"]
    for new, before in zip(found.get("testers", ()), old.get("testers", ()), strict=True):
        for key in ("tester", "outcome", "statistic", "limit", "null_quantile", "pass_name"):
            assert new[key] == before[key]


def _as_in(old: Any, new: Any) -> Any:
    """What of the new value the old one has too."""
    new = json.loads(json.dumps(new))
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [_as_in(*pair) for pair in zip(old, new, strict=True)]
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    return {key: _as_in(old[key], value) for key, value in new.items() if key in old}


STOPS = {
    "fit-accepted": Stop(StopReason.NOISE_DOMINATES, 0.125),
    "fit-rejected": Stop(StopReason.TESTER_REJECTED),
    "fit-whitened": Stop(StopReason.REACHED_EPS),
    "fit-sorted": Stop(StopReason.REACHED_EPS),
    "fit-few-rows": Stop(StopReason.TOO_FEW_ROWS),
}


@pytest.mark.parametrize("name", FITS)
def test_first__why_it_stopped_is_a_code(name: str) -> None:
    found = read_fit(first(name))
    assert found.stop == STOPS[name]
    assert isinstance(found.stop.reason, StopReason)
    assert isinstance(found.verdict, Verdict)
    assert isinstance(found.split, Sampling)


def test_first__verdicts_and_splits() -> None:
    read = {name: read_fit(first(name)) for name in FITS}
    assert [read[name].verdict.value for name in FITS] == [
        "accepted",
        "rejected",
        "accepted",
        "accepted",
        "inconclusive",
    ]
    assert read["fit-sorted"].split is Sampling.ROWS
    assert read["fit-accepted"].split is Sampling.WINDOWS


def test_second__documents_with_the_earlier_word_for_windows_are_read(tmp_path: Path) -> None:
    content = json.loads(json.dumps(to_json(read_fit(first("fit-accepted"))))) | {"split": "chunks"}
    content["digest"] = content_digest(content)
    found = read_model(write(tmp_path / "earlier.json", content))
    assert found.split is Sampling.WINDOWS
    assert is_as_written(found)  # in its new form
    forged = read_fit(write(tmp_path / "forged.json", content | {"eps": 0.2}))
    assert not is_as_written(forged)


def test_first__roles_and_candidates_are_codes() -> None:
    for name in ("fit-accepted", "fit-whitened", "fit-sorted"):
        found = read_fit(first(name))
        final = [one for one in found.testers if one.pass_name == "final"]
        mass = [one for one in final if one.tester == "slab mass"]
        covariance = [one for one in final if one.tester == "slab covariance"]
        assert [one.candidate for one in mass] == list(range(len(found.candidates)))
        assert [one.candidate for one in covariance] == list(range(len(found.candidates)))
        assert {one.scale for one in mass} == {0.25}
        extra = [one for one in found.testers if one.tester == "quadratics"]
        assert extra
        for one in extra:
            expected = Role.EXTRA if one.outcome is Outcome.NOT_JUDGED else Role.REQUIRED
            assert one.role is expected
        assert all(one.role is Role.REQUIRED for one in final)
    said = [one for one in read_fit(first("fit-sorted")).testers if "chunks" in one.tester]
    assert [one.role for one in said] == [Role.FALLBACK, Role.ADVISORY]


def test_first__evidence_names_moments_by_their_variables() -> None:
    found = read_fit(first("fit-rejected"))
    largest = next(one for one in found.testers if one.tester == "largest moment")
    assert largest.outcome is Outcome.REJECTED
    lead = largest.evidence[0].subject
    # uniform features: a fourth power is what is wrong first
    assert lead in (Moment((0, 0, 0, 0)), Moment((1, 1, 1, 1)))
    names = [item["name"] for item in content_of("fit-rejected")["testers"][0]["evidence"]]
    assert len(names) == len(largest.evidence)
    second = next(one for one in found.testers if one.tester == "second moment")
    assert isinstance(second.evidence[0].subject, Named)
    assert second.evidence[0].subject.name.startswith("second moment along ")


def test_first__positions() -> None:
    assert read_fit(first("fit-accepted")).transform.kind == Transform.STORED
    whitened = read_fit(first("fit-whitened")).transform
    assert whitened.kind == Transform.ISOTROPIC
    old = content_of("fit-whitened")["whitening"]
    assert list(whitened.centre) == old["mean"]
    assert [list(row) for row in whitened.matrix] == old["matrix"]
    X, _ = rows_of("fit-whitened")
    np.testing.assert_allclose(whitened.centre, X.mean(axis=0), rtol=1e-9)
    certificate = read_result(first("certificate"))
    assert certificate.transform.kind == Transform.ISOTROPIC


def test_first__advice_is_a_code() -> None:
    certificate = read_result(first("certificate")).certificate
    # version 0.1 advised on a ratio of two classes: the halfspace has a threshold
    assert certificate.advice == Advice(AdviceCode.OTHER_CLASS, through=HalfspaceClass.CENTRE)
    assert certificate.ratio is None
    assert read_fit(first("fit-whitened")).certificate.advice == Advice(AdviceCode.TIGHT)


def test_first__a_result_of_test_is_told_and_fits_todays_record() -> None:
    with pytest.raises(DataError, match=r"test\.json: this is a result of test; give the file"):
        read_result(first("test"))
    found = from_json(MomentTestResult, upgrade(content_of("test")))
    assert found.transform.kind == Transform.STORED
    assert [one.tester for one in found.testers] == [
        "largest moment",
        "second moment",
        "quadratics",
    ]


@pytest.mark.parametrize("name", CERTIFIED)
def test_first__verifies_against_its_data(name: str) -> None:
    document, data = read_result(first(name)), rows_of(name)
    found = streamhalf.verify(document, data, **SERIAL)
    assert [claim.name for claim in found.claims if not claim.holds] == []
    assert len(found.claims) == 16


@pytest.mark.parametrize(
    ("place", "failed"),
    [
        (("tau",), {"document is as written", "L on the source", "upper bound of the error"}),
        (("error", "empirical"), {"document is as written", "error on them"}),
        (
            ("certificate", "n_errors"),
            {"document is as written", "errors on these rows", "numbers given in two places"},
        ),
    ],
)
def test_first__one_changed_number_is_found_out(
    place: tuple[str, ...], failed: set[str], tmp_path: Path
) -> None:
    content = content_of("certificate")
    *path, last = place
    target = content
    for key in path:
        target = target[key]
    target[last] = target[last] * 2
    document = read_result(write(tmp_path / "forged.json", content))
    assert not is_as_written(document)
    found = streamhalf.verify(document, rows_of("certificate"), **SERIAL)
    names = {claim.name for claim in found.claims if not claim.holds}
    assert "document is as written" in names
    assert names <= failed


def test_first__a_changed_row_is_found_out() -> None:
    X, y = rows_of("certificate")
    X = X.copy()
    X[1234, 0] = np.nextafter(X[1234, 0], 9)
    found = streamhalf.verify(read_result(first("certificate")), (X, y), **SERIAL)
    assert "digest of all rows" in {claim.name for claim in found.claims if not claim.holds}


@pytest.mark.parametrize("name", ["fit-accepted", "fit-whitened"])
def test_first__predicts(name: str, write_store: StoreWriter, tmp_path: Path) -> None:
    X, y = rows_of(name)
    path = write_store(X[:3_000], y[:3_000], chunk_rows=1_000)
    model = read_model(first(name))
    n_positive = streamhalf.predict(path, model=model, out=tmp_path / "out.zarr", **SERIAL)
    normal, offset = (content_of(name)["halfspace"][key] for key in ("normal", "offset"))
    expected = X[:3_000] @ normal + offset >= 0
    assert n_positive == np.count_nonzero(expected)
    assert 0 < n_positive < 3_000


def test_first__a_changed_model_is_refused(tmp_path: Path) -> None:
    content = content_of("fit-rejected") | {"verdict": "accepted"}
    path = write(tmp_path / "forged.json", content)
    assert read_fit(path).verdict is Verdict.ACCEPTED
    with pytest.raises(DataError, match=r"forged\.json: the file was changed after fit wrote it"):
        read_model(path)


def test_first__weights_are_read_from_a_result() -> None:
    found = read_weights(first("certificate"))
    assert found == Halfspace(NORMAL, OFFSET)


WORDS = {
    "reached the scale of eps": Stop(StopReason.REACHED_EPS),
    "noise dominates at delta 0.0625": Stop(StopReason.NOISE_DOMINATES, 0.0625),
    "no further progress at delta 0.5": Stop(StopReason.NO_PROGRESS, 0.5),
    "largest number of updates": Stop(StopReason.MOST_UPDATES),
    "rows for updates are used up": Stop(StopReason.ROWS_USED_UP),
    "a tester rejected": Stop(StopReason.TESTER_REJECTED),
    "too few rows": Stop(StopReason.TOO_FEW_ROWS),
}


@pytest.mark.parametrize("words", WORDS)
def test_upgrade__why_a_run_stopped(words: str) -> None:
    found = upgrade(content_of("fit-few-rows") | {"stopped_because": words})
    assert from_json(FitResult, found).stop == WORDS[words]


ADVICE = {
    "the bound is tight": Advice(AdviceCode.TIGHT),
    "about 1,234,567 rows would leave little sampling noise in the moments": Advice(
        AdviceCode.MORE_ROWS, rows=1_234_567
    ),
    "certificate_degree 8 would tighten it (now 6)": Advice(AdviceCode.HIGHER_DEGREE, degree=8),
    "label noise of this shape hides better halfspaces from moments of this degree": Advice(
        AdviceCode.NOTHING
    ),
}


@pytest.mark.parametrize("words", ADVICE)
def test_upgrade__what_would_tighten_a_certificate(words: str) -> None:
    content = content_of("certificate")
    content["certificate"]["advice"] = words
    assert from_json(CertifyResult, upgrade(content)).certificate.advice == ADVICE[words]


def test_upgrade__notices() -> None:
    said = ["y: labels are 0/1; 0 is read as -1", "all labels are -1, so", "something else"]
    found = from_json(FitResult, upgrade(content_of("fit-few-rows") | {"notices": said}))
    assert found.notices == (LabelsAreBits("y"), OneClass(-1), Remark("something else"))


@pytest.mark.parametrize(
    ("remark", "role", "candidate", "scale", "directions"),
    [
        ("", Role.REQUIRED, None, None, None),
        ("candidate 12, eta 0.0625", Role.REQUIRED, 12, 0.0625, None),
        ("candidate 3", Role.REQUIRED, 3, None, None),
        ("refinement below the tested scale", Role.REFINEMENT, None, None, None),
        ("an extra test; it would need 5,235 rows", Role.EXTRA, None, None, None),
        ("rows are not exchangeable across chunks", Role.ADVISORY, None, None, None),
        ("rows are not exchangeable across chunks: sampling rows", Role.FALLBACK, None, None, None),
        ("degree 4 sketched on 24 directions", Role.REQUIRED, None, None, 24),
        (
            "an extra test; it would need 9 rows · degree 4 sketched on 24 directions",
            Role.EXTRA,
            None,
            None,
            24,
        ),
    ],
)
def test_upgrade__remarks_of_judgements(
    remark: str, role: Role, candidate: int | None, scale: float | None, directions: int | None
) -> None:
    content = content_of("fit-rejected")
    content["testers"] = [content["testers"][0] | {"remark": remark}]
    (found,) = from_json(FitResult, upgrade(content)).testers
    assert (found.role, found.candidate, found.scale, found.directions) == (
        role,
        candidate,
        scale,
        directions,
    )


@pytest.mark.parametrize(
    ("name", "subject"),
    [
        ("x1", Moment((0,))),
        ("x3^4", Moment((2, 2, 2, 2))),
        ("x1·x12^2", Moment((0, 11, 11))),
        ("u2^2·u7", Moment((1, 1, 6), sketched=True)),
        ("slab 0 <= v·x < 0.1", Named("slab 0 <= v·x < 0.1")),
        ("mean of y·x2 in segment 5", Named("mean of y·x2 in segment 5")),
        ("", Named("")),
    ],
)
def test_upgrade__names_of_evidence(name: str, subject: Any) -> None:
    content = content_of("fit-rejected")
    content["testers"][0]["evidence"][0]["name"] = name
    found = from_json(FitResult, upgrade(content))
    assert found.testers[0].evidence[0].subject == subject


def test_upgrade__what_was_no_number_counts_as_huge() -> None:
    content = content_of("fit-rejected")
    content["testers"][0]["statistic"] = None
    content["testers"][0]["evidence"][0]["observed"] = None
    found = from_json(FitResult, upgrade(content)).testers[0]
    assert found.statistic == found.evidence[0].observed == np.finfo(np.float64).max


def test_upgrade__mutates_nothing() -> None:
    content = content_of("fit-accepted")
    upgrade(content)
    assert content == content_of("fit-accepted")


# --------------------------------------------------------------------------------- damaged files

DAMAGED: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", r"bad\.json: not JSON"),
    "cut": ('{"schema": "streamhalf-fit-1", "verd', r"bad\.json: not JSON"),
    "binary": (b"\x80\x04\x95pickle", r"bad\.json: not JSON"),
    "deep": ("[" * 100_000, r"bad\.json: not JSON"),
    "no number": ('{"schema": "streamhalf-fit-2", "eps": NaN}', r"bad\.json: not JSON: NaN is no"),
    "too large": (f'{{"seed": {"9" * 400}}}', r"bad\.json: not JSON: a number of 400 digits"),
    "a list": ("[1]", r"bad\.json: expected object, got \[1\]"),
    "no schema": ("{}", r"bad\.json: object missing required field"),
    "another schema": ('{"schema": "other"}', r"bad\.json\.schema: .*'other'"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_read__damaged_files_are_named(name: str, tmp_path: Path) -> None:
    content, message = DAMAGED[name]
    path = tmp_path / "bad.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match=message):
        read_result(path)


ODD: dict[str, tuple[tuple[Any, ...], Any]] = {
    "stop": (("stopped_because",), "noise dominates at delta abc"),
    "advice": (("certificate",), {"advice": "about ,, rows"}),
    "remark": (("testers", 0, "remark"), "eta z"),
}


@pytest.mark.parametrize("name", ODD)
def test_read__odd_words_of_a_first_document_are_told(name: str, tmp_path: Path) -> None:
    (*path, last), value = ODD[name]
    content = content_of("fit-accepted")
    target: Any = content
    for key in path:
        target = target[key]
    target[last] = value
    with pytest.raises(DataError, match=r"bad\.json: not as version 0\.1 wrote it: ValueError"):
        read_result(write(tmp_path / "bad.json", content))


PLACES: dict[str, tuple[tuple[Any, ...], Any, str]] = {
    "tau": (("tau",), "x", r"json\.tau"),
    "testers no list": (("testers",), 3, r"json\.testers"),
    "test_result no object": (("testers", 1), 3, r"json\.testers\[1\]"),
    "outcome": (("testers", 2, "outcome"), "fine", r"json\.testers\[2\]\.outcome"),
    "evidence": (("testers", 0, "evidence", 1), [], r"json\.testers\[0\]\.evidence\[1\]"),
    "limit": (
        ("testers", 0, "evidence", 1, "limit"),
        "x",
        r"json\.testers\[0\]\.evidence\[1\]\.limit",
    ),
    "notice": (("notices",), [3], r"json\.notices\[0\]"),
    "whitening": (("whitening",), {"mean": 3, "matrix": []}, r"json\.transform\.centre"),
    "halfspace": (("halfspace", "normal", 1), "x", r"json\.halfspace\.normal\[1\]"),
    "ranges": (("held_out",), {"ranges": [[1]], "low": 0, "high": 1}, r"json\.held_out\.ranges"),
    "advice": (("certificate",), {"advice": 3}, r"json\.certificate"),
}


@pytest.mark.parametrize("name", PLACES)
def test_read__damaged_places_of_a_first_document_are_named(name: str, tmp_path: Path) -> None:
    place, value, message = PLACES[name]
    content = content_of("fit-rejected")
    *path, last = place
    target: Any = content
    for key in path:
        target = target[key]
    target[last] = value
    with pytest.raises(DataError, match=rf"bad\.{message}"):
        read_result(write(tmp_path / "bad.json", content))


def test_read__a_folder_and_a_missing_file_are_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="this is a folder; a result file"):
        read_result(tmp_path)
    with pytest.raises(DataError, match=r"none\.json: cannot be read: No such file"):
        read_result(tmp_path / "none.json")


def test_read__another_kind_is_told() -> None:
    with pytest.raises(DataError, match=r"this is a certificate .*; give the file that fit wrote"):
        read_fit(first("certificate"))


def test_read__a_number_that_is_none_is_refused(tmp_path: Path) -> None:
    new = to_json(read_fit(first("fit-accepted")))
    for value in (float("nan"), float("inf")):
        path = write(tmp_path / "new.json", new | {"eps": value})
        with pytest.raises(DataError, match="is no number that a result holds"):
            read_model(path)


# ---------------------------------------------------------------------------- writing and weights


def test_write_json__is_read_again(tmp_path: Path) -> None:
    result = read_fit(first("fit-whitened"))
    write_json(tmp_path / "out.json", result)
    text = (tmp_path / "out.json").read_text()
    assert text.endswith("}\n")
    assert '"diagnostics"' in text
    assert '"measurements"' not in text
    assert read_model(tmp_path / "out.json") == result
    assert os.listdir(tmp_path) == ["out.json"]


@pytest.mark.parametrize("what", [{"x": object()}, Halfspace((1.0, float("nan")))])
def test_write_json__keeps_the_old_file_where_it_cannot_write(what: Any, tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    target.write_text("what was there before")
    with pytest.raises((TypeError, ValueError)):
        write_json(target, what)
    assert target.read_text() == "what was there before"
    assert os.listdir(tmp_path) == ["out.json"]


def test_read_weights__forms(tmp_path: Path) -> None:
    result = read_fit(first("fit-accepted"))
    for name, content, expected in (
        ("list.json", [1, 2.5], Halfspace((1.0, 2.5))),
        ("object.json", {"normal": [1.0], "offset": 2}, Halfspace((1.0,), 2.0)),
        ("result.json", to_json(result), result.halfspace),
    ):
        assert read_weights(write(tmp_path / name, content)) == expected
    np.save(tmp_path / "column.npy", np.ones((3, 1), dtype=np.int32))
    assert read_weights(tmp_path / "column.npy") == Halfspace((1.0, 1.0, 1.0))
    np.save(tmp_path / "matrix.npy", np.ones((3, 2)))
    with pytest.raises(DataError, match=r"shape \(3, 2\); expected one vector"):
        read_weights(tmp_path / "matrix.npy")
    np.save(tmp_path / "pickled.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="not an array of numbers"):
        read_weights(tmp_path / "pickled.npy")


def test_results__of_today_carry_todays_schema() -> None:
    assert to_json(read_fit(first("fit-accepted")))["schema"] == "streamhalf-fit-2"
    assert to_json(read_result(first("certificate")))["schema"] == "streamhalf-certificate-2"
    data = rows_of("test")
    assert to_json(streamhalf.test(data, **SERIAL))["schema"] == "streamhalf-test-2"
