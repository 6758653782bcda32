"""How many runs on rows that must be accepted are not: Gaussian, with thresholds, in any transform."""

from __future__ import annotations

import itertools
import math
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import ndtr

from scripts.evaluation.drawing import Problem, draw, learn
from scripts.evaluation.elliptical import draw_elliptical, gaussian, student
from scripts.evaluation.tables import Advance, Cell, Part, Table
from streamhalf.api import plan
from streamhalf.config import RunConfig
from streamhalf.results import FitResult
from streamhalf.synthetic.spec import SyntheticSpec

VERDICTS = ("accepted", "rejected", "inconclusive")
RATES = (0.01, 0.05, 0.1, 0.2)
EPS = 0.2
"""Asked for where rows have a threshold, or laws other than N(0, I)."""
_CHANCE = 0.01
"""How seldom a run that keeps its promise is refused more often than is allowed."""

DIMS = (2, 5, 10, 20)
SCALES = (0.25, 0.2, 0.15, 0.1)
KINDS: Mapping[str, Mapping[str, Any]] = {"plain": {}, "whitened": {"whiten": True}, "reuse": {"sampling": "reuse"}}
"""Ways to run; rows that are whitened are turned and shifted before."""
REPEATS = {"short": 1, "long": 7}

THRESHOLD_DIMS = {"short": (4,), "long": (2, 4, 8)}
THRESHOLDS = (0.0, 0.5, 1.0, 1.5, 1.9)
THRESHOLD_REPEATS = {"short": 2, "long": 14}

LAWS = {
    "Gaussian": (gaussian, False),
    "Gaussian, correlated": (gaussian, True),
    "Student, 3 degrees": (student(3.0), False),
    "Student, 50 degrees": (student(50.0), False),
}
LAW_DIMS = (2, 5, 10)
LAW_REPEATS = {"short": 6, "long": 204}
TRANSFORMS = ("stored", "isotropic", "radial")

_TAU = RunConfig().tau


@dataclass(frozen=True, slots=True)
class Counted:
    """Runs of one cell by verdict and by transform, and the testers that had doubts."""

    cell: tuple[Cell, ...]
    verdicts: Counter[str]
    transforms: Counter[str]
    doubts: Counter[str]

    @property
    def n_refused(self) -> int:
        """Runs that were not accepted."""
        return self.verdicts.total() - self.verdicts["accepted"]

    @property
    def row(self) -> tuple[Cell, ...]:
        """The cell and its verdicts."""
        return (*self.cell, *(self.verdicts[one] for one in VERDICTS))


def count(cells: Iterable[tuple[tuple[Cell, ...], Iterable[FitResult]]], advance: Advance) -> list[Counted]:
    """Run all cells."""
    found = []
    for cell, results in cells:
        one = Counted(cell, Counter(), Counter(), Counter())
        found.append(one)
        for result in results:
            one.verdicts[str(result.verdict)] += 1
            one.transforms[str(result.transform.kind)] += 1
            one.doubts.update(doubts_of(result))
            advance()
    return found


def doubts_of(result: FitResult) -> list[str]:
    """Testers that had doubts about a run that was not accepted; if none had, why it ended."""
    if result.verdict == "accepted":
        return []
    doubts = [
        f"{one.tester} {one.outcome} ({one.pass_name})"
        for one in result.testers
        if one.has_say and one.outcome in ("rejected", "inconclusive")
    ]
    return doubts or [str(result.stop.reason)]


def _table(name: str, criterion: str, found: list[Counted], **given: Any) -> Table:
    """By default, at most tau of all runs may be refused."""
    n_refused, n_runs = sum(one.n_refused for one in found), sum(one.verdicts.total() for one in found)
    testers = sum((one.doubts for one in found), Counter[str]())
    blamed = ", ".join(f"{name} {times}" for name, times in testers.most_common())
    return Table(
        **{
            "name": name,
            "criterion": criterion,
            "met": n_refused <= _TAU * n_runs,
            "summary": f"{n_refused} of {n_runs} runs not accepted" + (f" ({blamed})" if blamed else ""),
            "rows": tuple(one.row for one in found),
            "details": {"runs": n_runs, "not_accepted": n_refused, "testers": dict(testers)},
            **given,
        }
    )


def _run_gaussian(form: str, advance: Advance) -> Table:
    cells = []
    for kind, dim, eps in itertools.product(KINDS, DIMS, SCALES):
        n_rows = plan(dim=dim, eps=eps, **KINDS[kind]).rows_needed
        cells.append(((kind, dim, eps, n_rows), _learn_gaussian(form, kind, dim, eps, n_rows)))
    criterion = f"at most tau = {_TAU:g} of the runs on Gaussian rows are not accepted"
    return _table("completeness", criterion, count(cells, advance), columns=("run", "d", "eps", "rows", *VERDICTS))


def _learn_gaussian(form: str, kind: str, dim: int, eps: float, n_rows: int) -> Iterator[FitResult]:
    for seed in range(REPEATS[form]):
        name = zlib.crc32(repr((kind, dim, eps, seed)).encode())
        problem = draw(_spec(n_rows, dim, rate=RATES[seed % len(RATES)], seed=name))
        if kind == "whitened":
            rng = np.random.default_rng(name)
            turned = problem.X @ rng.standard_normal((dim, dim)) + rng.standard_normal(dim)
            problem = replace(problem, X=turned.astype(np.float32))
        yield learn(problem, eps=eps, seed=seed, **KINDS[kind])


def _spec(rows: int, dim: int, **given: Any) -> SyntheticSpec:
    return SyntheticSpec(rows=rows, dim=dim, marginal="gaussian", noise="random", **given)


def rows_for(dim: int, threshold: float) -> int:
    """Rows at which a run is conclusive: those near the plane thin out like exp(-t²/2)."""
    return math.ceil(plan(dim=dim, eps=EPS).rows_needed * math.exp(threshold**2 / 2))


def _run_thresholds(form: str, advance: Advance) -> Table:
    """Random noise, as shares of the smaller class; of half of the runs that is the positive one."""

    def learn_all(dim: int, threshold: float) -> Iterator[FitResult]:
        for seed in range(THRESHOLD_REPEATS[form]):
            positive = float(ndtr(threshold if seed % 2 else -threshold))
            rate = RATES[seed % len(RATES)] * min(positive, 1 - positive)
            name = zlib.crc32(repr((dim, threshold, seed)).encode())
            spec = _spec(rows_for(dim, threshold), dim, rate=rate, positive=positive, seed=name)
            yield learn(draw(spec), eps=EPS, seed=seed)

    cells = [
        ((dim, threshold, rows_for(dim, threshold)), learn_all(dim, threshold))
        for dim, threshold in itertools.product(THRESHOLD_DIMS[form], THRESHOLDS)
    ]
    criterion = (
        f"at most tau = {_TAU:g} of the runs on Gaussian rows, whatever the threshold, are not accepted "
        f"(eps = {EPS:g} asked for)"
    )
    return _table(
        "threshold-completeness", criterion, count(cells, advance), columns=("d", "threshold", "rows", *VERDICTS)
    )


def _run_laws(form: str, advance: Advance) -> Table:
    """Elliptical laws; dimensions and rates of random noise take turns."""
    n_runs = LAW_REPEATS[form]
    allowed = int(stats.binom.isf(_CHANCE, n_runs, _TAU))
    found = count((((law, n_runs), _learn_law(law, n_runs)) for law in LAWS), advance)
    rows = tuple(
        (*one.row, allowed, *(one.transforms[kind] for kind in TRANSFORMS), one.n_refused <= allowed) for one in found
    )
    criterion = (
        f"of every law at most tau = {_TAU:g} of the runs are not accepted, up to what chance brings once in "
        f"{1 / _CHANCE:g} times (eps = {EPS:g} asked for, d = {', '.join(map(str, LAW_DIMS))}, transform chosen by "
        "the run)"
    )
    columns, met = ("law", "runs", *VERDICTS, "allowed", *TRANSFORMS, "holds"), all(row[-1] for row in rows)
    return _table("completeness-auto", criterion, found, met=met, columns=columns, rows=rows)


def _learn_law(law: str, n_runs: int) -> Iterator[FitResult]:
    for number in range(n_runs):
        dim, rate = LAW_DIMS[number % len(LAW_DIMS)], RATES[number % len(RATES)]
        rng = np.random.default_rng(zlib.crc32(f"{law} {number}".encode()))
        problem: Problem = draw_elliptical(*LAWS[law], plan(dim=dim, eps=EPS).rows_needed, dim, "random", rate, rng)
        yield learn(problem, eps=EPS, seed=number)


GAUSSIAN = Part(lambda form: len(KINDS) * len(DIMS) * len(SCALES) * REPEATS[form], _run_gaussian)
WITH_THRESHOLDS = Part(
    lambda form: len(THRESHOLD_DIMS[form]) * len(THRESHOLDS) * THRESHOLD_REPEATS[form], _run_thresholds
)
ANY_TRANSFORM = Part(lambda form: len(LAWS) * LAW_REPEATS[form], _run_laws)
