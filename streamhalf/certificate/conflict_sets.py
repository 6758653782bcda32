"""A certificate from few rows: L is the share of sets of rows on which no halfspace is right.

Where slab moments say nothing (few rows, heavy tails, flags) such sets can be counted one by one, on rows that are held
in memory: all, or a sample drawn row by row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.certificate.certification import MOST_EFFORT, ROWS_PER_SQUARE, CertificatePass, Certification, advise
from streamhalf.certificate.packing import PROGRAM_OPERATIONS, Packing
from streamhalf.config import RunConfig
from streamhalf.data.block import Block
from streamhalf.data.source import Source
from streamhalf.data.transforms import RowTransform
from streamhalf.engine.memory import partial_limit
from streamhalf.engine.run import Run
from streamhalf.kernels.binomial import binomial_lower
from streamhalf.kernels.plane import Plane
from streamhalf.kernels.streams import Stream
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.row_view import Bundle
from streamhalf.reductions.rows import RowDigest, RowDigestResult, RowSample
from streamhalf.results import CertificateMethod, CertificateRecord, Halfspace, HalfspaceClass, OptRecord

# Rows of a sample; where most rows repeat, more of them show more conflicts at little cost
_MOST_ROWS, _MOST_REPEATED = 1 << 15, 1 << 17
_LEAST_ROWS = 1 << 12
_REPEATED = 0.5  # share of rows that are met more than once from which most of them do
# Operations: a third of a second, and one second for the largest sample, on one core
_EFFORT, _EFFORT_PER_ROW = 300_000_000, 20_000
_WEAK = 1 / 3  # of many rows slab moments are taken to be better where L is above this share of the error
_NEAR, _FEW = 0.75, 3  # share of the error that is near it; few rows are less than one in so many of what moments take
# Searches that may share the effort, and those for a number of sets that was found before, on another machine. Of one
# search the number moves by a tenth with the plane; the best of six is steadier, and a twentieth more.
_SEARCHES, _PATIENCE = 6, 12
# Shares of the rows, those nearest to the boundary, that further planes are fitted to in turn, and rows for each
# feature that a fit takes at least
_NEAREST, _LEAST_PER_FEATURE = (0.1, 0.3, 0.03), 20
_RIDGE = 1e-6  # of scaled features: collinear ones have a fit too
# Programs for each wrong row that a search takes, about. Of few wrong rows larger samples are affordable, so often at
# least, among which the number of sets moves less.
_PER_WRONG, _THRICE = 16, 3


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ConflictSets(CertificatePass):
    """The pass that holds rows in memory, and the count of disjoint sets among them.

    The number of sets depends on the plane that they are sought about; so several planes near the halfspace have their
    search, and the largest number counts. What holds for all halfspaces is said of those through a centre.
    """

    size: int  # how many rows
    claimed: int = 0  # sets that were found before, and are searched for until they are found again

    @classmethod
    def of_all(cls, source: Source, config: RunConfig, moments: Certification) -> ConflictSets | None:
        """The count among all rows, where there are few; None where there are not."""
        size = source.n_rows
        if size > min(_MOST_ROWS, _room(source.dim, config)) or _is_wide(source.dim, size):
            return None
        return cls._about(moments, config, size)

    @classmethod
    def of_some(
        cls, source: Source, config: RunConfig, moments: Certification, known: CertificateRecord
    ) -> ConflictSets | None:
        """The count that may tell more than slab moments of many rows do; None where it cannot."""
        repeats = known.repeated > _REPEATED
        reach = known.error if known.repeated > 0 else min(known.error, 1 / (source.dim + 2))
        if known.opt.lower_empirical >= min(reach, _WEAK * known.error):
            return None
        program = _program(source.dim)
        each = _PER_WRONG * program * max(known.error, 1e-9)
        cheap = round(_effort(_MOST_ROWS) / (_THRICE * each))
        most = _MOST_REPEATED if repeats else max(_MOST_ROWS, min(_MOST_REPEATED, cheap))
        size = min(source.n_rows, most, _room(source.dim, config))
        if not repeats:
            if _is_wide(source.dim, size):
                return None
            affordable = _effort(size) / (program * max(reach, 1e-9))
            size = min(size, max(_LEAST_ROWS, math.ceil(affordable)))
        return cls._about(moments, config, size)

    @classmethod
    def _about(cls, moments: Certification, config: RunConfig, size: int) -> ConflictSets:
        asked = HalfspaceClass(config.through)
        return cls(
            halfspace=moments.halfspace,
            row_transform=moments.row_transform,
            through=moments.classes[0] if asked is not HalfspaceClass.ANY else asked,
            size=size,
            seed=config.seed,
            effort=config.certificate_effort,
        )

    @classmethod
    def again(
        cls, record: CertificateRecord, halfspace: Halfspace, row_transform: RowTransform, config: RunConfig
    ) -> ConflictSets:
        """The count behind a record; one that asks for more than any would gets what others get."""
        return cls(
            halfspace=halfspace,
            row_transform=row_transform,
            through=record.opt.through,
            size=max(1, min(record.n_rows, _MOST_REPEATED, _room(halfspace.plane.dim, config))),
            seed=record.seed,
            effort=min(record.effort, MOST_EFFORT),
            claimed=record.n_sets,
        )

    @property
    def classes(self) -> tuple[HalfspaceClass, ...]:
        """The one class that is looked at."""
        return (self.through,)

    def run(
        self,
        run: Run,
        source: Source,
        *,
        tau: float,
        name: str = "certificate-sets",
        beside: Reduction[Any, Any] | None = None,
    ) -> tuple[CertificateRecord, Any]:
        """One pass and the count; and what a reduction beside it found in the same read."""
        size = max(1, min(self.size, source.n_rows))
        sample = RowSample(size, self.seed, Stream.CONFLICTS)
        needs: tuple[Reduction[Any, Any], ...] = (RowDigest(source.n_rows), sample)
        found = run.reduce(name, source, Bundle((*needs, *filter(None, [beside]))))
        record = self.conclude(found[0], found[1].block, tau=tau)
        return record, None if beside is None else found[2]

    def conclude(self, digest: RowDigestResult, block: Block, *, tau: float) -> CertificateRecord:
        """The count, and what it says of the source, but for a chance of tau.

        The best halfspace of the source errs on as many of these rows at least, which are drawn whatever it is: hence
        the binomial bound.
        """
        counts = self._count(block)
        n_sets, n_rows = max(counts), max(1, block.n_rows)
        n_errors = self.halfspace.plane.errors(block.X, block.y)
        lower = binomial_lower(n_sets, n_rows, tau)
        return self.record(
            digest,
            n_errors,
            (OptRecord(n_sets / n_rows, lower, self.through, tau),),
            advise(n_sets / n_rows, n_errors / n_rows, n_rows=digest.n_rows, dim=block.dim),
            n_rows=block.n_rows,
            share=block.n_rows / max(1, digest.n_rows),
            angle_low=0.0,  # of no slabs
            angle_high=math.pi,
            profile=(),
            degree=0,
            slab_error=0.0,
            n_slabs=(),
            method=CertificateMethod.SETS,
            n_sets=n_sets,
            searches=counts,
        )

    def _count(self, block: Block) -> tuple[int, ...]:
        """Sets of searches about several planes, while the effort lasts or until the claim is met.

        Every count is a bound for the same rows, so the largest is one too.
        """
        X, central = block.X.astype(np.float64), self.through is HalfspaceClass.ORIGIN
        plane, counts, spent = self.halfspace.plane, list[int](), 0
        effort = self.effort * _effort(self.size)
        shared = self.effort * _effort(min(self.size, _MOST_ROWS))
        usual = _PER_WRONG * _program(block.dim) * plane.errors(X, block.y)
        each = round(min(effort, max(shared / _SEARCHES, 2 * usual)))  # no dead end takes all of it
        while len(counts) < (_PATIENCE if self.claimed else _SEARCHES):
            number = len(counts)
            packing = Packing(X, block.y, plane, effort=each, central=central, turn=number)
            counts.append(packing.n_sets)
            spent += packing.operations
            lasts = spent * (1 + 1 / len(counts)) <= shared
            del packing  # its points take as much memory as the rows
            if counts[-1] >= self.claimed > 0 or not (lasts or self.claimed):
                break
            start = plane if number % 2 else self.halfspace.plane
            plane = _plane_near(X, block.y, start, _NEAREST[number % 3], central=central)
        return tuple(counts)


def _plane_near(X: NDArray[np.float64], y: NDArray[np.int8], plane: Plane, share: float, *, central: bool) -> Plane:
    """Least squares of the rows nearest to a plane; the plane itself where there is no such fit."""
    count = max(math.ceil(share * len(X)), _LEAST_PER_FEATURE * (X.shape[1] + 1))
    nearest = np.argsort(np.abs(plane.margins(X)), kind="stable")[:count]
    near = X[nearest]
    centre = np.zeros(X.shape[1]) if central else near.mean(axis=0)
    with np.errstate(all="ignore"):
        spread = np.sqrt(np.mean((near - centre) ** 2, axis=0))
        scaled = (near - centre) / np.where(spread > 0, spread, 1.0)
        gram = scaled.T @ scaled / len(near) + _RIDGE * np.eye(X.shape[1])
        mean = 0.0 if central else float(y[nearest].mean())
        target = scaled.T @ (y[nearest] - mean) / len(near)
        try:
            normal = np.linalg.solve(gram, target) / np.where(spread > 0, spread, 1.0)
        except np.linalg.LinAlgError:
            return plane
        threshold = float(normal @ centre) - mean
    usable = np.isfinite(normal).all() and normal.any() and math.isfinite(threshold)
    return Plane(normal, 0.0 if central else threshold) if usable else plane


def tells_more(one: CertificateRecord, other: CertificateRecord) -> bool:
    """True if the first of two bounds for one class is the better one: of all rows if both are, else of the source."""
    if min(one.share, other.share) < 1 and max(one.opt.lower, other.opt.lower) > 0:
        return one.opt.lower > other.opt.lower
    return one.opt.lower_empirical > other.opt.lower_empirical


def leaves_little(found: CertificateRecord, dim: int) -> bool:
    """Return True if slab moments are not worth their search beside a count among all rows.

    It is near the error, or above 0 where rows are too few for moments that say much.
    """
    if found.n_sets == 0:
        return False
    few = found.n_rows * _FEW * found.error < ROWS_PER_SQUARE * dim**2
    return found.n_sets >= _NEAR * found.n_errors or few


def _effort(size: int) -> int:
    """Operations for so many rows."""
    return _EFFORT + _EFFORT_PER_ROW * size


def _program(dim: int) -> int:
    """Operations of one program."""
    return PROGRAM_OPERATIONS * (dim + 1) ** 3


def _is_wide(dim: int, size: int) -> bool:
    """Return True if a few programs would take all the effort."""
    return _program(dim) > _effort(size) / 4


def _room(dim: int, config: RunConfig) -> int:
    """Rows that a task has room for."""
    return max(1, partial_limit(config.split_every) // (16 * (dim + 2)))
