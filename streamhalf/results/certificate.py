"""Certificates: the bound, where it is weakest, and what would tighten it."""

from __future__ import annotations

import enum

from streamhalf.results.base import Record
from streamhalf.results.codes import HalfspaceClass
from streamhalf.results.parts import TransformRecord


class AdviceCode(enum.StrEnum):
    """Ways to tighten a certificate, or that U and L are not of one class."""

    TIGHT = "tight"
    MORE_ROWS = "more rows"
    HIGHER_DEGREE = "higher degree"
    OTHER_CLASS = "other class"
    NOTHING = "nothing known"


class CertificateMethod(enum.StrEnum):
    """How a bound was found: from slab moments, or by counting sets of rows that are in conflict.

    No halfspace is right on all rows of such a set.
    """

    MOMENTS = "moments"
    SETS = "sets"


class Advice(Record, frozen=True):
    """Advice that tightens a certificate, with the rows or the degree it takes.

    `through` is the class of L, where the halfspace is not of it.
    """

    code: AdviceCode
    rows: int | None = None
    degree: int | None = None
    through: HalfspaceClass | None = None


class OptRecord(Record, frozen=True):
    """No halfspace of the class `through` errs on less: on the rows at hand, and on their source.

    `tau` is the probability with which `lower`, of the source, may fail (None: the document's).
    """

    lower_empirical: float
    lower: float
    through: HalfspaceClass = HalfspaceClass.ORIGIN
    tau: float | None = None


class AngleRecord(Record, frozen=True):
    """No halfspace at an angle between these (radians) from the direction errs on less."""

    angle_low: float
    angle_high: float
    bound: float
    family: str


class CertificateRecord(Record, frozen=True):
    """Result of the certificate pass.

    It read all rows: `digest` is a digest of every one, `n_positive` of them are labelled +1,
    `repeated` is the share that are met more than once, and `times` how often a row is met on average.
    The other numbers speak of `n_rows` rows, those that `share` and `seed` choose one by one; all
    if `share` is 1. `error` is that of the halfspace on them, which is of the class `through`; `ratio` is that over
    the bound (None where the bound is 0 or of a class that the halfspace is not of). `bounds` are those
    of every class that was looked at, `opt` among them.

    They were computed from slabs about the plane with the unit normal `direction` and `threshold`,
    of rows in `transform`: `slab_error` and `n_slabs` say which; the last are boxes along a second
    direction `across` as well, unless that is empty. The angles, from that direction, and the
    thresholds say where `opt` is weakest (None: beyond all rows, or of a class without thresholds);
    the profile is of `opt` too, whatever the threshold. `effort` is how hard bounds were searched
    for, in units of the usual effort.

    All this is of the `method` "moments". With "sets" the bound is `n_sets` over `n_rows`: so many
    disjoint sets of rows were found, on none of which any halfspace is right everywhere, by a
    search about the halfspace; `share` is that of all rows. `searches` are the numbers of sets that
    searches about several planes found, of which `n_sets` is the largest: how much it moves. There
    are no slabs, angles and thresholds then.
    """

    n_rows: int
    n_errors: int
    error: float
    opt: OptRecord
    ratio: float | None
    angle_low: float
    angle_high: float
    degree: int
    slab_error: float
    n_slabs: tuple[int, ...]
    digest: str
    profile: tuple[AngleRecord, ...]
    advice: Advice
    direction: tuple[float, ...] = ()
    across: tuple[float, ...] = ()
    share: float = 1.0
    seed: int = 0
    through: HalfspaceClass = HalfspaceClass.ORIGIN
    n_positive: int | None = None
    repeated: float = 0.0
    times: float = 1.0
    threshold: float = 0.0
    threshold_low: float | None = None
    threshold_high: float | None = None
    bounds: tuple[OptRecord, ...] = ()
    transform: TransformRecord | None = None
    effort: float = 1.0
    method: CertificateMethod = CertificateMethod.MOMENTS
    n_sets: int = 0
    searches: tuple[int, ...] = ()

    @property
    def comparable(self) -> bool:
        """True if U and L speak of one class of halfspaces."""
        return self.through.within(self.opt.through)

    def bound_of(self, through: HalfspaceClass) -> OptRecord | None:
        """The bound for one class of halfspaces, if there is one."""
        return next((one for one in self.bounds if one.through is through), None)
