"""One tau for all that a result says."""

from __future__ import annotations

from streamhalf.algorithms import budget


def test_shares__make_up_tau() -> None:
    assert budget.TESTERS + budget.ERROR + budget.BOUND == 1
    assert 2 * budget.CERTIFIED == 1
