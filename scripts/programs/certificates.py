"""Measure certified ratios: U/L of fits under several kinds of noise, and of other classifiers.

usage: scripts/certificates [--rows 4000000] [--dim 10] [--only fits|others] [--json FILE]

Stores are written to a temporary folder and removed.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from typing import Any

import numpy as np
import zarr
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import streamhalf

CELLS = (
    ("random", 0.01, 1.02),
    ("random", 0.05, 1.02),
    ("random", 0.10, 1.10),
    ("far", 0.05, 1.02),
    ("chow", 0.01, 1.03),
    ("chow", 0.05, 1.45),
    ("chow", 0.10, 2.2),
    ("near", 0.05, 2.8),
    ("two directions", 0.05, 1.6),
    ("one-sided band", 0.05, 4.0),
)
"""Noise, rate, and the ratio to stay below."""


def flip(store: str, noise: str, rate: float) -> None:
    """Flip labels of a store without noise along directions that are orthogonal to its plane."""
    group = zarr.open_group(store, mode="r+")
    X, y = group["X"][:], group["y"][:]
    w = np.array(group.attrs["streamhalf"]["planted_vector"], dtype=np.float32)
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(np.column_stack([w, rng.standard_normal((len(w), 2))]))[0]
    first, second = (X @ basis.astype(np.float32)).T[1:]
    if noise == "two directions":
        score = np.maximum(y * first, y * second)
    else:
        score = np.where(first > 0, -np.abs(X @ w), -np.inf)
    y[score > np.quantile(score, 1 - rate)] *= -1
    group["y"][:] = y


def make_store(folder: str, rows: int, dim: int, noise: str, rate: float) -> str:
    path = os.path.join(folder, "data.zarr")
    known = " " not in noise and "-" not in noise
    streamhalf.synth(
        path,
        rows=rows,
        dim=dim,
        marginal="gaussian",
        noise=noise if known else "none",
        rate=rate if known else 0.0,
        seed=1,
        overwrite=os.path.exists(path),
    )
    if not known:
        flip(path, noise, rate)
    return path


def measure_fits(folder: str, rows: int, dim: int) -> list[dict[str, Any]]:
    found = []
    print(f"| noise, {rows:,} rows, d = {dim} | U | L | U/L | wanted | seconds |")
    print("|---|---|---|---|---|---|")
    for noise, rate, wanted in CELLS:
        store = make_store(folder, rows, dim, noise, rate)
        begun = time.perf_counter()
        result = streamhalf.fit(store, seed=0)
        seconds = time.perf_counter() - begun
        certificate = result.certificate
        lower = certificate.opt.lower_empirical
        ratio = "none" if result.ratio is None else f"{result.ratio:.3f}"
        print(
            f"| {noise} {100 * rate:g}% | {certificate.error:.5f} | {lower:.5f} | {ratio} "
            f"| {wanted:g} | {seconds:.0f} |",
            flush=True,
        )
        found.append(
            {
                "noise": noise,
                "rate": rate,
                "error": certificate.error,
                "lower": lower,
                "ratio": result.ratio,
                "wanted": wanted,
            }
        )
    return found


def measure_others(folder: str, rows: int, dim: int) -> list[dict[str, Any]]:
    store = make_store(folder, rows, dim, "chow", 0.05)
    group = zarr.open_group(store, mode="r")
    X, y = group["X"][:], group["y"][:]
    models = {
        "streamhalf fit": streamhalf.fit(store, certificate_degree=0, seed=0),
        "logistic regression": LogisticRegression(fit_intercept=False).fit(X, y),
        "linear SVM": LinearSVC(fit_intercept=False, dual=False, max_iter=50).fit(X, y),
    }
    found = []
    print(f"\n| classifier, 5% chow noise, {rows:,} rows, d = {dim} | U | L | U/L |")
    print("|---|---|---|---|")
    for name, model in models.items():
        result = streamhalf.certify(store, weights=model, seed=0)
        lower = result.opt.lower_empirical
        ratio = "none" if result.ratio is None else f"{result.ratio:.2f}"
        error = result.error.empirical
        print(f"| {name} | {error:.4f} | {lower:.4f} | {ratio} |", flush=True)
        found.append({"name": name, "error": error, "lower": lower, "ratio": result.ratio})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="certificates", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--dim", type=int, default=10)
    parser.add_argument("--only", choices=["fits", "others"])
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    content: dict[str, Any] = {"rows": options.rows, "dim": options.dim}
    with tempfile.TemporaryDirectory(prefix="streamhalf-") as folder:
        if options.only != "others":
            content["fits"] = measure_fits(folder, options.rows, options.dim)
        if options.only != "fits":
            content["others"] = measure_others(folder, min(options.rows, 1_000_000), options.dim)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)


if __name__ == "__main__":
    main()
