"""Compare the results of some thirty runs with fixed seeds with tests/digests.json.

usage: scripts/digests [--renew] [--bits] [CASE ...]

Prints every figure that moved; with --renew, the file is written anew. With --bits, cases whose
last bits alone differ are named too.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import streamhalf
from streamhalf import CertifyResult, FitResult

FILE = Path(__file__).parents[2] / "tests" / "digests.json"

STRICT = 1e-9
"""Relative tolerance on the machine that wrote the file."""

TOLERANCES = {"normal": 1e-6, "offset": 1e-6, "L": 0.05, "L_source": 0.05, "ratio": 0.05}
"""Other processors: BLAS kernels for AVX2 and SSE3 moved normals by 2e-8 and L by 3%.

The search for L works through cells in an order that depends on the last bits of bounds. Verdicts,
counts and digests are the same everywhere, and so are other figures up to 1e-7.
"""

_ELSEWHERE = 1e-7

Digest = dict[str, Any]
Case = Callable[[Path], Digest]

CASES: dict[str, Case] = {}


def _case(make: Case) -> Case:
    CASES[make.__name__.removeprefix("_").replace("_", "-")] = make
    return make


def rows(
    n: int,
    dim: int,
    noise: str,
    rate: float,
    *,
    seed: int = 0,
    threshold: float = 0.0,
    dtype: str = "float64",
    scale: NDArray[Any] | None = None,
) -> tuple[NDArray[Any], NDArray[np.int8]]:
    """Gaussian features, times `scale`, and labels of a halfspace with a share `rate` flipped."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, dim))
    normal = rng.standard_normal(dim)
    normal /= np.linalg.norm(normal)
    margin = X @ normal - threshold
    y = np.where(margin >= 0, 1, -1)
    across = np.zeros(dim)
    across[0] = 1.0
    score = {
        "random": rng.random(n),
        "near": -np.abs(margin),
        "far": np.abs(margin),
        "chow": y * (X @ (across - (across @ normal) * normal)),
    }[noise]
    flipped = np.argsort(-score, kind="stable")[: round(rate * n)]
    y[flipped] = -y[flipped]
    if scale is not None:
        X = X * scale
    return X.astype(dtype), y.astype(np.int8)


def heavy(n: int, dim: int, *, seed: int) -> tuple[NDArray[Any], NDArray[np.int8]]:
    """Elliptical rows with Student's t radii (3 degrees of freedom), 5% of labels flipped."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, dim)) / np.sqrt(rng.chisquare(3, (n, 1)) / 3)
    y = np.where(X[:, 0] + X[:, 1] >= 0, 1, -1)
    y[rng.random(n) < 0.05] *= -1
    return X, y.astype(np.int8)


def fit(data: Any, **settings: Any) -> FitResult:
    given = {"seed": 7, "scheduler": "serial", "certificate_effort": 0.1, **settings}
    return streamhalf.fit(data, **given)


def figures_of(result: FitResult | CertifyResult) -> Digest:
    """Verdict, halfspace, error, L, U, and the outcome of every tester."""
    found: Digest = {}
    if isinstance(result, FitResult):
        found["verdict"] = str(result.verdict)
        found["eps"] = result.eps
        found["constant"] = result.constant
        found["testers"] = [f"{one.tester}: {one.outcome}, {one.n_rows} rows" for one in result.testers]
    if (halfspace := result.halfspace) is not None:
        found["normal"] = list(halfspace.normal)
        found["offset"] = halfspace.offset
    if (error := result.error) is not None:
        found["error"] = error.empirical
        found["error_upper"] = error.upper
    if (opt := result.opt) is not None:
        found["L"] = opt.lower_empirical
        found["L_source"] = opt.lower
    if result.certificate is not None:
        found["U"] = result.certificate.error
        found["rows_digest"] = result.certificate.digest
    found["ratio"] = result.ratio
    return found


def audit_figures(result: Any) -> Digest:
    record, frame = result.result, result.to_frame()
    return {
        "n_wrong": record.n_wrong,
        "n_agreed": record.n_agreed,
        "n_listed": record.n_listed,
        "first_rows": frame.iloc[:20, 0].tolist(),
        "margins": [one.margin for one in record.suspects[:20]],
        "gatherings": [one.chance for one in record.gatherings],
    }


def stored(folder: Path, **spec: Any) -> str:
    store = str(folder / "rows.zarr")
    streamhalf.synth(store, seed=3, scheduler="serial", **spec)
    return store


# --- fits of arrays

FITS: dict[str, Callable[[], FitResult]] = {
    "chow-2": lambda: fit(rows(20_000, 2, "chow", 0.05), certificate_effort=0.3),
    "random-2-float32": lambda: fit(rows(30_000, 2, "random", 0.1, dtype="float32", seed=1)),
    "chow-5": lambda: fit(rows(60_000, 5, "chow", 0.05, seed=2)),
    "near-5-float32": lambda: fit(rows(40_000, 5, "near", 0.05, dtype="float32", seed=3)),
    "far-5": lambda: fit(rows(40_000, 5, "far", 0.02, seed=4)),
    "far-10-float32": lambda: fit(rows(40_000, 10, "far", 0.03, dtype="float32", seed=5)),
    "random-20": lambda: fit(rows(20_000, 20, "random", 0.05, seed=6)),
    "chow-40-float32": lambda: fit(rows(12_000, 40, "chow", 0.02, dtype="float32", seed=7)),
    "threshold-5": lambda: fit(rows(40_000, 5, "chow", 0.03, threshold=0.8, seed=8)),
    "threshold-2-far": lambda: fit(rows(20_000, 2, "far", 0.02, threshold=-0.5, seed=9)),
    "centre-5": lambda: fit(rows(60_000, 5, "chow", 0.05, seed=10), through="centre"),
    "origin-5-float32": lambda: fit(
        rows(60_000, 5, "random", 0.1, dtype="float32", seed=11), through="origin", eps=0.1
    ),
    "automatic-transform-3": lambda: fit(rows(40_000, 3, "random", 0.05, scale=np.array([10.0, 0.1, 3.0]), seed=13)),
    "heavy-tails-4": lambda: fit(heavy(40_000, 4, seed=14), through="centre"),
    "heavy-tails-radial-4": lambda: fit(
        heavy(40_000, 4, seed=15), feature_transform="radial", through="centre", centre="mean"
    ),
    "few-rows-4": lambda: fit(rows(300, 4, "random", 0.05, seed=18)),
    "wide-50": lambda: fit(rows(1_200, 50, "random", 0.05, seed=19)),
    "windows-3": lambda: fit(
        rows(120_000, 3, "chow", 0.05, dtype="float32", seed=21), sampling="windows", certificate_rows=1 << 16
    ),
    "single-rows-halving-3": lambda: fit(
        rows(120_000, 3, "near", 0.05, seed=22), sampling="rows", schedule="halving", certificate_degree=0
    ),
    "rare-label-3": lambda: fit(rows(30_000, 3, "random", 0.005, threshold=1.9, seed=23)),
}
"""Fits of arrays."""

CASES |= {name: lambda folder, make=make: figures_of(make()) for name, make in FITS.items()}


@_case
def _isotropic_3(folder: Path) -> Digest:
    data = rows(40_000, 3, "chow", 0.05, scale=np.array([10.0, 0.1, 3.0]), seed=12)
    data[0][:, 0] += 5 * data[0][:, 1] + 7
    return figures_of(fit(data, feature_transform="isotropic"))


@_case
def _sorted_rows_3(folder: Path) -> Digest:
    X, y = rows(40_000, 3, "random", 0.05, seed=16)
    order = np.argsort(y * 100 + X[:, 0], kind="stable")
    return figures_of(fit((X[order], y[order])))


@_case
def _drifting_errors_3(folder: Path) -> Digest:
    X, y = rows(40_000, 3, "random", 0.0, seed=17)
    y[30_000:36_000:2] *= -1
    return figures_of(fit((X, y)))


@_case
def _rejected_uniform_3(folder: Path) -> Digest:
    rng = np.random.default_rng(20)
    X = rng.uniform(-1.7, 1.7, (40_000, 3))
    y = np.where(X[:, 0] + 0.5 * X[:, 1] >= 0.2, 1, -1)
    y[rng.random(len(y)) < 0.08] *= -1
    return figures_of(fit((X, y), certificate_degree=0))


@_case
def _data_frame_3(folder: Path) -> Digest:
    import pandas as pd

    X, y = rows(20_000, 3, "chow", 0.05, seed=24)
    frame = pd.DataFrame(X, columns=["length", "weight", "age"])
    frame["bought"] = np.where(y > 0, "yes", "no")
    result = fit(frame, label="bought")
    return {**figures_of(result), "predicted": _hash(np.asarray(result.predict(frame)))}


# --- fits of stores


@_case
def _store_chow_5(folder: Path) -> Digest:
    store = stored(folder, rows=60_000, dim=5, marginal="gaussian", noise="chow", rate=0.05, chunk_rows=7_000)
    result = fit(store)
    streamhalf.predict(store, model=result, out=str(folder / "out.zarr"), scheduler="serial")
    import zarr

    predicted = np.asarray(zarr.open_group(str(folder / "out.zarr"), mode="r")["prediction"])
    return {**figures_of(result), "predicted": _hash(predicted)}


@_case
def _store_wedge_threads_4(folder: Path) -> Digest:
    store = stored(
        folder,
        rows=50_000,
        dim=4,
        marginal="gaussian",
        noise="wedge",
        rate=0.03,
        positive=0.3,
        dtype="float64",
        chunk_rows=5_000,
    )
    return figures_of(fit(store, scheduler="threads", n_workers=2))


@_case
def _store_student_4(folder: Path) -> Digest:
    store = stored(folder, rows=50_000, dim=4, marginal="student-t", noise="random", rate=0.05, chunk_rows=9_999)
    return figures_of(fit(store))


# --- other commands


@_case
def _test_gaussian_and_mixture(folder: Path) -> Digest:
    X, _ = rows(40_000, 4, "random", 0.0, seed=25)
    mixed = X.copy()
    mixed[::10] *= 1.6
    found = {}
    for name, features in (("plain", X), ("mixed", mixed)):
        result = streamhalf.test(features, seed=7, scheduler="serial")
        found[name] = str(result.verdict)
        found[f"{name}_testers"] = [f"{one.tester}: {one.outcome}, {one.n_rows} rows" for one in result.testers]
        found[f"{name}_statistics"] = [one.statistic for one in result.testers]
    return found


@_case
def _certify_vector_5(folder: Path) -> Digest:
    data = rows(80_000, 5, "chow", 0.05, seed=26)
    weights = np.array([1.0, -0.5, 0.25, 0.1, 0.0])
    result = streamhalf.certify(data, weights=weights, certificate_effort=0.1, seed=7, scheduler="serial")
    return figures_of(result)


@_case
def _certify_degree_4_of_8(folder: Path) -> Digest:
    data = rows(40_000, 8, "random", 0.05, dtype="float32", seed=27)
    weights = np.linspace(1, 0, 8)
    result = streamhalf.certify(
        data, weights=weights, certificate_degree=4, certificate_effort=0.1, seed=7, scheduler="serial"
    )
    return figures_of(result)


@_case
def _audit_3(folder: Path) -> Digest:
    X, y = rows(40_000, 3, "far", 0.01, seed=28)
    result = fit((X, y))
    return audit_figures(streamhalf.audit((X, y), model=result, scheduler="serial"))


@_case
def _audit_vector_few_listed(folder: Path) -> Digest:
    data = rows(30_000, 6, "random", 0.05, dtype="float32", seed=29)
    weights = np.array([1.0, -0.5, 0.25, 0.1, 0.0, 2.0])
    return audit_figures(streamhalf.audit(data, model=weights, top=100, scheduler="serial"))


@_case
def _verify_4(folder: Path) -> Digest:
    X, y = rows(20_000, 4, "chow", 0.05, seed=30)
    result = fit((X, y))
    same = streamhalf.verify(result, (X, y), scheduler="serial")
    y[:200] *= -1
    changed = streamhalf.verify(result, (X, y), scheduler="serial")
    return {"same": same.holds, "claims": len(same.claims), "changed": changed.holds}


# --- comparing


def _hash(values: NDArray[Any]) -> str:
    plain = np.ascontiguousarray(values)
    content = plain.tobytes() if plain.dtype != object else repr(plain.tolist()).encode()
    return hashlib.sha256(content).hexdigest()[:16]


def bits_of(digest: Digest) -> str:
    """Hash of every bit of the figures."""
    return hashlib.sha256(json.dumps(digest, sort_keys=True).encode()).hexdigest()[:16]


def differences(expected: Any, found: Any, name: str = "", *, rtol: float | None = None) -> list[str]:
    """Figures that differ by more than `rtol` (None: what other processors change), one a line."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return [
            line
            for key in dict.fromkeys((*expected, *found))
            for line in differences(expected.get(key), found.get(key), f"{name}.{key}".lstrip("."), rtol=rtol)
        ]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        return [
            line
            for number, (one, other) in enumerate(zip(expected, found, strict=True))
            for line in differences(one, other, f"{name}[{number}]", rtol=rtol)
        ]
    if isinstance(expected, float) and isinstance(found, float):
        figure = name.partition("[")[0]
        limit = TOLERANCES.get(figure, _ELSEWHERE) if rtol is None else rtol
        same = abs(expected - found) <= limit * max(abs(expected), abs(found))
    else:
        same = expected == found
    return [] if same else [f"{name}: {expected!r} -> {found!r}"]


def record(name: str) -> Digest:
    """Run a case in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        # as JSON has it: lists for tuples, plain numbers
        found: Digest = json.loads(json.dumps(CASES[name](Path(folder))))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help="names; all if none is given")
    parser.add_argument("--renew", action="store_true", help="write the file anew")
    parser.add_argument("--bits", action="store_true", help="name cases whose bits alone moved")
    given = parser.parse_args()
    if unknown := set(given.cases) - set(CASES):
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    expected = json.loads(FILE.read_text()) if FILE.exists() else {}
    n_moved = 0
    for name in given.cases or CASES:
        found = record(name)
        before = expected.get(name, {"bits": "", "figures": {}})
        lines = differences(before["figures"], found, rtol=STRICT)
        n_moved += bool(lines)
        for line in lines:
            print(f"{name}: {line}", flush=True)
        if given.bits and not lines and before["bits"] != bits_of(found):
            print(f"{name}: the same up to the last bits", flush=True)
        expected[name] = {"bits": bits_of(found), "figures": found}
    print(f"{n_moved} of {len(given.cases or CASES)} cases moved")
    if given.renew:
        kept = {name: expected[name] for name in CASES if name in expected}
        FILE.write_text(json.dumps(kept, indent=1) + "\n")
    return 1 if n_moved and not given.renew else 0


if __name__ == "__main__":
    sys.exit(main())
