"""A tester-learner for halfspaces that runs out of core on Dask."""

from importlib.metadata import version

from streamhalf.api import inspect, lazy, synth, test
from streamhalf.config import RunConfig
from streamhalf.data.opening import open_source
from streamhalf.errors import DataError, MemoryBudgetError, StreamhalfError, UsageError
from streamhalf.records import MomentTestResult, Outcome, Verdict

__version__ = version("streamhalf")

__all__ = [
    "DataError",
    "MemoryBudgetError",
    "MomentTestResult",
    "Outcome",
    "RunConfig",
    "StreamhalfError",
    "UsageError",
    "Verdict",
    "__version__",
    "inspect",
    "lazy",
    "open_source",
    "synth",
    "test",
]
