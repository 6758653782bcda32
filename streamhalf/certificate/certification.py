"""A certificate with numbers: this halfspace errs on U, and no halfspace errs on less than L.

The statistics are those of one pass; the bound is computed from them alone and holds for any data, Gaussian or not, and
whatever plane the slabs lie about: where the learner knows two that differ, the better bound is kept. L of all
halfspaces and L of those through the centre come from one pass.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.certificate.cells import LowerBound
from streamhalf.certificate.search import SAME, Meter, find_again, most_operations
from streamhalf.config import RunConfig
from streamhalf.data.source import Source
from streamhalf.data.transforms import Identity, Radial, RowTransform
from streamhalf.engine.memory import TASK_NBYTES
from streamhalf.engine.run import Run
from streamhalf.errors import MemoryBudgetError
from streamhalf.events import KernelsCompiled, Observer, SearchProgress, ignore
from streamhalf.kernels.binomial import binomial_lower
from streamhalf.kernels.compiling import listening
from streamhalf.kernels.monomials import count_monomials
from streamhalf.kernels.plane import Plane
from streamhalf.kernels.streams import Stream
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.errors import PlaneErrors
from streamhalf.reductions.row_view import Bundle, Sample, Widened, in_space, sampled
from streamhalf.reductions.rows import RowDigest, RowDigestResult
from streamhalf.reductions.slab_moments import SlabMoments, SlabStatistics, across_edges, certificate_edges
from streamhalf.results import Advice, AdviceCode, CertificateRecord, Halfspace, HalfspaceClass, OptRecord

# Quotients of neighbouring slab edges, finest first
RATIOS = (1.04, 1.06, 1.1, 1.15, 1.25, 1.4, 1.6, 2.0, 3.0, 5.0)
# The same, and edges on either side of 0 along a second direction, for slabs that are boxes
BOXES = ((1.1, 16), (1.15, 12), (1.25, 10), (1.4, 8))
BOX_DEGREE = 4
PARTIALS_AT_ONCE = 5  # partials of the certificate pass that a task holds at its height, one to spare
_LARGE = TASK_NBYTES // 4
_CHEAP_MONOMIALS = 220
# By degree: rows, and rows for each d² / error. Sampling noise in the moments begins to cost at 30 d² / error; of
# more rows than these bounds gain less than the pass costs.
_ENOUGH_ROWS = {4: (1 << 22, 300), 6: (1 << 19, 100)}
# Share of the error that leaves little to be gained; rows that slab moments take, over d² / error
_LITTLE_LEFT, ROWS_PER_SQUARE = 0.95, 30
_HIGHEST_DEGREE, _MOST_MONOMIALS = 8, 50_000  # of a pass that is advised
# A bound that is this share of the error of a plane this near to the centre is the bound for halfspaces through the
# centre too
_TIGHT, _CENTRAL = 0.9, 0.01
MOST_EFFORT = 100.0  # a document may ask for so much when its bounds are searched for again
_GLANCE, _GLANCE_DEGREE = 8, 4  # a glance takes an eighth of the effort, and moments of this degree


def certificate_share(rows: int | str, *, n_rows: int, dim: int, error: float, degree: int = 4) -> float:
    """Share of the rows behind slab moments, for a `certificate_rows` of the configuration."""
    if rows == "all":
        return 1.0
    if rows == "auto":
        least, per_square = _ENOUGH_ROWS[6 if degree > 4 else 4]
        rows = max(least, math.ceil(per_square * dim**2 / max(error, 1e-6)))
    return min(1.0, int(rows) / max(1, n_rows))


def certificate_degree(degree: int | str, dim: int) -> int:
    """Degree of the slab moments, for a `certificate_degree` of the configuration.

    Degree 6 up to ten features: with more the pass has too many monomials of half the degree to multiply with each
    other.
    """
    if degree != "auto":
        return int(degree)
    return 6 if count_monomials(dim - 1, 3) <= _CHEAP_MONOMIALS else 4


def within_room(config: RunConfig, dim: int) -> RunConfig:
    """The same, without a certificate where there is no room for one and no degree was named."""
    if config.certificate_degree == "auto" and least_nbytes(dim) > config.certificate_memory:
        return replace(config, certificate_degree=0)
    if config.certificate_degree != 0:
        require_room(dim, config.certificate_memory)
    return config


def require_room(dim: int, memory: int) -> None:
    """Refuse, before anything is read, a certificate whose coarsest slabs are too large."""
    if least_nbytes(dim) > memory:
        raise _no_room(dim, memory)


def _no_room(dim: int, memory: int) -> MemoryBudgetError:
    return MemoryBudgetError(
        f"certificate_memory: {memory / 2**20:,.0f} MiB; the coarsest slabs of a certificate of "
        f"{dim} features take {math.ceil(least_nbytes(dim) / 2**20):,} MiB; raise "
        "certificate_memory, or do without a certificate (certificate_degree 0)"
    )


def least_nbytes(dim: int) -> int:
    """Memory of a task for the coarsest slabs of degree 2, for any error."""
    return PARTIALS_AT_ONCE * _slabs(dim, RATIOS[-1], 2).partial_nbytes(dim)


def held_by_certificate(config: RunConfig, dim: int) -> int:
    """Return the most bytes that the partials of the certificate pass take in a task."""
    if within_room(config, dim).certificate_degree == 0:
        return 0
    degree = certificate_degree(config.certificate_degree, dim)
    most = config.certificate_memory // PARTIALS_AT_ONCE
    sets = [
        _slabs(dim, RATIOS[0], one).partial_nbytes(dim)
        for one in {degree, 2}
        if _slabs(dim, RATIOS[-1], one, error=0.5).partial_nbytes(dim) <= most
    ]
    total = sum(min(most, 2 * nbytes) for nbytes in sets)  # about two planes
    if dim > 2:
        ratio, count = BOXES[0]
        across = (np.eye(2, dim)[1], across_edges(count))
        boxes = replace(_slabs(dim, ratio, min(degree, BOX_DEGREE)), across=across)
        sets.append(boxes.partial_nbytes(dim))
        total = max(total, sum(min(most // 2, nbytes) for nbytes in sets))
    return max(4 * total, min((config.split_every + 2) * total, _LARGE))


def _slabs(dim: int, ratio: float, degree: int, *, error: float = 0.0) -> SlabMoments:
    """Slabs about some plane; a smaller error takes more of them."""
    return SlabMoments(Plane(np.eye(1, dim)[0]), certificate_edges(error, ratio=ratio), degree)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CertificatePass:
    """A pass that bounds the error of all halfspaces of a class, and counts those of one."""

    halfspace: Halfspace  # whose errors are counted, on the rows as they are stored
    row_transform: RowTransform  # of the run; it names the classes of halfspaces
    through: HalfspaceClass = HalfspaceClass.ANY  # whose error is bounded: any, those through the centre too, or alone
    seed: int = 0  # what draws the rows
    effort: float = 1.0  # how hard to search, in units of the usual effort

    def record(
        self, digest: RowDigestResult, n_errors: int, opts: tuple[OptRecord, ...], advice: Advice, **found: Any
    ) -> CertificateRecord:
        """The record of bounds, the first for the class that was asked for."""
        through, opt = self.row_transform.record.class_of(self.halfspace), opts[0]
        error = n_errors / max(1, found["n_rows"])
        comparable = through.within(opt.through)
        return CertificateRecord(
            n_errors=n_errors,
            error=error,
            opt=opt,
            ratio=error / opt.lower_empirical if comparable and opt.lower_empirical > 0 else None,
            digest=digest.text,
            advice=advice if comparable else Advice(AdviceCode.OTHER_CLASS, through=opt.through),
            seed=self.seed,
            through=through,
            n_positive=digest.n_positive,
            repeated=digest.repeated,
            times=digest.times,
            bounds=opts,
            transform=self.row_transform.record,
            effort=self.effort,
            **found,
        )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Certification(CertificatePass):
    """The pass for slab moments, of transformed rows.

    Rows behind moments and errors are drawn one by one, so that a binomial bound speaks for all rows in whatever order
    they are.
    """

    error: float  # of the halfspace, about: it sets the width of the slabs next to the boundary
    degree: int  # largest degree of the slab moments
    memory: int  # of one task; slabs get coarser, or degree 4 is given up, until partials fit
    planes: tuple[Plane, ...]  # of unit normals, about which slabs lie; the best bound of all is kept
    across: NDArray[np.float64] | None = None  # a second direction to slice by, beside the first plane, if it fits
    share: float = 1.0  # of the rows behind the moments and the errors
    n_slabs: tuple[int, ...] = ()  # slabs of an earlier pass that is repeated; chosen for the memory by default
    claimed: tuple[OptRecord, ...] = ()  # bounds that were found before, and are searched for until found again

    @classmethod
    def of(
        cls, source: Source, config: RunConfig, halfspace: Halfspace, row_transform: RowTransform, error: float
    ) -> Certification:
        """The certificate pass that the configuration asks for, about the halfspace's plane.

        With a radial transform only halfspaces through the centre keep their errors; of all halfspaces its affine part
        speaks.
        """
        through = HalfspaceClass(config.through)
        if isinstance(row_transform, Radial) and through is HalfspaceClass.ANY:
            row_transform = row_transform.affine()
        plane = row_transform.to_transformed(halfspace.plane).unit()
        if row_transform.record.class_of(halfspace) is row_transform.record.through:
            plane = Plane(plane.normal)  # through the centre but for rounding
        degree = certificate_degree(config.certificate_degree or "auto", source.dim)
        return cls(
            halfspace=halfspace,
            row_transform=row_transform,
            error=error,
            degree=degree,
            memory=config.certificate_memory,
            planes=(plane,),
            share=certificate_share(
                config.certificate_rows, n_rows=source.n_rows, dim=source.dim, error=error, degree=degree
            ),
            seed=config.seed,
            effort=config.certificate_effort,
            through=through,
        )

    @property
    def classes(self) -> tuple[HalfspaceClass, ...]:
        """The classes that are looked at: first that which was asked for."""
        central = self.row_transform.record.through
        return (HalfspaceClass.ANY, central) if self.through is HalfspaceClass.ANY else (central,)

    @property
    def box_degree(self) -> int:
        """Degree of the moments of boxes."""
        return min(self.degree, BOX_DEGREE)

    def looking_from(self, plane: Plane) -> Certification:
        """The same with slabs about a further plane, if that fits in memory."""
        both = replace(self, planes=(*self.planes, plane.unit()))
        return both if all(both.slabs(one) for one in both.planes) else self

    def slabs(self, plane: Plane) -> tuple[SlabMoments, ...]:
        """The full degree on the finest slabs that fit, degree 2 if finer, and boxes."""
        found: list[SlabMoments] = []
        for degree in dict.fromkeys((self.degree, 2)):
            slabs = self._finest([self._slabs(plane, ratio, degree) for ratio in RATIOS], len(found))
            # the moments of degree 2 are among those of a higher degree on the same slabs
            if slabs is not None and all(slabs.n_slabs > other.n_slabs for other in found):
                found.append(slabs)
        # of two features a second direction leaves none
        if found and self.across is not None and plane is self.planes[0] and plane.dim > 2:
            by_label = self.classes[0] is HalfspaceClass.ANY
            choices = [
                replace(
                    self._slabs(plane, ratio, self.box_degree),
                    across=(self.across, across_edges(count)),
                    by_label=by_label,
                )
                for ratio, count in BOXES
            ]
            boxes = self._finest(choices, len(self.n_slabs) - 1 if self.n_slabs else len(found))
            found += [boxes] if boxes is not None else []
        return tuple(found)

    def _slabs(self, plane: Plane, ratio: float, degree: int) -> SlabMoments:
        by_label = self.through is HalfspaceClass.ANY
        about = plane if by_label else Plane(plane.normal)
        return SlabMoments(about, certificate_edges(self.error, ratio=ratio), degree, by_label)

    def _finest(self, choices: Sequence[SlabMoments], place: int) -> SlabMoments | None:
        """The slabs asked for, or the finest whose partials fit in the memory, if any do."""
        asked = self.n_slabs[place : place + 1] or self.n_slabs[-1:]
        dim, copies = self.planes[0].dim, PARTIALS_AT_ONCE * len(self.planes)
        copies *= 1 if self.across is None else 2
        again = (slabs for slabs in choices if slabs.n_slabs in asked)
        fitting = (slabs for slabs in choices if copies * slabs.partial_nbytes(dim) <= self.memory)
        return next(itertools.chain(again, fitting), None)

    def needs(self, total_rows: int = 0) -> Bundle:
        """The digest of all rows, so many about; errors and slab moments of the chosen ones."""
        slabs = tuple(slabs for one in self.planes for slabs in self.slabs(one))
        if not slabs:
            raise _no_room(self.planes[0].dim, self.memory)
        # slabs widen stored rows themselves
        transforms = () if isinstance(self.row_transform, Identity) else (Widened(), self.row_transform)
        allowing = Bundle(tuple(replace(one, rounding=self.row_transform.rounding) for one in slabs))
        measured: Reduction[Any, Any] = Bundle((PlaneErrors((self.halfspace.plane,)), in_space(allowing, *transforms)))
        measured = sampled(measured, Sample(self.seed, Stream.CERTIFICATE, 0.0, self.share))
        return Bundle((RowDigest(total_rows), measured))

    def run(
        self,
        run: Run,
        source: Source,
        *,
        tau: float,
        name: str = "certificate",
        beside: Reduction[Any, Any] | None = None,
        keep: Callable[[Any], None] | None = None,
    ) -> tuple[CertificateRecord, Any]:
        """The certificate pass, and what a reduction beside it found in the same read; `keep` gets its partial."""
        needs = self.needs(source.n_rows)
        needs = needs if beside is None else Bundle((needs, beside))
        # large partials are combined in pairs: a task holds two more than it combines
        large = (run.split_every + 2) * needs.partial_nbytes(source.dim) > _LARGE
        found = run.reduce(name, source, needs, split_every=2 if large else run.split_every, keep=keep)
        own, other = (found, None) if beside is None else found
        return self.conclude(own, tau=tau, observer=run.observer), other

    def conclude(self, result: tuple[Any, ...], *, tau: float, observer: Observer = ignore) -> CertificateRecord:
        """Bounds, where they are weakest, and what would tighten them.

        L of the source may fail with chance tau, which the classes share.
        """
        digest, (counted, statistics) = result
        with listening(lambda: observer(KernelsCompiled())):
            plane, used, found = self._best(statistics, observer)
        n_rows, n_errors, degree = counted.n_rows, int(counted.errors[0]), max(item.degree for item in used)
        each = tau / len(found)
        opts = tuple(OptRecord(one.value, of_source(one.value, n_rows, each), of, each) for of, one in found.items())
        bound = found[opts[0].through]
        (low, high), (angle_low, angle_high) = bound.thresholds(), bound.worst.cell.angles(turned=bound.turned)
        across = self.across if any(item.across is not None for item in used) else None
        named = opts[0].through is HalfspaceClass.ANY
        # a higher degree gains nothing beside boxes, nor where its slabs do not fit
        higher = replace(self, degree=degree + 2, n_slabs=()).slabs(plane) if self.across is None else ()
        highest = degree if any(item.degree > degree for item in higher) else _HIGHEST_DEGREE
        return self.record(
            digest,
            n_errors,
            opts,
            advise(bound.value, n_errors / max(1, n_rows), n_rows=n_rows, dim=plane.dim, degree=highest),
            n_rows=n_rows,
            share=self.share,
            angle_low=angle_low,
            angle_high=angle_high,
            profile=bound.profile(),
            degree=degree,
            slab_error=self.error,
            n_slabs=tuple(len(item.counts) for item in used),
            direction=tuple(plane.normal.tolist()),
            across=() if across is None else tuple(across.tolist()),
            threshold=plane.threshold,
            threshold_low=low if named and math.isfinite(low) else None,
            threshold_high=high if named and math.isfinite(high) else None,
        )

    def _best(
        self, statistics: tuple[SlabStatistics, ...], observer: Observer
    ) -> tuple[Plane, tuple[SlabStatistics, ...], dict[HalfspaceClass, LowerBound]]:
        """The plane with the largest bound for the first class, its statistics and all bounds."""
        found, effort = [], self.effort
        for one in self.planes:
            slabs = self.slabs(one)
            used, statistics = statistics[: len(slabs)], statistics[len(slabs) :]
            found.append((slabs[0].plane, used))
        (plane, used), (first, *others) = found[0], self.classes
        if len(found) > 1:  # a glance from each, and what that leaves goes to the better one
            effort *= 2 * (1 - 1 / _GLANCE)
        meter = Meter(
            most_operations(used, effort + self.effort * (len(found) + len(others)) / _GLANCE),
            lambda done, total: observer(SearchProgress(done, total)),
        )
        if len(found) > 1:
            plane, used = max(found, key=lambda item: self._bound(item[1], first, meter, glance=True).value)
        bounds = {first: (bound := self._bound(used, first, meter, effort))}
        # what is nearly the error leaves nothing to be gained for fewer halfspaces
        is_central = abs(plane.threshold) < _CENTRAL
        tight = first is HalfspaceClass.ANY and is_central and bound.value >= _TIGHT * used[0].error
        for through in others:  # what holds for all holds for those through the centre
            bounds[through] = bound
            if not tight and not bound.value >= self._claimed(through, math.inf) * (1 - SAME):
                few = tuple(item.upto(_GLANCE_DEGREE) for item in used)
                other = self._bound(few, through, meter, glance=True)
                bounds[through] = max(other, bound, key=lambda one: one.value)
        meter.finish()
        return plane, used, bounds

    def _claimed(self, through: HalfspaceClass, default: float) -> float:
        """The bound of a class that was found before, if there was one."""
        return next((one.lower_empirical for one in self.claimed if one.through is through), default)

    def _bound(
        self,
        statistics: tuple[SlabStatistics, ...],
        through: HalfspaceClass,
        meter: Meter,
        effort: float = 1.0,
        *,
        glance: bool = False,
    ) -> LowerBound:
        """L of one class; a glance takes little."""
        if through is HalfspaceClass.ANY:
            statistics = tuple(item for item in statistics if item.by_label)
        else:
            statistics = tuple(item.central() for item in statistics)
        effort = self.effort / _GLANCE if glance else effort
        return find_again(*statistics, claimed=self._claimed(through, 0.0), effort=effort, glance=glance, meter=meter)


def of_source(value: float, n_rows: int, tau: float) -> float:
    """L of the source of the rows, from L on them: it fails with chance tau.

    The best halfspace is fixed before the rows are drawn, and errs on as many of them as every halfspace does: the
    smallest rate that gives so many errors with chance tau (exact binomial).
    """
    return min(value, binomial_lower(math.ceil(value * n_rows * (1 - 1e-12)), n_rows, tau))


def advise(lower: float, error: float, *, n_rows: int, dim: int, degree: int = _HIGHEST_DEGREE) -> Advice:
    """Advice that would tighten a bound: more rows, for slab moments to tell, or moments of a higher degree."""
    if error == 0 or lower >= _LITTLE_LEFT * error:
        return Advice(AdviceCode.TIGHT)
    enough = math.ceil(ROWS_PER_SQUARE * dim**2 / max(error, 1e-6))
    if n_rows < enough:
        return Advice(AdviceCode.MORE_ROWS, rows=enough)
    if degree < _HIGHEST_DEGREE and count_monomials(dim, degree + 2) < _MOST_MONOMIALS:
        return Advice(AdviceCode.HIGHER_DEGREE, degree=degree + 2)
    return Advice(AdviceCode.NOTHING)
