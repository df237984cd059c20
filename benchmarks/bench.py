"""Bench: a private database, workers as real processes, and their cost as the kernel counts it."""

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self

from benchmarks.payloads import Payload, Records
from benchmarks.peers.results import QUARTILES_FROM
from benchmarks.places import place
from benchmarks.probe import Probe
from tenure import Tenure
from tenure.wire.signing import new_key

TICK = os.sysconf("SC_CLK_TCK")
ROUNDS = 3
Numbers = dict[str, float]


class Bench:
    """One database, and one probe in a temporary folder."""

    def __init__(self, url: str, folder: Path, slots: int) -> None:
        self.url = url
        self.probe = Probe(folder / "probe", slots)
        self._environment = {**os.environ, "TENURE_URL": self.url, "BENCH_PROBE": str(folder / "probe")}
        self._environment["TENURE_KEYS"] = key = new_key().dump()
        self._environment["TENURE_STORE"] = store = (
            f"sqlite:///{folder}/store.db" if url.startswith("beanstalk") else ""
        )
        self.app = Tenure(self.url, keys=[key], store=store or None)
        self._handlers = {
            name: self.app.job(name=name)(_elsewhere) for name in ("noop", "block", "rest", "hold", "result")
        }
        self._carriers = {"text": self.app.job(name="text")(_text), "records": self.app.job(name="records")(_records)}
        self.noop = self._handlers["noop"]

    @contextmanager
    def worker(self, *options: str, runner: str = "inline", concurrency: int = 1) -> Iterator[subprocess.Popen[bytes]]:
        """A worker process, stopped at the end if it has not ended by itself."""
        command = [sys.executable, "-m", "tenure", "--app", "benchmarks.app:app", "work", "--quiet", *options]
        place = ["--runner", runner, "--concurrency", str(concurrency)]
        process = subprocess.Popen([*command, *place], env=self._environment)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait()

    def enqueue(self, jobs: range, handler: str = "noop", pad: Payload | None = None) -> None:
        """With a payload, the handler is `text` or `records`."""
        if pad is None:
            self.app.enqueue_many(self._handlers[handler].build(i=i) for i in jobs)
        else:
            self.app.enqueue_many(self._carriers[handler].build(i=i, pad=pad) for i in jobs)

    def wait_for(self, ran: int, process: subprocess.Popen[bytes]) -> None:
        wait_until(lambda: self.probe.ran() >= ran, process)


def _elsewhere(i: int) -> None:
    """Never called here: workers run those of benchmarks.app."""


def _text(i: int, pad: str) -> None:
    """As in benchmarks.app."""


def _records(i: int, pad: Records) -> None:
    """As in benchmarks.app."""


@contextmanager
def bench(slots: int) -> Iterator[Bench]:
    with place() as (url, folder), opened(url, folder, slots) as made:
        yield made


@contextmanager
def opened(url: str, folder: Path, slots: int) -> Iterator[Bench]:
    made = Bench(url, folder, slots)
    try:
        yield made
    finally:
        made.app.close()


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    while not condition():
        if process.poll() is not None and not condition():
            raise RuntimeError(f"the worker ended with code {process.returncode} before it was done")
        time.sleep(0.01)


def cpu_seconds(pid: int) -> float:
    """User and system seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def rss_megabytes(pid: int, kind: str = "VmRSS") -> float:
    """Resident memory; `RssAnon` leaves mapped files out, such as the probe, which fills as jobs run."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split(f"{kind}:")[1].split()[0]) / 1024


class Family(NamedTuple):
    """What a worker and its children hold together; memory without mapped files, such as the probe."""

    megabytes: float
    descriptors: int
    threads: int

    @classmethod
    def of(cls, pid: int) -> Self:
        pids = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
        return cls(
            sum(rss_megabytes(each, "RssAnon") for each in pids),
            sum(len(list(Path(f"/proc/{each}/fd").iterdir())) for each in pids),
            sum(len(list(Path(f"/proc/{each}/task").iterdir())) for each in pids),
        )


def span_rate(starts: list[float]) -> float:
    """Jobs per second between the first and the last start: process boot is left out."""
    return (len(starts) - 1) / (max(starts) - min(starts))


def percentile(values: list[float], share: float) -> float:
    return statistics.quantiles(values, n=100)[round(share * 100) - 1]


def interleaved(measures: Mapping[str, Callable[[], Numbers]], rounds: int | None = None) -> Numbers:
    """The medians of several rounds of A, B, C; what disturbs the machine then disturbs all of them.

    A number is called by its measure and its own name; five rounds or more are given with their quartiles.
    """
    turns = [{name: measure() for name, measure in measures.items()} for _ in range(rounds or ROUNDS)]
    found: Numbers = {}
    for name in measures:
        for number in turns[0][name]:
            found |= _summed_up(f"{name} {number}", [turn[name][number] for turn in turns])
    return found


def _summed_up(name: str, values: list[float]) -> Numbers:
    if len(values) < QUARTILES_FROM:
        return {name: statistics.median(values)}
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return {name: middle, f"{name}, lower quartile": low, f"{name}, upper quartile": high}
