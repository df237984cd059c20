"""What a runner costs: jobs in children against inline, and jobs that wait against bare threads and a bare loop."""

import asyncio
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.bench import Bench, Numbers, bench, interleaved, rss_megabytes, span_rate, wait_until
from benchmarks.drains import drained
from benchmarks.probe import Probe

_PAUSE = 0.005  # as in benchmarks.app
_THREADS = 32
_AWAITS = 500


def runners(jobs: int) -> Numbers:
    """No-op jobs in child processes, the default, as a share of what one process does inline; interleaved.

    The CPU of a worker is that of all its processes: the difference is what leaving the process costs a job.
    """
    found = interleaved(
        {
            "inline": lambda: drained(jobs),
            "process": lambda: drained(jobs, runner="process"),
            "process × 2": lambda: drained(jobs, runner="process", concurrency=2),
        }
    )
    return {
        **found,
        "share": found["process × 2 jobs/s"] / found["inline jobs/s"],
        "process minus inline, CPU µs": found["process worker CPU µs"] - found["inline worker CPU µs"],
    }


def blocking(jobs: int) -> Numbers:
    """Jobs that sleep for 5 ms on 32 threads, against 32 bare threads that do the same."""
    rates = interleaved(
        {
            "bare": lambda: _with_probe(jobs, _on_bare_threads),
            "threads × 32": lambda: _drained(jobs, "block", "threads", _THREADS),
        }
    )
    return {**rates, "share": rates["threads × 32 jobs/s"] / rates["bare jobs/s"]}


def awaiting(jobs: int) -> Numbers:
    """Jobs that await 5 ms, 500 at once, against a bare event loop that does the same."""
    rates = interleaved(
        {
            "bare": lambda: _with_probe(jobs, _on_a_bare_loop),
            "event_loop × 500": lambda: _drained(jobs, "rest", "event_loop", _AWAITS),
        }
    )
    return {**rates, "share": rates["event_loop × 500 jobs/s"] / rates["bare jobs/s"]}


def children(jobs: int) -> Numbers:
    """The resident memory of a worker and of one of its children, after some jobs."""
    with bench(jobs) as it:
        it.enqueue(range(jobs))
        with it.worker(runner="process", concurrency=2) as process:
            it.wait_for(jobs, process)
            sizes = [rss_megabytes(int(pid)) for pid in _children(process.pid)]
            return {"worker RSS MB": rss_megabytes(process.pid), "child RSS MB": max(sizes)}


def recovery(jobs: int) -> Numbers:  # noqa: ARG001 - every row has one signature
    """Seconds from kill -9 to the job's next start: of a child, and of a whole worker, at default settings."""
    return {"child killed, s": _until_run_again(_kill_child), "worker killed, s": _until_run_again(_kill_worker)}


def _until_run_again(kill: Callable[[subprocess.Popen[bytes]], None]) -> float:
    with bench(1) as it:
        it.enqueue(range(1), "hold")
        with it.worker(runner="process") as first:
            wait_until(lambda: it.probe.runs()[0] == 1, first)
            with it.worker(runner="process") as second:
                time.sleep(1.0)  # it has started, and waits
                killed = time.perf_counter()
                kill(first)
                wait_until(lambda: it.probe.runs()[0] == 2, second)
                return it.probe.starts()[0] - killed


def _kill_child(worker: subprocess.Popen[bytes]) -> None:
    os.kill(int(_children(worker.pid)[0]), signal.SIGKILL)


def _kill_worker(worker: subprocess.Popen[bytes]) -> None:
    worker.kill()


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def _drained(jobs: int, handler: str, runner: str, concurrency: int) -> Numbers:
    with bench(jobs) as it:
        it.enqueue(range(jobs), handler)
        with it.worker("--burst", runner=runner, concurrency=concurrency) as process:
            process.wait()
        return _rate(it, jobs)


def _rate(it: Bench, jobs: int) -> Numbers:
    if it.probe.runs() != [1] * jobs:
        raise RuntimeError("not every job ran exactly once")
    return {"jobs/s": span_rate(it.probe.starts())}


def _with_probe(jobs: int, run: Callable[[Probe, int], None]) -> Numbers:
    with bench(jobs) as it:
        run(it.probe, jobs)
        return _rate(it, jobs)


def _on_bare_threads(probe: Probe, jobs: int) -> None:
    numbers = iter(range(jobs))

    def work() -> None:
        for i in numbers:  # taking the next is atomic for a range
            probe.mark(i)
            time.sleep(_PAUSE)

    threads = [threading.Thread(target=work) for _ in range(_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _on_a_bare_loop(probe: Probe, jobs: int) -> None:
    async def rest(i: int, free: asyncio.Semaphore) -> None:
        probe.mark(i)
        await asyncio.sleep(_PAUSE)
        free.release()

    async def run() -> None:
        free = asyncio.Semaphore(_AWAITS)
        tasks = set()
        for i in range(jobs):
            await free.acquire()
            task = asyncio.create_task(rest(i, free))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)

    asyncio.run(run())
