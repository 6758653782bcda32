from ._session import make_config, open_run
from ._warnings import warn_no_effect, warn_unverified
from .auditing import Audited, audit, judge_review
from .planning import dry_run, plan
from .runs import certify, fit, test, verify
from .statistics import lazy
from .stores import diagnostics, predict, report, synth

__all__ = [
    "Audited",
    "audit",
    "certify",
    "diagnostics",
    "dry_run",
    "fit",
    "judge_review",
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
