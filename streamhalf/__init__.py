"""A tester-learner for halfspaces that runs out of core on Dask.

Importing it imports next to nothing: a name is looked up in its home when somebody asks for it.
"""

from streamhalf.late import late_names

TYPE_CHECKING = False  # without typing, as in `late`
if TYPE_CHECKING:
    from streamhalf._version import __version__
    from streamhalf.accessor import register_accessor
    from streamhalf.api import (
        audit,
        certify,
        diagnostics,
        dry_run,
        fit,
        inspect,
        lazy,
        plan,
        predict,
        synth,
        test,
        verify,
    )
    from streamhalf.config import RunConfig
    from streamhalf.data.opening import open_source
    from streamhalf.errors import (
        DataError,
        MemoryBudgetError,
        NotAcceptedError,
        RunCancelledError,
        StreamhalfError,
        TargetError,
        UnverifiedWarning,
        UsageError,
    )
    from streamhalf.estimator import HalfspaceTesterLearner as HalfspaceTesterLearner
    from streamhalf.report.notebook import monitor
    from streamhalf.results import (
        AuditResult,
        CertifyResult,
        DryRunResult,
        FitResult,
        Halfspace,
        MomentTestResult,
        Outcome,
        PlanRecord,
        Verdict,
        VerifyResult,
    )
    from streamhalf.results.document import read_audit, read_result
else:
    __getattr__, __dir__ = late_names(
        __name__,
        {
            "streamhalf._version": ("__version__",),
            "streamhalf.accessor": ("register_accessor",),
            "streamhalf.api": (
                *("audit", "certify", "diagnostics", "dry_run", "fit", "inspect", "lazy", "plan"),
                *("predict", "synth", "test", "verify"),
            ),
            "streamhalf.config": ("RunConfig",),
            "streamhalf.data.opening": ("open_source",),
            "streamhalf.results.document": ("read_audit", "read_result"),
            "streamhalf.errors": (
                *("DataError", "MemoryBudgetError", "NotAcceptedError", "RunCancelledError"),
                *("StreamhalfError", "TargetError", "UnverifiedWarning", "UsageError"),
            ),
            "streamhalf.estimator": ("HalfspaceTesterLearner",),
            "streamhalf.results": (
                *("AuditResult", "CertifyResult", "DryRunResult", "FitResult", "Halfspace"),
                *("MomentTestResult", "Outcome", "PlanRecord", "Verdict", "VerifyResult"),
            ),
            "streamhalf.report.notebook": ("monitor",),
        },
    )

__all__ = [
    "AuditResult",
    "CertifyResult",
    "DataError",
    "DryRunResult",
    "FitResult",
    "Halfspace",
    "MemoryBudgetError",
    "MomentTestResult",
    "NotAcceptedError",
    "Outcome",
    "PlanRecord",
    "RunCancelledError",
    "RunConfig",
    "StreamhalfError",
    "TargetError",
    "UnverifiedWarning",
    "UsageError",
    "Verdict",
    "VerifyResult",
    "__version__",
    "audit",
    "certify",
    "diagnostics",
    "dry_run",
    "fit",
    "inspect",
    "lazy",
    "monitor",
    "open_source",
    "plan",
    "predict",
    "read_audit",
    "read_result",
    "register_accessor",
    "synth",
    "test",
    "verify",
]


def load_ipython_extension(shell: object) -> None:
    """What `%load_ext streamhalf` calls: results show themselves as HTML."""
    from streamhalf.report.notebook import enable

    enable()
