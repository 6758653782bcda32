"""Compare `audit` with cleanlab: flipped labels of ten real tables among the rows that each lists.

usage: scripts/compare_audit
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import streamhalf

KINDS = ("random", "one-sided", "chosen")
RATES = (0.01, 0.03, 0.1)
MOST_ROWS = 20_000

TABLES = (
    *("phishing", "segments", "bananas", "weather", "wages", "diamonds", "prices", "movies"),
    *("fertility", "flights"),
)

Scores = tuple[float, float, float]


def flip(X: NDArray[Any], y: NDArray[Any], kind: str, rate: float, normal: NDArray[Any]) -> NDArray[np.bool_]:
    """Choose labels to flip: random, of one class, or along a direction beside the regression."""
    rng, count = np.random.default_rng(int(1000 * rate)), int(rate * len(y))
    flipped = np.zeros(len(y), dtype=bool)
    if kind == "random":
        chosen = rng.choice(len(y), count, replace=False)
    elif kind == "one-sided":
        positive = np.flatnonzero(y > 0)
        chosen = rng.choice(positive, min(count, len(positive) // 2), replace=False)
    else:
        along = rng.normal(size=X.shape[1])
        along -= (along @ normal) / (normal @ normal) * normal
        chosen = np.argsort(-(y * (X @ along)))[:count]
    flipped[chosen] = True
    return flipped


def score(flipped: NDArray[np.bool_], issues: NDArray[np.bool_], ranks: NDArray[Any]) -> Scores:
    """Precision and recall of the list, average precision of the ranking."""
    from sklearn.metrics import average_precision_score

    precision = flipped[issues].mean() if issues.any() else np.nan
    recall = flipped[issues].sum() / flipped.sum()
    return precision, recall, float(average_precision_score(flipped, ranks))


def compare_on(X: NDArray[Any], y: NDArray[Any], flipped: NDArray[np.bool_]) -> Iterator[Scores]:
    """Scores of our audit, then of cleanlab with cross-validated logistic regression."""
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_self_confidence_for_each_label
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    given = np.where(flipped, -y, y)
    result = streamhalf.fit((X, given), seed=1, certificate_degree=0)
    found = streamhalf.audit((X, given), model=result, top=len(y), misclassified=True).suspects
    ranks, issues = np.full(len(y), -np.inf), np.zeros(len(y), dtype=bool)
    ranks[found.column("row")] = found.column("suspicion")
    issues[found.column("row")] = found.column("is_label_issue")
    ranks[~np.isfinite(ranks)] = ranks[np.isfinite(ranks)].min() - 1
    yield score(flipped, issues, ranks)
    labels = (given > 0).astype(int)
    chances = cross_val_predict(LogisticRegression(max_iter=1000), X, labels, cv=5, method="predict_proba")
    confidence = get_self_confidence_for_each_label(labels, chances)
    yield score(flipped, find_label_issues(labels, chances), -confidence)


def main() -> None:
    """Print means over real tables and rates, by kind of flips."""
    argparse.ArgumentParser(prog="compare_audit", description=__doc__.splitlines()[0]).parse_args()
    from sklearn.linear_model import LogisticRegression

    from scripts.realdata.sets import SETS

    rng = np.random.default_rng(5)
    rows: dict[str, list[tuple[Scores, Scores]]] = {kind: [] for kind in KINDS}
    for name in TABLES:
        X, y = SETS[name].rows()
        kept = np.sort(rng.choice(len(y), min(len(y), MOST_ROWS), replace=False))
        X, y = X[kept], y[kept]
        spread = X.std(axis=0)
        X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        normal = LogisticRegression(max_iter=1000).fit(X, y).coef_[0]
        for kind in KINDS:
            for rate in RATES:
                flipped = flip(X, y, kind, rate, normal)
                ours, theirs = compare_on(X, y, flipped)
                rows[kind].append((ours, theirs))
                print(f"{name} {kind} {rate}: {ours} {theirs}", flush=True)
    print("| flips | streamhalf precision / recall | AP | cleanlab precision / recall | AP |")
    print("|---|---|---|---|---|")
    for kind, found in rows.items():
        (p, r, ap), (cp, cr, cap) = np.nanmean(np.array(found), axis=0)
        print(f"| {kind} | {p:.3f} / {r:.3f} | {ap:.3f} | {cp:.3f} / {cr:.3f} | {cap:.3f} |")


if __name__ == "__main__":
    main()
