"""`audit` beside cleanlab: how many of the listed rows are flipped, and of the flipped listed."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

import streamhalf

NOISES = ("chow", "random")


def lists(store: Path) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """For each method, the rows that it lists, most suspicious first."""
    from cleanlab.classification import CleanLearning
    from sklearn.linear_model import LogisticRegression

    result = streamhalf.fit(store, seed=0, certificate_degree=0)
    yield "streamhalf audit", streamhalf.audit(store, model=result).to_frame()["row"].to_numpy()
    X, y = read(store)
    model = LogisticRegression().fit(X, y)
    yield (
        "audit of logistic regression",
        streamhalf.audit(store, model=model).to_frame()["row"].to_numpy(),
    )
    issues = CleanLearning(LogisticRegression(), seed=0).find_label_issues(X, (y > 0).astype(int))
    found = issues[issues["is_label_issue"]].sort_values("label_quality")
    yield "cleanlab, logistic regression", found.index.to_numpy()


def read(store: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    """Features and labels."""
    group = zarr.open_group(str(store), mode="r")
    return group["X"][:], group["y"][:]


def flipped_rows(store: Path) -> NDArray[np.bool_]:
    """Whether the label of a row is not that of the planted halfspace."""
    X, y = read(store)
    planted = np.array(zarr.open_group(str(store), mode="r").attrs["streamhalf"]["planted_vector"])
    return (X @ planted >= 0) != (y > 0)


def main() -> None:
    parser = argparse.ArgumentParser(prog="compare_audit", description=__doc__)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--dim", type=int, default=10)
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print("noise   listed  precision  recall  first half  by")
    with tempfile.TemporaryDirectory() as folder:
        for noise in NOISES:
            store = Path(folder, f"{noise}.zarr")
            streamhalf.synth(store, marginal="gaussian", noise=noise, **vars(given))
            flipped = flipped_rows(store)
            for name, rows in lists(store):
                hits = flipped[rows]
                share, half = hits.sum() / flipped.sum(), hits[: len(hits) // 2].mean()
                found = f"{hits.mean():9.3f}  {share:6.3f}  {half:10.3f}"
                print(f"{noise:7} {len(rows):6}  {found}  {name}")


if __name__ == "__main__":
    main()
