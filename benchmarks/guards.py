"""What guards cost: nothing where there are none, and how much where a job has a lock and a key of its own."""

import time
from typing import Any

from benchmarks.bench import Bench, bench, cpu_seconds, span_rate
from tenure.guards.concurrency_limit import ConcurrencyLimit
from tenure.guards.guard import take_guards
from tenure.guards.states import Holder, lock_key


def guarded(jobs: int) -> dict[str, float]:
    """No-op jobs without guards, with a key, with a lock, and with both, each of its own; by one process.

    CPU as well as rate: on a shared machine the first tells more.
    """
    kinds: dict[str, dict[str, Any]] = {
        "plain": {},
        "key": {"idempotency_key": "k{}"},
        "lock": {"name": "n{}", "single_instance": True},
        "both": {"name": "n{}", "single_instance": True, "idempotency_key": "k{}"},
    }
    numbers: dict[str, float] = {}
    for kind, options in kinds.items():
        numbers[f"{kind} jobs/s"], numbers[f"{kind} CPU s per 10k"] = _drain(jobs, options)
    return numbers | {"both/plain": numbers["both jobs/s"] / numbers["plain jobs/s"]}


def parked(jobs: int) -> dict[str, float]:  # noqa: ARG001 - every row has one signature
    """What 10 000 jobs that wait for one lock cost an idle worker, beside what it costs without them."""
    with bench(1) as it:
        empty = _idle(it)
        assert it.app.backend.guards is not None
        it.app.backend.guards.change([take_guards([ConcurrencyLimit(lock_key("busy"))], Holder("somebody", 1, 3600.0))])
        job = it.noop.using(name="busy", single_instance=True)
        it.app.enqueue_many(job.build(i=0) for _ in range(10_000))
        with it.worker() as process:
            while it.app.backend.queues.counts()["default"]["parked"] < 10_000:  # type: ignore[attr-defined]
                time.sleep(0.05)
            process.terminate()
            process.wait()
        return {"nothing parked, % of a core": empty, "10000 parked, % of a core": _idle(it)}


def _drain(jobs: int, options: dict[str, Any]) -> tuple[float, float]:
    with bench(jobs) as it:
        it.app.enqueue_many(
            it.noop.using(
                **{name: value.format(i) if isinstance(value, str) else value for name, value in options.items()}
            ).build(i=i)
            for i in range(jobs)
        )
        with it.worker() as process:
            it.wait_for(jobs, process)
            cpu = cpu_seconds(process.pid)
        return span_rate(it.probe.starts()), cpu / jobs * 10_000


def _idle(it: Bench) -> float:
    with it.worker() as process:
        time.sleep(3)
        before = cpu_seconds(process.pid)
        time.sleep(10)
        return (cpu_seconds(process.pid) - before) * 10
