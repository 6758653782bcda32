"""Three-outcome tests of the x-marginal, one per file; `TESTERS` is the registry."""

from collections.abc import Mapping

from streamhalf.testers.acceptance import AcceptanceTester
from streamhalf.testers.base import Context, Tester, TesterSet, TesterWords
from streamhalf.testers.exchangeability import ExchangeabilityTester
from streamhalf.testers.moments import MomentTester
from streamhalf.testers.slabs import SlabCovarianceTester, SlabMassTester
from streamhalf.testers.wedge import WedgeTester

TESTERS: tuple[type[Tester], ...] = (
    AcceptanceTester,
    MomentTester,
    ExchangeabilityTester,
    SlabMassTester,
    SlabCovarianceTester,
    WedgeTester,
)

WORDS: Mapping[str, TesterWords] = {name: words for tester in TESTERS for name, words in tester.words.items()}
"""By the name that a test result carries."""

__all__ = ["TESTERS", "WORDS", "Context", "Tester", "TesterSet", "TesterWords"]
