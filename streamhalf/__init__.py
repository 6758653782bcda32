"""A tester-learner for halfspaces that runs out of core on Dask."""

from importlib.metadata import version

from streamhalf.api import fit, inspect, lazy, plan, predict, synth, test
from streamhalf.config import RunConfig
from streamhalf.data.opening import open_source
from streamhalf.errors import DataError, MemoryBudgetError, StreamhalfError, UsageError
from streamhalf.records import FitResult, Halfspace, MomentTestResult, Outcome, PlanRecord, Verdict

__version__ = version("streamhalf")

__all__ = [
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
    "__version__",
    "fit",
    "inspect",
    "lazy",
    "open_source",
    "plan",
    "predict",
    "synth",
    "test",
]
