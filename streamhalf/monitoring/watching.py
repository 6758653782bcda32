"""One look at new rows: a pass, its judgement, and the looks before it in a folder."""

from __future__ import annotations

import datetime
import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamhalf.data.source import Source
from streamhalf.engine.run import Run
from streamhalf.errors import DataError, UsageError
from streamhalf.kernels import anytime
from streamhalf.monitoring.drift import Comparison
from streamhalf.monitoring.reference import Reference
from streamhalf.paths import Folder
from streamhalf.results import (
    Drift,
    ErrorStretch,
    FitResult,
    Versions,
    WatchLook,
    WatchReference,
    WatchResult,
    from_json,
    replace,
    to_json,
)

_LARGEST_LOOK = 16 << 20

_MOST_COLUMNS = 12
"""Features with statements of their own in the record."""

_MOST_SHIFTS = 64
"""Features whose shifts a look remembers."""


@dataclass(frozen=True, slots=True, eq=False)
class Looks:
    """The looks of one result so far, one file each: none is lost where a later one fails."""

    folder: Folder | None
    before: tuple[WatchResult, ...] = ()

    @classmethod
    def read(cls, folder: Folder | None, result: FitResult) -> Looks:
        """Read them; those of another result are refused."""
        found: list[WatchResult] = []
        while folder is not None and (content := folder.read(_file(len(found) + 1), _LARGEST_LOOK)) is not None:
            where = f"{folder.name}/{_file(len(found) + 1)}"
            try:
                look = from_json(WatchResult, json.loads(content), where=where)
            except ValueError as error:
                raise DataError(f"{where}: not JSON: {' '.join(str(error).split())}; restore or remove it") from None
            if look.halfspace_digest != halfspace_digest(result):
                raise UsageError(
                    f"state: {folder.name} holds looks at rows behind another halfspace; name a folder of its own for "
                    "this result (its updates go on in the same)"
                )
            found.append(look)
        return cls(folder, tuple(found))

    @property
    def number(self) -> int:
        """Number of the next look."""
        return len(self.before) + 1

    def keep(self, found: WatchResult) -> None:
        """Write a look, without those before it."""
        if self.folder is not None:
            text = json.dumps(to_json(replace(found, history=found.history[-1:])), allow_nan=False)
            self.folder.write(_file(found.look), text.encode())


def _file(look: int) -> str:
    return f"look-{look:06d}.json"


def halfspace_digest(result: FitResult) -> str:
    """Return a digest of the halfspace and the transform of a result, which its updates keep."""
    text = json.dumps(to_json((result.halfspace, result.transform)))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def reference_of(result: FitResult) -> WatchReference:
    """Return the reference of a result, or say why there is none."""
    if result.halfspace is None:
        raise UsageError(f"result: the run was {result.verdict} and has no halfspace to watch; fit again")
    if result.reference is None:
        raise UsageError("result: it holds nothing to compare new rows with; fit again, and save that result")
    return result.reference


def look_at(run: Run, source: Source, result: FitResult, looks: Looks, *, tolerance: float, tau: float) -> WatchResult:
    """Compare rows with those behind a result, in one pass; the look is kept."""
    record, labelled = reference_of(result), source.is_labelled
    reference = Reference.behind(result, record, source.n_rows, labelled=labelled)
    found, wedge = run.reduce("watch", source, reference.likeness)
    spent = anytime.look_tau(tau, looks.number)
    comparison = Comparison(
        profile=reference.profile,
        reference=record,
        found=found,
        tolerance=tolerance,
        tau=spent,
        n_candidates=max(1, len(result.candidates)),
    )
    names = source.feature_names
    statements = list(comparison.statements(names, result.data.label_names))
    stretches = comparison.stretches()
    if any(one.drifted for one in stretches):  # a part of the rows says more than all of them
        statements = [
            replace(one, outcome=Drift.DRIFTED, rows_needed=None) if one.kind == "errors" else one for one in statements
        ]
    outcome = Drift.of_all([one.outcome for one in statements])
    this = _summary(looks, comparison, source, outcome, tau)
    made = WatchResult(
        outcome=outcome,
        look=looks.number,
        tau=tau,
        tau_spent=spent,
        tolerance=tolerance,
        rows_behind=record.n_rows,
        labelled=labelled,
        statements=tuple(statements),
        columns=comparison.columns(names, _MOST_COLUMNS),
        stretches=stretches,
        eta=record.eta,
        beta=float(wedge.betas()[0]),
        beta_behind=record.beta,
        history=(*(one.history[-1] for one in looks.before if one.history), this),
        halfspace_digest=halfspace_digest(result),
        passes=tuple(run.passes),
        data=source.record,
        versions=Versions.current(),
        run=run.provenance,
        notices=source.notices,
    )
    looks.keep(made)
    return made


def _summary(looks: Looks, comparison: Comparison, source: Source, outcome: Drift, tau: float) -> WatchLook:
    """The summary of a look; bounds of its error hold for all looks at once."""
    found, profile = comparison.found, comparison.profile
    distance, _, unit = comparison.distances()
    signs = np.sign(found.means - np.array(comparison.reference.means)[: len(found.means)])
    shifts = np.nan_to_num(signs * distance / unit, posinf=1e300, neginf=-1e300)[: min(source.dim, _MOST_SHIFTS)]
    error: dict[str, Any] = {}
    if profile.reads_labels:
        rate = float(found.means[profile.parts(source.dim)["errors"].start])
        ends = (anytime.lower, anytime.upper)
        low, high = (float(end(rate * found.n_rows, found.n_rows, comparison.tau)) for end in ends)
        error = {"error": rate, "error_low": low, "error_high": high}
    finished = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    rounded = tuple(float(f"{value:.4g}") for value in shifts.tolist())
    return WatchLook(looks.number, finished, source.n_rows, outcome, shifts=rounded, **error)


def drifted_stretches(result: WatchResult) -> list[ErrorStretch]:
    """Stretches of rows whose labels went wrong, neighbours joined."""
    found: list[ErrorStretch] = []
    for one in result.stretches:
        if not one.drifted:
            continue
        if found and found[-1].stop == one.start:
            last, n_rows = found[-1], found[-1].n_rows + one.n_rows
            error = (last.error * last.n_rows + one.error * one.n_rows) / max(1, n_rows)
            found[-1] = ErrorStretch(last.start, one.stop, n_rows, error, True)
        else:
            found.append(one)
    return found
