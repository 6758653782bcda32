"""The serial engine: the oracle that every other engine must equal, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator

from streamhalf.engine.job import Counted, Engine, Job, OnProgress, fold_tree


class SerialEngine(Engine):
    """One task after the other, in this thread."""

    n_threads = 1
    lazy = remote = False

    def run(self, job: Job, on_progress: OnProgress) -> Counted:
        """Run a job to its end."""

        def leaves() -> Iterator[Counted]:
            for item, rows in zip(job.items, job.rows, strict=True):
                part = job.leaf(job.context, item)
                on_progress(rows)
                yield part

        return fold_tree(job, leaves())
