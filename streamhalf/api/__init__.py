"""The functions users call: thin, keyword-only after the data, each returns a record."""

from typing import TYPE_CHECKING

from streamhalf.late import late_names

if TYPE_CHECKING:
    from streamhalf.api._session import make_config, open_run
    from streamhalf.api._warnings import warn_no_effect, warn_unverified
    from streamhalf.api.auditing import Audited, audit
    from streamhalf.api.planning import dry_run, plan
    from streamhalf.api.runs import certify, fit, test, verify
    from streamhalf.api.statistics import lazy
    from streamhalf.api.stores import diagnostics, predict, report, synth
    from streamhalf.data.inspection import inspect
else:
    # a command that only shows its help has no need of Dask, Zarr and SciPy
    __getattr__, __dir__ = late_names(
        __name__,
        {
            "streamhalf.api.auditing": ("Audited", "audit"),
            "streamhalf.api.planning": ("dry_run", "plan"),
            "streamhalf.api._session": ("make_config", "open_run"),
            "streamhalf.api.runs": ("certify", "fit", "test", "verify"),
            "streamhalf.api.statistics": ("lazy",),
            "streamhalf.api.stores": ("diagnostics", "predict", "report", "synth"),
            "streamhalf.api._warnings": ("warn_no_effect", "warn_unverified"),
            "streamhalf.data.inspection": ("inspect",),
        },
    )

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
