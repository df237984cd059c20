"""What dashboards of tests show: workers and statistics that no real worker wrote."""

from typing import Any

from tenure import Tenure
from tenure.backends.records import LaneRecord, WorkerRecord
from tenure.clock import MICROSECOND
from tenure.metrics.statistics import SLOT_MICROSECONDS, Counts, Tally


def announce(app: Tenure, id: str, *queues: str, silent: float = 0.0, **fields: Any) -> WorkerRecord:
    """Register a worker whose last heartbeat was some seconds ago."""
    now = app.clock.now()
    known: dict[str, Any] = {
        "host": id.partition(":")[0],
        "pid": 7,
        "queues": queues,
        "runner": "process",
        "concurrency": 4,
        "started_at": now - 3600 * MICROSECOND,
        "seen_at": now - round(silent * MICROSECOND),
        "lanes": (LaneRecord(name="", queues=queues, runner="process", concurrency=4),),
    }
    worker = WorkerRecord(id=id, **{**known, **fields})
    registry = app.parts().workers
    assert registry is not None
    registry.announce(worker, 3600.0)
    return worker


def count(
    app: Tenure,
    queue: str,
    handler: str,
    *,
    ago: float = 0.0,
    done: int = 0,
    failed: int = 0,
    dead: int = 0,
    run: float = 1.0,
    wait: float = 0.5,
    worker: str = "w1",
) -> None:
    """Save what a worker counted in the slot of some seconds ago; every done and every failed attempt ran."""
    slot = (app.clock.now() - round(ago * MICROSECOND)) // SLOT_MICROSECONDS * SLOT_MICROSECONDS
    counts = Counts(statuses={"acked": done, "dead-lettered": dead}, failed=failed)
    counts.runs.add(*[run] * (done + failed))
    counts.waits.add(*[wait] * done)
    stats = app.parts().stats
    assert stats is not None
    stats.save([Tally(slot, queue, handler, worker, counts)])
