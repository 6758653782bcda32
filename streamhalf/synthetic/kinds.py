"""Names of distributions and kinds of label noise; light to import."""

from __future__ import annotations

import enum

DIRECTIONS = ("axis", "diagonal", "generic")
DTYPES = ("float32", "float64")


class Marginal(enum.StrEnum):
    """Distribution of a feature row; v is the planted direction, coordinates are iid unless said.

    gaussian: N(0, I). student-t, laplace, uniform, rademacher: unit variance. gauss-hermite: ±sqrt 3 with probability
    1/6 each, else 0; all moments up to degree 5 are those of N(0, I). mixture: a share `MIXTURE_SHARE` of Gaussian rows
    is scaled by `MIXTURE_SCALE`, all else equal. correlated: Gaussian, correlation `EQUICORRELATION` between any two
    features. shifted: N(SHIFT, 1). low-rank: Gaussian, unit variances, a share `LOW_RANK_SHARE` of them from two
    factors. hole and spike: see `hole_distribution` and `spike_distribution`; Gaussian orthogonally to v.
    """

    GAUSSIAN = "gaussian"
    STUDENT_T = "student-t"
    LAPLACE = "laplace"
    UNIFORM = "uniform"
    RADEMACHER = "rademacher"
    GAUSS_HERMITE = "gauss-hermite"
    MIXTURE = "mixture"
    CORRELATED = "correlated"
    SHIFTED = "shifted"
    LOW_RANK = "low-rank"
    HOLE = "hole"
    SPIKE = "spike"

    @property
    def min_dim(self) -> int:
        """In one dimension it would be a plainer distribution."""
        return 2 if self in (Marginal.CORRELATED, Marginal.LOW_RANK) else 1


class Noise(enum.StrEnum):
    """Label noise, by flipped rows; m = v·x - t of the planted halfspace, u is orthogonal to v.

    random: any row with equal probability. near: smallest |m|. far: largest |m|. chow: largest y u·x, which turns the
    Chow vector towards -u. wedge: rows between the planted halfspace and one tilted towards u, on the side m > 0 alone.
    minor: largest |m| in the smaller class. tilt: the wedge in the smaller class, which is another one where that is
    the negative class.
    """

    NONE = "none"
    RANDOM = "random"
    NEAR = "near"
    FAR = "far"
    CHOW = "chow"
    WEDGE = "wedge"
    MINOR = "minor"
    TILT = "tilt"

    @property
    def min_dim(self) -> int:
        """Smallest dimension: chow, wedge and tilt need a direction orthogonal to v."""
        return 2 if self in (Noise.CHOW, Noise.WEDGE, Noise.TILT) else 1

    def max_rate(self, positive: float) -> float:
        """Rates stay below this: of N(0, I), u·x < 0 holds on half of either class."""
        smaller = min(positive, 1 - positive)
        limits = {Noise.WEDGE: positive / 2, Noise.MINOR: smaller, Noise.TILT: smaller / 2}
        return limits.get(self, 0.5)

    @property
    def needs_pilot(self) -> bool:
        """True if the cut is a quantile of the data's own scores."""
        return self not in (Noise.NONE, Noise.RANDOM)
