from ._version import __version__
from .accessor import register_accessor
from .api import (
    audit,
    audit_classes,
    certify,
    convert,
    diagnostics,
    dry_run,
    fit,
    judge_review,
    lazy,
    plan,
    predict,
    synth,
    test,
    update,
    verify,
    watch,
)
from .config import RunConfig
from .data.inspection import inspect
from .data.opening import open_source
from .errors import (
    DataError,
    MemoryBudgetError,
    NotAcceptedError,
    RunCancelledError,
    StreamhalfError,
    TargetError,
    UnverifiedWarning,
    UsageError,
)
from .estimator import HalfspaceTesterLearner as HalfspaceTesterLearner
from .report.notebook import monitor
from .results import (
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
    WatchResult,
)
from .results.document import read_audit, read_conflicts, read_result, read_watch
from .stream import StreamLearner

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
    "StreamLearner",
    "StreamhalfError",
    "TargetError",
    "UnverifiedWarning",
    "UsageError",
    "Verdict",
    "VerifyResult",
    "WatchResult",
    "__version__",
    "audit",
    "audit_classes",
    "certify",
    "convert",
    "diagnostics",
    "dry_run",
    "fit",
    "inspect",
    "judge_review",
    "lazy",
    "monitor",
    "open_source",
    "plan",
    "predict",
    "read_audit",
    "read_conflicts",
    "read_result",
    "read_watch",
    "register_accessor",
    "synth",
    "test",
    "update",
    "verify",
    "watch",
]

def load_ipython_extension(shell: object) -> None: ...
