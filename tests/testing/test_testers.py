"""The check of testers: every registered one passes, and broken ones are found out."""

from __future__ import annotations

from typing import ClassVar

import pytest

from streamhalf.results import Outcome, replace
from streamhalf.testers import TESTERS
from streamhalf.testers.moments import MomentTester
from streamhalf.testing import check_tester


@pytest.mark.parametrize("tester", TESTERS, ids=lambda tester: tester.name)
def test_check_tester__passes_every_registered_one(tester) -> None:
    check_tester(tester)


class Rejecting(MomentTester):
    def judge(self, result, *, n_seen):
        found = super().judge(result, n_seen=n_seen)
        return tuple(replace(one, outcome=Outcome.REJECTED) for one in found)


class Wordless(MomentTester):
    words: ClassVar = {}


class Greedy(MomentTester):
    share: ClassVar[float] = 1.5


class Silent(MomentTester):
    @classmethod
    def of(cls, context):
        return None


class Forgetful(MomentTester):
    def judge(self, result, *, n_seen):
        found = super().judge(result, n_seen=n_seen)
        return tuple(replace(one, outcome=Outcome.INCONCLUSIVE, rows_needed=None) for one in found)


@pytest.mark.parametrize(
    ("broken", "what"),
    [
        (Rejecting, "rejects rows of N"),
        (Wordless, "no words for"),
        (Greedy, "no share of tau"),
        (Silent, "say in no pass"),
        (Forgetful, "how many rows"),
    ],
)
def test_check_tester__finds_what_is_broken(broken, what: str) -> None:
    with pytest.raises(AssertionError, match=what):
        check_tester(broken)
