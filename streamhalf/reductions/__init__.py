"""Statistics, one mergeable reduction per file; `REDUCTIONS` is the family's only registry."""

from streamhalf.reductions.base import Bundle, Reduction
from streamhalf.reductions.chow import Chow
from streamhalf.reductions.covariance import Covariance
from streamhalf.reductions.label_counts import LabelCounts
from streamhalf.reductions.moments import Moments
from streamhalf.reductions.segment_scatter import SegmentScatter

REDUCTIONS: tuple[type, ...] = (
    Bundle,
    Chow,
    Covariance,
    LabelCounts,
    Moments,
    SegmentScatter,
)

__all__ = ["REDUCTIONS", "Reduction", *(cls.__name__ for cls in REDUCTIONS)]
