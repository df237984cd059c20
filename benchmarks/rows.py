"""The rows: each measures one thing and returns its numbers by name."""

import subprocess
import sys
import time
from collections.abc import Callable

from benchmarks.agenda import agenda, schedules
from benchmarks.beanstalk import beanstalk
from benchmarks.bench import Family, Numbers, bench, cpu_seconds, rss_megabytes, span_rate
from benchmarks.claims import claims
from benchmarks.door import door
from benchmarks.drains import payloads, results
from benchmarks.ends import ends
from benchmarks.growth import growth
from benchmarks.guards import guarded, parked
from benchmarks.history import history
from benchmarks.latency import delayed, latency, loaded
from benchmarks.mariadb import mariadb
from benchmarks.runners import awaiting, blocking, children, recovery, runners
from benchmarks.serving import server_cost, server_seconds
from benchmarks.stages import stages


def enqueue_one(jobs: int) -> Numbers:
    """Single enqueues from one process, each durable before the next."""
    count = min(jobs, 3000)
    with bench(1) as it:
        before, begun = server_seconds(), time.perf_counter()
        for i in range(count):
            it.noop.enqueue(i=i)
        return {"jobs/s": count / (time.perf_counter() - begun), **server_cost(before, count)}


def enqueue_many(jobs: int) -> Numbers:
    """Bulk enqueue from one process, a thousand jobs a round trip."""
    with bench(1) as it:
        before, begun = server_seconds(), time.perf_counter()
        it.enqueue(range(jobs))
        return {"jobs/s": jobs / (time.perf_counter() - begun), **server_cost(before, jobs)}


def drain(jobs: int) -> Numbers:
    """A backlog of no-op jobs run by one process, with what it cost."""
    with bench(jobs) as it:
        it.enqueue(range(jobs))
        before = server_seconds()
        with it.worker() as process:
            it.wait_for(jobs, process)
            cpu, rss, served = cpu_seconds(process.pid), rss_megabytes(process.pid), server_cost(before, jobs)
        runs = it.probe.runs()
        return {
            "jobs/s": span_rate(it.probe.starts()),
            "CPU s per 10k": cpu / jobs * 10_000,
            **served,
            "RSS MB": rss,
            "run exactly once": sum(each == 1 for each in runs) / jobs,
        }


def drain_two(jobs: int) -> Numbers:
    """The same by two processes at once."""
    with bench(jobs) as it:
        it.enqueue(range(jobs))
        with it.worker("--burst") as first, it.worker("--burst") as second:
            first.wait()
            second.wait()
        runs = it.probe.runs()
        return {"jobs/s": span_rate(it.probe.starts()), "run exactly once": sum(each == 1 for each in runs) / jobs}


def idle(jobs: int) -> Numbers:  # noqa: ARG001 - every row has one signature
    """What a worker with nothing to do costs."""
    with bench(1) as it, it.worker() as process:
        it.noop.enqueue(i=0)
        it.wait_for(1, process)
        before = cpu_seconds(process.pid)
        time.sleep(10)
        return {"% of a core": (cpu_seconds(process.pid) - before) * 10, "RSS MB": rss_megabytes(process.pid)}


def backlog(jobs: int) -> Numbers:
    """The rate over 10 000 jobs with a small and with a large backlog, interleaved."""
    large = max(jobs, 20_000) * 20
    rates: dict[str, list[float]] = {"small": [], "large": []}
    with bench(large) as big:
        big.enqueue(range(large))
        done = 0
        for _ in range(3):
            with bench(10_000) as small:
                small.enqueue(range(10_000))
                with small.worker("--max", "10000") as process:
                    process.wait()
                rates["small"].append(span_rate(small.probe.starts()))
            with big.worker("--max", "10000") as process:
                process.wait()
            starts = sorted(big.probe.starts())
            rates["large"].append(span_rate(starts[done:]))
            done = len(starts)
    medians = {name: sorted(values)[1] for name, values in rates.items()}
    return {f"{large} waiting, jobs/s": medians["large"], "10000 waiting, jobs/s": medians["small"],
            "ratio": medians["large"] / medians["small"]}  # fmt: skip


def memory(jobs: int) -> Numbers:
    """How the memory, descriptors and threads of a worker and its children grow while they run many jobs."""
    total = jobs * 10
    numbers: Numbers = {"jobs": total}
    for runner, concurrency in (("inline", 1), ("process", 2), ("threads", 8)):
        with bench(total) as it:
            it.enqueue(range(total))
            samples: list[Family] = []
            with it.worker(runner=runner, concurrency=concurrency) as process:
                while (ran := len(it.probe.starts())) < total:
                    if ran > total / 4:
                        samples.append(Family.of(process.pid))
                    time.sleep(0.2)
        first, last = samples[0], samples[-1]
        numbers |= {
            f"{runner} MB": last.megabytes,
            f"{runner} growth MB": last.megabytes - first.megabytes,
            f"{runner} growth fds": last.descriptors - first.descriptors,
            f"{runner} growth threads": last.threads - first.threads,
        }
    return numbers


def start_up(jobs: int) -> Numbers:  # noqa: ARG001 - every row has one signature
    """`tenure --help` against the bare interpreter."""
    bare = _seconds([sys.executable, "-c", "pass"])
    helped = _seconds([sys.executable, "-m", "tenure", "--help"])
    return {"python ms": bare * 1000, "tenure --help ms": helped * 1000, "ratio": helped / bare}


def _seconds(command: list[str]) -> float:
    times = []
    for _ in range(9):
        begun = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - begun)
    return sorted(times)[4]


ROWS: dict[str, Callable[[int], Numbers]] = {
    row.__name__: row
    for row in (
        *(enqueue_one, enqueue_many, drain, drain_two, payloads, results, latency, delayed, loaded, idle, backlog),
        *(memory, stages, start_up, runners, blocking, awaiting, children, recovery, agenda, schedules, door, guarded),
        *(parked, ends, claims, growth, beanstalk, mariadb, history),
    )
}
