"""Three-outcome tests of the x-marginal, one per file; `TESTERS` is the family's only registry."""

from streamhalf.testers.moments import MomentTester

TESTERS: tuple[type, ...] = (MomentTester,)

__all__ = ["TESTERS", "MomentTester"]
