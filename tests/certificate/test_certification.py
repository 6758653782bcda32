"""The certificate pass of one halfspace: what it counts, where, and which bound it keeps."""

from __future__ import annotations

import dataclasses
import math
import re
from fractions import Fraction
from operator import mul, sub
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from streamhalf import MemoryBudgetError, RunConfig, open_source
from streamhalf.certificate.certification import (
    PARTIALS_AT_ONCE,
    Certification,
    certificate_degree,
    certificate_share,
    require_room,
)
from streamhalf.certificate.slab_forms import slab_forms, typical_unit
from streamhalf.data.block import Block
from streamhalf.data.transforms import Identity, Isotropic, RowTransform
from streamhalf.engine import open_engine
from streamhalf.engine.run import Run
from streamhalf.events import ignore
from streamhalf.kernels.plane import Plane
from streamhalf.kernels.slabs import assign_slabs
from streamhalf.kernels.streams import Stream, uniforms_at
from streamhalf.reductions import RowDigest
from streamhalf.results import AdviceCode, CertificateRecord, Halfspace, HalfspaceClass
from streamhalf.testing import assert_close, assert_identical

N_ROWS, RATE = 40_000, 0.05
MAP = Isotropic(np.array([3.0, -1.0]), np.diag([0.5, 2.0]))
AXIS = np.array([1.0, 0.0])


def draw(seed: int = 1) -> Block:
    """Gaussian rows; labels of x1 >= 0, a share of them wrong."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((N_ROWS, 2))
    y = np.where(Z[:, 0] >= 0, 1, -1).astype(np.int8)
    y[rng.random(N_ROWS) < RATE] *= -1
    return Block(Z, y, np.arange(N_ROWS))


ROWS = draw()


def stored(block: Block) -> Block:
    """The rows that MAP takes to these."""
    return Block(block.X * [2.0, 0.5] + MAP.centre, block.y, block.rows)


def certification(row_transform: RowTransform, plane: Plane, **changes: Any) -> Certification:
    values = {
        "halfspace": Halfspace.of(row_transform.to_stored(plane)),
        "row_transform": row_transform,
        "error": RATE,
        "degree": 4,
        "memory": 1 << 29,
        "planes": (plane.unit(),),
    }
    return Certification(**(values | changes))


def measure(one: Certification, block: Block) -> CertificateRecord:
    needs = one.needs()
    return one.conclude(needs.finalize(needs.map(block)), tau=0.01)


def test_certificate__bounds_what_any_halfspace_through_the_centre_errs_on() -> None:
    one = certification(Identity(), Plane(AXIS), through=HalfspaceClass.ORIGIN)
    found = measure(one, ROWS)
    wrong = Plane(AXIS).errors(ROWS.X, ROWS.y)
    assert (found.n_rows, found.n_errors) == (N_ROWS, wrong)
    assert found.error == wrong / N_ROWS
    # a dense search over directions: no bound may exceed what is reached
    angles = np.linspace(0, 2 * math.pi, 720, endpoint=False)
    best = min(Plane(np.array([math.cos(a), math.sin(a)])).errors(ROWS.X, ROWS.y) for a in angles)
    assert 0.8 * RATE < found.opt.lower_empirical <= best / N_ROWS
    assert found.ratio == found.error / found.opt.lower_empirical
    assert found.bounds == (found.opt,)
    errors = math.ceil(found.opt.lower_empirical * N_ROWS)
    assert binom.sf(errors - 1, N_ROWS, found.opt.lower) == pytest.approx(0.01, rel=1e-6)
    assert found.profile[0].angle_low == 0
    assert found.profile[-1].angle_high == pytest.approx(math.pi)
    assert min(one.bound for one in found.profile) == pytest.approx(found.opt.lower_empirical)


def test_needs__errors_on_stored_rows_and_slabs_on_mapped_ones() -> None:
    block = stored(ROWS)
    one = certification(MAP, Plane(AXIS, 0.25))
    digest, (errors, slabs) = one.needs().map(block)
    raw = one.halfspace
    assert errors.errors[0] == np.count_nonzero((block.X @ raw.normal + raw.offset >= 0) != (block.y > 0))
    # the halfspace has a threshold among mapped rows, and slabs lie about it
    assert errors.errors[0] == Plane(AXIS, 0.25).errors(ROWS.X, ROWS.y)
    assert errors.errors[0] != Plane(AXIS).errors(ROWS.X, ROWS.y)
    expected = tuple(reduction.map(ROWS) for reduction in one.slabs(Plane(AXIS, 0.25)))
    assert_close(slabs, expected, scale=float(N_ROWS))
    assert_identical(digest, RowDigest().map(block))


def collinear(n_rows: int = 400) -> Block:
    """Features that differ by a hundred-thousandth of their spread, far from the origin."""
    rng = np.random.default_rng(11)
    X = 1e3 + rng.standard_normal((n_rows, 1)) + 1e-4 * rng.standard_normal((n_rows, 3))
    return Block(X, rng.choice(np.array([-1, 1], np.int8), n_rows), np.arange(n_rows))


def test_needs__slabs_hold_the_rows_of_a_position_as_they_are_exactly() -> None:
    """L speaks of stored rows: what W (x - c) rounds, with an ill-conditioned W, is allowed for.

    In fractions; without that most slabs are too narrow.
    """
    block, axis = collinear(), np.array([0.6, 0.0, 0.8])
    row_transform = Isotropic.from_rows(block.X)
    one = certification(row_transform, Plane(axis), degree=2)
    needs = one.needs()
    _, (_, (statistics, *_)) = needs.finalize(needs.map(block))
    forms, unit = slab_forms(statistics, 2), typical_unit(statistics)
    edges = one.slabs(one.planes[0])[0].edges
    places = assign_slabs(Plane(axis).margins(row_transform.apply(block).X) * block.y, edges)
    places += (len(edges) + 1) * (block.y < 0)
    rank = np.cumsum(statistics.counts > 0) - 1
    along = [sum(map(mul, exact(axis), column)) for column in map(exact, row_transform.matrix.T)]
    for x, y, slab in zip(block.X, block.y.tolist(), rank[places].tolist(), strict=True):
        centred = map(sub, exact(x), exact(row_transform.centre))
        z = float(y * sum(map(mul, along, centred)))
        assert forms.z_low[slab] * unit <= z <= forms.z_high[slab] * unit


def exact(vector: np.ndarray) -> list[Fraction]:
    return [Fraction(value) for value in vector.tolist()]


def test_certificate__of_a_position_that_has_no_inverse_says_nothing() -> None:
    flat = Isotropic(np.zeros(2), np.diag([1.0, 0.0]))
    assert flat.rounding == math.inf
    one = dataclasses.replace(certification(Identity(), Plane(AXIS)), row_transform=flat)
    assert measure(one, ROWS).opt.lower_empirical == 0


def test_certificate__of_a_threshold_is_compared_within_any() -> None:
    block = Block(ROWS.X, np.where(ROWS.X[:, 0] >= 0.8, 1, -1).astype(np.int8), ROWS.rows)
    block.y[::20] *= -1
    one = certification(Identity(), Plane(AXIS, 0.8))
    found = measure(one, block)
    assert found.through is found.opt.through is HalfspaceClass.ANY
    assert (found.threshold, found.direction) == (0.8, tuple(AXIS))
    assert 1 <= found.ratio < 1.3
    central = found.bound_of(HalfspaceClass.ORIGIN)
    assert central.lower_empirical > 2 * found.error
    assert found.threshold_low <= found.threshold_high
    # only those through the origin were asked for
    alone = measure(dataclasses.replace(one, through=HalfspaceClass.ORIGIN), block)
    assert alone.bounds == (alone.opt,)
    assert (alone.opt.through, alone.ratio, alone.threshold) == (HalfspaceClass.ORIGIN, None, 0.0)
    assert alone.advice.code is AdviceCode.OTHER_CLASS
    assert alone.opt.lower_empirical == pytest.approx(central.lower_empirical, rel=0.1)
    assert 2 * alone.n_slabs[0] == found.n_slabs[0]


def test_certificate__in_another_position_is_that_of_the_rows_there() -> None:
    there = measure(certification(Identity(), Plane(AXIS)), ROWS)
    here = measure(certification(MAP, Plane(AXIS)), stored(ROWS))
    assert (here.n_rows, here.n_errors) == (there.n_rows, there.n_errors)
    assert here.opt.lower_empirical == pytest.approx(there.opt.lower_empirical, rel=1e-3)
    assert here.direction == there.direction
    assert here.digest != there.digest  # of stored rows


def test_of__takes_directions_to_the_position_and_the_rest_from_the_configuration() -> None:
    block = stored(ROWS)
    source = open_source((block.X, block.y))
    config = RunConfig(certificate_rows=1 << 16, seed=7, certificate_memory=1 << 28)
    halfspace = Halfspace.of(MAP.to_stored(Plane(np.array([3.0, 4.0]), 0.1)))
    one = Certification.of(source, config, halfspace, MAP, 0.07)
    np.testing.assert_allclose(one.planes[0].normal, [0.6, 0.8])
    assert (one.error, one.seed, one.memory) == (0.07, 7, 1 << 28)
    assert one.degree == 6
    assert one.share == 1.0  # fewer rows than asked for
    assert Certification.of(source, RunConfig(certificate_degree=2), halfspace, MAP, 0.1).degree == 2


def near(seed: int = 3) -> Block:
    """Labels next to the boundary are wrong: slabs along other directions give poorer bounds."""
    block = draw(seed)
    y = np.where(block.X[:, 0] >= 0, 1, -1).astype(np.int8)
    y[np.abs(block.X[:, 0]) < 0.06] *= -1
    return Block(block.X, y, block.rows)


def test_certificate__of_a_halfspace_through_the_centre_is_compared_within_any_too() -> None:
    """The class is the one that was asked for, never one that the answer happens to be of."""
    found = measure(certification(Identity(), Plane(AXIS)), ROWS)
    assert (found.through, found.opt.through) == (HalfspaceClass.ORIGIN, HalfspaceClass.ANY)
    assert found.ratio == found.error / found.opt.lower_empirical
    # tau = 0.01 is shared with the bound for halfspaces through the origin
    assert [one.through for one in found.bounds] == [HalfspaceClass.ANY, HalfspaceClass.ORIGIN]
    assert 0.7 * RATE < found.opt.lower_empirical <= found.bounds[1].lower_empirical
    errors = math.ceil(found.opt.lower_empirical * N_ROWS)
    assert binom.sf(errors - 1, N_ROWS, found.opt.lower) == pytest.approx(0.005, rel=1e-6)


def test_looking_from__keeps_the_better_bound() -> None:
    block = near()
    turned = np.array([math.cos(0.3), math.sin(0.3)])
    own = certification(Identity(), Plane(turned), through=HalfspaceClass.ORIGIN)
    other = dataclasses.replace(own, planes=(Plane(AXIS),))
    alone, beside = measure(own, block), measure(other, block)
    assert beside.opt.lower_empirical > 1.1 * alone.opt.lower_empirical
    for both in (own.looking_from(Plane(AXIS)), other.looking_from(Plane(turned))):
        found = measure(both, block)
        assert found.opt.lower_empirical == pytest.approx(beside.opt.lower_empirical, rel=1e-3)
        assert found.direction == tuple(AXIS)
        # errors are those of the halfspace, wherever slabs are cut
        assert found.n_errors == alone.n_errors == Plane(turned).errors(block.X, block.y)


def test_looking_from__gives_a_direction_up_that_does_not_fit_in_memory() -> None:
    one = certification(Identity(), Plane(AXIS), degree=2)
    coarsest = _coarsest_nbytes(one)
    # room for the coarsest slabs of one direction, but not of two
    tight = dataclasses.replace(one, memory=PARTIALS_AT_ONCE * coarsest)
    assert tight.slabs(Plane(AXIS))
    assert tight.looking_from(Plane(AXIS)) is tight
    roomy = dataclasses.replace(one, memory=2 * PARTIALS_AT_ONCE * coarsest)
    assert len(roomy.looking_from(Plane(AXIS)).planes) == 2


def _coarsest_nbytes(one: Certification) -> int:
    """Of one partial, by giving less and less memory."""
    found = None
    limit = one.memory
    while slabs := dataclasses.replace(one, memory=limit).slabs(Plane(AXIS)):
        found, limit = slabs[-1].partial_nbytes(2), limit * 9 // 10
    assert found is not None
    return found


def test_slabs__get_coarser_with_less_memory_and_the_bound_stays_a_bound() -> None:
    counts = []
    for limit in (1 << 28, 1 << 19, 1 << 17):
        one = certification(Identity(), Plane(AXIS), memory=limit)
        found = measure(one, ROWS)
        counts.append(found.n_slabs[0])
        assert 0 < found.opt.lower_empirical <= RATE * 1.1
        assert all(PARTIALS_AT_ONCE * slabs.partial_nbytes(2) <= limit for slabs in one.slabs(Plane(AXIS)))
    assert counts[0] > counts[-1]
    assert counts == sorted(counts, reverse=True)


def test_slabs__of_an_earlier_pass_are_taken_again_whatever_the_memory() -> None:
    small = measure(certification(Identity(), Plane(AXIS), memory=1 << 18), ROWS)
    again = certification(Identity(), Plane(AXIS), n_slabs=small.n_slabs, claimed=small.bounds, degree=small.degree)
    found = measure(again, ROWS)
    assert found.n_slabs == small.n_slabs
    assert found.opt.lower_empirical == pytest.approx(small.opt.lower_empirical, rel=1e-3)


def test_share__errors_and_moments_are_of_the_same_single_rows_and_the_digest_of_all() -> None:
    one = certification(Identity(), Plane(AXIS), share=0.5, seed=4)
    found = measure(one, ROWS)
    taken = uniforms_at(4, Stream.CERTIFICATE, ROWS.rows) < 0.5
    assert found.n_rows == np.count_nonzero(taken)
    assert found.n_errors == Plane(AXIS).errors(ROWS.X[taken], ROWS.y[taken])
    assert (found.share, found.seed) == (0.5, 4)
    whole = measure(dataclasses.replace(one, share=1.0), ROWS)
    assert whole.n_rows == N_ROWS
    assert found.digest == whole.digest


def test_require_room__refuses_before_anything_is_read() -> None:
    with pytest.raises(MemoryBudgetError) as caught:
        require_room(100, 1 << 20)
    need = re.match(
        r"certificate_memory: 1 MiB; the coarsest slabs of a certificate of 100 features take "
        r"(\d+) MiB; raise certificate_memory, or do without a certificate "
        r"\(certificate_degree 0\)$",
        str(caught.value),
    )
    assert need
    # what it asks for is enough
    require_room(100, int(need[1]) << 20)
    require_room(3, 1 << 20)


@pytest.mark.parametrize("dim", [1, 2, 10, 40])
def test_require_room__where_it_lets_through_slabs_fit(dim: int) -> None:
    axis = np.eye(1, dim)[0]
    for limit in np.geomspace(1 << 20, 1 << 26, 12).astype(int).tolist():
        try:
            require_room(dim, limit)
        except MemoryBudgetError:
            continue
        for error in (0.0, 0.001, 0.3):
            one = certification(Identity(), Plane(axis), memory=limit, error=error, degree=4)
            assert one.slabs(Plane(axis))


def test_run__measures_beside_in_the_same_read() -> None:
    one = certification(Identity(), Plane(AXIS), degree=2)
    source = open_source((ROWS.X, ROWS.y))
    with open_engine("serial") as engine:
        run = Run(engine, 1 << 30, 8, ignore)
        alone, nothing = one.run(run, source, tau=0.01)
        both, digest = one.run(run, source, tau=0.01, beside=RowDigest(), name="again")
    assert [record.name for record in run.passes] == ["certificate", "again"]
    assert nothing is None
    assert both == alone
    assert digest.text == alone.digest
    assert alone.opt == measure(one, ROWS).opt


@pytest.mark.parametrize(
    ("rate", "n_rows", "degree", "code"),
    [
        (0.0, 2_000, 4, AdviceCode.TIGHT),
        (0.05, N_ROWS, 6, AdviceCode.TIGHT),
        (0.05, 1_000, 2, AdviceCode.MORE_ROWS),
        (0.05, N_ROWS, 2, AdviceCode.HIGHER_DEGREE),
    ],
)
def test_advice__says_what_would_tighten_the_bound(rate: float, n_rows: int, degree: int, code: AdviceCode) -> None:
    rng = np.random.default_rng(6)
    X = rng.standard_normal((n_rows, 2))
    y = np.where(X[:, 0] >= 0, 1, -1).astype(np.int8)
    y[rng.random(n_rows) < rate] *= -1
    one = certification(Identity(), Plane(AXIS), degree=degree)
    found = measure(one, Block(X, y, np.arange(n_rows)))
    assert found.advice.code is code
    if code is AdviceCode.MORE_ROWS:
        assert found.advice.rows == math.ceil(30 * 4 / found.error) > n_rows
    if code is AdviceCode.HIGHER_DEGREE:
        assert found.advice.degree == 4
        for changes in ({"across": AXIS[::-1]}, {"memory": 10_000, "degree": 4}):
            slim = certification(Identity(), Plane(AXIS), **({"degree": degree} | changes))
            again = measure(slim, Block(X, y, np.arange(n_rows)))
            assert again.degree == 2
            assert again.advice.code is AdviceCode.NOTHING
    if rate == 0:
        assert (found.opt.lower_empirical, found.ratio) == (0.0, None)


def test_certificate_degree__auto_is_6_for_few_features() -> None:
    assert [certificate_degree("auto", dim) for dim in (1, 2, 7, 10, 11, 50)] == [6, 6, 6, 6, 4, 4]
    assert certificate_degree(8, 50) == 8


def test_certificate_share__auto_is_all_rows_until_there_are_enough() -> None:
    assert certificate_share("auto", n_rows=2**22, dim=10, error=0.05) == 1
    assert certificate_share("auto", n_rows=2**23, dim=10, error=0.05) == 0.5
    assert certificate_share("auto", n_rows=2**23, dim=10, error=0.05, degree=6) == 0.0625
    assert certificate_share("all", n_rows=10**12, dim=10, error=0.05) == 1
    assert certificate_share(10**6, n_rows=10**8, dim=10, error=0.05) == 0.01
