"""Where a job's microseconds go: each stage of the path by itself, in one thread, in batches as a worker makes them."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from benchmarks.payloads import Records, records
from benchmarks.places import place
from benchmarks.serving import server_cost, server_seconds
from tenure import Tenure
from tenure.backends.messages import Ack, Lease, Message
from tenure.clock import SystemClock
from tenure.definition.job import new_id
from tenure.execution.attempt import Performer
from tenure.guards.concurrency_limit import ConcurrencyLimit
from tenure.guards.guard import take_guards
from tenure.guards.states import Holder, lock_key
from tenure.guards.store import Store
from tenure.wire.envelope import Wire
from tenure.wire.signing import new_key
from tenure.worker.pipeline import JobDefaults, Pipeline

_LEASES = 500
_SETTLES = 500


def stages(jobs: int) -> dict[str, float]:
    """Microseconds a job for build, seal, put, lease, open, call with decide, settle, and a guard; and with a list."""
    with place() as (url, _), Tenure(url, keys=[new_key().dump()]) as app:
        before = server_seconds()
        spent = spend(app, jobs, time.perf_counter)
        served = server_cost(before, jobs)
        if app.backend.guards is not None:
            spent["guard"] = _guard(app.backend.guards, jobs)
        few = max(1, jobs // 10)
        lists = spend(app, few, time.perf_counter, records(10_000))
    return {
        **{f"{name} µs": seconds / jobs * 1e6 for name, seconds in spent.items()},
        **served,
        **{f"list of 10 kB, {name} µs": seconds / few * 1e6 for name, seconds in lists.items()},
    }


def spend(app: Tenure, jobs: int, timer: Callable[[], float], pad: Records | None = None) -> dict[str, float]:
    """Seconds, as this timer counts them, that each stage took for so many jobs, without a payload or with this one."""
    spent: dict[str, float] = {}
    name = "noop" if pad is None else "records"
    build = app.job(name=name)(_noop).build if pad is None else partial(app.job(name=name)(_records).build, pad=pad)
    opened, handler = app.open_backend(), app.registry.get(name)
    clock = SystemClock()
    pipeline = Pipeline(opened.wire, app.registry, clock, JobDefaults(retry=app.retry))

    @contextmanager
    def stage(name: str) -> Iterator[None]:
        begun = timer()
        yield
        spent[name] = timer() - begun

    with stage("build"):
        built = [build(i=i) for i in range(jobs)]
    with stage("seal"):
        messages = [_seal(opened.wire, handler.shape.pack, job, clock.now()) for job in built]
    with stage("put"):
        for chunk in _chunks(messages, 1000):
            opened.backend.put(chunk)
    leases: list[Lease] = []
    with stage("lease"):
        while batch := opened.backend.lease(["default"], limit=_LEASES, seconds=3600):
            leases += batch
    with stage("open"):
        attempts, _ = pipeline.admit(leases)
    with stage("call and decide"), Performer(clock) as performer:
        verdicts = [pipeline.conclude(attempt, performer.perform(attempt)) for attempt in attempts]
    with stage("settle"):
        for chunk in _chunks(verdicts, _SETTLES):
            opened.backend.ack([verdict for verdict in chunk if isinstance(verdict, Ack)])
    return spent


def _guard(store: Store, jobs: int) -> float:
    """Seconds to take a lock of its own for each of so many jobs; it is released as a part of settling."""
    locks = [take_guards([ConcurrencyLimit(lock_key(f"n{each}"))], Holder(f"j{each}", 1, 60.0)) for each in range(jobs)]
    begun = time.perf_counter()
    for chunk in _chunks(locks, _LEASES):
        store.change(chunk)
    return time.perf_counter() - begun


def _noop(i: int) -> None:
    """Does nothing."""


def _records(i: int, pad: Records) -> None:
    """Does nothing with them."""


def _seal(wire: Wire, pack: Callable[[Any], bytes], job: Any, now: int) -> Message:
    identifier = new_id()
    body = wire.seal(job, pack(job.payload), identifier, now)
    return Message(id=identifier, queue=job.queue, body=body, handler=job.handler)


def _chunks(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [items[start : start + size] for start in range(0, len(items), size)]
