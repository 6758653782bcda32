"""The report read back by a parser: its numbers are the document's, and nothing gets in or out."""

from __future__ import annotations

import csv
import itertools
import json
import math
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest

import streamhalf
from streamhalf import CertifyResult, FitResult, Verdict, api
from streamhalf.cli import main
from streamhalf.config import SETTINGS
from streamhalf.report.codes import evidence_name
from streamhalf.report.features import class_words, numbered
from streamhalf.report.figures import Plot, Rule
from streamhalf.report.html import render_report
from streamhalf.report.pictures import profile_figure
from streamhalf.report.rejections import leading_rejection
from streamhalf.report.svg import Axis, ticks
from streamhalf.report.test_results import outcome_words
from streamhalf.results import (
    Advice,
    AdviceCode,
    AngleRecord,
    Method,
    Outcome,
    Role,
    replace,
    to_json,
)
from streamhalf.results.document import read_result, write_json
from tests.report.conftest import DIM, ROWS, Results, without_say
from tests.report.pages import Page, value

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&lt;"
EVERY = ("accepted", "rejected", "inconclusive", "certificate")


@pytest.fixture(scope="module")
def pages(results: Results) -> dict[str, Page]:
    return {name: Page(render_report(result)) for name, result in results.every().items()}


def near(shown: list[str], exact: Any) -> None:
    """Cells show these numbers: four digits, or three decimals of a percentage or less."""
    found = [value(cell) for cell in shown]
    assert found == pytest.approx(list(exact), rel=6e-4, abs=6e-6, nan_ok=True)


def column(page: Page, caption: str, index: int) -> list[str]:
    return [row[index] for row in page.body(caption)]


def sections(page: Page) -> list[str]:
    return [one.attributes["id"] for one in page.all("section")]


def headline(page: Page) -> str:
    return next(one.text for one in page.all("p") if one.attributes.get("class") == "headline")


def test_results__have_every_verdict(results: Results) -> None:
    assert results.accepted.verdict is Verdict.ACCEPTED
    assert results.certified.verdict is Verdict.CERTIFIED
    assert results.rejected.verdict is Verdict.REJECTED
    assert results.inconclusive.verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("name", EVERY)
def test_page__is_well_formed(pages: dict[str, Page], name: str) -> None:
    page = pages[name]
    assert page.source.startswith("<!DOCTYPE html>")
    for tag in ("html", "h1", "header", "nav", "main", "footer"):
        assert len(page.all(tag)) == 1
    levels = [int(one.tag[1]) for one in page.elements if one.tag in ("h1", "h2", "h3")]
    assert levels[0] == 1
    assert all(b <= a + 1 for a, b in itertools.pairwise(levels))
    ids = [one.attributes["id"] for one in page.elements if "id" in one.attributes]
    assert len(ids) == len(set(ids))
    links = [one.attributes["href"] for one in page.all("a")]
    assert [one.removeprefix("#") for one in links if one[0] == "#"] == sections(page)


@pytest.mark.parametrize("name", EVERY)
def test_page__asks_for_nothing(pages: dict[str, Page], name: str) -> None:
    source = pages[name].source
    for word in ("http://", "https://", "src=", "@import", "url(", "<script", "<link", "<iframe"):
        assert word not in source
    assert "default-src 'none'" in source


@pytest.mark.parametrize("name", EVERY)
def test_figures__have_names_and_tables(pages: dict[str, Page], name: str) -> None:
    page = pages[name]
    for svg in page.all("svg"):
        assert svg.attributes["role"] == "img"
        assert "viewbox" in svg.attributes
        assert "figure" in svg.parents
    for picture in ("title", "desc"):
        named = [one for one in page.all(picture) if one.parents[-1] == "svg"]
        assert len(named) == len(page.all("svg"))
        assert all(one.text for one in named)
    folded = [one for one in page.all("details") if "figure" in one.parents]
    assert len(folded) == len(page.all("figure"))
    assert "nan" not in "".join(str(one.attributes) for one in page.elements).lower()


def test_accepted__says_what_it_found(results: Results, pages: dict[str, Page]) -> None:
    result, page = results.accepted, pages["accepted"]
    assert result.error
    assert result.certificate
    # one number with its bound, and no other that is nearly the same
    assert f"{100 * result.error.empirical:.3f}% of rows it did not learn from" in headline(page)
    assert f"at most {100 * result.error.upper:.3f}%" in headline(page)
    assert f"{100 * result.certificate.error:.3f}%" not in headline(page)
    assert f"Measured on {result.error.n_rows:,} rows drawn at random from all" in page.text
    assert f"{100 * result.certificate.opt.lower_empirical:.3f}%" in headline(page)
    assert "✓Accepted" in page.text
    assert sections(page) == [
        "interval",
        "labels",
        "promise",
        "transforms",
        "path",
        "slabs",
        "slices",
        "moments",
        "profile",
        "halfspace",
        "testers",
        "suspects",
        "passes",
        "facts",
        "settings",
    ]


def test_run__is_told_in_full(results: Results, pages: dict[str, Page]) -> None:
    run = results.accepted.run
    assert run is not None
    page = pages["accepted"]
    facts = dict(page.body("Facts"))
    assert facts["started (UTC)"] == run.started
    assert facts["host"] == run.host
    assert facts["scheduler"] == "threads"
    assert facts["command"] == "called from Python"
    assert [name for name, _ in page.body("Settings")] == [*SETTINGS]
    assert dict(page.body("Settings"))["certificate_memory"] == "512MiB"
    told = replace(results.accepted, run=replace(run, command="streamhalf fit <b>"))
    assert dict(Page(render_report(told)).body("Facts"))["command"] == "streamhalf fit <b>"
    old = Page(render_report(replace(results.accepted, run=None)))
    assert "host" not in dict(old.body("Facts"))


@pytest.mark.parametrize("name", EVERY)
def test_figures__hold_their_numbers_as_csv(pages: dict[str, Page], name: str) -> None:
    page = pages[name]
    links = [one.attributes for one in page.all("a") if "download" in one.attributes]
    assert len(links) >= len(page.all("figure"))
    for one in links:
        head, _, content = one["href"].partition(",")
        assert head == "data:text/csv;charset=utf-8"
        rows = list(csv.reader(unquote(content).splitlines()))
        assert len(rows) > 1
        assert {len(row) for row in rows} == {len(rows[0])}
        assert one["download"].endswith(".csv")


def test_csv__has_plain_numbers_and_units_in_the_heading(pages: dict[str, Page]) -> None:
    links = [one.attributes for one in pages["accepted"].all("a")]
    link = next(one for one in links if one.get("download") == "rows-in-slabs.csv")
    first, *rows = csv.reader(unquote(link["href"].partition(",")[2]).splitlines())
    assert first == ["v·x", "rows", "share (%)", "Gaussian (%)"]
    assert sum(int(row[1]) for row in rows) == sum(
        value(cell) for cell in column(pages["accepted"], "Rows in slabs", 1)
    )
    assert sum(float(row[3]) for row in rows) == pytest.approx(100, abs=0.1)


@pytest.mark.parametrize("name", EVERY)
def test_tables__have_two_rows_or_more(pages: dict[str, Page], name: str) -> None:
    assert all(len(rows) > 2 for rows in pages[name].tables.values())  # the first is the heading


def test_heat_maps__have_a_scale_and_slices_a_level_of_chance(pages: dict[str, Page]) -> None:
    written = [one.text for one in pages["accepted"].all("text")]
    assert written.count("0.1 or more") == written.count("-0.1 or less") == 2
    assert any(one.startswith("chance alone stays below") for one in written)
    assert "rows minus Gaussian, in percentage points" in written


def test_rejected__shows_the_evidence_first(results: Results, pages: dict[str, Page]) -> None:
    page = pages["rejected"]
    assert sections(page)[0] == "evidence"
    assert 'feature_transform="auto"' in page.text
    test_result = leading_rejection(results.rejected.testers)
    assert test_result is not None
    rows = page.body(f"Evidence of tester {test_result.tester}")
    assert [row[0] for row in rows] == [evidence_name(one) for one in test_result.evidence]
    for row, one in zip(rows, test_result.evidence, strict=True):
        near(row[1:], (one.observed, one.expected, one.deviation, one.limit))
    assert "comes without a promise" in page.text


def test_inconclusive__says_how_many_rows(results: Results, pages: dict[str, Page]) -> None:
    page = pages["inconclusive"]
    assert results.inconclusive.rows_needed is not None
    assert f"{results.inconclusive.rows_needed:,}" in headline(page)
    near(column(page, "Rows", 1), (300, results.inconclusive.rows_needed))
    assert sections(page)[:3] == ["missing", "interval", "labels"]


def test_inconclusive__asks_for_less_only_if_that_is_possible(results: Results) -> None:
    assert results.inconclusive.eps == 0.25
    page = Page(render_report(results.inconclusive))
    assert "larger --eps" not in page.text
    assert "the coarsest question there is" in page.text
    page = Page(render_report(replace(results.inconclusive, eps=0.1)))
    assert "larger --eps" in page.text
    assert "Fewer rows settle a coarser question" in page.text


@pytest.mark.parametrize("name", ["accepted", "certificate"])
def test_certificate__numbers(results: Results, pages: dict[str, Page], name: str) -> None:
    result, page = getattr(results, name), pages[name]
    found = result.certificate
    shown = column(page, f"Certified interval, halfspaces {class_words(found.opt.through)}", 1)
    near(shown, (found.opt.lower_empirical, found.error, found.opt.lower, result.error.upper))
    for index, key in enumerate(("angle_low", "angle_high")):
        angles = [value(cell) for cell in column(page, "Lower bound by angle", index)]
        exact = [math.degrees(getattr(one, key)) for one in found.profile]
        assert angles == pytest.approx(exact, abs=0.006)
    near(column(page, "Lower bound by angle", 2), [one.bound for one in found.profile])
    assert column(page, "Lower bound by angle", 3) == [one.family for one in found.profile]
    shown = [row for row in page.body("Weights") if row[0] != "offset"]
    near([row[1] for row in shown], result.halfspace.normal)


def test_promises__numbers(results: Results, pages: dict[str, Page]) -> None:
    result, page = results.accepted, pages["accepted"]
    assert result.error is not None
    assert result.constant is not None
    rows = page.body("Which constant at which scale")
    assert rows
    for row, one in zip(rows, result.promises, strict=True):
        assert one.constant is not None
        near(row[:4], (one.delta, one.eps, one.deviation, one.masses_off))
        assert 0 <= value(row[4]) - one.constant < 0.1 + 1e-9  # rounded up
        near([row[5]], [one.constant * result.error.empirical + one.eps])
    assert "Which constant" not in render_report(results.rejected)
    assert "Which constant" not in render_report(replace(result, constant=None))


def test_candidates__numbers(results: Results, pages: dict[str, Page]) -> None:
    candidates = results.accepted.candidates
    assert len(candidates) > 1
    for index, key in {2: "error", 4: "threshold"}.items():
        shown = column(pages["accepted"], "Candidates", index)
        near(shown, [getattr(one, key) for one in candidates])
    path = [one for one in candidates if one.method is Method.PATH]
    columns = {5: "delta", 6: "step", 7: "rows_seen", 8: "rows_accepted", 10: "beta"}
    for index, key in columns.items():
        shown = column(pages["accepted"], "Candidates", index)
        near(shown[: len(path)], [getattr(one, key) for one in path])
        assert set(shown[len(path) :]) <= {"–"}
    ratios = [one.rows_accepted / (one.rows_seen * (one.rate or one.delta)) for one in path]
    near(column(pages["accepted"], "Candidates", 9)[: len(path)], ratios)
    angles = [value(cell) for cell in column(pages["accepted"], "Candidates", 3)]
    assert angles == pytest.approx([math.degrees(one.angle) for one in candidates], abs=0.006)


def test_diagnostics__numbers(results: Results, pages: dict[str, Page]) -> None:
    result, page = results.accepted, pages["accepted"]
    found = result.measurements
    assert found is not None
    near(column(page, "Rows in slabs", 1), found.slab_counts)
    total = sum(found.slab_counts)
    near(column(page, "Rows in slabs", 2), [one / total for one in found.slab_counts])
    gaussian = [value(cell) for cell in column(page, "Rows in slabs", 3)]
    assert sum(gaussian) == pytest.approx(1, abs=1e-3)
    near(column(page, "Second moments in slices", 1), found.eigenvalues)
    moments = page.body("Moments of each feature")
    near([cell for row in moments for cell in row[1:]], np.ravel(found.feature_moments))
    pairs = page.body("Moments of pairs")
    near([cell for row in pairs for cell in row[1:]], np.ravel(found.pair_moments))


def test_slabs__are_about_the_threshold(results: Results) -> None:
    measured = results.accepted.measurements
    assert measured is not None
    assert "boundary, t" not in render_report(results.accepted)
    page = Page(
        render_report(replace(results.accepted, measurements=replace(measured, threshold=1.3)))
    )
    assert page.tables["Rows in slabs"][0][0] == "v·x - t"
    assert page.tables["Second moments in slices"][0][0] == "v·x - t"
    gaussian = [value(cell) for cell in column(page, "Rows in slabs", 3)]
    assert sum(gaussian[len(gaussian) // 2 :]) == pytest.approx(0.0968, abs=1e-4)
    words = [one.text for one in page.all("text")]
    assert words.count("boundary, t = 1.3") == 4  # two figures, for a page and for a phone
    assert words.count("v·x - t, distance from the boundary") == 6  # and the residuals


def test_slabs__distance_is_the_testers_own(results: Results, pages: dict[str, Page]) -> None:
    result = results.accepted
    own = [one for one in result.testers if one.candidate == result.chosen]
    judged = [one for one in own if one.tester == "slab mass"]
    captions = [one.text for one in pages["accepted"].all("figcaption")]
    assert any(f"differ by {judged[0].statistic:.4g} in all" in text for text in captions)


def test_moments__first_evidence_is_named(results: Results, pages: dict[str, Page]) -> None:
    judged = next(one for one in results.accepted.testers if one.tester == "largest moment")
    assert f"mean of {evidence_name(judged.evidence[0])}" in pages["accepted"].text


def test_testers__summary_and_every_judgement(results: Results, pages: dict[str, Page]) -> None:
    testers, page = results.accepted.testers, pages["accepted"]
    for name, outcomes, worst, limit, pass_name in page.body("Testers"):
        own = [one for one in testers if one.tester == name]
        rows = next(page.body(key) for key in page.tables if key.startswith(f"{name}: "))
        words = [[one.pass_name, outcome_words(one)] for one in own]
        assert [row[:2] for row in rows] == words
        near([row[2] for row in rows], [one.statistic for one in own])
        near([row[3] for row in rows], [one.limit for one in own])
        near([row[4] for row in rows], [one.null_quantile for one in own])
        near([row[5] for row in rows], [one.n_rows for one in own])
        counted = [one for one in own if one.role is not Role.EARLY]
        assert sum(int(number) for number in re.findall(r"\d+", outcomes)) == len(counted)
        judged = [one for one in own if one.has_say]
        shown = [f"{one.statistic:.4g} {one.limit:.4g} {one.pass_name}" for one in judged]
        assert f"{worst} {limit} {pass_name}" in (shown or ["– – –"])


def test_evidence__lines_are_named_only_if_they_can_be_told_apart(results: Results) -> None:
    rejection = leading_rejection(results.rejected.testers)
    assert rejection is not None
    together = replace(rejection, null_quantile=1.001 * rejection.limit)
    apart = replace(rejection, null_quantile=0.5 * rejection.statistic)
    for test_result, dotted in ((together, False), (apart, True)):
        page = Page(render_report(replace(results.rejected, testers=(test_result,))))
        (evidence,) = (one for one in page.all("section") if one.attributes["id"] == "evidence")
        assert ("Dotted line" in evidence.text) is dotted
        assert ('class="stroke chance"' in page.source) is dotted


def test_passes_and_facts__numbers(results: Results, pages: dict[str, Page]) -> None:
    result, page = results.accepted, pages["accepted"]
    *rows, everything = page.body("Passes")
    assert [row[0] for row in rows] == [one.name for one in result.passes]
    near([row[1] for row in rows], [one.rows_read for one in result.passes])
    near([row[2] for row in rows], [one.rows_accepted for one in result.passes])
    seconds = [value(row[4]) for row in rows]
    assert seconds == pytest.approx([one.seconds for one in result.passes], abs=0.006)
    assert value(everything[1]) == sum(one.rows_read for one in result.passes)
    units = {"B": 1, "kB": 1e3, "MB": 1e6}
    sizes = [float(row[3].split()[0]) * units[row[3].split()[1]] for row in rows]
    assert sizes == pytest.approx([one.bytes_read for one in result.passes], rel=0.06)
    facts = {row[0]: row[1] for row in page.body("Facts")}
    assert facts["rows"] == f"{ROWS:,}"
    assert facts["features"] == str(DIM)
    assert facts["digest of this document"] == result.digest
    assert facts["fingerprint of the data"] == result.data.fingerprint
    assert facts["streamhalf"] == result.versions.streamhalf


CODES = (
    *("through", "type", "kind", "role", "stage", "reason", "code", "split", "quantity", "method"),
)
"""Where only some words are allowed."""


def poison(data: Any) -> Any:
    """Every text of a document made hostile, except codes."""
    if isinstance(data, dict):
        kept = ("schema", "verdict", "outcome", "tester", "method", *CODES)
        return {key: one if key in kept else poison(one) for key, one in data.items()}
    if isinstance(data, list | tuple):
        return [poison(one) for one in data]
    return f"{data}{HOSTILE}" if isinstance(data, str) else data


@pytest.mark.parametrize("name", EVERY)
def test_text__of_the_document_is_escaped(results: Results, tmp_path: Path, name: str) -> None:
    document = poison(to_json(getattr(results, name)))
    said = (HOSTILE, "`code` " + HOSTILE)
    document["notices"] = [{"type": "remark", "text": text} for text in said]
    for one in document.get("testers", [])[:1]:
        one["tester"] = HOSTILE
    path = tmp_path / "hostile.json"
    path.write_text(json.dumps(document))
    source = render_report(read_result(path))
    assert "<script" not in source
    assert "<img" not in source
    page = Page(source)
    assert not page.all("script")
    assert not page.all("img")
    assert not any(key.startswith("on") for one in page.elements for key in one.attributes)
    assert HOSTILE in page.text
    assert HOSTILE in page.all("title")[0].text


def test_parts__that_are_absent_are_left_out(results: Results) -> None:
    accepted = results.accepted
    absent = {"certificate": None, "measurements": None, "candidates": (), "promises": ()}
    bare = replace(accepted, transforms=(), **absent)
    found = sections(Page(render_report(bare)))
    assert found == ["labels", "halfspace", "testers", "passes", "facts", "settings"]
    empty = replace(bare, halfspace=None, error=None, testers=(), passes=())
    page = Page(render_report(empty))
    assert sections(page) == ["facts", "settings"]
    assert not page.all("svg")


def test_moments__of_wide_data_have_no_pairs(results: Results) -> None:
    assert results.accepted.measurements
    rng = np.random.default_rng(0)
    rows = tuple(tuple(row) for row in rng.normal(size=(100, 2)).tolist())
    wide = replace(results.accepted.measurements, pair_moments=(), feature_moments=rows)
    page = Page(render_report(replace(results.accepted, measurements=wide)))
    shown = page.body("Moments of each feature")
    assert "Moments of pairs" not in page.tables
    # the 64 features with the largest moments, in order
    order = np.argsort(-np.abs(rows).max(axis=1))[:64]
    assert [row[0] for row in shown] == [numbered(int(i)) for i in sorted(order)]


def scramble(data: Any, number: float) -> Any:
    if isinstance(data, dict):
        return {key: scramble(one, number) for key, one in data.items()}
    if isinstance(data, list | tuple):
        return [scramble(one, number) for one in data]
    return number if isinstance(data, float) else data


@pytest.mark.parametrize("number", [0.0, -1.0, 1e308, -1e308, 1e-300])
@pytest.mark.parametrize("name", EVERY)
def test_page__survives_any_number(
    results: Results, tmp_path: Path, name: str, number: float
) -> None:
    document = scramble(to_json(getattr(results, name)), number)
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(document))
    page = Page(render_report(read_result(path)))
    drawn = "".join(str(one.attributes) for one in page.elements if "svg" in one.parents)
    assert "nan" not in drawn
    assert "inf" not in drawn


def test_page__survives_lists_of_other_lengths(results: Results) -> None:
    accepted = results.accepted
    assert accepted.measurements
    assert accepted.halfspace
    ragged = replace(
        accepted.measurements,
        feature_moments=((0.1,), (0.1, 0.2)),
        pair_moments=((0.1,), (0.1, 0.2)),
        slab_counts=(1, 2, 3),
        eigenvalues=(1.0,),
    )
    odd = replace(
        accepted,
        measurements=ragged,
        chosen=99,
        halfspace=replace(accepted.halfspace, normal=()),
    )
    found = sections(Page(render_report(odd)))
    assert not {"slabs", "slices", "moments", "halfspace"} & set(found)


@pytest.mark.parametrize(
    ("axis", "most"),
    [
        (Axis("a", 0.0, 1.0), 5),
        (Axis("a", -3.1, 7.2), 4),
        (Axis("a", 0.0, 1e-7), 6),
        (Axis("a", -0.3, 1.3, whole=True), 9),
        (Axis("a", 0.004, 1.5, log=True), 5),
        (Axis("a", 1e-9, 1e9, log=True), 5),
    ],
)
def test_ticks__are_few_and_inside(axis: Axis, most: int) -> None:
    found = ticks(axis, most)
    assert 2 <= len(found) <= most + 1
    assert all(axis.low - 1e-9 <= one <= axis.high * (1 + 1e-9) for one in found)
    assert len(set(found)) == len(found)
    if axis.whole:
        assert all(one == int(one) for one in found)


def test_command__writes_the_page_beside_the_result(results: Results, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_json(path, results.certificate)
    assert main(["report", str(path)]) == 0
    text = (tmp_path / "result.html").read_text(encoding="utf-8")
    assert text == render_report(results.certificate)
    assert main(["report", str(path), "--out", str(tmp_path / "other.html")]) == 0
    assert (tmp_path / "other.html").read_text(encoding="utf-8") == text


def test_command__never_replaces_the_result(
    results: Results, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "result.html"
    write_json(path, results.inconclusive)
    assert main(["report", str(path)]) == 2
    assert "the result file itself" in capsys.readouterr().err
    assert read_result(path).digest == results.inconclusive.digest


def test_fit_and_certify__write_a_report(tmp_path: Path) -> None:
    store, page = str(tmp_path / "data.zarr"), tmp_path / "page.html"
    main(["synth", store, "--rows", "300", "--dim", "3", "--quiet"])
    assert main(["fit", store, "--quiet", "--report", str(page)]) == 11
    assert "Inconclusive" in Page(page.read_text(encoding="utf-8")).text
    weights = tmp_path / "weights.json"
    weights.write_text("[1, 0, 0]")
    options = ["--weights", str(weights), "--quiet", "--report", str(page)]
    assert main(["certify", store, *options]) == 0
    assert "Certificate" in Page(page.read_text(encoding="utf-8")).text


def test_fit__refuses_a_report_it_could_not_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = str(tmp_path / "absent" / "page.html")
    assert main(["fit", str(tmp_path / "no-store"), "--report", target]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_api__writes_what_is_rendered(results: Results, tmp_path: Path) -> None:
    result: FitResult | CertifyResult = results.rejected
    api.report(result, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == render_report(result)


def profile(results: Results, *, error: float, bounds: tuple[float, ...]) -> Plot:
    """The picture of the lower bound by angle for other numbers."""
    certificate = results.accepted.certificate
    assert certificate is not None
    pieces = tuple(
        AngleRecord(angle, angle + 1.0, bound, "pair")
        for angle, bound in zip((0.0, 1.0, 2.0), bounds, strict=True)
    )
    opt = replace(certificate.opt, lower_empirical=min(bounds))
    figure = profile_figure(replace(certificate, error=error, opt=opt, profile=pieces))
    assert figure is not None
    (picture,) = figure.pictures
    assert isinstance(picture, Plot)
    return picture


def test_profile__labels_stay_off_the_axis_and_the_scale_fits(results: Results) -> None:
    picture = profile(results, error=0.00037, bounds=(0.0, 0.01, 0.01))
    assert picture.y.high < 3 * 0.037
    rules = {mark.label: mark for mark in picture.marks if isinstance(mark, Rule)}
    assert not rules["L = 0.000%"].below
    apart = profile(results, error=0.05, bounds=(0.03, 0.05, 0.05))
    rules = {mark.label: mark for mark in apart.marks if isinstance(mark, Rule)}
    assert rules["L = 3.000%"].below


def test_one_feature__has_no_figures_of_other_directions() -> None:
    rng = np.random.default_rng(4)
    X = rng.standard_normal((120_000, 1))
    y = np.where((X[:, 0] > 0) ^ (rng.random(len(X)) < 0.05), 1, -1)
    page = Page(render_report(streamhalf.fit((X, y), eps=0.25)))
    assert "slices" not in sections(page)
    assert "of 1 feature" in page.text
    assert "angle to the returned halfspace" not in page.text


def test_inconclusive__the_bar_names_its_rows_once(results: Results) -> None:
    page = Page(render_report(results.inconclusive))
    texts = [one.text for one in page.all("text")]
    assert "rows at hand: 300" in texts
    assert "300" not in texts


def test_accepted_without_bound__says_nothing_twice(results: Results) -> None:
    testers = tuple(without_say(one) for one in results.accepted.testers)
    result = replace(results.accepted, certificate=None, opt=None, ratio=None, testers=testers)
    page = Page(render_report(result))
    assert result.error is not None
    assert page.all("header")[0].text.count(f"{100 * result.error.empirical:.3f}%") == 1
    extra = next(one for one in result.testers if one.role is Role.EXTRA)
    doubtful = replace(result, testers=(replace(extra, outcome=Outcome.INCONCLUSIVE),))
    said = "“Extra, not judged” marks a test that these rows are too few for"
    assert said in Page(render_report(doubtful)).text


def test_paragraphs__set_options_as_code(results: Results) -> None:
    certificate = results.accepted.certificate
    assert certificate is not None
    advised = replace(certificate, advice=Advice(AdviceCode.HIGHER_DEGREE, degree=8))
    page = render_report(replace(results.accepted, certificate=advised))
    assert "<code>--certificate-degree 8</code> would tighten it" in page
    assert "`" not in page
