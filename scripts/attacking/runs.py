"""Each attack many times: what the runs said, beside the truth."""

from __future__ import annotations

import functools
import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from scripts.attacking import claims, rows
from scripts.attacking.claims import Finding
from scripts.attacking.rows import Trial
from scripts.evaluation.drawing import Problem, least_error
from scripts.evaluation.search import error_of
from scripts.evaluation.tables import Advance, Cell, Table
from streamhalf.api import certify, fit
from streamhalf.config import RunConfig
from streamhalf.results import CertifyResult, FitResult, Halfspace

SMALL_CONSTANT = 5.0
_CHANCE = 0.01
"""How seldom an honest run has more failures than are allowed."""
VERDICTS = ("accepted", "certified", "rejected", "inconclusive", claims.REFUSED)
COLUMNS = (
    *("attack", "runs", *VERDICTS, "failures", "allowed", "promises broken"),
    *("error below eps", "largest (error - eps) / opt", "largest error / opt", "holds"),
)
DIMS = tuple(range(2, 11))


@dataclass(frozen=True, slots=True)
class Attack:
    """How rows are made (or a finding, by a function that runs and judges), and what must be so.

    Parameters
    ----------
    is_gaussian
        The features are: the run must say what is expected.
    expected
        Where labels are coin tosses, no halfspace is better than a guess, and none is accepted.
    is_exact
        What is said holds for certain: no failure is allowed.
    is_void
        The promise is void (the adversary knows the seed): shown, not judged.
    """

    make: Callable[[np.random.Generator], Trial | Finding]
    is_gaussian: bool = False
    is_void: bool = False
    is_exact: bool = False
    expected: str = "accepted"
    repeats: tuple[int, int] = (2, 20)


ATTACKS: dict[str, Attack] = {
    "noise in the first half": Attack(rows.first_half, is_gaussian=True),
    **{
        f"sorted by label in {pieces} pieces": Attack(
            functools.partial(rows.sorted_by_label, pieces=pieces), is_gaussian=True
        )
        for pieces in (32, 64, 320)
    },
    "sorted by a feature": Attack(rows.sorted_by_feature, is_gaussian=True),
    "sorted by a product": Attack(rows.sorted_by_product, is_gaussian=True),
    "known seed, used": Attack(functools.partial(rows.knows_seed, is_used=True), is_void=True),
    "known seed, not used": Attack(functools.partial(rows.knows_seed, is_used=False)),
    **{
        f"program's law at {tolerance:g}, d = {dim}": Attack(
            functools.partial(rows.law_of_program, dim=dim, tolerance=tolerance),
            repeats=(int(dim in (2, 10) and tolerance == 0.2), 5),
        )
        for tolerance in (0.1, 0.2, 0.3)
        for dim in DIMS
    },
    **{
        f"program's law at 0.2, slab masses off by {masses_off:g}, d = {dim}": Attack(
            functools.partial(rows.law_of_program, dim=dim, tolerance=0.2, masses_off=masses_off),
            repeats=(int(dim == 2 and masses_off < 0.05), 5),
        )
        for masses_off in (0.02, 0.06)
        for dim in (2, 5, 10)
    },
    "reuse, coin tosses": Attack(rows.reused_coins, is_gaussian=True, expected="inconclusive", repeats=(4, 40)),
    "reuse, d = 20": Attack(rows.reused_wide, is_gaussian=True, expected="inconclusive", repeats=(2, 20)),
    "noise in segments": Attack(rows.noise_in_stretches, is_gaussian=True, repeats=(1, 20)),
    "classifier with intercept": Attack(rows.with_intercept, is_exact=True, repeats=(1, 5)),
    "coin tosses, eps = 0.1": Attack(rows.coins_with_eps),
    **{
        f"integers beyond 2^53, {kind}": Attack(
            functools.partial(claims.large_integers, kind=kind), is_exact=True, repeats=(1, 10)
        )
        for kind in claims.INTEGERS
    },
    **{
        f"few bad segments, {count} of {size} rows": Attack(
            functools.partial(claims.few_bad_segments, count=count, size=size), repeats=(3, 200)
        )
        for count, size in ((256, 200), (64, 1_000))
    },
    "certified on heavy tails": Attack(claims.heavy_tails, is_exact=True, repeats=(2, 40)),
}


def count_runs(form: str, names: list[str]) -> int:
    return sum(_repeats(form, ATTACKS[name]) for name in names)


def run(form: str, names: list[str], advance: Advance) -> Table:
    """All named attacks, one row each."""
    found: dict[str, list[Finding]] = {}
    for name in names:
        for i in range(_repeats(form, ATTACKS[name])):
            found.setdefault(name, []).append(_examine(name, i))
            advance()
    lines = {name: _row(name, findings) for name, findings in found.items()}
    failed = [name for name, line in lines.items() if line[-1] is False]
    return Table(
        name="attacks",
        criterion=(
            "no bound fails, and no run on Gaussian rows is not accepted (or, where labels are "
            "coin tosses, not inconclusive), more often than tau allows (binomial limit); no "
            "accepted run is above the C opt + eps that it printed, nor above 5 opt + eps; no run "
            "is accepted at a coarser eps than it was asked for; opt is the least error known, of "
            "the planted halfspace or (where the error is above eps) of a search"
        ),
        met=not failed,
        summary=(
            f"{len(lines) - len(failed)} of {len(lines)} attacks held off"
            + (f"; not: {', '.join(failed)}" if failed else "")
            + f"; {_binding([one for findings in found.values() for one in findings])}"
        ),
        columns=COLUMNS,
        rows=tuple(lines.values()),
    )


def _repeats(form: str, attack: Attack) -> int:
    return attack.repeats[form == "long"]


def _row(name: str, findings: list[Finding]) -> tuple[Cell, ...]:
    attack, n = ATTACKS[name], len(findings)
    verdicts = Counter(one.verdict for one in findings)
    failures = sum(one.is_bound_wrong or (attack.is_gaussian and one.verdict != attack.expected) for one in findings)
    broken = sum(one.is_promise_broken for one in findings)
    allowed = 0 if attack.is_exact else int(stats.binom.isf(_CHANCE, n, RunConfig().tau))
    accepted = [one for one in findings if one.excess is not None]
    return (
        name,
        n,
        *(verdicts[kind] for kind in VERDICTS),
        failures,
        allowed,
        broken,
        sum(one.excess == 0 for one in accepted),
        _largest(one.excess for one in accepted),
        _largest(one.ratio for one in accepted),
        None if attack.is_void else failures <= allowed and broken == 0,
    )


def _largest(values: Iterable[float | None]) -> Cell:
    largest = max((one for one in values if one is not None), default=None)
    return largest if largest is None or math.isfinite(largest) else "inf"


def _binding(findings: list[Finding]) -> str:
    """In how many accepted runs the promise says more than the error itself."""
    accepted = [one for one in findings if one.excess is not None]
    below = sum(one.excess == 0 for one in accepted)
    return f"the promise did not bind in {below} of {len(accepted)} accepted runs, whose error is below eps"


def _examine(name: str, number: int) -> Finding:
    seed = zlib.crc32(f"{name} {number}".encode())
    rng = np.random.default_rng(seed)
    trial = ATTACKS[name].make(rng)
    if isinstance(trial, Finding):
        return trial
    parameters: dict[str, Any] = {"certificate_degree": 0, "scheduler": "serial"}
    if not name.startswith("known seed"):  # a seed that the rows were not made for
        parameters["seed"] = int(rng.integers(2**62))
    parameters |= trial.parameters
    if trial.offset is not None:
        halfspace = Halfspace(tuple(trial.best.tolist()), -trial.offset)
        return _compare_classes(trial, certify((trial.X, trial.y), weights=halfspace, **parameters))
    return _compare(trial, fit((trial.X, trial.y), **parameters), rng)


def _compare_classes(trial: Trial, result: CertifyResult) -> Finding:
    """A ratio says that no halfspace of the classifier's class has an error below U / ratio."""
    offset = trial.offset or 0.0
    best = float(np.mean((trial.X @ trial.best >= offset) != (trial.y > 0)))
    claimed = 0.0 if result.ratio is None else result.error.empirical / result.ratio
    return Finding("–", is_bound_wrong=claimed > best * (1 + 1e-9))


def _compare(trial: Trial, result: FitResult, rng: np.random.Generator) -> Finding:
    verdict = str(result.verdict)
    if result.halfspace is None:
        return Finding(verdict)
    plane, n = result.halfspace.plane, len(trial.y)
    error, planted = plane.errors(trial.X, trial.y) / n, error_of(trial.X, trial.y, trial.best)
    opt = min(error, planted)
    truth = error if trial.law_error is None else trial.law_error(plane.normal)
    is_wrong = result.error is not None and result.error.upper < truth
    if result.opt is not None:
        is_wrong = is_wrong or result.opt.lower > opt
    if verdict != "accepted":
        return Finding(verdict, is_wrong)
    if error > result.eps:
        problem = Problem(trial.X, trial.y, trial.best)
        opt = min(opt, least_error(problem, result, [plane, problem.plane], rng))
    above = max(0.0, error - result.eps)
    excess = above / opt if opt > 0 else (math.inf if above else 0.0)
    constant = getattr(result, "constant", SMALL_CONSTANT)
    is_coarse = result.eps > trial.parameters.get("eps", math.inf)
    is_broken = is_coarse or excess > min(constant or SMALL_CONSTANT, SMALL_CONSTANT)
    return Finding(verdict, is_wrong, is_broken, excess, error / opt if opt > 0 else None)
