"""Three-outcome tests of the x-marginal, one per file; `TESTERS` is what a run walks."""

from collections.abc import Mapping

from streamhalf.testers.acceptance import AcceptanceTester
from streamhalf.testers.base import Context, Tester, TesterWords
from streamhalf.testers.exchangeability import ExchangeabilityTester
from streamhalf.testers.moments import MomentTester
from streamhalf.testers.slab_covariance import SlabCovarianceTester
from streamhalf.testers.slab_mass import SlabMassTester
from streamhalf.testers.tester_set import TesterSet
from streamhalf.testers.wedge import WedgeTester

TESTERS: tuple[type[Tester], ...] = (
    AcceptanceTester,
    MomentTester,
    ExchangeabilityTester,
    SlabMassTester,
    SlabCovarianceTester,
    WedgeTester,
)

WORDS: Mapping[str, TesterWords] = {
    name: words for tester in TESTERS for name, words in tester.words.items()
}
"""What each name in a test_result stands for."""

__all__ = ["TESTERS", "WORDS", "Context", "Tester", "TesterSet", "TesterWords"]
