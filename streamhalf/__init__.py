"""A tester-learner for halfspaces that runs out of core on Dask."""

from importlib.metadata import version

from streamhalf.api import certify, fit, inspect, lazy, plan, predict, synth, test, verify
from streamhalf.config import RunConfig
from streamhalf.data.opening import open_source
from streamhalf.errors import DataError, MemoryBudgetError, StreamhalfError, UsageError
from streamhalf.files import read_result
from streamhalf.records import (
    CertifyResult,
    FitResult,
    Halfspace,
    MomentTestResult,
    Outcome,
    PlanRecord,
    Verdict,
    VerifyResult,
)

__version__ = version("streamhalf")

__all__ = [
    "CertifyResult",
    "DataError",
    "FitResult",
    "Halfspace",
    "MemoryBudgetError",
    "MomentTestResult",
    "Outcome",
    "PlanRecord",
    "RunConfig",
    "StreamhalfError",
    "UsageError",
    "Verdict",
    "VerifyResult",
    "__version__",
    "certify",
    "fit",
    "inspect",
    "lazy",
    "open_source",
    "plan",
    "predict",
    "read_result",
    "synth",
    "test",
    "verify",
]
