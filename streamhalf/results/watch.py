"""Findings of a watch in new rows; the document that `watch --json` writes."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from streamhalf.results.codes import Notice, Record
from streamhalf.results.parts import DataRecord, PassRecord
from streamhalf.results.results import RunRecord, Versions


class Drift(StrEnum):
    """Outcomes of a comparison of new rows with those behind a result."""

    STEADY = "steady"
    DRIFTED = "drifted"
    INCONCLUSIVE = "inconclusive"

    @property
    def exit_code(self) -> int:
        """Of `watch --require steady`."""
        return {Drift.STEADY: 0, Drift.DRIFTED: 10, Drift.INCONCLUSIVE: 11}[self]

    @classmethod
    def of_all(cls, outcomes: list[Drift]) -> Drift:
        """Drifted if any is, else inconclusive if any is."""
        return next((one for one in (cls.DRIFTED, cls.INCONCLUSIVE) if one in outcomes), cls.STEADY)


# Kinds of statements in standard deviations; the others are shares of rows
IN_DEVIATIONS = ("means", "spreads", "moments")


class DriftStatement(Record, frozen=True):
    """One comparison: a quantity behind the result and in the new rows.

    `distance` is how far the two are apart, `chance` what chance alone explains at this look, both in the unit of
    `tolerance`: shares of rows, or standard deviations of the reference. Of the `n_compared` quantities of a kind it is
    the one that says most; `rows_needed` would make it conclusive (None: it is, or no number would).
    """

    kind: str
    subject: str
    outcome: Drift
    behind: float
    new: float
    distance: float
    chance: float
    tolerance: float
    n_compared: int = 1
    n_drifted: int = 0
    rows_needed: int | None = None


class ErrorStretch(Record, frozen=True):
    """Error among new rows start, ..., stop - 1; `drifted` if it is beyond tolerance and chance."""

    start: int
    stop: int
    n_rows: int
    error: float
    drifted: bool


class WatchLook(Record, frozen=True):
    """Summary of one look: when, at how many rows, and what was found.

    `error` comes with bounds that hold for all looks together; `shifts` are those of the means of all features (at
    most 64), in standard deviations.
    """

    look: int
    finished: str
    n_rows: int
    outcome: Drift
    error: float | None = None
    error_low: float | None = None
    error_high: float | None = None
    shifts: tuple[float, ...] = ()


class WatchResult(Record, frozen=True, kw_only=True):
    """Comparison of new rows with those behind a result; the document that `watch --json` writes.

    `tau` bounds the chance of any false alarm over all looks of a state, of which this is number `look` and spends
    `tau_spent`. `beta` bounds, on the new rows, the share on which halfspaces within `eta` of the returned one disagree
    with it, `beta_behind` on those behind the result.
    """

    schema: Literal["streamhalf-watch-1"] = "streamhalf-watch-1"
    outcome: Drift
    look: int
    tau: float
    tau_spent: float
    tolerance: float
    rows_behind: int
    labelled: bool
    statements: tuple[DriftStatement, ...]
    columns: tuple[DriftStatement, ...] = ()
    stretches: tuple[ErrorStretch, ...] = ()
    eta: float
    beta: float
    beta_behind: float
    history: tuple[WatchLook, ...] = ()
    halfspace_digest: str = ""
    passes: tuple[PassRecord, ...] = ()
    data: DataRecord
    versions: Versions
    run: RunRecord | None = None
    notices: tuple[Notice, ...] = ()

    def statement(self, kind: str) -> DriftStatement | None:
        """Return the statement of a kind, if it was made."""
        return next((one for one in self.statements if one.kind == kind), None)

    def __repr__(self) -> str:
        said = ", ".join(f"{one.kind} {one.outcome}" for one in self.statements if one.outcome is not Drift.STEADY)
        return f"<WatchResult {self.outcome}: {self.data}{f', {said}' if said else ''}>"

    def to_html(self) -> str:
        """Return the page that `--report` writes: one self-contained HTML document."""
        from streamhalf.report.watching import render_watch

        page: str = render_watch(self)
        return page

    @property
    def drifted_stretches(self) -> list[ErrorStretch]:
        """Stretches of rows whose labels went wrong, neighbours joined."""
        found: list[ErrorStretch] = []
        for one in self.stretches:
            if one.drifted and found and found[-1].stop == one.start:
                last = found.pop()
                n_rows = last.n_rows + one.n_rows
                error = (last.error * last.n_rows + one.error * one.n_rows) / max(1, n_rows)
                found.append(ErrorStretch(last.start, one.stop, n_rows, error, True))
            elif one.drifted:
                found.append(one)
        return found
