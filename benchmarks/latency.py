"""How late a job starts: on an idle worker, when its delay ends, and under load; the default runner beside inline."""

import time
from collections.abc import Callable, Iterator

from benchmarks.bench import Bench, Numbers, bench, interleaved, percentile
from benchmarks.drains import drained

ROUNDS = 5
RUNNERS = ("inline", "process")  # the second is the default
TICK = 0.005  # seconds between the bursts of a steady load
Due = Callable[[Bench, int], Iterator[float]]


def latency(jobs: int) -> Numbers:
    """From the call of enqueue to the start of the handler, on an idle worker; a job every 20 ms."""
    return _both(lambda runner: _waits(min(jobs, 200), _one_by_one, runner))


def delayed(jobs: int) -> Numbers:
    """How much later than its delay allows a job starts; jobs fall due one after the other, 10 ms apart."""
    return _both(lambda runner: _waits(min(jobs, 300), _later, runner))


def loaded(jobs: int) -> Numbers:
    """As `latency`, at half the rate at which the same worker drains a backlog."""
    return _both(lambda runner: _under_load(jobs, runner))


def _both(measure: Callable[[str], Numbers]) -> Numbers:
    return interleaved({runner: lambda runner=runner: measure(runner) for runner in RUNNERS}, ROUNDS)


def _under_load(jobs: int, runner: str) -> Numbers:
    load = drained(jobs, runner=runner)["jobs/s"] / 2

    def steadily(it: Bench, count: int) -> Iterator[float]:
        begun, sent = time.perf_counter(), 0
        while sent < count:
            now = time.perf_counter()
            due = min(count, 1 + int((now - begun) * load))
            it.enqueue(range(sent, due))
            yield from [now] * (due - sent)
            sent = due
            time.sleep(TICK)

    return {"load jobs/s": load, **_waits(jobs, steadily, runner)}


def _one_by_one(it: Bench, count: int) -> Iterator[float]:
    for i in range(count):
        time.sleep(0.02)
        yield time.perf_counter()
        it.noop.enqueue(i=i)


def _later(it: Bench, count: int) -> Iterator[float]:
    for i in range(count):
        delay = 1 + i / 100
        yield time.perf_counter() + delay
        it.noop.using(delay=delay).enqueue(i=i)


def _waits(count: int, send: Due, runner: str) -> Numbers:
    """Send so many jobs, of which `send` tells when each may start at the soonest; the last slot is a job before."""
    with bench(count + 1) as it, it.worker(runner=runner) as process:
        it.noop.enqueue(i=count)
        it.wait_for(1, process)
        due = list(send(it, count))
        it.wait_for(count + 1, process)
        waits = [(start - moment) * 1000 for start, moment in zip(it.probe.starts(), due, strict=False)]
        return {"p50 ms": percentile(waits, 0.5), "p99 ms": percentile(waits, 0.99)}
