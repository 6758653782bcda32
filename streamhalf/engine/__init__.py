"""Planning and running passes: serially, on threads, on a cluster."""

from streamhalf.engine.job import Counted, Engine, Job, run_job
from streamhalf.engine.opening import open_engine
from streamhalf.engine.plan import PassPlan, lazy_pass, plan_pass, run_pass

__all__ = [
    "Counted",
    "Engine",
    "Job",
    "PassPlan",
    "lazy_pass",
    "open_engine",
    "plan_pass",
    "run_job",
    "run_pass",
]
