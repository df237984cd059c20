"""What the pipelined client is worth: a drain on beanstalkd against the plain loop that everybody writes first."""

import resource
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import NamedTuple

import greenstalk

from benchmarks.bench import cpu_seconds, opened, span_rate
from tests.support.servers import started

_ROUNDS = 3
_BODY = b"x" * 400  # as long as a no-op job is, sealed and with its facts


class _Run(NamedTuple):
    """Jobs a second, and the CPU microseconds that a job took of the client and of the server."""

    rate: float
    client: float
    server: float


def beanstalk(jobs: int) -> dict[str, float]:
    """Jobs a second by one process, all verified and written down, and by reserve and delete one by one (greenstalk).

    On a busy machine the rates wait for others; CPU does not, and booting the worker is part of it.
    """
    plain, drained = [], []
    with started("beanstalk") as server:
        for _ in range(_ROUNDS):  # interleaved: what disturbs the machine then disturbs both
            plain.append(_plain_loop(server.port, server.process.pid, min(jobs, 5000)))
            drained.append(_drain(server.url, server.process.pid, jobs))
    found = {
        "greenstalk jobs/s": median(run.rate for run in plain),
        "drain jobs/s": median(run.rate for run in drained),
    }
    found["ratio"] = found["drain jobs/s"] / found["greenstalk jobs/s"]
    for name, runs in (("greenstalk", plain), ("drain", drained)):
        found[f"{name} client cpu µs/job"] = median(run.client for run in runs)
        found[f"{name} server cpu µs/job"] = median(run.server for run in runs)
    return found


def _plain_loop(port: int, server: int, jobs: int) -> _Run:
    with closing(greenstalk.Client(("127.0.0.1", port), encoding=None)) as client:
        for _ in range(jobs):
            client.put(_BODY)
        begun, spent, served = time.perf_counter(), time.process_time(), cpu_seconds(server)
        for _ in range(jobs):
            client.delete(client.reserve())
        rate = jobs / (time.perf_counter() - begun)
        return _Run(rate, (time.process_time() - spent) / jobs * 1e6, (cpu_seconds(server) - served) / jobs * 1e6)


def _drain(url: str, server: int, jobs: int) -> _Run:
    with tempfile.TemporaryDirectory(prefix="tenure-bench-") as folder, opened(url, Path(folder), jobs) as it:
        it.enqueue(range(jobs))
        spent, served = _children(), cpu_seconds(server)
        with it.worker("--burst") as process:
            process.wait()
        if it.probe.runs() != [1] * jobs:
            raise RuntimeError("not every job ran exactly once")
        cpu = (_children() - spent) / jobs * 1e6
        return _Run(span_rate(it.probe.starts()), cpu, (cpu_seconds(server) - served) / jobs * 1e6)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
