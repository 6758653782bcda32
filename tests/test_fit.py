"""`streamhalf.fit` from data to document.

Certificates have tests of their own: most runs here leave the certificate pass out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client
from scipy.stats import binomtest

import streamhalf
from streamhalf import FitResult, MemoryBudgetError, Outcome, Verdict
from streamhalf.data.block import RowRange
from streamhalf.events import Event
from streamhalf.kernels.streams import Stream, uniforms_at
from streamhalf.results import Method, NoticeCode, Record, Role, StopReason, to_json
from streamhalf.synthetic.spec import SyntheticSpec, generate, plant
from tests.conftest import StoreWriter, slowly
from tests.saying import said

N_ROWS = 130_000


def draw(
    rows: int = N_ROWS,
    dim: int = 3,
    *,
    marginal: str = "gaussian",
    noise: str = "random",
    rate: float = 0.05,
    seed: int = 1,
    dtype: str = "float32",
) -> tuple[np.ndarray, np.ndarray]:
    spec = SyntheticSpec(rows=rows, dim=dim, marginal=marginal, noise=noise, rate=rate, seed=seed, dtype=dtype)
    found = generate(spec, plant(spec), RowRange(0, rows))
    return found.X, found.y


def fit(data: Any, **parameters: Any) -> FitResult:
    defaults = {"certificate_degree": 0}
    if "client" not in parameters:
        defaults["scheduler"] = "serial"
    return streamhalf.fit(data, **(defaults | parameters))


def error_on(result: FitResult, X: np.ndarray, y: np.ndarray) -> float:
    assert result.halfspace is not None
    return float(np.mean(result.halfspace.plane.signs(X) != y))


def without_times(result: FitResult) -> Any:
    document = to_json(result)
    for one in document["passes"]:
        del one["seconds"]
    del document["digest"], document["run"]  # times included
    return document


@pytest.mark.parametrize(
    ("noise", "rate", "dim"),
    [("none", 0.0, 1), ("none", 0.0, 4), ("random", 0.05, 2), ("random", 0.1, 5), ("chow", 0.03, 3)],
)
def test_fit__accepts_gaussian_rows_with_an_error_near_the_planted_one(noise: str, rate: float, dim: int) -> None:
    # not accepted with probability below tau = 0.01, for this seed it is; the error of about 65,000
    # fresh rows has a standard deviation of 0.0014 at most
    X, y = draw(dim=dim, noise=noise, rate=rate)
    result = fit((X, y))
    assert result.verdict is Verdict.ACCEPTED
    assert result.rows_needed is None
    assert result.eps in [one.eps for one in result.promises]
    assert error_on(result, X, y) == pytest.approx(rate, abs=0.012)
    assert result.error is not None
    assert result.error.empirical == pytest.approx(error_on(result, X, y), abs=0.006)
    assert result.halfspace.plane.unit().threshold == pytest.approx(0, abs=0.02)
    said = [one for one in result.testers if one.role is Role.REQUIRED]
    assert {one.outcome for one in said} == {Outcome.PASSED}


# the step that shows it, and the tester: step 0 is all rows, 1 the rows at delta = 1/2
REJECTED = {
    "laplace": (0, "largest moment"),
    "correlated": (0, "largest moment"),
    "shifted": (0, "largest moment"),
    "uniform": (0, "largest moment"),
    "hole": (1, "largest moment"),
    "spike": (2, "largest moment"),
}


@pytest.mark.parametrize("marginal", REJECTED)
def test_fit__rejects_with_evidence(marginal: str) -> None:
    result = fit(draw(marginal=marginal), feature_transform="stored")
    assert result.verdict is Verdict.REJECTED
    assert result.halfspace is not None  # without a guarantee
    assert result.error is not None  # which holds whatever the features are
    assert result.certificate is None
    assert [one.name for one in result.passes][-2:] == ["final", "calibration"]
    reasons = [one for one in result.testers if one.outcome is Outcome.REJECTED and one.role != Role.EARLY]
    assert {one.pass_name for one in reasons} == {"final"}
    scales = sorted({one.scale for one in result.testers if one.tester == "acceptance"} - {None})
    step = [1.0, *reversed(scales)].index(reasons[0].scale)
    assert (step, reasons[0].tester) == REJECTED[marginal]
    for reason in reasons:
        assert reason.statistic > max(reason.limit, reason.null_quantile)
        assert isinstance(reason.evidence[0].subject, Record)
    lead = reasons[0].evidence[0]
    assert lead.deviation > lead.limit == reasons[0].limit
    assert abs(lead.observed - lead.expected) > 0.05


def test_fit__answers_on_few_rows() -> None:
    X, y = draw(300)
    result = fit((X, y))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert error_on(result, X, y) < 0.15
    assert result.error is not None
    assert result.error.upper > result.error.empirical
    plan = streamhalf.plan(dim=3, n_rows=300)
    assert result.rows_needed == plan.rows_needed > 300
    assert fit(draw(result.rows_needed)).verdict is Verdict.ACCEPTED


def test_fit__whitens_and_answers_on_raw_features() -> None:
    Z, y = draw(dim=3, rate=0.04)
    mixing = np.array([[2.0, 0.0, 0.0], [1.0, 0.5, 0.0], [-3.0, 1.0, 0.1]])
    X = (Z.astype(np.float64) @ mixing.T + [100.0, -5.0, 0.3]).astype(np.float32)
    assert fit((X, y), feature_transform="stored").verdict is Verdict.REJECTED
    assert fit((X, y)).transform.kind == "isotropic"
    result = fit((X, y), whiten=True)
    assert result.verdict is Verdict.ACCEPTED
    assert result.transform.whitened
    assert "whitening" in [one.name for one in result.passes]
    assert result.halfspace.offset != 0
    assert error_on(result, X, y) == pytest.approx(0.04, abs=0.01)
    assert result.error.empirical == pytest.approx(0.04, abs=0.01)


@pytest.fixture
def store(write_store: StoreWriter, small_blocks: None) -> Path:
    """Seven blocks of Gaussian rows on disk."""
    X, y = draw(dtype="float64")
    return write_store(X, y, chunk_rows=20_000)


@pytest.mark.parametrize("rows", ["windows", *slowly(["auto"])])
def test_fit__gives_identical_bits_on_every_engine(store: Path, client: Client, rows: str) -> None:
    shared = {"sampling": rows, "seed": 5}
    expected = without_times(fit(store, **shared, scheduler="serial"))
    assert without_times(fit(store, **shared, scheduler="threads", n_workers=3)) == expected
    assert without_times(fit(store, **shared, client=client)) == expected


@pytest.mark.parametrize("rows", ["reuse", *slowly(["rows"])])
def test_fit__does_not_depend_on_the_chunking_where_rows_are_chosen_by_number(
    write_store: StoreWriter, small_blocks: None, rows: str
) -> None:
    X, y = draw(dtype="float64")
    first, second = (fit(write_store(X, y, chunk_rows=chunk), sampling=rows, seed=5) for chunk in (20_000, 43_001))
    assert first.verdict is second.verdict is Verdict.ACCEPTED
    np.testing.assert_allclose(first.halfspace.normal, second.halfspace.normal, atol=1e-9)
    assert first.error == second.error
    assert first.held_out == second.held_out
    assert [one.outcome for one in first.testers] == [one.outcome for one in second.testers]
    np.testing.assert_allclose(
        [one.statistic for one in first.testers], [one.statistic for one in second.testers], atol=1e-9
    )


BESIDE = ("sample", "refine", "thresholds", "calibration")
"""Passes that take no rows from those that learn directions."""


def test_rows__windows_are_learnt_from_once(store: Path) -> None:
    result = fit(store, sampling="windows")
    assert result.split == "windows"
    *learning, final = [one for one in result.passes if one.name not in BESIDE]
    assert sum(one.rows_read for one in learning) <= N_ROWS == final.rows_read
    assert learning[0].bytes_read == learning[0].rows_read * (3 * 8 + 1)


def test_document__tells_the_whole_path() -> None:
    result = fit(draw())
    assert result.candidates[0].delta == 1
    # where the scale was reached, the last candidate is the mean of the two before
    path = [one.rows_accepted for one in result.passes if one.name.startswith("update")]
    assert [one.rows_accepted for one in result.candidates[1 : len(path) + 1]] == path
    # those of the path are preferred where chance may have put another ahead
    path_only = [one.error + (one.method is not Method.PATH) for one in result.candidates]
    best = int(np.argmin([one.error for one in result.candidates]))
    assert result.chosen in {best, int(np.argmin(path_only))}
    assert result.candidates[result.chosen].angle == 0
    assert result.error.empirical == result.candidates[result.chosen].error
    last, calibration = result.passes[-2:]
    assert (last.name, calibration.name) == ("final", "calibration")
    assert last.rows_accepted == calibration.rows_accepted == result.error.n_rows
    final = [one for one in result.testers if one.pass_name == "final"]
    about = [one for one in final if one.tester in ("slab mass", "slab covariance", "wedge")]
    assert len(about) == 3 * sum(one.method is Method.PATH for one in result.candidates)
    steps = [one.scale for one in final if one.tester == "largest moment"]
    early = [one for one in result.testers if one.role is Role.EARLY]
    assert len(steps) == len({one.pass_name for one in early}) == len(path) + 1


@pytest.mark.parametrize(("noise", "rate"), [("random", 0.05), ("none", 0.0)])
@pytest.mark.parametrize("tau", [0.01, 0.2])
def test_error__upper_is_the_exact_binomial_bound(noise: str, rate: float, tau: float) -> None:
    result = fit(draw(noise=noise, rate=rate), tau=tau, eps=0.25)
    errors = round(result.error.empirical * result.error.n_rows)
    # a quarter of tau, divided by the transforms left open; the rows that measure also choose
    assert result.error.tau <= tau / 4
    share = result.error.tau / len(result.candidates)
    exact = binomtest(errors, result.error.n_rows, alternative="less")
    bound = exact.proportion_ci(confidence_level=1 - share, method="exact").high
    assert result.error.upper == pytest.approx(bound, rel=1e-9)
    assert result.error.upper > result.error.empirical


@pytest.mark.parametrize("rows", ["windows", "rows", "reuse"])
def test_error__is_measured_on_rows_that_no_update_used(rows: str) -> None:
    X, y = draw()
    result = fit((X, y), sampling=rows, seed=5)
    assert result.held_out is not None
    assert result.held_out.ranges == ((0, N_ROWS),)
    uniforms = uniforms_at(5, Stream.SHARES, np.arange(N_ROWS))
    kept = (uniforms >= result.held_out.low) & (uniforms < result.held_out.high)
    assert np.count_nonzero(kept) == result.error.n_rows
    assert error_on(result, X[kept], y[kept]) == pytest.approx(result.error.empirical, abs=1e-4)
    # other labels there change what is said of the halfspace, not the halfspaces
    flipped = fit((X, np.where(kept, -y, y)), sampling=rows, seed=5)
    assert [one.step for one in flipped.candidates] == [one.step for one in result.candidates]
    assert flipped.error.empirical > 0.9


def test_eps__explicit_is_judged_as_asked() -> None:
    data = draw()
    result = fit(data, eps=0.25)
    assert (result.verdict, result.eps) == (Verdict.ACCEPTED, 0.25)
    finer = fit(data, eps=0.01)
    assert finer.verdict is Verdict.INCONCLUSIVE
    assert finer.eps >= 0.01  # what was tested
    assert finer.rows_needed == streamhalf.plan(dim=3, eps=0.01).rows_needed


def test_fit__of_coin_tosses_is_inconclusive() -> None:
    X, _ = draw(200_000, 2)
    coin = np.where(np.random.default_rng(3).random(len(X)) < 0.5, 1, -1).astype(np.int8)
    # tosses reach the scale by chance now and then, and are no better than a guess all the same
    for seed in range(3):
        result = fit((X, coin), eps=0.1, seed=seed)
        assert result.verdict is Verdict.INCONCLUSIVE
        kinds = {one.code for one in result.notices}
        assert kinds & {NoticeCode.EPS_NOT_REACHED, NoticeCode.NO_BETTER_THAN_GUESS}
        assert result.rows_needed is None


def test_fit__refuses_too_little_memory_before_it_learns() -> None:
    events: list[Event] = []
    with pytest.raises(MemoryBudgetError, match=r"^fit needs about .*_limit is 1 MiB; raise it, .* lower degree"):
        fit(draw(), sampling="reuse", memory_limit=1 << 20, observer=events.append)
    assert events == []


def test_fit__does_without_a_certificate_that_no_memory_holds() -> None:
    rng = np.random.default_rng(6)
    X = rng.standard_normal((400, 300), dtype=np.float32)
    y = np.where(X[:, 0] > 0, 1, -1)
    # the coarsest slabs of 300 features take 67 MiB
    limit = 50 << 20
    result = streamhalf.fit((X, y), certificate_memory=limit)
    assert result.halfspace is not None
    assert result.certificate is None
    (notice,) = [one for one in result.notices if one.code is NoticeCode.NO_ROOM]
    assert limit == notice["room"] < notice["size"]
    assert "No certificate: it takes" in said(result)
    with pytest.raises(MemoryBudgetError, match="coarsest slabs"):
        fit((X, y), certificate_memory=limit, certificate_degree=2)


@pytest.mark.slow
def test_fit__wide_rows_are_sketched_and_the_record_says_so() -> None:
    X, y = draw(400_000, 100)
    result = fit((X, y), eps=0.25, scheduler="threads")
    assert result.verdict is Verdict.ACCEPTED
    moments = [one for one in result.testers if one.tester in ("largest moment", "quadratics")]
    decisive = [one for one in moments if one.role is not Role.EARLY]
    assert decisive
    assert all(one.directions == 24 for one in decisive)
    # early looks take degree 2 alone, in all directions
    assert all(one.directions is None for one in moments if one.role is Role.EARLY)
    assert error_on(result, X, y) < 0.1


@pytest.mark.slow
def test_fit__accepts_almost_all_gaussian_data() -> None:
    # not accepted with probability at most tau = 0.01 each: 2 or more of 24 has probability 0.024
    runs = (fit(draw(80_000, 2 + seed % 3, seed=100 + seed), eps=0.25, seed=seed) for seed in range(24))
    assert sum(one.verdict is not Verdict.ACCEPTED for one in runs) <= 1


@pytest.mark.parametrize("eps", [0.1, *slowly([0.05])])
def test_eps__is_reached_at_the_planned_rows_under_strong_noise(eps: float) -> None:
    # strong noise makes updates repeat a scale; repeats must leave finer scales their rows
    n_rows = streamhalf.plan(dim=3, eps=eps).rows_needed
    result = fit(draw(n_rows, noise="chow", rate=0.2), eps=eps)
    if result.stop.reason.is_noise:
        assert result.verdict is Verdict.INCONCLUSIVE
    else:
        assert (result.verdict, result.eps) == (Verdict.ACCEPTED, eps)


def test_eps__is_no_finer_than_where_noise_stopped_the_updates() -> None:
    # a band of flipped labels of 25% mass turns the localised Chow vector around at a coarse scale
    result = fit(draw(200_000, noise="near", rate=0.25))
    assert result.stop.reason in (StopReason.NOISE_DOMINATES, StopReason.NO_PROGRESS)
    assert result.verdict is Verdict.ACCEPTED
    assert result.eps >= min(one.eps for one in result.promises) >= result.stop.delta / 2
