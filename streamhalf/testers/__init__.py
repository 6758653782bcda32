"""Three-outcome tests of the x-marginal, one per file; `TESTERS` is the family's only registry."""

from streamhalf.testers.acceptance import AcceptanceTester
from streamhalf.testers.exchangeability import ExchangeabilityTester
from streamhalf.testers.moments import MomentTester
from streamhalf.testers.slab_covariance import SlabCovarianceTester
from streamhalf.testers.slab_mass import SlabMassTester

TESTERS: tuple[type, ...] = (
    AcceptanceTester,
    ExchangeabilityTester,
    MomentTester,
    SlabCovarianceTester,
    SlabMassTester,
)

__all__ = ["TESTERS", *(cls.__name__ for cls in TESTERS)]
