"""Describes a worker for the registry: its lanes, its jobs, how fast it is, and its memory.

Only the heartbeat asks, every few seconds; the worker keeps nothing for it that it does not need itself.
"""

import os
import socket
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from operator import itemgetter

from tenure.backends.records import LaneRecord, RunningJob, WorkerRecord
from tenure.clock import MICROSECOND
from tenure.execution.attempt import Attempt
from tenure.execution.runner import resident_bytes
from tenure.worker.heartbeat import Throughput
from tenure.worker.lane import Lane
from tenure.worker.pipeline import Pipeline
from tenure.worker.worker import Worker

MAX_RUNNING = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDescription:
    """`max_memory` are the bytes above which a process that runs jobs is replaced, 0 without a limit."""

    worker: Worker
    lanes: Sequence[Lane]
    pipeline: Pipeline
    throughput: Throughput | None
    started_at: int
    max_memory: int = 0

    def record(self) -> WorkerRecord:
        """What the worker is and does now."""
        live_at, live = self.throughput.live() if self.throughput else (0, {})
        drain, held = self.pipeline.guards.drain(), self.worker.held()
        children = [resident_bytes(pid) for pid in self.worker.child_pids()]
        own = resident_bytes(os.getpid())
        is_inline = any(lane.runner == "inline" for lane in self.lanes)
        now = self.pipeline.clock.now()  # after the calls of the backend, which may take long
        return WorkerRecord(
            id=self.worker.name,
            host=socket.gethostname(),
            pid=os.getpid(),
            queues=tuple(queue for lane in self.lanes for queue in lane.queues),
            runner=", ".join(dict.fromkeys(lane.runner for lane in self.lanes)),
            concurrency=sum(lane.concurrency for lane in self.lanes),
            started_at=self.started_at,
            seen_at=now,
            jobs=self.worker.jobs(),
            counts={status.value: count for status, count in list(self.worker.tally.items())},
            lanes=tuple(_lane_record(lane, sum(held[queue] for queue in lane.queues)) for lane in self.lanes),
            rates=self.throughput.rates() if self.throughput else {},
            live=live,
            live_at=live_at,
            handlers=self.pipeline.handlers,
            kids=self.pipeline.kids,
            draining_since=drain.since if drain else 0,
            draining_reason=drain.reason if drain else None,
            memory=own + sum(children),
            peak_child=max([*children, own if is_inline else 0]),
            max_memory=self.max_memory,
            running=longest_running(self.worker.running(), now, time.monotonic()),
        )


def longest_running(
    running: Iterable[tuple[Lane, Attempt, float]], now: int, monotonic: float
) -> tuple[RunningJob, ...]:
    """The jobs that have run the longest; their starts are by the monotonic clock, which is `monotonic` at `now`."""
    return tuple(
        RunningJob(
            id=attempt.ticket.id,
            handler=attempt.envelope.job,
            name=attempt.envelope.name,
            queue=attempt.envelope.queue,
            lane=lane.name,
            started_at=now - round((monotonic - start) * MICROSECOND),
        )
        for lane, attempt, start in nsmallest(MAX_RUNNING, running, key=itemgetter(2))
    )


def _lane_record(lane: Lane, held: int) -> LaneRecord:
    return LaneRecord(name=lane.name, queues=lane.queues, runner=lane.runner, concurrency=lane.concurrency, held=held)
