"""What a person sees: terminal, report, notebook, dashboard. Nothing here computes statistics."""

from typing import TYPE_CHECKING

from streamhalf.late import late_names

if TYPE_CHECKING:
    from streamhalf.report.audit import show_audit
    from streamhalf.report.progress import log_json, watch
    from streamhalf.report.terminal import (
        show_certificate,
        show_dry_run,
        show_fit,
        show_plan,
        show_store,
        show_test,
        show_verification,
    )
else:
    # the command line names them before it knows what is to be shown
    __getattr__, __dir__ = late_names(
        __name__,
        {
            "streamhalf.report.audit": ("show_audit",),
            "streamhalf.report.progress": ("log_json", "watch"),
            "streamhalf.report.terminal": (
                *("show_certificate", "show_dry_run", "show_fit", "show_plan", "show_store"),
                *("show_test", "show_verification"),
            ),
        },
    )

__all__ = [
    "log_json",
    "show_audit",
    "show_certificate",
    "show_dry_run",
    "show_fit",
    "show_plan",
    "show_store",
    "show_test",
    "show_verification",
    "watch",
]
