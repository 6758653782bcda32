"""Statistics, one subject per file; `REDUCTIONS` is the family's only registry."""

from streamhalf.reductions.base import Reduction
from streamhalf.reductions.candidates import CandidateSlabs, SlabCovariance, ThresholdScan, WedgeSums
from streamhalf.reductions.errors import PlaneErrors
from streamhalf.reductions.labels import Chow, LabelCounts
from streamhalf.reductions.logistic import LogisticLine
from streamhalf.reductions.margin_counts import MarginCounts
from streamhalf.reductions.moments import Moments
from streamhalf.reductions.row_view import Bundle, Viewed
from streamhalf.reductions.rows import RowDigest, RowSample
from streamhalf.reductions.segment_means import RowProfile, SegmentScatter
from streamhalf.reductions.slab_moments import SlabMoments
from streamhalf.reductions.spread import Covariance, FeatureMoments, Tyler
from streamhalf.reductions.suspects import ReviewSample, Suspects

REDUCTIONS: tuple[type, ...] = (
    Bundle,
    CandidateSlabs,
    Chow,
    Covariance,
    FeatureMoments,
    LabelCounts,
    LogisticLine,
    MarginCounts,
    Moments,
    PlaneErrors,
    ReviewSample,
    RowDigest,
    RowProfile,
    RowSample,
    SegmentScatter,
    SlabCovariance,
    SlabMoments,
    Suspects,
    ThresholdScan,
    Tyler,
    Viewed,
    WedgeSums,
)

__all__ = ["REDUCTIONS", "Reduction", *(cls.__name__ for cls in REDUCTIONS)]
