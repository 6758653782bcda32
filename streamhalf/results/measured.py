"""What a run measured, planned and supports: candidates, pictures, promises, budgets."""

from __future__ import annotations

from streamhalf.results.base import Record
from streamhalf.results.codes import Method


class HeldOutRecord(Record, frozen=True):
    """The rows that measured the error: those in the ranges whose uniform lies in [low, high)."""

    ranges: tuple[tuple[int, int], ...]
    low: float
    high: float


class DiagnosticsRecord(Record, frozen=True):
    """What the pictures of a report are drawn from.

    Of the first pass: `feature_moments` (d rows: means of he_1, he_2, ... of each feature) and
    `pair_moments` (d × d: normalised Hermite moments of degree 2; empty for wide data). Of the
    final pass, for the returned halfspace sgn(v·x - t), |v| = 1: rows in slabs of `slab_width` of
    v·x - t (the outer two are tails), and the largest second moment orthogonal to it between the
    `eigen_edges`. `threshold` is t, in the run's transform.
    """

    feature_moments: tuple[tuple[float, ...], ...]
    pair_moments: tuple[tuple[float, ...], ...]
    slab_width: float
    slab_counts: tuple[int, ...]
    eigen_edges: tuple[float, ...]
    eigenvalues: tuple[float, ...]
    threshold: float = 0.0


class CandidateRecord(Record, frozen=True):
    """A candidate of the localisation: how it was found and how it did.

    `angle` is its angle to the returned halfspace in radians, `threshold` its distance from the
    origin of the run's transform; `error` and `beta`, which bounds its disagreement with any
    halfspace within eps of it, are None where no final pass measured them. `rate` is the share of
    Gaussian rows that its update would accept (None: delta, as in older documents).
    What `method` names was learnt in memory, from a sample, and has no scale.
    """

    delta: float
    step: float
    overlap: float
    rows_seen: int
    rows_accepted: int
    angle: float
    error: float | None
    beta: float | None
    method: Method = Method.PATH
    threshold: float = 0.0
    rate: float | None = None


class PromiseRecord(Record, frozen=True):
    """What the tests of all steps down to a scale support: error at most constant opt + eps.

    `deviation` is the deviation of quadratics from which on they exclude it at that scale,
    `masses_off` what masses of slabs may be off by in sum, as far as the slab test could tell
    (None: its slabs were wider than eps), and `constant` the worst that a program found among the
    laws that these and the tests at the scales above leave: a lower bound on the worst case (None:
    quadratics were not tested in every direction and at every scale, or the scale is finer than
    those that the program looked at).
    """

    delta: float
    eps: float
    deviation: float | None
    constant: float | None
    masses_off: float | None = None


class PassBudget(Record, frozen=True):
    """What one pass will read, in so many tasks if the data are known."""

    name: str
    rows: int
    nbytes: int
    delta: float | None = None
    n_tasks: int | None = None
