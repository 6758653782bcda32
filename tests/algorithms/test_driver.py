"""Commands from open data to a result, on the serial engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pytest

import streamhalf
from streamhalf import MemoryBudgetError, events
from streamhalf.algorithms import driver
from streamhalf.reductions import LabelCounts
from streamhalf.reductions.labels import LabelledRows
from streamhalf.results import (
    Evidence,
    FitResult,
    Halfspace,
    Named,
    Notice,
    NoticeCode,
    Outcome,
    Role,
    Stage,
    TestResult,
    Verdict,
)
from streamhalf.testers import TESTERS, Context
from tests.algorithms.runs import N_ROWS, draw, names_of, serial_run
from tests.saying import said

DATA = draw()


def fit(data: Any = DATA, *, testers: tuple = TESTERS, **parameters: Any):
    with serial_run(data, **parameters) as (run, source, config, seen):
        result = driver.fit(run, source, config, testers=testers)
        assert tuple(run.passes) == result.passes
        return result, seen


@pytest.fixture(scope="module")
def fitted() -> tuple[FitResult, list[Any]]:
    return fit(draw(200_000), eps=1 / 16, certificate_degree=2)


def test_fit__passes_in_their_order(fitted: tuple[FitResult, list[Any]]) -> None:
    result, seen = fitted
    names = [record.name for record in result.passes]
    updates = [f"update-{i + 1}" for i in range(len(names) - 6)]
    last = ["refine", "thresholds", "final", "certificate"]
    assert names == ["sample", "initial", *updates, *last]
    assert len(updates) >= 3
    assert [event.record.name for event in seen if isinstance(event, events.PassEnded)] == names
    # of so few rows every pass reads all, and keeps its share
    assert {record.rows_read for record in result.passes} == {200_000}


def test_fit__tells_every_judgement_when_it_is_made(fitted: tuple[FitResult, list[Any]]) -> None:
    result, seen = fitted
    told = [event.test_result for event in seen if isinstance(event, events.TesterJudged)]
    assert tuple(told) == result.testers
    ended: list[str] = []
    for event in seen:
        if isinstance(event, events.PassEnded):
            ended.append(event.record.name)
        if isinstance(event, events.TesterJudged):
            assert event.test_result.pass_name == ended[-1]
    (slabs,) = (event for event in seen if isinstance(event, events.SlabsMeasured))
    assert slabs.counts == result.measurements.slab_counts


@dataclass(frozen=True, slots=True)
class Toy:
    """Rejects where labels are mostly positive; asked in one kind of pass."""

    stage: ClassVar[Stage] = Stage.INITIAL
    outcome: ClassVar[Outcome] = Outcome.REJECTED
    asked: ClassVar[list[Stage]] = []

    name: ClassVar[str] = "toy"
    share: ClassVar[float] = 0.0
    words: ClassVar[Mapping[str, Any]] = {}

    @classmethod
    def of(cls, context: Context) -> Self | None:
        cls.asked.append(context.stage)
        return cls() if context.stage is cls.stage else None

    def needs(self) -> LabelCounts:
        return LabelCounts()

    def rows_needed(self) -> int:
        return 1

    def judge(self, result: LabelledRows, *, n_seen: int) -> tuple[TestResult, ...]:
        share = result.positive / result.n_rows
        evidence = (Evidence(Named("positive labels"), share, 0.0, share, 0.1),)
        said = TestResult("toy", self.outcome, share, 0.1, 0.2, result.n_rows, evidence=evidence)
        return (said,)


def toy(stage: Stage, outcome: Outcome) -> type[Toy]:
    return type("Own", (Toy,), {"__slots__": (), "stage": stage, "outcome": outcome, "asked": []})


@pytest.mark.parametrize("stage", [Stage.INITIAL, Stage.UPDATE, Stage.FINAL])
def test_fit__a_tester_that_is_added_is_asked_and_its_rejection_decides(stage: Stage) -> None:
    own = toy(stage, Outcome.REJECTED)
    result, seen = fit(testers=(*TESTERS, own), certificate_degree=2, sampling="rows", max_ratio=1.0)
    assert own.asked
    assert result.verdict is Verdict.REJECTED
    # neither a warning nor a rejection ends anything
    passes = [record.name for record in result.passes]
    last = ["refine", "thresholds", "final", "certificate"]
    assert passes == ["sample", "initial", "update-1", *last]
    said = [one for one in result.testers if one.outcome is Outcome.REJECTED]
    early = {Stage.INITIAL: ["initial"], Stage.UPDATE: ["update-1"], Stage.FINAL: []}[stage]
    last = [one for one in said if one.pass_name == "final"]
    assert [one.pass_name for one in said] == [*early, *(one.pass_name for one in last)]
    assert {one.role for one in said[: len(early)]} <= {Role.EARLY}
    assert {one.role for one in last} == {Role.REQUIRED}
    assert {one.tester for one in said} == {"toy"}
    assert said[-1].statistic == pytest.approx(0.5, abs=0.05)
    told = [event.test_result for event in seen if isinstance(event, events.TesterJudged)]
    assert all(one in told for one in said)
    assert result.halfspace is not None
    assert result.error.empirical == pytest.approx(0.05, abs=0.01)
    assert result.certificate is not None
    assert result.opt == result.certificate.opt


@pytest.mark.parametrize("label", [1, -1])
def test_fit__one_class_is_told_after_counting_all_labels(label: int) -> None:
    X, _ = DATA
    result, _ = fit((X, np.full(N_ROWS, label, dtype=np.int8)))
    assert result.notices[0] == Notice.of(NoticeCode.ONE_CLASS, label=label)
    assert result.passes[-1].name == "labels"
    assert result.verdict is not Verdict.ACCEPTED


def test_fit__no_room_for_a_certificate_is_told_before_anything_is_read() -> None:
    tight = {"certificate_memory": 1 << 20, "certificate_degree": 2, "sampling": "reuse"}
    with serial_run(draw(42_000, dim=60), **tight) as (run, source, config, _):
        for command in (
            lambda: driver.fit(run, source, config),
            lambda: driver.certify(run, source, config, Halfspace((1.0,) * 60)),
        ):
            with pytest.raises(MemoryBudgetError, match="memory: 1 MiB; the coarsest slabs"):
                command()
        assert names_of(run) == []


def test_test__of_wide_rows_looks_at_a_sketch_and_says_so() -> None:
    X = np.random.default_rng(3).standard_normal((20_000, 70)).astype(np.float32)
    rows = (X, np.where(X[:, 0] >= 0, 1, -1))
    result = streamhalf.test(rows, feature_transform="stored", seed=5, scheduler="serial")
    assert [one.directions for one in result.testers] == [24, 24, 24]
    assert result.passes[-1].rows_read == 20_000
    text = said(result)
    assert "Moments above degree 2 were tested along 24 directions only" in text


def test_certify__reads_a_pilot_and_then_all_rows_once() -> None:
    halfspace = Halfspace((1.0, 1.0), 0.1)
    with serial_run(DATA, certificate_degree=2) as (run, source, config, _):
        result = driver.certify(run, source, config, halfspace)
        assert names_of(run) == ["pilot", "certificate"]
        assert [record.rows_read for record in run.passes] == [65_536, N_ROWS]
    wrong = halfspace.plane.errors(*DATA)
    assert result.error.empirical == wrong / N_ROWS
    assert result.certificate.n_errors == wrong
    assert result.halfspace == halfspace
