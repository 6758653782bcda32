"""A certificate with numbers: this halfspace errs on U, and no halfspace errs on less than L.

The statistics are those of one pass over all rows; the bound is computed from them alone and holds
for any data, Gaussian or not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.certificate.lower_bound import LowerBound, lower_bound
from streamhalf.data.source import Source
from streamhalf.data.whitening import Whitening
from streamhalf.engine.run import Run
from streamhalf.kernels.monomials import count_monomials
from streamhalf.records import (
    AngleRecord,
    CertificateRecord,
    Halfspace,
    OptRecord,
    WhiteningRecord,
)
from streamhalf.reductions.base import Bundle, Reduction
from streamhalf.reductions.halfspace_errors import HalfspaceErrorsResult
from streamhalf.reductions.row_digest import RowDigest
from streamhalf.reductions.slab_moments import SlabMoments, certificate_edges
from streamhalf.reductions.whitened import Whitened

_RATIOS = (1.1, 1.15, 1.25, 1.4, 1.6, 2.0, 3.0, 5.0)
"""Quotients of neighbouring slab edges, finest first."""

PARTIALS_AT_ONCE = 10
"""Partials of the certificate pass that a worker holds at its height: two tasks of up to five."""


@dataclass(frozen=True, slots=True, eq=False)
class Certification:
    """The certificate pass for one direction.

    Parameters
    ----------
    direction
        Unit vector v (of whitened features, where `whitening` is given).
    error
        Its error, about: it sets the width of the slabs next to the boundary.
    degree
        Largest degree of the slab moments.
    memory_limit
        Of one worker; slabs get coarser, or degree 4 is given up, until partials fit.
    whitening
        Applied to the rows first.
    """

    direction: NDArray[np.float64]
    error: float
    degree: int
    memory_limit: int
    whitening: Whitening | None = None

    @classmethod
    def of_halfspace(
        cls,
        halfspace: Halfspace,
        whitening: WhiteningRecord | None,
        *,
        error: float,
        degree: int,
        memory_limit: int,
    ) -> Certification:
        """For the direction of a halfspace on raw features."""
        map_ = None if whitening is None else Whitening.from_record(whitening)
        normal = np.array(halfspace.normal)
        if map_ is not None:
            normal, _ = map_.from_raw(halfspace)
        return cls(normal / np.linalg.norm(normal), error, degree, memory_limit, map_)

    def slabs(self) -> tuple[SlabMoments, ...]:
        """Degree 2 on fine slabs, and the full degree on the finest that fit in memory."""
        low = self._finest(2)
        high = self._finest(self.degree) if self.degree > 2 else None
        return tuple(item for item in (high, low) if item is not None)

    def needs(self) -> Bundle:
        """Slab moments and the digest of all rows."""
        members: list[Reduction[Any, Any]] = list(self.slabs())
        if self.whitening is not None:
            members = [Whitened(member, self.whitening) for member in members]
        return Bundle((RowDigest(), *members))

    def run(self, run: Run, source: Source, *, tau: float) -> CertificateRecord:
        """The certificate pass over all rows, as they are stored."""
        found = run.reduce(
            "certificate",
            source,
            self.needs(),
            split_every=2,
            count_accepted=lambda result: int(result[1].n_rows),
        )
        return self.conclude(found, tau=tau)

    def conclude(self, result: tuple[Any, ...], *, tau: float) -> CertificateRecord:
        """Bound, interval, and what would tighten it."""
        digest, *statistics = result
        bound = lower_bound(*statistics)
        first = statistics[0]
        shift = math.sqrt(math.log(1 / tau) / (2 * max(1, first.n_rows)))
        return CertificateRecord(
            n_rows=first.n_rows,
            n_errors=first.n_errors,
            error=first.error,
            opt=OptRecord(bound.value, max(0.0, bound.value - shift)),
            ratio=first.error / bound.value if bound.value > 0 else None,
            angle_low=bound.angle_low,
            angle_high=bound.angle_high,
            degree=self.degree,
            slab_error=self.error,
            n_slabs=tuple(len(item.counts) for item in statistics),
            digest=digest.text,
            profile=tuple(
                AngleRecord(item.angle_low, item.angle_high, item.bound, item.family)
                for item in bound.profile
            ),
            advice=_advice(bound, first.n_rows, first.error, len(self.direction), self.degree),
        )

    def _finest(self, degree: int) -> SlabMoments | None:
        """The finest slabs whose partials fit half of the memory, if any do."""
        for ratio in _RATIOS:
            edges = certificate_edges(self.error, ratio=ratio)
            found = SlabMoments(self.direction, edges, degree)
            size = found.partial_nbytes(len(self.direction))
            if PARTIALS_AT_ONCE * size <= self.memory_limit // 2:
                return found
        return None


def certify_halfspace(
    run: Run,
    source: Source,
    certification: Certification,
    errors: Reduction[Any, Any],
    *,
    name: str,
    tau: float,
) -> tuple[CertificateRecord, HalfspaceErrorsResult]:
    """The certificate pass over all rows, as they are stored, with a count of errors beside it."""
    found = run.reduce(
        name,
        source,
        Bundle((certification.needs(), errors)),
        split_every=2,
        count_accepted=lambda result: int(result[0][1].n_rows),
    )
    return certification.conclude(found[0], tau=tau), found[1]


def _advice(bound: LowerBound, n_rows: int, error: float, dim: int, degree: int) -> str:
    """What would tighten the bound."""
    if error == 0 or bound.value >= 0.95 * error:
        return "the bound is tight"
    enough = math.ceil(30 * dim**2 / max(error, 1e-6))
    if n_rows < enough:
        return f"about {enough:,} rows would leave little sampling noise in the moments"
    if degree < 8 and count_monomials(dim, degree + 2) < 50_000:
        return f"certificate_degree {degree + 2} would tighten it (now {degree})"
    return "label noise of this shape hides better halfspaces from moments of this degree"
