"""The terminal: 80 columns, every verdict in words, and nothing taken for markup."""

from __future__ import annotations

import dataclasses
import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

import streamhalf
from streamhalf.report import codes, terminal, words
from streamhalf.results import (
    AS_WRITTEN,
    Claim,
    MomentTestResult,
    Named,
    Notice,
    NoticeCode,
    Outcome,
    Role,
    VerifyResult,
    replace,
)
from tests.report.conftest import Results

MARKUP = "[bold red]x[/] [/red] [link=y]"


def show(view: Callable[[Console, Any], None], value: Any, *, colours: bool = False) -> str:
    stream = io.StringIO()
    view(Console(file=stream, width=80, force_terminal=colours), value)
    return stream.getvalue()


def flat(text: str) -> str:
    """Text with line breaks and frames undone."""
    return " ".join(text.replace("│", " ").split())


def assert_fits(text: str) -> None:
    assert max(cell_len(line) for line in text.splitlines()) <= 80


@pytest.fixture(scope="module")
def tested() -> dict[str, MomentTestResult]:
    X = np.random.default_rng(3).standard_normal((20_000, 3))
    y = np.where(X[:, 0] > 0, 1, -1)
    return {
        "passed": streamhalf.test((X, y)),
        "rejected": streamhalf.test((X * 1000 + 5000, y), feature_transform="stored"),
        "inconclusive": streamhalf.test((X[:300], y[:300])),
    }


@pytest.mark.parametrize("name", ["accepted", "rejected", "inconclusive", "radial"])
def test_fit__fits_and_says_the_verdict(results: Results, name: str) -> None:
    result = getattr(results, name)
    text = show(terminal.show_fit, result)
    assert_fits(text)
    first, *rest = text.splitlines()
    assert first.startswith(f"╭─ {result.verdict.upper()} ─")
    assert len(first) == len(rest[[line[0] for line in rest].index("╰")])
    assert flat(words.fit_sentence(result)) in flat(text)
    for tester in {one.tester for one in result.testers}:
        assert tester in text
    assert ("evidence: largest moment" in text) is (name == "rejected")


@pytest.mark.parametrize("name", ["passed", "rejected", "inconclusive"])
def test_test__fits_and_says_the_verdict(tested: dict[str, MomentTestResult], name: str) -> None:
    result = tested[name]
    assert str(result.verdict) == name
    text = show(terminal.show_test, result)
    assert_fits(text)
    assert text.startswith(f"╭─ {name.upper()} ─")
    assert flat(words.moment_sentence(result)) in flat(text)
    rejected = [one for one in result.testers if one.outcome is Outcome.REJECTED]
    assert text.count("evidence: ") == len(rejected)
    for test_result in rejected:
        assert f"{test_result.evidence[0].observed:.4g}" in text


def test_test__an_extra_test_shows_no_limit(tested: dict[str, MomentTestResult]) -> None:
    (line,) = (
        line
        for line in show(terminal.show_test, tested["inconclusive"]).splitlines()
        if "extra, not judged" in line
    )
    assert line.split("judged")[1].split()[1] == "–"


def test_certificate__fits(results: Results) -> None:
    text = show(terminal.show_certificate, results.certificate)
    assert_fits(text)
    assert text.startswith("╭─ CERTIFICATE ─")
    assert flat(words.certify_sentence(results.certificate)) in flat(text)


def test_outcomes__have_their_colours(results: Results) -> None:
    text = show(terminal.show_fit, results.rejected, colours=True)
    assert "\x1b[1;31mREJECTED\x1b[0m" in text
    assert "rejected\x1b[0m" in text
    assert "\x1b[32m2 passed\x1b[0m" in text
    early = tuple(replace(one, role=Role.EARLY) for one in results.rejected.testers)
    warned = replace(results.accepted, testers=(*results.accepted.testers, *early))
    assert "rejected" not in show(terminal.show_fit, warned)
    noticed = replace(results.rejected.testers[0], outcome=Outcome.NOT_JUDGED, role=Role.EXTRA)
    text = show(terminal.show_fit, replace(warned, testers=(noticed,)), colours=True)
    assert "\x1b[2m1 extra, not judged\x1b[0m" in text


@pytest.mark.parametrize("name", ["accepted", "rejected"])
def test_fit__takes_no_word_for_markup(results: Results, name: str) -> None:
    result = getattr(results, name)
    testers = tuple(
        replace(
            one,
            tester=MARKUP,
            pass_name="[/b]",
            evidence=tuple(replace(item, subject=Named(MARKUP)) for item in one.evidence),
        )
        for one in result.testers
    )
    certificate = result.certificate
    if certificate is not None:
        certificate = replace(certificate, digest=MARKUP)
    odd = replace(result, testers=testers, certificate=certificate)
    text = show(terminal.show_fit, odd)
    for word in (*MARKUP.split(), "[/b]"):
        assert word in text


def test_store__takes_no_name_for_markup(tmp_path: Path) -> None:
    path = tmp_path / "[red]rows["
    streamhalf.synth(str(path), rows=300, dim=2, marginal="gaussian", noise="random", rate=0.1)
    text = show(terminal.show_store, streamhalf.inspect(str(path)))
    assert_fits(text)
    assert "[red]rows[" in "".join(text.split())
    assert "300" in text
    notice = dataclasses.replace(
        streamhalf.inspect(str(path)),
        notices=(Notice.of(NoticeCode.LABELS_ABSENT, array="[b]odd[/b]"),),
    )
    assert "notice: [b]odd[/b]" in show(terminal.show_store, notice)


def test_verification__names_what_does_not_hold() -> None:
    holds = VerifyResult((Claim("error [x]", "0.1", "0.1", True),))
    text = show(terminal.show_verification, holds)
    assert "error [x]" in text
    assert "every claim holds" in text
    broken = VerifyResult((*holds.claims, Claim(AS_WRITTEN, "ab", "cd", False)))
    text = show(terminal.show_verification, broken)
    assert_fits(text)
    assert "1 claim does not hold" in text
    assert "its digest does not fit" in text


@pytest.mark.parametrize(("rows", "said"), [(10_000_000, "can judge"), (100, "are too few for")])
def test_plan__rows_add_up(rows: int, said: str) -> None:
    record = streamhalf.plan(rows=rows, dim=5)
    text = show(terminal.show_plan, record)
    assert_fits(text)
    assert said in text
    assert ("supports, about" in text) is bool(record.promises) is record.conclusive
    for best in sorted(record.promises, key=lambda one: one.constant or math.inf)[:1]:
        assert f"{codes.constant(best.constant or 0)} opt + {best.eps:.4g}" in flat(text)
    head, *table, _ = text[text.index("pass ") :].splitlines()
    end = head.index("rows used") + len("rows used")
    # refine and thresholds use rows that others have learned from
    lines = [line for line in table if not line.startswith(("refine", "thresholds"))]
    assert len(lines) == len(table) - 2
    counts = [int(line[:end].split()[-1].replace(",", "")) for line in lines]
    assert counts[-1] == max(rows, record.rows_needed)
    if record.conclusive:  # of no more rows than it takes, passes share some
        assert sum(counts[:-1]) == counts[-1]
    else:
        assert max(counts[:-1]) < counts[-1] < sum(counts[:-1])
    assert codes.nbytes(record.nbytes) in table[-1]
