"""streamhalf beside logistic regression, dask-ml and cleanlab on real tables; writes docs/comparison.md's table."""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from cleanlab.classification import CleanLearning
from dask_ml.linear_model import LogisticRegression as DaskRegression
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import streamhalf
from scripts.realdata.sets import SETS
from scripts.realdata.trials import FLIPPED, Labels, Matrix, Sampling, flip

TABLES = ("bananas", "weather", "wages", "diamonds", "prices", "movies", "flights")
PAGE = Path(__file__).parents[2] / "docs" / "comparison.md"
BEGIN, END = "<!-- table: made by scripts/compare -->\n", "<!-- end of table -->"

Predict = Callable[[Matrix], Any]


def halfspace(X: Matrix, y: Labels) -> Predict:
    """Fit with default settings, certificate included."""
    return streamhalf.fit((X, y), seed=0).predict


def regression(X: Matrix, y: Labels) -> Predict:
    """Fit scikit-learn's logistic regression on standardised features."""
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(X, y).predict


def dask_regression(X: Matrix, y: Labels) -> Predict:
    """Fit dask-ml's logistic regression on standardised features, in chunks."""
    scaler, rows = StandardScaler().fit(X), -(-len(y) // 8)
    chunks = da.from_array(scaler.transform(X), chunks=(rows, X.shape[1]))
    model = DaskRegression(solver="lbfgs").fit(chunks, da.from_array((y > 0).astype(int), chunks=rows))
    return lambda unseen: np.where(model.predict(scaler.transform(unseen)), 1, -1)


def cleaned(X: Matrix, y: Labels) -> Predict:
    """Fit logistic regression on the rows that cleanlab keeps."""
    scaler = StandardScaler().fit(X)
    model = CleanLearning(LogisticRegression(max_iter=1000), seed=0).fit(scaler.transform(X), (y > 0).astype(int))
    return lambda unseen: np.where(model.predict(scaler.transform(unseen)), 1, -1)


METHODS = {"streamhalf": halfspace, "scikit-learn": regression, "dask-ml": dask_regression, "cleanlab": cleaned}


def compare(name: str, seconds: dict[str, float]) -> list[str]:
    """Test errors with labels as given and flipped; adds the processor time of each method."""
    X, y = SETS[name].rows()
    split = Sampling.of(X, y, 0)
    cells = [name, f"{len(y):,} × {X.shape[1]}"]
    for method, fit in METHODS.items():
        errors = []
        for labels in (split.y, flip(split, 0)):
            start = time.process_time()
            predict = fit(split.X, labels)
            seconds[method] += time.process_time() - start
            errors.append(float(np.mean(np.asarray(predict(split.unseen[0])) != split.unseen[1])))
        cells.append(f"{errors[0]:.3f} → {errors[1]:.3f}")
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(prog="compare", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=TABLES, default=TABLES, help="print these rows, write no page")
    names = parser.parse_args().only
    warnings.simplefilter("ignore")
    halfspace(*next(_warm()))  # compiled loops are kept: not the cost of a fit
    seconds, lines = dict.fromkeys(METHODS, 0.0), []
    with dask.config.set(scheduler="threads"):
        for name in names:
            lines.append(compare(name, seconds))
            print(*lines[-1], flush=True)
    lines.append(["processor time, all", "", *(f"{seconds[one]:.0f} s" for one in METHODS)])
    head = ["data", "rows × features", *METHODS]
    table = "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *lines))
    print(f"errors before → after {FLIPPED:.0%} of the training labels were flipped\n{table}")
    if names == TABLES:
        before, rest = PAGE.read_text("utf-8").split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}{table}\n{END}{rest.split(END)[1]}", "utf-8")


def _warm() -> Any:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2_000, 3))
    yield X, np.where(X[:, 0] > 0.3 * rng.standard_normal(2_000), 1, -1)


if __name__ == "__main__":
    main()
