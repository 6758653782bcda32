"""The testers of one pass: what they need in one bundle, their test_results in one tuple."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from streamhalf.reductions.row_view import Bundle
from streamhalf.results import TestResult
from streamhalf.testers.base import Context, Tester

T = TypeVar("T", bound=Tester)


@dataclass(frozen=True, slots=True, eq=False)
class TesterSet:
    """Testers that share one read of every block."""

    testers: tuple[Tester, ...]

    @classmethod
    def of(cls, registry: Iterable[type[Tester]], context: Context) -> TesterSet:
        """Those of the registry that have a say in a pass."""
        found = (kind.of(context) for kind in registry)
        return cls(tuple(tester for tester in found if tester is not None))

    def needs(self) -> Bundle:
        """The statistics of all of them."""
        return Bundle(tuple(tester.needs() for tester in self.testers))

    def judge(self, results: tuple[Any, ...], *, n_seen: int) -> tuple[TestResult, ...]:
        """All test_results, tester by tester."""
        pairs = zip(self.testers, results, strict=True)
        return tuple(one for tester, result in pairs for one in tester.judge(result, n_seen=n_seen))

    def find(self, kind: type[T]) -> T:
        """The tester of a kind."""
        return next(tester for tester in self.testers if isinstance(tester, kind))

    def result_of(self, kind: type[Tester], results: tuple[Any, ...]) -> Any:
        """What the tester of a kind needed, among the results."""
        pairs = zip(self.testers, results, strict=True)
        return next(result for tester, result in pairs if isinstance(tester, kind))

    def rows_needed(self) -> int:
        """Rows that make all of them conclusive."""
        return max((tester.rows_needed() for tester in self.testers), default=1)
