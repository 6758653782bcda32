"""The laws that every tester obeys."""

from __future__ import annotations

import itertools
import pickle
from functools import partial
from typing import Any

import numpy as np

from streamhalf.config import RunConfig
from streamhalf.data.block import Block
from streamhalf.kernels.frame import Frame
from streamhalf.kernels.plane import Plane
from streamhalf.results import Outcome, Stage, TestResult, from_json, to_json
from streamhalf.testers.base import Context, Tester
from streamhalf.testing.drawing import fold

_ROWS = 20_000
_DIM = 3
_EPS = 0.25
_TAU = 1e-6
"""Rows of N(0, I) are rejected by chance once in a million times."""


def check_tester(tester: type[Tester]) -> None:
    """Raise an AssertionError if the tester breaks a law.

    It has a say in some pass; its share of tau is one; it says so few false words that rows of
    N(0, I) are not rejected; what it needs is the same however rows are cut; every result is one
    that words exist for, goes to JSON and back, and names the rows it would take if it cannot tell.

    Parameters
    ----------
    tester
        The class; `of` is called with a context of every pass.
    """
    assert 0 <= tester.share <= 1, f"share: {tester.share} is no share of tau"
    made = [(context, tester.of(context)) for context in _contexts()]
    assert any(one is not None for _, one in made), "it has a say in no pass"
    for context, one in made:
        if one is not None:
            _check_pass(one, context)


def _contexts() -> list[Context]:
    plane = Plane(np.eye(_DIM)[0])
    stages: dict[Stage, dict[str, Any]] = {
        Stage.INITIAL: {},
        Stage.UPDATE: {"frame": Frame(plane, 0.5)},
        Stage.FINAL: {"candidates": (plane,)},
    }
    rows = partial(Context, config=RunConfig(), dim=_DIM, n_rows=_ROWS, total_rows=_ROWS)
    return [rows(stage=stage, eps=_EPS, tau=_TAU, **known) for stage, known in stages.items()]


def _check_pass(tester: Tester, context: Context) -> None:
    assert tester.rows_needed() >= 1
    rng = np.random.default_rng(7)
    # testers of an update see the frame's rows, which are N(0, I) as well
    n_rows = round(_ROWS * context.frame.rate) if context.frame else _ROWS
    X = rng.standard_normal((n_rows, _DIM)).astype(np.float32)
    y = np.where(X[:, 0] >= 0, np.int8(1), np.int8(-1))
    block = Block(X, y, np.arange(n_rows, dtype=np.int64))
    test_results = _judge(tester, block, n_pieces=1)
    assert test_results, "it says nothing"
    assert test_results == _judge(pickle.loads(pickle.dumps(tester)), block, n_pieces=1)
    cut = _judge(tester, block, n_pieces=7)
    assert [one.outcome for one in cut] == [one.outcome for one in test_results], "chunking matters"
    for one in test_results:
        assert one.tester in tester.words, f"no words for {one.tester!r}"
        assert one.outcome is not Outcome.REJECTED, f"{one.tester} rejects rows of N(0, I)"
        numbers = (one.statistic, one.limit, one.null_quantile)
        assert np.isfinite(numbers).all(), f"{one.tester}: a number is not finite"
        known = one.outcome is not Outcome.INCONCLUSIVE or one.rows_needed is not None
        assert known, f"{one.tester} cannot tell, and not how many rows it takes either"
        assert from_json(TestResult, to_json(one)) == one


def _judge(tester: Tester, block: Block, *, n_pieces: int) -> tuple[TestResult, ...]:
    reduction = tester.needs()
    edges = np.linspace(0, block.n_rows, n_pieces + 1, dtype=int)
    total = fold(reduction, block, [slice(a, b) for a, b in itertools.pairwise(edges)])
    return tester.judge(reduction.finalize(total), n_seen=_ROWS)
