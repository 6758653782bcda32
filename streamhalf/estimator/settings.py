"""The settings of the estimator: those of `fit`, and what scikit-learn's users expect."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter, Signature
from typing import Any

from streamhalf.config import SETTINGS
from streamhalf.errors import UsageError
from streamhalf.results import HalfspaceClass

OWN = {"fit_intercept": None, "accept_unverified": False}
DEFAULTS = {**{name: said.default for name, said in SETTINGS.items()}, **OWN}


def signature() -> Signature:
    """Of the estimator: every setting by name, with its default."""
    named = (Parameter(key, Parameter.KEYWORD_ONLY, default=one) for key, one in DEFAULTS.items())
    return Signature([Parameter("self", Parameter.POSITIONAL_OR_KEYWORD), *named])


def fit_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of `fit` that are not the default: those may come from elsewhere."""
    through = {"through": choose_through(given)}
    settings = {name: value for name, value in given.items() if name not in OWN} | through
    settings = {name: value for name, value in settings.items() if not _is_default(name, value)}
    return settings if given["fit_intercept"] is None else settings | through


def choose_through(given: Mapping[str, Any]) -> str:
    """The class of halfspaces, as `through` and `fit_intercept` say together."""
    wanted, through = given["fit_intercept"], given["through"]
    if wanted not in (None, True, False):
        raise UsageError(f"fit_intercept: {wanted!r} given; must be True, False or None")
    if (
        wanted is None
        or through not in tuple(HalfspaceClass)
        or (wanted and through == HalfspaceClass.ANY)
    ):
        return str(through)
    # through the centre of rows that are whitened takes an intercept, which nobody chooses
    fits = through == HalfspaceClass.ORIGIN or (
        through == HalfspaceClass.CENTRE and not given["whiten"]
    )
    if wanted or not (fits or through == HalfspaceClass.ANY):
        remedy = "through='any'" if wanted else "through='origin'"
        raise UsageError(
            f"fit_intercept: {wanted} and through: {through!r} contradict each other; set "
            f"{remedy}, or leave fit_intercept out"
        )
    return str(HalfspaceClass.ORIGIN)


def _is_default(name: str, value: Any) -> bool:
    default = DEFAULTS[name]
    return type(value) is type(default) and bool(value == default)
