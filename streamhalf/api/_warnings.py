"""Warnings for models that were neither accepted nor certified."""

from __future__ import annotations

import warnings

from streamhalf.errors import UnverifiedWarning
from streamhalf.report.voices import proved
from streamhalf.results import FitResult, Verdict

_TRUSTED = (Verdict.ACCEPTED, Verdict.CERTIFIED)


def doubt(result: FitResult) -> str:
    """What to know before its halfspace is used; empty where the run was accepted or certified."""
    if result.verdict in _TRUSTED:
        return ""
    error = result.error
    known = f" (its error: at most {error.upper:.4g}, on held-out rows)" if error else ""
    rest = "nothing is promised about how much better another could be"
    if result.certificate is not None and result.certificate.n_errors == 0:
        rest = "on the rows of the certificate it makes no error"
    elif found := proved(result):
        rest = f"it is proved to be {found}"
    return f"the run was {result.verdict}: the halfspace is the best that was found{known}; {rest}"


def warn_unverified(result: FitResult, *, stacklevel: int) -> None:
    """Warn whoever called if the run was neither accepted nor certified."""
    if words := doubt(result):
        warnings.warn(words, UnverifiedWarning, stacklevel=stacklevel + 1)


def warn_no_effect(name: str, *, stacklevel: int) -> None:
    """Warn of a parameter that was a leave once, and is none any more."""
    warnings.warn(
        f"{name}: it has no effect any more, every run has a halfspace and a verdict; leave it out",
        FutureWarning,
        stacklevel=stacklevel + 1,
    )
