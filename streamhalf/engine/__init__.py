"""Planning and running passes: serially, on threads, on a cluster."""

from streamhalf.engine.job import Counted, Engine, Job, LazyResult, lazy_call, run_job
from streamhalf.engine.plan import PassPlan, lazy_pass, plan_pass, run_pass
from streamhalf.engine.scheduler import open_engine

__all__ = [
    "Counted",
    "Engine",
    "Job",
    "LazyResult",
    "PassPlan",
    "lazy_call",
    "lazy_pass",
    "open_engine",
    "plan_pass",
    "run_job",
    "run_pass",
]
