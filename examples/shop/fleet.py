"""The workers of the shop, announced as if they ran: nothing runs them."""

from collections.abc import Iterator, Sequence
from typing import Any

from tenure import Tenure
from tenure.backends.messages import Lease
from tenure.backends.records import LaneRecord, RunningJob, WorkerRecord
from tenure.clock import MICROSECOND

ALIVE_SECONDS = 6 * 3600.0
_FLEET = (
    # host, pid, hours since the start, lanes as (name, queues, runner, places), jobs ended, jobs per second by queue
    ("mail-1", 2210, 31.0, (("mail", ("emails",), "threads", 8),), 48_211, {"emails": 0.61}),
    ("media-1", 1904, 74.5, (("media", ("images", "imports"), "process", 4),), 20_118, {"images": 0.34}),
    ("media-2", 1877, 74.4, (("media", ("images", "imports"), "process", 4),), 19_640, {"images": 0.33}),
    (
        "billing-1", 3055, 6.2,
        (("invoices", ("invoices",), "process", 2), ("reports", ("reports",), "process", 1)),
        5_120, {"invoices": 0.42, "reports": 0.01},
    ),
    ("edge-1", 811, 12.8, (("webhooks", ("webhooks",), "event_loop", 40),), 30_407, {"webhooks": 0.83}),
)  # fmt: skip
_MARKS = {
    "mail-1": "9f3ab2c1",
    "media-1": "51c07e2d",
    "media-2": "e88d1f40",
    "billing-1": "0b6a94f7",
    "edge-1": "c4d2207a",
}
_MIB = 1 << 20
# The memory of all processes and of the largest child, in MiB, of a limit for each child.
_MEMORY = {
    "mail-1": (412, 188, 512),
    "media-1": (2340, 878, 1024),
    "media-2": (1408, 511, 1024),
    "billing-1": (590, 214, 512),
    "edge-1": (167, 121, 512),
}
_RUN_SECONDS = (3041.0, 128.0, 24.0, 9.4, 4.1, 3.8, 1.2, 0.6)  # how long the running jobs of each worker run
_IDS = {host: f"{host}:{pid}:{_MARKS[host]}" for host, pid, *_ in _FLEET}
# Who runs the jobs of each queue.
WORKERS = {
    "emails": _IDS["mail-1"],
    "images": _IDS["media-1"],
    "imports": _IDS["media-2"],
    "invoices": _IDS["billing-1"],
    "reports": _IDS["billing-1"],
    "webhooks": _IDS["edge-1"],
}


def announce(app: Tenure, now: int, running: Sequence[Lease]) -> None:
    """Let the registry know the workers, each with the jobs that run in its queues."""
    registry, queues = app.parts().workers, app.parts().queues
    if registry is None:
        return
    counts = {} if queues is None else queues.counts(ended=False)
    live = {name: sum(states.values()) - states.get("dead", 0) for name, states in counts.items()}
    for host, pid, hours, lanes, ended, rates in _FLEET:
        leases = [lease for lease in running if WORKERS[lease.queue] == _IDS[host]]
        memory, peak, limit = (megabytes * _MIB for megabytes in _MEMORY[host])
        registry.announce(
            WorkerRecord(
                id=_IDS[host],
                host=host,
                pid=pid,
                queues=tuple(queue for _, served, _, _ in lanes for queue in served),
                runner=lanes[0][2],
                concurrency=sum(lane[3] for lane in lanes),
                started_at=now - round(hours * 3600 * MICROSECOND),
                seen_at=now - MICROSECOND,
                jobs=tuple(lease.id for lease in leases),
                counts={"acked": ended, "requeued": ended // 60, "dead-lettered": ended // 2000},
                lanes=tuple(
                    LaneRecord(
                        name=name,
                        queues=served,
                        runner=runner,
                        concurrency=places,
                        held=sum(lease.queue in served for lease in leases),
                    )
                    for name, served, runner, places in lanes
                ),
                memory=memory,
                peak_child=peak,
                max_memory=limit,
                running=tuple(_running(app, lanes, leases, now)),
                rates=rates,
                live={queue: round(count * 0.93) for queue, count in live.items()},
                live_at=now - 60 * MICROSECOND,
                handlers=tuple(app.registry.keys()),
                kids=(),
            ),
            ALIVE_SECONDS,
        )


def _running(app: Tenure, lanes: Sequence[Any], leases: Sequence[Lease], now: int) -> Iterator[RunningJob]:
    """The running jobs, the longest first; the import has run for almost an hour."""
    jobs = app.parts().jobs
    ordered = sorted(leases, key=lambda lease: lease.queue != "imports")
    first = 0 if ordered and ordered[0].queue == "imports" else 2
    for lease, seconds in zip(ordered, _RUN_SECONDS[first:], strict=False):
        record = None if jobs is None else jobs.find(lease.id)
        lane = next(name for name, served, _, _ in lanes if lease.queue in served)
        if record is not None:
            yield RunningJob(
                id=lease.id, handler=record.handler, name=record.name, queue=lease.queue, lane=lane,
                started_at=now - round(seconds * MICROSECOND),
            )  # fmt: skip
