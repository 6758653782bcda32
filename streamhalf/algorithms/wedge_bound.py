"""Algorithm 2, the wedge bound, of every candidate.

The slabs along a candidate must have Gaussian mass and bounded second moments orthogonal to it, so that close
directions disagree on little mass; the wedge tester's beta puts a number on what follows, at a finer scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.results import TestResult
from streamhalf.testers.base import TesterSet
from streamhalf.testers.slabs import SlabCovarianceTester, SlabMassTester
from streamhalf.testers.wedge import WedgeTester


@dataclass(frozen=True, slots=True, eq=False)
class WedgeOutcome:
    """Result of Algorithm 2: per candidate the wedge bound at eps, and what its slabs are like."""

    test_results: tuple[TestResult, ...]
    betas: tuple[float, ...]
    slab_counts: NDArray[np.int64]
    edges: NDArray[np.float64]
    eigenvalues: NDArray[np.float64]

    @classmethod
    def of(cls, tester_set: TesterSet, result: tuple[Any, ...]) -> WedgeOutcome:
        """Judge every candidate of a batch by its three testers."""
        slabs = tester_set.result_of(SlabMassTester, result)
        moments = tester_set.result_of(SlabCovarianceTester, result)
        orthogonal = [moments.second_moments(candidate) for candidate in range(len(slabs.counts))]
        return cls(
            test_results=tester_set.judge(result, n_seen=slabs.n_rows),
            betas=tester_set.find(WedgeTester).betas(tester_set.result_of(WedgeTester, result)),
            slab_counts=slabs.counts,
            edges=moments.edges,
            eigenvalues=np.array([np.linalg.eigvalsh(one)[:, -1] for one in orthogonal]),
        )

    @classmethod
    def joined(cls, parts: tuple[WedgeOutcome, ...]) -> WedgeOutcome:
        """The outcomes of all batches as one, test results in the order of candidates."""
        test_results = (one for part in parts for one in part.test_results)
        return cls(
            test_results=tuple(sorted(test_results, key=lambda one: one.candidate or 0)),
            betas=tuple(beta for part in parts for beta in part.betas),
            slab_counts=np.concatenate([part.slab_counts for part in parts]),
            edges=parts[0].edges,
            eigenvalues=np.concatenate([part.eigenvalues for part in parts]),
        )
