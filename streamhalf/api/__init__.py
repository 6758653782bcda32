"""The functions users call: thin, keyword-only after the data, each returns a record."""

from streamhalf.api.auditing import Audited, audit
from streamhalf.api.planning import dry_run, plan
from streamhalf.api.running import make_config, open_run
from streamhalf.api.runs import certify, fit, lazy, test, verify
from streamhalf.api.stores import diagnostics, predict, report, synth
from streamhalf.api.trust import warn_no_effect, warn_unverified
from streamhalf.data.inspection import inspect

__all__ = [
    "Audited",
    "audit",
    "certify",
    "diagnostics",
    "dry_run",
    "fit",
    "inspect",
    "lazy",
    "make_config",
    "open_run",
    "plan",
    "predict",
    "report",
    "synth",
    "test",
    "verify",
    "warn_no_effect",
    "warn_unverified",
]
