"""A tester-learner for halfspaces that runs out of core on Dask."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

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
from streamhalf.documents import read_audit, read_result
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
from streamhalf.records import (
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

if TYPE_CHECKING:
    from streamhalf.estimator import HalfspaceTesterLearner as HalfspaceTesterLearner
    from streamhalf.report.jupyter import monitor

__version__ = version("streamhalf")

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

_LATE = {"HalfspaceTesterLearner": "streamhalf.estimator", "monitor": "streamhalf.report.jupyter"}


def __getattr__(name: str) -> Any:
    """What not every user needs, and scikit-learn with it, is imported when it is asked for."""
    if name in _LATE:
        return getattr(import_module(_LATE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext streamhalf` calls: results show themselves as HTML."""
    from streamhalf.report.jupyter import enable

    enable()
