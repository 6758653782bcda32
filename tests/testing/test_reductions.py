"""The check of reductions: it passes what is right, and names the law that is broken."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pytest

from streamhalf.data.block import Block
from streamhalf.reductions import Reduction
from streamhalf.testing import check_reduction


@dataclass(frozen=True)
class Sum(Reduction[Any, Any]):
    """The number of rows and the sums of their features."""

    name = "sum"

    def empty(self, dim: int) -> Any:
        return np.zeros(1 + dim)

    def map(self, block: Block) -> Any:
        return np.append(float(block.n_rows), block.X.sum(axis=0, dtype=np.float64))

    def combine(self, *parts: Any) -> Any:
        return sum(parts)

    def rows_used(self, partial: Any) -> int:
        return int(partial[0])

    def partial_nbytes(self, dim: int) -> int:
        return 8 * (1 + dim)


class StartsAtOne(Sum):
    def empty(self, dim: int) -> Any:
        return np.ones(1 + dim)


class Difference(Sum):
    def combine(self, *parts: Any) -> Any:
        return reduce(lambda left, right: left - right if left.any() else right, parts)


class Mean(Sum):
    def map(self, block: Block) -> Any:
        return super().map(block) / max(1, block.n_rows)


class InPlace(Sum):
    def combine(self, *parts: Any) -> Any:
        first, *others = parts
        for other in others:
            first += other
        return first


class Overwriting(Sum):
    def map(self, block: Block) -> Any:
        np.abs(block.X, out=block.X)
        return super().map(block)


class Unpicklable(Sum):
    def __reduce__(self) -> Any:
        raise TypeError("never")


class Greedy(Sum):
    def partial_nbytes(self, dim: int) -> int:
        return -64


class Boastful(Sum):
    def rows_used(self, partial: Any) -> int:
        return 1 + int(partial[0])


class Ratio(Sum):
    def finalize(self, partial: Any) -> Any:
        with np.errstate(invalid="ignore"):
            return partial / np.abs(partial).sum()


def test_check_reduction__passes_what_is_right() -> None:
    check_reduction(Sum())
    check_reduction(lambda dim: Sum())


@pytest.mark.parametrize(
    ("broken", "law"),
    [
        (StartsAtOne(), "empty_is_neutral"),
        (Difference(), "combine_is_associative|any_chunking_equals_one_chunk"),
        (Mean(), "any_chunking_equals_one_chunk"),
        (InPlace(), "nothing_is_mutated"),
        (Overwriting(), "empty_is_neutral"),
        (Unpicklable(), "partials_and_reductions_pickle"),
        (Greedy(), "partial_size_is_as_planned"),
        (Boastful(), "rows_used_are_counted"),
        (Ratio(), "finalize_takes_any_partial"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Sum) else "",
)
def test_check_reduction__names_the_law_that_is_broken(broken: Sum, law: str) -> None:
    with pytest.raises(AssertionError, match=f"^sum: ({law}) does not hold for"):
        check_reduction(broken)


def test_check_reduction__draws_the_dimensions_that_it_is_given() -> None:
    seen = set()

    def make(dim: int) -> Sum:
        seen.add(dim)
        return Sum()

    check_reduction(make, dims=(2, 5))
    assert seen == {2, 5}


def test_testing__says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    monkeypatch.delitem(sys.modules, "streamhalf.testing")
    with pytest.raises(ImportError, match=r"install streamhalf\[testing\]"):
        importlib.import_module("streamhalf.testing")
