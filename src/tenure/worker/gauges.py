"""What a worker does now, as gauges of the metrics page; the page of a supervisor adds up those of its workers."""

import os
import time

from tenure.execution.runner import resident_bytes
from tenure.metrics.counters import LAST_BEAT, Gauge
from tenure.worker.worker import Worker


def worker_gauges(worker: Worker) -> tuple[Gauge, ...]:
    """Without labels: Prometheus itself adds the address of the page to each series."""
    now = time.time()
    values = {
        "tenure_worker_processes": 1,
        "tenure_worker_slots": worker.slots,
        "tenure_worker_running_jobs": len(worker.running()),
        "tenure_worker_leases": worker.held().total(),
        "tenure_worker_memory_bytes": sum(map(resident_bytes, [os.getpid(), *worker.child_pids()])),
        LAST_BEAT: now - worker.silence(),
    }
    return tuple((name, (), float(value)) for name, value in values.items())
