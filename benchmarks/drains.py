"""What a backlog costs: the default settings beside the best ones, with payloads, and with results."""

import time

from benchmarks.bench import Bench, Numbers, bench, interleaved, span_rate
from benchmarks.payloads import Payload, records
from benchmarks.peers import processes
from benchmarks.serving import server_seconds

PAYLOADS: dict[str, tuple[str, Payload | None]] = {
    "no payload": ("noop", None),
    "text of 1 kB": ("text", "x" * 1000),
    "text of 10 kB": ("text", "x" * 10_000),
    "list of 1 kB": ("records", records(1000)),
    "list of 10 kB": ("records", records(10_000)),
}
RESULTS = {"without results": "noop", "with results": "result"}


def drained(
    jobs: int, handler: str = "noop", pad: Payload | None = None, runner: str = "inline", concurrency: int = 1
) -> Numbers:
    """A backlog on an empty backend."""
    with bench(jobs) as it:
        return drain_of(it, jobs, handler, pad, runner, concurrency)


def drain_of(
    it: Bench,
    jobs: int,
    handler: str = "noop",
    pad: Payload | None = None,
    runner: str = "inline",
    concurrency: int = 1,
) -> Numbers:
    """A backlog run by one worker: its rate, and the CPU of the producer, the worker with its children, and the server.

    What the worker and the server spend is counted from the first start of a job, so that booting is left out.
    """
    assert it.app.backend  # connected, and the tables are made
    sealing, storing = time.process_time(), server_seconds()
    it.enqueue(range(jobs), handler, pad)
    sealing, stored = time.process_time() - sealing, server_seconds()
    with it.worker(runner=runner, concurrency=concurrency) as process:
        it.wait_for(1, process)
        ran, spent, serving = it.probe.ran(), processes.cpu_seconds([process.pid]), server_seconds()
        it.wait_for(jobs, process)
        counted, spent = max(1, jobs - ran), processes.cpu_seconds([process.pid]) - spent
        served = server_seconds()
    return {
        "jobs/s": span_rate(it.probe.starts()),
        "producer CPU µs": sealing / jobs * 1e6,
        "worker CPU µs": spent / counted * 1e6,
        **_cost("server CPU µs, store", storing, stored, jobs),
        **_cost("server CPU µs, lease and settle", serving, served, counted),
    }


def _cost(name: str, before: float | None, after: float | None, jobs: int) -> Numbers:
    """What a job cost the server between two moments; nothing where there is none to look at."""
    return {} if before is None or after is None else {name: (after - before) / jobs * 1e6}


def payloads(jobs: int) -> Numbers:
    """Jobs with a text or with a list of small objects; fewer of them, since a thousand of 10 kB are 10 MB."""
    count = max(jobs // 4, 2)
    return interleaved({name: lambda how=how: drained(count, *how) for name, how in PAYLOADS.items()})


def results(jobs: int) -> Numbers:
    """Jobs that return an object, which the backend keeps in history, beside jobs that return nothing."""
    found = interleaved({name: lambda handler=handler: drained(jobs, handler) for name, handler in RESULTS.items()})
    return {**found, "ratio": found["with results jobs/s"] / found["without results jobs/s"]}
