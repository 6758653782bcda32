"""Algorithm 2, the wedge bound: close directions disagree on little mass, for every candidate.

The slabs along a candidate must have Gaussian mass and bounded second moments orthogonal to it;
the wedge tester's beta puts a number on what follows, and judges it at a finer scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.reductions.plane_slabs import CandidateSlabsResult, SlabCovarianceResult
from streamhalf.reductions.row_view import Bundle
from streamhalf.results import TestResult
from streamhalf.testers.base import TesterSet
from streamhalf.testers.slabs import SlabCovarianceTester, SlabMassTester
from streamhalf.testers.wedge import WedgeTester


@dataclass(frozen=True, slots=True, eq=False)
class WedgeOutcome:
    """All test_results; per candidate the wedge bound at eps, and what its slabs are like."""

    n_rows: int
    test_results: tuple[TestResult, ...]
    betas: tuple[float, ...]
    slab_counts: NDArray[np.int64]
    edges: NDArray[np.float64]
    eigenvalues: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class WedgeBound:
    """Algorithm 2 for a batch of candidates, as a pass: a tester_set with its three testers."""

    tester_set: TesterSet

    def needs(self) -> Bundle:
        """Slab masses, and second moments over samples."""
        return self.tester_set.needs()

    def conclude(self, result: tuple[Any, ...]) -> WedgeOutcome:
        """Judge every candidate."""
        slabs: CandidateSlabsResult = self.tester_set.result_of(SlabMassTester, result)
        moments: SlabCovarianceResult = self.tester_set.result_of(SlabCovarianceTester, result)
        everyone = range(len(slabs.counts))
        eigenvalues = np.array([slab_eigenvalues(moments, i) for i in everyone])
        return WedgeOutcome(
            n_rows=slabs.n_rows,
            test_results=self.tester_set.judge(result, n_seen=slabs.n_rows),
            betas=self.tester_set.find(WedgeTester).betas(self.tester_set.result_of(WedgeTester, result)),
            slab_counts=slabs.counts,
            edges=moments.edges,
            eigenvalues=eigenvalues,
        )


def join_outcomes(parts: tuple[WedgeOutcome, ...]) -> WedgeOutcome:
    """The outcomes of all batches as one, test_results in the order of candidates."""
    test_results = (one for part in parts for one in part.test_results)
    return WedgeOutcome(
        n_rows=parts[0].n_rows,
        test_results=tuple(sorted(test_results, key=lambda one: one.candidate or 0)),
        betas=tuple(beta for part in parts for beta in part.betas),
        slab_counts=np.concatenate([part.slab_counts for part in parts]),
        edges=parts[0].edges,
        eigenvalues=np.concatenate([part.eigenvalues for part in parts]),
    )


def slab_eigenvalues(result: SlabCovarianceResult, candidate: int) -> NDArray[np.float64]:
    """Largest eigenvalue of the second moment orthogonal to a candidate, slab by slab."""
    return np.asarray(np.linalg.eigvalsh(result.second_moments(candidate))[:, -1])
