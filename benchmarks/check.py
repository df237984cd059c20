"""Whether the hot path has become slower: `make bench-check`, or `python -m benchmarks.check [--write]`.

CPU time, never the clock on the wall; each path beside a yardstick in the same short turn; the best of many turns.
What is compared with the committed baseline is the ratio of the two, which other programs on the machine hardly move.
A path that seems slower is measured again before it is called so.
"""

import argparse
import gc
import json
import os
import platform
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.payloads import records
from benchmarks.stages import spend
from benchmarks.yardstick import database, plain
from tenure import Tenure

BASELINE = Path(__file__).with_name("baseline.json")
# On cores shared by twenty processes, one run differs from the next by up to 5 % for a path, 8 % for a stage, and
# 15 % for the inline runner, whose threads meet differently each time. On two cores that was 24 %: see `one_core`.
ALLOWED = {"path": 1.15, "inline": 1.20}
STAGE = 1.30
JOBS = 400
FEW = 10  # of jobs with lists of 10 kB, which take fifty times as long
LISTS = records(10_000)
TURNS = 40
RUNS = 5  # of a new baseline, which is their median
TRIES = 4  # a slow-down that is real stays; one that the machine made does not
Ratios = dict[str, float]


class Cost(NamedTuple):
    """The CPU of one job: what is compared, and what it is on this machine."""

    yardsticks: float
    microseconds: float


Costs = dict[str, Cost]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.check", description="Compare with the baseline.")
    parser.add_argument("--write", action="store_true", help="make what is measured now the baseline")
    if parser.parse_args().write:
        return _write()
    baseline = _baselines().get(_host())
    if baseline is None:
        _print(measure(TURNS), {}, [])
        print(f"no baseline for {_host()}: write one with python -m benchmarks.check --write")
        return 0
    return _compare(baseline)


def _compare(baseline: Ratios) -> int:
    costs: Costs = {}
    for _ in range(TRIES):
        found = measure(TURNS)
        costs = {name: min(cost, costs.get(name, cost)) for name, cost in found.items()}
        best = {name: cost.yardsticks for name, cost in costs.items()}
        slower = slowed(best, baseline)
        if not slower:
            break
    _print(costs, baseline, slower)
    if slower:
        print(
            f"Slower than the committed baseline allows: {', '.join(slower)}.\n"
            "If that is meant, say why in the commit and write a new one: python -m benchmarks.check --write",
            file=sys.stderr,
        )
    elif faster := [name for name, value in best.items() if value < baseline.get(name, 0) / STAGE]:
        print(f"Much faster than the baseline: {', '.join(faster)}. Keep that: python -m benchmarks.check --write")
    return int(bool(slower))


def _print(costs: Costs, baseline: Ratios, slower: list[str]) -> None:
    for name, cost in costs.items():
        against = f"{cost.yardsticks / baseline[name] - 1:+.0%}" if name in baseline else "new"
        told = f"{cost.microseconds:7.1f} µs of CPU a job {cost.yardsticks:6.2f} yardsticks  {against}"
        print(f"{name:<24}{told}{'  too slow' if name in slower else ''}")


def slowed(found: Ratios, baseline: Ratios) -> list[str]:
    """What takes longer than the baseline allows; a stage that it does not know is no regression."""
    return [name for name, value in found.items() if value > allowance(name) * baseline.get(name, value)]


def allowance(name: str) -> float:
    """A stage may lose more than a whole path, for it is smaller and its yardstick fits less well."""
    return ALLOWED.get(name.split()[-1], STAGE)


def measure(turns: int) -> Costs:
    """Each stage, and each path as a whole, beside its yardstick; by the best of many turns of either."""
    best: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="tenure-check-", dir=_memory()) as folder, one_core():
        tables = database()
        gc.collect()
        gc.disable()
        try:
            for turn in range(turns):
                for name, seconds in _turn(f"sqlite:///{folder}/{turn}.db", tables).items():
                    best[name] = min(seconds, best.get(name, seconds))
                gc.collect()
        finally:
            gc.enable()
    return {
        **_costs({name: seconds for name, seconds in best.items() if "memory" in name}, best["plain"]),
        **_costs({name: seconds for name, seconds in best.items() if "sqlite" in name}, best["tables"]),
    }


@contextmanager
def one_core() -> Iterator[None]:
    """Keep the process on one core, where the system can: threads that change cores cost CPU by chance."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def _costs(best: dict[str, float], yardstick: float) -> Costs:
    stages = {name: seconds for name, seconds in best.items() if not name.endswith(("inline", "lists"))}
    where = next(iter(stages)).split()[0]
    found = {f"{where} path": sum(stages.values()), **best}
    return {name: Cost(seconds / yardstick, seconds / JOBS * 1e6) for name, seconds in found.items()}


def _turn(sqlite: str, tables: Callable[[int], None]) -> dict[str, float]:
    return {
        "plain": _timed(lambda: plain(JOBS)),
        **_stages("memory", "memory://"),
        "memory inline": _inline("memory://"),
        "memory lists": _lists("memory://"),
        "tables": _timed(lambda: tables(JOBS)),
        **_stages("sqlite", sqlite),
        "sqlite inline": _inline(sqlite),
    }


def _stages(where: str, url: str) -> dict[str, float]:
    """Build, seal, put, lease, open, call and settle, each by itself in one thread."""
    with Tenure(url) as app:
        return {f"{where} {name}": seconds for name, seconds in spend(app, JOBS, time.process_time).items()}


def _lists(url: str) -> float:
    """All stages with structured payloads, for as many jobs as the others have."""
    with Tenure(url) as app:
        return sum(spend(app, FEW, time.process_time, LISTS).values()) * JOBS / FEW


def _inline(url: str) -> float:
    """Jobs of a backlog by a worker with the inline runner, from start to end."""
    with Tenure(url) as app:
        noop = app.job(name="noop")(_noop)
        app.enqueue_many(noop.build(i=i) for i in range(JOBS))
        return _timed(app.worker(burst=True).run)


def _noop(i: int) -> None:
    """Does nothing."""


def _timed(run: Callable[[], object]) -> float:
    begun = time.process_time()
    run()
    return time.process_time() - begun


def _memory() -> str | None:
    """A folder in memory, where there is one: what a disk costs is not what is measured here."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def _host() -> str:
    """Ratios move with what an interpreter, a database or a processor is good at: each kind has its own."""
    python = ".".join(platform.python_version_tuple()[:2])
    names = [line.partition(":")[2].strip() for line in _cpuinfo() if line.startswith("model name")]
    return f"Python {python}, SQLite {sqlite3.sqlite_version}, {next(iter(names), platform.machine())}"


def _cpuinfo() -> list[str]:
    info = Path("/proc/cpuinfo")
    return info.read_text().splitlines() if info.is_file() else []


def _baselines() -> dict[str, Ratios]:
    found: dict[str, Ratios] = json.loads(BASELINE.read_text()) if BASELINE.is_file() else {}
    return found


def _write() -> int:
    runs = [measure(TURNS) for _ in range(RUNS)]
    found = {name: round(statistics.median(run[name].yardsticks for run in runs), 3) for name in runs[0]}
    BASELINE.write_text(json.dumps({**_baselines(), _host(): found}, indent=2) + "\n")
    print(f"written to {BASELINE}: {found}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
