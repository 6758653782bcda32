"""Certificates that count sets of rows in conflict, from the pass to the claim."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from numpy.typing import NDArray

import streamhalf
from streamhalf.certificate.conflict_sets import ConflictSets, tells_more
from streamhalf.data.block import Block
from streamhalf.data.transforms import Identity
from streamhalf.kernels.binomial import binomial_lower
from streamhalf.reductions.rows import RowDigestResult
from streamhalf.results import CertificateMethod, CertifyResult, HalfspaceClass, Verdict, replace
from tests.saying import said

Rows = tuple[NDArray[np.float64], NDArray[np.int64]]


def heavy_rows(n_rows: int = 600, dim: int = 4, *, rate: float = 0.04) -> Rows:
    """Few rows with heavy tails, of which slab moments say nothing, and some flipped labels."""
    rng = np.random.default_rng(7)
    X = rng.standard_t(1.5, (n_rows, dim))
    y = np.where(X @ np.arange(1, dim + 1) >= 0.5, 1, -1)
    y[rng.random(n_rows) < rate] *= -1
    return X, y


@pytest.fixture(scope="module")
def result() -> CertifyResult:
    halfspace = streamhalf.Halfspace((1.0, 2.0, 3.0, 4.0), -0.5)
    return streamhalf.certify(heavy_rows(), weights=halfspace, seed=1)


def test_certify__counts_sets_where_moments_say_nothing(result: CertifyResult) -> None:
    found = result.certificate
    assert found.method is CertificateMethod.SETS
    assert found.n_rows == 600
    assert found.share == 1
    assert 0.7 * found.n_errors < found.n_sets <= found.n_errors
    assert found.opt.lower_empirical == found.n_sets / 600
    assert found.opt.through is HalfspaceClass.ANY
    assert found.opt.tau is not None
    assert found.opt.lower == binomial_lower(found.n_sets, 600, found.opt.tau)
    assert found.ratio == pytest.approx(found.n_errors / found.n_sets)
    assert result.opt == found.opt


def test_verify__finds_the_sets_again_and_refuses_more(result: CertifyResult) -> None:
    assert streamhalf.verify(result, heavy_rows()).holds
    stronger = replace(result.certificate.opt, lower_empirical=result.certificate.error)
    certificate = replace(
        result.certificate, opt=stronger, bounds=(stronger,), n_sets=result.certificate.n_errors, ratio=1.0
    )
    claimed = replace(result, certificate=certificate, opt=stronger, ratio=1.0)
    failed = {one.name for one in streamhalf.verify(claimed, heavy_rows()).claims if not one.holds}
    assert {"no halfspace below L", "ratio U/L"} <= failed


def test_verify__gives_a_forged_effort_no_more_than_it_gives_others(result: CertifyResult) -> None:
    forged = replace(result.certificate, effort=10**18, n_rows=10**15, n_sets=10**15)
    again = streamhalf.verify(replace(result, certificate=forged), heavy_rows())
    failed = {one.name for one in again.claims if not one.holds}
    assert "rows of the certificate" in failed
    assert "digest of all rows" not in failed


def test_certify__counts_about_the_same_sets_whatever_the_classifier() -> None:
    """Of one search about the classifier's plane the number moves by a quarter."""
    rng = np.random.default_rng(4)
    X = rng.standard_t(3, (2_000, 6))
    y = np.where(X.sum(axis=1) + 0.8 * rng.standard_normal(2_000) > 0.3, 1, -1)
    normals = [np.ones(6), *(np.ones(6) + 0.25 * rng.standard_normal((3, 6)))]
    found = [
        streamhalf.certify((X, y), weights=streamhalf.Halfspace(tuple(normal.tolist()), -0.3), seed=1).certificate
        for normal in normals
    ]
    for one in found:
        assert one.n_sets == max(one.searches)
        assert len(one.searches) >= 4
    first, best = ([count(one.searches) for one in found] for count in (lambda s: s[0], max))
    assert max(first) > 1.15 * min(first)
    assert max(best) < 1.06 * min(best)


def test_certify__counts_the_same_sets_in_any_chunks(result: CertifyResult) -> None:
    X, y = heavy_rows()
    halfspace = streamhalf.Halfspace((1.0, 2.0, 3.0, 4.0), -0.5)
    for chunk in (47, 300):
        lazy = (da.from_array(X, chunks=(chunk, 4)), da.from_array(y, chunks=chunk))
        again = streamhalf.certify(lazy, weights=halfspace, seed=1)
        transform = result.certificate.transform  # its matrix is a sum over rows, rounded otherwise
        assert replace(again.certificate, transform=transform) == result.certificate


def test_certify__draws_single_rows_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamhalf.certificate.conflict_sets._MOST_ROWS", 500)
    monkeypatch.setattr("streamhalf.certificate.conflict_sets._MOST_REPEATED", 500)
    monkeypatch.setattr("streamhalf.certificate.conflict_sets._LEAST_ROWS", 500)
    data = heavy_rows(2_000, 8, rate=0.02)
    halfspace = streamhalf.Halfspace(tuple(range(1, 9)), -0.5)
    found = streamhalf.certify(data, weights=halfspace, seed=1)
    assert found.certificate.method is CertificateMethod.SETS
    assert found.certificate.n_rows == 500
    assert found.certificate.share == 0.25
    assert [one.name for one in found.passes][-1] == "certificate-sets"
    assert 0 < found.certificate.n_sets <= found.certificate.n_errors
    assert streamhalf.verify(found, data).holds


@pytest.mark.parametrize("through", ["origin", "centre"])
def test_certify__names_the_class_that_was_asked_for(through: str) -> None:
    X, y = heavy_rows()
    transform = {"origin": "stored", "centre": "isotropic"}[through]
    centre = np.zeros(4) if through == "origin" else X.mean(axis=0)
    normal = np.arange(1.0, 5.0)
    halfspace = streamhalf.Halfspace(tuple(normal), -float(normal @ centre))
    found = streamhalf.certify((X, y), weights=halfspace, seed=1, through=through, feature_transform=transform)
    assert found.certificate.method is CertificateMethod.SETS
    assert found.opt is not None
    assert found.opt.through is HalfspaceClass(through)
    assert found.certificate.n_sets > 0
    assert streamhalf.verify(found, (X, y)).holds


def test_fit__certifies_flags_by_rows_that_contradict_each_other() -> None:
    rng = np.random.default_rng(3)
    X = rng.integers(0, 2, (1_500, 5)).astype(np.float64)
    y = np.where(X.sum(axis=1) >= 3, 1, -1)
    y[rng.random(1_500) < 0.1] *= -1
    result = streamhalf.fit((X, y), seed=0)
    assert result.verdict is Verdict.CERTIFIED
    assert result.certificate is not None
    assert result.certificate.method is CertificateMethod.SETS
    assert result.ratio is not None
    assert result.ratio < 1.1


def test_tells_more__compares_sources_where_rows_differ(result: CertifyResult) -> None:
    one = result.certificate
    higher = replace(one, share=0.5, opt=replace(one.opt, lower_empirical=0.5, lower=0.0))
    assert tells_more(one, higher)
    assert not tells_more(higher, one)
    assert tells_more(replace(higher, share=1.0), one)


def test_words__say_that_sets_were_counted(result: CertifyResult) -> None:

    text = said(result)
    assert f"{result.certificate.n_sets} separate groups of rows" in text
    assert "the direction of the certificate" not in text
    assert "inf" not in text.replace("information", "")


@pytest.mark.parametrize(("total_rows", "code"), [(600, "more rows"), (10**7, "nothing known")])
def test_advice__asks_for_no_rows_that_are_there(total_rows: int, code: str) -> None:
    """The count may be of a sample; with more rows than moments take there is no notice."""
    X, y = heavy_rows(rate=0.3)
    block = Block(X, y.astype(np.int8), np.arange(len(y)))
    halfspace = streamhalf.Halfspace((1.0, 2.0, 3.0, 4.0), -0.5)
    sets = ConflictSets(halfspace=halfspace, row_transform=Identity(), size=len(y), seed=1, effort=1e-3)
    digest = RowDigestResult(total_rows, 0, 0, 0.0, 1.0)
    advice = sets.conclude(digest, block, tau=0.01).advice
    assert advice.code == code
    assert advice.rows is None or advice.rows > total_rows
