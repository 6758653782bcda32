from .audit import show_audit, show_review
from .progress import log_json, watch
from .terminal import show_classifier, show_columns, show_dry_run, show_plan, show_store, show_test, show_verification
from .watching import show_watch

__all__ = [
    "log_json",
    "show_audit",
    "show_classifier",
    "show_columns",
    "show_dry_run",
    "show_plan",
    "show_review",
    "show_store",
    "show_test",
    "show_verification",
    "show_watch",
    "watch",
]
