"""Algorithm 2, the wedge bound: close directions disagree on little mass, for every candidate.

The slabs along a candidate must have Gaussian mass and bounded second moments orthogonal to it;
beta puts a number on what follows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.engine.shares import SHARE_STREAM
from streamhalf.records import Judgement
from streamhalf.reductions.base import Bundle
from streamhalf.reductions.candidate_slabs import CandidateSlabs, CandidateSlabsResult
from streamhalf.reductions.slab_covariance import SlabCovariance, SlabCovarianceResult
from streamhalf.reductions.windowed import Windowed
from streamhalf.testers.slab_covariance import SlabCovarianceTester, covariance_edges
from streamhalf.testers.slab_mass import SlabMassTester, finest_half_count

_CENTRAL_DENSITY = 0.35
"""Mass of a slab per width, about one half standard deviation out."""

_WINDOWS, _WIDEST_WINDOW = 50, 1 << 14
"""Second moments come from so many windows of rows, about, each at most so wide: their number
varies by a seventh, and slabs are planned for twice the rows they need."""


@dataclass(frozen=True, slots=True, eq=False)
class WedgeOutcome:
    """Per candidate: error counts, judgements and the wedge bound at eps."""

    n_rows: int
    errors: NDArray[np.int64]
    judgements: tuple[tuple[Judgement, ...], ...]
    betas: tuple[float, ...]
    slab_counts: NDArray[np.int64]
    edges: NDArray[np.float64]
    eigenvalues: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class WedgeBound:
    """Algorithm 2 for a batch of candidates, one pass.

    Parameters
    ----------
    mass, covariance
        The testers of one candidate.
    candidates
        Unit vectors (c, d).
    n_rows
        Rows the pass reads, about.
    seed
        Of the thinning: second moments need only a few hundred rows per slab.
    first
        Number of the first candidate, where the candidates come in batches.
    most_slabs
        Second-moment matrices of one candidate at most, where features are many.
    """

    mass: SlabMassTester
    covariance: SlabCovarianceTester
    candidates: NDArray[np.float64]
    n_rows: int
    seed: int
    first: int = 0
    most_slabs: int = 1 << 20

    def covariance_rows(self) -> int:
        """Rows from which second moments are taken."""
        per_slab = self.covariance.rows_per_slab(self.candidates.shape[1])
        wanted = math.ceil(2 * per_slab / (_CENTRAL_DENSITY * self.mass.eps))
        return min(self.n_rows, max(wanted, 40 * per_slab))

    def edges(self) -> NDArray[np.float64]:
        """Slab edges of the second moments."""
        eps, rows = self.mass.eps, self.covariance_rows()
        per_slab = self.covariance.rows_per_slab(self.candidates.shape[1])
        edges = covariance_edges(eps, finest_half_count(eps), rows, per_slab)
        if len(edges) < self.most_slabs:
            return edges
        # covariance_edges gives every slab twice the rows asked for
        per_slab = math.ceil(rows / (2 * self.most_slabs))
        return covariance_edges(eps, finest_half_count(eps), rows, per_slab)

    def needs(self) -> Bundle:
        """Errors and slab masses over all rows, second moments over a sample."""
        eps = self.mass.eps
        half_count = finest_half_count(eps)
        rows = self.covariance_rows()
        moments = SlabCovariance(self.candidates, self.edges())
        # large windows: a task's few rows in many slabs cost as much as many rows would
        width = 2 ** int(math.log2(max(1, min(_WIDEST_WINDOW, rows // _WINDOWS))))
        # another stream than the shares': the sample must not be a slice of one of them
        share = Windowed(moments, rows / self.n_rows, self.seed, SHARE_STREAM + 1, width)
        masses = CandidateSlabs(self.candidates, eps, half_count)
        return Bundle((masses, moments if rows == self.n_rows else share))

    def conclude(self, result: tuple[Any, ...]) -> WedgeOutcome:
        """Judge every candidate."""
        slabs: CandidateSlabsResult = result[0]
        moments: SlabCovarianceResult = result[1]
        judgements = []
        for i in range(len(self.candidates)):
            found = (*self.mass.judge(slabs.counts[i]), self.covariance.judge(moments, i))
            judgements.append(
                tuple(replace(one, remark=_mention(one.remark, self.first + i)) for one in found)
            )
        everyone = range(len(self.candidates))
        eigenvalues = np.array([slab_eigenvalues(moments, i) for i in everyone])
        return WedgeOutcome(
            n_rows=slabs.n_rows,
            errors=slabs.errors,
            judgements=tuple(judgements),
            betas=tuple(
                wedge_beta(moments, i, self.mass.eps, eigenvalues=eigenvalues[i]) for i in everyone
            ),
            slab_counts=slabs.counts,
            edges=moments.edges,
            eigenvalues=eigenvalues,
        )


def join_outcomes(parts: tuple[WedgeOutcome, ...]) -> WedgeOutcome:
    """The outcomes of all batches as one."""
    return WedgeOutcome(
        n_rows=parts[0].n_rows,
        errors=np.concatenate([part.errors for part in parts]),
        judgements=tuple(found for part in parts for found in part.judgements),
        betas=tuple(beta for part in parts for beta in part.betas),
        slab_counts=np.concatenate([part.slab_counts for part in parts]),
        edges=parts[0].edges,
        eigenvalues=np.concatenate([part.eigenvalues for part in parts]),
    )


def _mention(remark: str, candidate: int) -> str:
    return f"candidate {candidate}" + (f", {remark}" if remark else "")


def slab_eigenvalues(result: SlabCovarianceResult, candidate: int) -> NDArray[np.float64]:
    """Largest eigenvalue of the second moment orthogonal to a candidate, slab by slab."""
    return np.asarray(np.linalg.eigvalsh(result.second_moments(candidate))[:, -1])


def wedge_beta(
    result: SlabCovarianceResult,
    candidate: int,
    eta: float,
    *,
    eigenvalues: NDArray[np.float64] | None = None,
) -> float:
    """Bound on P[sgn(v·x) != sgn(w·x)] over all unit w with |w - v| <= eta, on these rows.

    sum p lambda / (lambda + (l / gamma - m)_+^2) over slabs with nearest margin l, mass p, second
    moment lambda and mean norm m orthogonal to v (one-sided Chebyshev), gamma = tan of the angle.
    """
    gamma = math.tan(2 * math.asin(eta / 2))
    counts = result.counts[candidate]
    total = max(1, int(counts.sum()))
    edges = result.edges
    nearest = np.concatenate([-edges[edges <= 0], edges[edges >= 0]])
    if eigenvalues is None:
        eigenvalues = slab_eigenvalues(result, candidate)
    reach = np.maximum(0.0, nearest / gamma - result.mean_norms(candidate))
    with np.errstate(invalid="ignore"):
        share = np.where(reach == 0, 1.0, eigenvalues / (eigenvalues + reach**2))
    held = counts > 0
    return min(1.0, float(counts[held] / total @ share[held]))
