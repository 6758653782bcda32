"""Which changed claims verification finds, one by one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from zarr.codecs import Crc32cCodec

import streamhalf
from streamhalf import CertifyResult, DataError, FitResult, UsageError
from streamhalf.certificate.verify import SAID_TWICE, check_document
from streamhalf.kernels.binomial import binomial_upper
from streamhalf.results import (
    AS_WRITTEN,
    Halfspace,
    HalfspaceClass,
    OptRecord,
    PromiseCode,
    TransformRecord,
    Verdict,
    make_promise,
    make_quality,
    replace,
    seal,
)
from tests.conftest import write_arrays

SERIAL = {"scheduler": "serial"}
STORED = {**SERIAL, "feature_transform": "stored", "certificate_effort": 0.05}
N_ROWS = 90_000

CLAIMS = [
    AS_WRITTEN,
    "rows",
    "features",
    "fingerprint",
    "digest of all rows",
    "rows labelled +1",
    "rows of the certificate",
    "errors on these rows",
    "no halfspace below L",
    "L on the source",
    "no halfspace below L, through: {other}",
    "L on the source, through: {other}",
    "class of the halfspace",
    "class that L is for",
    "ratio U/L",
    SAID_TWICE,
    "rows that measured the error",
    "error on them",
    "error of guessing on them",
    "upper bound of the error",
]


def draw(n_rows: int = N_ROWS) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(8)
    X = rng.standard_normal((n_rows, 2))
    y = np.where(X[:, 0] >= 0, 1, -1).astype(np.int8)
    y[rng.random(n_rows) < 0.05] *= -1
    return X, y


DATA = draw()
FEW = draw(6_000)


@pytest.fixture(scope="module")
def fitted() -> FitResult:
    result = streamhalf.fit(DATA, eps=0.25, certificate_degree=4, **STORED)
    assert result.held_out is not None
    return result


@pytest.fixture(scope="module")
def certified() -> CertifyResult:
    weights = Halfspace((1.0, 0.1), 0.05)
    return streamhalf.certify(FEW, weights=weights, certificate_degree=2, **STORED)


@pytest.fixture(scope="module")
def bounded() -> CertifyResult:
    """With a bound above 0, which takes longer to find again."""
    result = streamhalf.certify(FEW, weights=[1.0, 0.1], certificate_degree=4, **(STORED | {"certificate_effort": 1.0}))
    assert result.opt.lower_empirical > 0.01
    return result


def verify(document: Any, data: Any, **options: Any) -> set[str]:
    """The claims that do not hold."""
    found = streamhalf.verify(document, data, **SERIAL, **options)
    return {claim.name for claim in found.claims if not claim.holds}


def test_verify__a_document_as_it_was_written_holds(fitted: FitResult, certified: CertifyResult) -> None:
    for document, data in ((fitted, DATA), (certified, FEW)):
        found = streamhalf.verify(document, data, **SERIAL)
        other = HalfspaceClass.ANY if document.opt.through is HalfspaceClass.ORIGIN else HalfspaceClass.ORIGIN
        assert [claim.name for claim in found.claims] == [name.format(other=other) for name in CLAIMS]
        assert found.holds
        assert [record.name for record in found.passes] == ["verify"]


def of_certificate(**changes: Callable[[Any], Any] | Any) -> Callable[[Any], Any]:
    def change(document: Any) -> Any:
        record = document.certificate
        values = {name: value(getattr(record, name)) if callable(value) else value for name, value in changes.items()}
        return replace(document, certificate=replace(record, **values))

    return change


def of_error(**changes: Any) -> Callable[[Any], Any]:
    def change(document: Any) -> Any:
        values = {
            name: value(getattr(document.error, name)) if callable(value) else value for name, value in changes.items()
        }
        return replace(document, error=replace(document.error, **values))

    return change


def of_data(**changes: Any) -> Callable[[Any], Any]:
    return lambda document: replace(document, data=replace(document.data, **changes))


FORGED: dict[str, tuple[Callable[[Any], Any], set[str]]] = {
    "rows": (of_data(rows=7), {"rows", SAID_TWICE}),
    "fingerprint": (of_data(fingerprint="00"), {"fingerprint"}),
    # slack for rounding is a matter of the same rows; those of another digest must all count
    "digest": (of_certificate(digest="00"), {"digest of all rows"}),
    "rows labelled +1": (of_certificate(n_positive=7), {"rows labelled +1", SAID_TWICE}),
    "rows of the certificate": (of_certificate(n_rows=7), {"rows of the certificate", SAID_TWICE}),
    "errors": (of_certificate(n_errors=lambda n: n - 100), {"errors on these rows", SAID_TWICE}),
    "L on the rows": (
        of_certificate(opt=lambda opt: replace(opt, lower_empirical=1.05 * opt.lower_empirical + 0.01)),
        {"no halfspace below L", SAID_TWICE},
    ),
    "L on the source": (
        of_certificate(opt=lambda opt: replace(opt, lower=opt.lower + 0.02)),
        {"L on the source", SAID_TWICE},
    ),
    "L of another class": (
        of_certificate(bounds=lambda old: (old[0], replace(old[1], lower_empirical=0.3, lower=0.3))),
        {"no halfspace below L, through: origin", "L on the source, through: origin"},
    ),
    "a class without a bound": (
        of_certificate(bounds=lambda old: (*old, replace(old[1], through=HalfspaceClass.CENTRE))),
        {"no halfspace below L, through: centre", "L on the source, through: centre"},
    ),
    "tau of another class": (of_certificate(bounds=lambda old: (old[0], replace(old[1], tau=0.001))), {SAID_TWICE}),
    "ratio": (of_certificate(ratio=0.9), {"ratio U/L", SAID_TWICE}),
    "L of the headline": (lambda document: replace(document, opt=OptRecord(0.4, 0.3)), {SAID_TWICE}),
    "ratio of the headline": (lambda document: replace(document, ratio=1.5), {SAID_TWICE}),
    "error of the certificate": (of_certificate(error=0.001), {SAID_TWICE}),
    "rows behind the error": (of_error(n_rows=77), {"rows that measured the error"}),
    "error": (of_error(empirical=0.01), {"error on them"}),
    "upper bound": (of_error(upper=0.01), {"upper bound of the error", SAID_TWICE}),
    "error of guessing": (
        of_error(by_label=lambda found: replace(found, positive=found.positive // 2)),
        {"error of guessing on them"},
    ),
    "quality": (lambda document: replace(document, quality=replace(document.quality, error=0.001)), {SAID_TWICE}),
    "promise": (lambda document: replace(document, promise=replace(document.promise, factor=1.0)), {SAID_TWICE}),
}


@pytest.mark.parametrize(("forge", "found"), FORGED.values(), ids=FORGED)
def test_verify__finds_each_changed_claim(
    certified: CertifyResult, forge: Callable[[Any], Any], found: set[str]
) -> None:
    forged = forge(certified)
    # sealed again, it is as written, and the data tell
    assert verify(seal(forged), FEW) == found
    assert verify(forged, FEW) == found | {AS_WRITTEN}


@pytest.mark.parametrize("name", ["L on the rows", "ratio"])
def test_verify__finds_a_bound_that_is_too_good(bounded: CertifyResult, name: str) -> None:
    forge, found = FORGED[name]
    assert verify(seal(forge(bounded)), FEW) == found


def test_verify__finds_changed_claims_of_a_fit(fitted: FitResult) -> None:
    names = ("errors", "L on the rows", "error", "upper bound")
    for forge, found in (FORGED[name] for name in names):
        assert verify(seal(forge(fitted)), DATA) == found


QUALITY_OR_PROMISE: dict[str, Callable[[FitResult], dict[str, Any]]] = {
    "error": lambda found: {"quality": replace(found.quality, error=found.quality.error / 2)},
    "lower": lambda found: {"quality": replace(found.quality, lower=0.04, factor=1.25)},
    "no quality": lambda _: {"quality": None},
    "factor": lambda found: {"promise": replace(found.promise, factor=1.0)},
    "at most": lambda found: {"promise": replace(found.promise, at_most=0.01)},
    "code": lambda found: {"promise": replace(found.promise, code=PromiseCode.NO_BOUND)},
    "no promise": lambda _: {"promise": None},
}


@pytest.mark.parametrize("change", QUALITY_OR_PROMISE.values(), ids=QUALITY_OR_PROMISE)
def test_verify__quality_and_promise_that_nothing_else_says_fail(
    fitted: FitResult, change: Callable[[FitResult], dict[str, Any]]
) -> None:
    assert verify(seal(replace(fitted, **change(fitted))), DATA) == {SAID_TWICE}


def test_verify__a_number_that_is_no_claim_about_data_breaks_the_seal(fitted: FitResult) -> None:
    assert verify(replace(fitted, tau=fitted.tau / 2), DATA) >= {AS_WRITTEN}
    assert verify(seal(replace(fitted, eps=fitted.eps / 3)), DATA) == {SAID_TWICE}


def test_verify__another_halfspace_is_found_out(certified: CertifyResult) -> None:
    turned = replace(certified, halfspace=Halfspace((1.0, 0.5), 0.05))
    found = verify(seal(turned), FEW)
    assert {"errors on these rows", "error on them"} <= found
    assert "digest of all rows" not in found


def test_verify__another_share_of_rows_behind_the_error_is_found_out(fitted: FitResult) -> None:
    ranges = ((0, 1_000),)
    forged = replace(fitted, held_out=replace(fitted.held_out, ranges=ranges))
    assert "rows that measured the error" in verify(seal(forged), DATA)
    nothing = replace(fitted, held_out=replace(fitted.held_out, ranges=()))
    assert "rows that measured the error" in verify(seal(nothing), DATA)


def test_verify__weaker_claims_hold_and_are_called_so(bounded: CertifyResult) -> None:
    weak = replace(bounded.opt, lower_empirical=bounded.opt.lower_empirical - 0.01, lower=bounded.opt.lower - 0.01)
    bounds = (weak, *bounded.certificate.bounds[1:])
    weaker = of_certificate(opt=weak, bounds=bounds, ratio=50.0)(replace(bounded, opt=weak, ratio=50.0))
    quality = make_quality(weaker.data.rows, weaker.error, weaker.certificate)
    promise = make_promise(None, quality, weaker.certificate, max_ratio=2.0)
    weaker = replace(weaker, quality=quality, promise=promise)
    found = streamhalf.verify(seal(weaker), FEW, **SERIAL)
    assert found.holds
    said = {claim.name for claim in found.claims if "weaker than the data allow" in claim.claimed}
    assert said == {"no halfspace below L", "L on the source", "ratio U/L"}


def test_verify__other_data_are_found_out(certified: CertifyResult) -> None:
    X, y = FEW
    flipped = y.copy()
    flipped[-1] *= -1
    assert {"digest of all rows", "error on them", "errors on these rows"} <= verify(certified, (X, flipped))
    assert {"rows", "fingerprint", "digest of all rows"} <= verify(certified, (X[1:], y[1:]))
    # of other features nothing can be computed again
    wide = np.column_stack([X, X[:, 0]])
    assert verify(certified, (wide, y)) == {"features", "fingerprint"}


@pytest.mark.parametrize("block_rows", [333, 100_000])
def test_verify__other_blocks_change_nothing(certified: CertifyResult, block_rows: int) -> None:
    assert verify(certified, FEW, block_rows=block_rows) == set()


def test_verify__blocks_may_hold_one_row() -> None:
    data = draw(50)
    document = streamhalf.certify(data, weights=[1.0, 0.0], certificate_degree=2, **STORED)
    assert verify(document, data, block_rows=1) == set()


@pytest.mark.parametrize("block_rows", [None, 700])
def test_verify__looks_at_checksums_whatever_the_blocks(
    tmp_path: Path, certified: CertifyResult, block_rows: int | None
) -> None:
    path = tmp_path / "data.zarr"
    write_arrays(str(path), *FEW, chunk_rows=1_000, compressors=(Crc32cCodec(),))
    assert verify(certified, path, block_rows=block_rows) == set()
    chunk = path / "X/c/3/0"
    content = bytearray(chunk.read_bytes())
    content[17] ^= 1  # a low bit of one number, whose row stays where it was
    chunk.write_bytes(bytes(content))
    with pytest.raises(DataError, match=r"object X/c/3/0\): its checksum does not fit"):
        verify(certified, path, block_rows=block_rows)


def test_verify__blocks_need_rows(certified: CertifyResult) -> None:
    with pytest.raises(UsageError, match="block_rows: 0 given; use at least 1"):
        verify(certified, FEW, block_rows=0)


UNUSABLE: dict[str, tuple[Callable[[Any], Any], str]] = {
    "no direction": (of_certificate(direction=(0.0, 0.0)), "certificate.direction: no direction of the features"),
    "a direction of other features": (
        of_certificate(direction=(1.0, 0.0, 0.0)),
        "certificate.direction: no direction of the features",
    ),
    "no threshold": (of_certificate(threshold=float("nan")), "certificate.threshold: nan is no threshold"),
    "no halfspace": (
        lambda document: replace(document, halfspace=Halfspace((0.0, 0.0))),
        "halfspace: the document has none",
    ),
    "a transform of other features": (
        lambda document: replace(document, transform=TransformRecord("isotropic", (0.0,), ((1.0, 0.0),))),
        r"transform: matrix \(1, 2\) does not fit 1 features",
    ),
    "a transform without an inverse": (
        lambda document: replace(
            document, transform=TransformRecord("isotropic", (0.0, 0.0), ((1.0, 0.0), (0.0, 0.0)))
        ),
        "transform: singular matrix; the result file is invalid",
    ),
}


@pytest.mark.parametrize(("forge", "message"), UNUSABLE.values(), ids=UNUSABLE)
def test_verify__what_cannot_be_computed_is_told(
    certified: CertifyResult, forge: Callable[[Any], Any], message: str
) -> None:
    forged = forge(certified)
    with pytest.raises(DataError, match=message):
        verify(seal(forged), FEW)


def test_verify__rows_of_no_data_are_told(fitted: FitResult) -> None:
    vast = replace(fitted, held_out=replace(fitted.held_out, ranges=((0, 10**30),)))
    with pytest.raises(DataError, match=r"held_out\.ranges: no rows of any data"):
        verify(seal(vast), DATA)


def test_verify__a_number_that_is_none_is_found_out(certified: CertifyResult) -> None:
    # JSON readers let them through; no run writes them
    for value in (float("nan"), float("inf")):
        assert "error on them" in verify(seal(of_error(empirical=value)(certified)), FEW)


def test_verify__a_direction_counts_whatever_its_length(certified: CertifyResult) -> None:
    longer = of_certificate(direction=lambda old: tuple(5 * one for one in old))(certified)
    assert verify(seal(longer), FEW) == set()
    without = of_certificate(direction=())(certified)  # that of the halfspace
    assert verify(seal(without), FEW) == set()


def test_check_document__refuses_what_makes_no_claim(fitted: FitResult) -> None:
    bare = seal(replace(fitted, certificate=None))
    # such documents are older: a run of today has a halfspace and its error
    unlearnt = replace(bare, verdict=Verdict.INCONCLUSIVE, halfspace=None, error=None)
    with pytest.raises(DataError, match="the run was inconclusive; such a run makes no claim"):
        check_document(seal(unlearnt))
    with pytest.raises(DataError, match="the run was accepted; it was made without a certificate"):
        check_document(bare)
    with pytest.raises(UsageError, match=r"verify takes a result: verify\(read_result\(path\)"):
        check_document("result.json")
    with pytest.raises(UsageError, match="document: dict given; expected what fit or certify"):
        check_document({})
    assert check_document(fitted) is None


def test_verify__few_rows_make_claims_too() -> None:
    data = draw(400)
    document = streamhalf.fit(data, certificate_degree=2, **STORED)
    assert document.verdict is Verdict.INCONCLUSIVE
    assert verify(document, data) == set()
    assert verify(seal(of_error(empirical=0.0, upper=0.01)(document)), data) == {
        "error on them",
        "upper bound of the error",
        SAID_TWICE,
    }


def test_check_document__a_certificate_that_was_taken_out_is_found_out(fitted: FitResult) -> None:
    found = check_document(replace(fitted, certificate=None))
    assert found is not None
    assert [claim.name for claim in found.claims] == [AS_WRITTEN]
    assert not found.holds


def in_stretches() -> tuple[np.ndarray, np.ndarray]:
    """Labels of which every fifth is wrong in every other 1,000 rows."""
    X, _ = draw(40_000)
    noisy = np.arange(40_000) // 1_000 % 2 == 0
    wrong = noisy & (np.random.default_rng(9).random(40_000) < 0.2)
    return X, np.where((X[:, 0] >= 0) != wrong, 1, -1).astype(np.int8)


def test_verify__a_bound_of_errors_in_clusters_is_found_again() -> None:
    data = in_stretches()
    document = streamhalf.certify(data, weights=[1.0, 0.0], certificate_degree=2, **STORED)
    assert document.error.segments is not None
    assert verify(document, data) == set()
    # that of independent rows is too good
    wrong = round(document.error.empirical * 40_000)
    binomial = binomial_upper(wrong, 40_000, document.tau)
    forged = of_error(upper=binomial, segments=None)(document)
    assert binomial < document.error.upper - 0.002
    assert verify(seal(forged), data) == {"upper bound of the error", SAID_TWICE}


@pytest.mark.parametrize("rows", [-3, 0, 7, 10**30])
def test_verify__any_number_of_rows_may_be_claimed(certified: CertifyResult, rows: int) -> None:
    forged = replace(certified, data=replace(certified.data, rows=rows))
    assert verify(seal(forged), FEW) == {"rows", SAID_TWICE}


def test_verify__sampled_rows_are_found_again() -> None:
    result = streamhalf.fit(DATA, eps=0.25, sampling="rows", certificate_degree=2, seed=5, **STORED)
    assert result.held_out.high - result.held_out.low < 1
    assert verify(result, DATA) == set()
    # by the seed of the document
    assert "rows that measured the error" in verify(seal(replace(result, seed=6)), DATA)
