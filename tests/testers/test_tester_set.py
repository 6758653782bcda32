from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from streamhalf.data.block import Block
from streamhalf.reductions import Bundle, LabelCounts
from streamhalf.reductions.labels import LabelledRows
from streamhalf.results import Outcome, Stage, TestResult
from streamhalf.testers import Context, TesterSet
from streamhalf.testers.moments import MomentTester
from streamhalf.testers.slabs import SlabMassTester
from tests.testers.contexts import make_context


@dataclass(frozen=True, slots=True)
class Toy:
    """Says twice how many rows it was told of; in first passes only."""

    rows: int

    name: ClassVar[str] = "toy"
    share: ClassVar[float] = 0.25
    words: ClassVar[Mapping[str, Any]] = {}

    @classmethod
    def of(cls, context: Context) -> Self | None:
        return cls(context.n_rows) if context.stage is Stage.INITIAL else None

    def needs(self) -> LabelCounts:
        return LabelCounts()

    def rows_needed(self) -> int:
        return self.rows

    def judge(self, result: LabelledRows, *, n_seen: int) -> tuple[TestResult, ...]:
        said = TestResult("toy", Outcome.PASSED, 0.0, 1.0, 1.0, result.n_rows)
        return said, TestResult("toy", Outcome.PASSED, 0.0, 1.0, 1.0, n_seen)


REGISTRY = (SlabMassTester, Toy, MomentTester)
INITIAL = make_context(Stage.INITIAL)


def test_of__keeps_those_that_have_a_say_in_their_order() -> None:
    assert [type(one) for one in TesterSet.of(REGISTRY, INITIAL).testers] == [Toy, MomentTester]
    final = TesterSet.of(REGISTRY, make_context(Stage.FINAL))
    assert [type(one) for one in final.testers] == [SlabMassTester]
    assert TesterSet.of((), INITIAL).testers == ()


def test_needs__is_one_bundle_and_judgements_come_tester_by_tester() -> None:
    tester_set = TesterSet.of(REGISTRY, INITIAL)
    X = np.random.default_rng(0).standard_normal((4_000, 3))
    needs = tester_set.needs()
    assert isinstance(needs, Bundle)
    block = Block(X, np.ones(len(X), dtype=np.int8), np.arange(len(X)))
    results = needs.finalize(needs.map(block))
    found = tester_set.judge(results, n_seen=9_999)
    assert [one.tester for one in found] == ["toy", "toy", "largest moment", "second moment", "quadratics"]
    assert [one.n_rows for one in found[:2]] == [4_000, 9_999]
    alone = tester_set.find(MomentTester).judge(results[1], n_seen=9_999)
    assert found[2:] == alone


def test_find__gives_the_tester_of_a_kind_and_its_result() -> None:
    tester_set = TesterSet.of(REGISTRY, INITIAL)
    assert tester_set.find(Toy) == Toy(20_000)
    assert tester_set.find(MomentTester).dim == 3
    assert tester_set.result_of(MomentTester, ("of toy", "of moments")) == "of moments"
    assert tester_set.result_of(Toy, ("of toy", "of moments")) == "of toy"
