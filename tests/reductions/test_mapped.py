from __future__ import annotations

import numpy as np

from streamhalf import open_source
from streamhalf.data.transforms import Identity, Isotropic
from streamhalf.engine import open_engine, plan_pass, run_pass
from streamhalf.events import ignore
from streamhalf.kernels.plane import Plane
from streamhalf.reductions import (
    Bundle,
    Covariance,
    HalfspaceErrors,
    LabelCounts,
    Mapped,
    Sampled,
)
from streamhalf.reductions.mapped import lay_out
from streamhalf.testing.comparing import assert_identical
from streamhalf.testing.drawing import make_block

MAP = Isotropic(np.array([1.0, 2.0, 3.0]), np.diag([0.5, 1.0, 2.0]))


def test_mapped__the_inner_reduction_sees_rows_in_the_position() -> None:
    block = make_block(500, 3, seed=1)
    found = Mapped(Covariance(), MAP).map(block)
    moved = (block.X - MAP.mean) @ MAP.matrix.T
    np.testing.assert_allclose(found.mean, moved.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(found.covariance, np.cov(moved.T, bias=True), rtol=1e-10)


def test_mapped__beside_others_that_see_stored_rows() -> None:
    # one read, two transforms: the same halfspace in both gets the same rows wrong
    block = make_block(500, 3, seed=1)
    stored = Plane(np.array([1.0, -1.0, 0.5]), 0.3)
    both = Bundle(
        (HalfspaceErrors(stored), Mapped(HalfspaceErrors(MAP.to_transformed(stored)), MAP))
    )
    left, right = both.map(block)
    assert_identical(left, right)
    assert 0 < left.n_errors < 500


def test_mapped__without_a_map_is_the_inner_reduction() -> None:
    block = make_block(500, 3, seed=1)
    assert_identical(Mapped(Covariance(), Identity()).map(block), Covariance().map(block))
    assert Mapped(Covariance(), Identity()).partial_nbytes(3) == Covariance().partial_nbytes(3)


def test_lay_out__puts_only_rows_of_the_sample_into_position() -> None:
    block = make_block(500, 3, seed=1)
    sampled = Sampled(Covariance(), 0.2, 0.7, 3, 4)
    found, counted = lay_out(sampled, MAP, LabelCounts()).map(block)
    assert_identical(found, Mapped(sampled, MAP).map(block))
    assert counted.n_rows == found.n_rows < 500
    assert lay_out(Covariance(), Identity()) == Covariance()


def test_mapped__a_pass_leaves_the_source_alone() -> None:
    block = make_block(500, 3, seed=1)
    source = open_source((block.X, block.y))
    before = source.fingerprint
    with open_engine("threads", 2) as engine:
        plan = plan_pass("mapped", source, Mapped(Covariance(), MAP))
        result, record = run_pass(engine, plan, memory_limit=2**30, observer=ignore)
    assert_identical(result, Mapped(Covariance(), MAP).map(block))
    assert record.rows_accepted == 500
    assert source.fingerprint == before
    np.testing.assert_array_equal(source.read(source.blocks[0]).X, block.X)
