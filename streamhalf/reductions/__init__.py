"""Statistics, one mergeable reduction per file; `REDUCTIONS` is the family's only registry."""

from streamhalf.reductions.base import Bundle, Reduction
from streamhalf.reductions.candidate_slabs import CandidateSlabs
from streamhalf.reductions.chow import Chow
from streamhalf.reductions.covariance import Covariance
from streamhalf.reductions.feature_moments import FeatureMoments
from streamhalf.reductions.halfspace_errors import HalfspaceErrors
from streamhalf.reductions.label_counts import LabelCounts
from streamhalf.reductions.localized import Localized
from streamhalf.reductions.logistic import Logistic, LogisticLine
from streamhalf.reductions.mapped import Mapped
from streamhalf.reductions.margin_counts import MarginCounts
from streamhalf.reductions.moments import Moments
from streamhalf.reductions.near_rows import NearRows
from streamhalf.reductions.plane_errors import PlaneErrors
from streamhalf.reductions.row_digest import RowDigest
from streamhalf.reductions.row_sample import RowSample
from streamhalf.reductions.sampled import Sampled
from streamhalf.reductions.segment_scatter import SegmentScatter
from streamhalf.reductions.slab_covariance import SlabCovariance
from streamhalf.reductions.slab_moments import SlabMoments
from streamhalf.reductions.suspects import Suspects
from streamhalf.reductions.thinned import Thinned
from streamhalf.reductions.threshold_scan import ThresholdScan
from streamhalf.reductions.tyler import Tyler
from streamhalf.reductions.unturned import Unturned
from streamhalf.reductions.wedge_sums import WedgeSums
from streamhalf.reductions.windowed import Windowed

REDUCTIONS: tuple[type, ...] = (
    Bundle,
    CandidateSlabs,
    Chow,
    Covariance,
    FeatureMoments,
    HalfspaceErrors,
    LabelCounts,
    Localized,
    Logistic,
    LogisticLine,
    Mapped,
    MarginCounts,
    Moments,
    NearRows,
    PlaneErrors,
    RowDigest,
    RowSample,
    Sampled,
    SegmentScatter,
    SlabCovariance,
    SlabMoments,
    Suspects,
    Thinned,
    ThresholdScan,
    Tyler,
    Unturned,
    WedgeSums,
    Windowed,
)

__all__ = ["REDUCTIONS", "Reduction", *(cls.__name__ for cls in REDUCTIONS)]
