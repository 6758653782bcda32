"""Every law over every registered reduction, on dimensions and chunkings drawn by Hypothesis."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from streamhalf import RunConfig
from streamhalf.data import opening
from streamhalf.data import source as source_module
from streamhalf.data.transforms import Isotropic
from streamhalf.engine import open_engine, plan_pass, run_pass
from streamhalf.events import ignore
from streamhalf.kernels.plane import Frame, Plane, Turns
from streamhalf.reductions import (
    REDUCTIONS,
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
from streamhalf.reductions.row_view import MarginBand, RowView, Sample, StoredSigns
from streamhalf.testing import DIMS, MAX_ROWS, assert_identical, check_reduction, make_block

BORDERS = np.array([-1.0, 0.0, 1.0])


def planes(dim: int) -> tuple[Plane, Plane]:
    """Two planes of any dimension, the second orthogonal to an axis."""
    return Plane(np.arange(1.0, dim + 1), 0.1).unit(), Plane(np.eye(dim)[-1])


def isotropic(dim: int) -> Isotropic:
    return Isotropic(np.ones(dim), np.diag(np.linspace(0.5, 2.0, dim)))


def turns(dim: int) -> Turns:
    """Of a plane with a threshold, in a transform that is not that of the rows."""
    transform = isotropic(dim)
    found = Turns.of(planes(dim)[0], transform.centre, transform.matrix)
    return dataclasses.replace(found, angle=0.3, shift=0.1)


EXAMPLES: dict[type, Callable[[int], Any]] = {
    Bundle: lambda dim: Bundle((Moments(2), LabelCounts())),
    CandidateSlabs: lambda dim: CandidateSlabs(planes(dim), 0.25, 6),
    Chow: lambda dim: Chow(5),
    Covariance: lambda dim: Covariance(),
    FeatureMoments: lambda dim: FeatureMoments(),
    LabelCounts: lambda dim: LabelCounts(),
    LogisticLine: lambda dim: LogisticLine(
        np.linspace(-1, 1, dim),
        np.linspace(0.5, 2.0, dim),
        np.linspace(-0.5, 1.0, dim + 1),
        np.linspace(1.0, -1.0, dim + 1),
        (0.0, 0.5, 2.0),
    ),
    MarginCounts: lambda dim: MarginCounts(planes(dim)),
    Moments: lambda dim: Moments(4),
    PlaneErrors: lambda dim: PlaneErrors(planes(dim), 200, np.array([[3, 20], [30, 55]])),
    ReviewSample: lambda dim: ReviewSample(
        Suspects(turns(dim), None, MAX_ROWS, limit=1), 0.3, (3, 2, 0, 4), seed=1, stream=9
    ),
    RowDigest: lambda dim: RowDigest(),
    RowProfile: lambda dim: RowProfile(
        planes(dim)[0],
        isotropic(dim),
        planes(dim)[1],
        np.linspace(-1, 1, dim),
        np.linspace(0.5, 2.0, dim),
        (Frame(planes(dim)[1], 0.5), Frame(planes(dim)[0], 0.3)),
        total_rows=MAX_ROWS,
    ),
    RowSample: lambda dim: RowSample(20, seed=1, stream=9),
    SegmentScatter: lambda dim: SegmentScatter(total_rows=MAX_ROWS, n_segments=7),
    SlabCovariance: lambda dim: SlabCovariance(planes(dim), BORDERS),
    SlabMoments: lambda dim: SlabMoments(
        planes(dim)[0], BORDERS, degree=4, across=(np.linspace(1, 2, dim), BORDERS) if dim > 2 else None
    ),
    Suspects: lambda dim: Suspects(turns(dim), None, MAX_ROWS, limit=5),
    ThresholdScan: lambda dim: ThresholdScan(planes(dim)),
    Tyler: lambda dim: Tyler(np.ones(dim), np.diag(np.linspace(0.5, 2.0, dim))),
    Viewed: lambda dim: Bundle(
        (
            Viewed(
                Bundle((Moments(2), Chow(3))),
                RowView(Sample(1, 2, 0.1, 0.9), (isotropic(dim),), Frame(planes(dim)[0], 0.5)),
            ),
            Viewed(RowSample(20, 1, 9), RowView(accept=MarginBand(planes(dim)[0], 0.7))),
            Viewed(LabelCounts(), RowView(Sample(1, 2, 0.1, 0.6))),
            Viewed(Covariance(), RowView(transforms=(isotropic(dim), StoredSigns(1)))),
        )
    ),
    WedgeSums: lambda dim: WedgeSums(planes(dim), 0.2),
}


def test_registry__every_reduction_has_an_example() -> None:
    assert set(EXAMPLES) == set(REDUCTIONS)


def test_registry__names_are_distinct() -> None:
    names = [example(3).name for example in EXAMPLES.values()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("cls", REDUCTIONS, ids=lambda cls: cls.__name__)
def test_reduction__obeys_the_laws(cls: type) -> None:
    check_reduction(EXAMPLES[cls])


@pytest.mark.parametrize("dim", DIMS[::2])
@pytest.mark.parametrize("cls", REDUCTIONS, ids=lambda cls: cls.__name__)
def test_reduction__dask_equals_serial(cls: type, dim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "BLOCK_NBYTES", 1)
    monkeypatch.setattr(source_module, "GRID_ROWS", 7)
    block = make_block(MAX_ROWS, dim, seed=4)
    source = opening.open_source((block.X, block.y))
    assert len(source.blocks) == 9
    results = []
    for name in ("serial", "threads"):
        with open_engine(name, RunConfig(n_workers=2)) as engine:
            plan = plan_pass("law", source, EXAMPLES[cls](dim))
            results.append(run_pass(engine, plan, memory_limit=2**30, observer=ignore)[0])
    assert_identical(*results)
