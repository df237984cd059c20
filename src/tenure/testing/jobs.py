"""For tests: list the jobs that an app enqueued, and run the due ones in the thread of the test."""

from collections import Counter
from datetime import datetime
from typing import Any, Protocol

import msgspec
from msgspec import UNSET, Struct

from tenure.backends.contract import Backend
from tenure.backends.memory.jobs import MemoryJobs
from tenure.backends.records import JobRecord
from tenure.clock import to_datetime
from tenure.definition.job_function import JobFunction
from tenure.errors import TenureError
from tenure.events import Status
from tenure.wire.envelope import peek
from tenure.worker.worker import Worker


class App(Protocol):
    """The part of a Tenure app that tests use."""

    @property
    def backend(self) -> Backend: ...

    def worker(self, *queues: str, burst: bool = False) -> Worker: ...


class EnqueuedJob(Struct, frozen=True, kw_only=True):
    """A job that waits; `payload` is plain JSON data, for functions the object of their arguments."""

    id: str
    handler: str
    payload: Any
    queue: str
    name: str | None
    priority: int
    max_retries: int
    attempts: int
    due: datetime
    meta: dict[str, Any]


def run_due(app: App, *queues: str) -> Counter[Status]:
    """Run every ready job, and the jobs that those enqueue, on these queues or on all; returns a count of each status.

    Jobs that fail and back off are not waited for: advance the app's FakeClock and call it again.
    """
    tally: Counter[Status] = Counter()
    served: set[str] = set()
    while left := sorted(set(queues or queues_of(app.backend)) - served):
        served.update(left)
        tally += app.worker(*sorted(served), burst=True).run()
    return tally


def enqueued(
    app: App, handler: str | JobFunction[..., Any] | None = None, *, queue: str | None = None
) -> list[EnqueuedJob]:
    """The jobs that wait, ready or delayed, in the order they would run once due; only on `memory://`.

    It reads the backend and does not listen to events, so nothing has to be installed before the code under test
    runs. Jobs that have run meanwhile are not listed.
    """
    if not isinstance(app.backend.jobs, MemoryJobs):
        raise TenureError("enqueued() lists jobs of memory:// only; open the app of your tests with that URL")
    jobs = [_opened(record) for record in app.backend.jobs.waiting()]
    key = None if handler is None else key_of(handler)
    return [job for job in jobs if key in (None, job.handler) and queue in (None, job.queue)]


def assert_enqueued(app: App, handler: str | JobFunction[..., Any], /, **arguments: Any) -> EnqueuedJob:
    """The first waiting job of this handler whose payload holds these arguments; AssertionError when there is none."""
    for job in enqueued(app, handler):
        if holds(job, arguments):
            return job
    key, wanted = key_of(handler), msgspec.to_builtins(arguments)
    waiting = "".join(f"\n  {_shown(job.handler, job.payload)} on {job.queue!r}" for job in enqueued(app))
    raise AssertionError(f"no job {_shown(key, wanted)} is waiting; waiting are:{waiting or ' none'}")


def key_of(handler: str | JobFunction[..., Any]) -> str:
    """The key of a handler that is given by its key or as a function."""
    return handler if isinstance(handler, str) else handler.key


def holds(job: EnqueuedJob, arguments: dict[str, Any]) -> bool:
    """Whether the payload of a job contains these arguments."""
    wanted = msgspec.to_builtins(arguments)
    return not wanted or (isinstance(job.payload, dict) and wanted.items() <= job.payload.items())


def queues_of(backend: Backend) -> list[str]:
    """The names of all queues that have jobs."""
    if backend.queues is None:
        raise TenureError("this backend cannot list its queues; name them: run_due(app, 'emails')")
    return sorted(backend.queues.counts())


def _opened(record: JobRecord) -> EnqueuedJob:
    envelope = peek(record.body or b"")
    return EnqueuedJob(
        id=record.id,
        handler=envelope.job,
        payload=msgspec.json.decode(envelope.payload),
        queue=record.queue,
        name=envelope.name,
        priority=envelope.priority,
        max_retries=envelope.max_retries,
        attempts=record.attempts,
        due=to_datetime(record.due_at),
        meta={} if envelope.meta is UNSET else envelope.meta,
    )


def _shown(handler: str, payload: Any) -> str:
    if isinstance(payload, dict):
        return f"{handler}({', '.join(f'{name}={value!r}' for name, value in payload.items())})"
    return f"{handler}({payload!r})"
