"""What the pipelined client is worth: a drain on beanstalkd against the plain loop that everybody writes first."""

import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median

import greenstalk

from benchmarks.bench import opened, span_rate
from tests.servers import started

_ROUNDS = 3
_BODY = b"x" * 400  # as long as a no-op job is, sealed and with its facts


def beanstalk(jobs: int) -> dict[str, float]:
    """Jobs a second by one process, all verified and counted, and by reserve and delete one by one with greenstalk."""
    plain, drained = [], []
    with started("beanstalk") as server:
        for _ in range(_ROUNDS):  # interleaved: what disturbs the machine then disturbs both
            plain.append(_plain_loop(server.port, min(jobs, 5000)))
            drained.append(_drain(server.url, jobs))
    return {
        "greenstalk jobs/s": median(plain),
        "drain jobs/s": median(drained),
        "ratio": median(drained) / median(plain),
    }


def _plain_loop(port: int, jobs: int) -> float:
    with closing(greenstalk.Client(("127.0.0.1", port), encoding=None)) as client:
        for _ in range(jobs):
            client.put(_BODY)
        begun = time.perf_counter()
        for _ in range(jobs):
            client.delete(client.reserve())
        return jobs / (time.perf_counter() - begun)


def _drain(url: str, jobs: int) -> float:
    with tempfile.TemporaryDirectory(prefix="tenure-bench-") as folder, opened(url, Path(folder), jobs) as it:
        it.enqueue(range(jobs))
        with it.worker("--burst") as process:
            process.wait()
        if it.probe.runs() != [1] * jobs:
            raise RuntimeError("not every job ran exactly once")
        return span_rate(it.probe.starts())
