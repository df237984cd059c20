"""Whether the hot path has become slower: `make bench-check`, or `python -m benchmarks.check [--write]`.

CPU time, never the clock on the wall; each path beside a yardstick in the same short turn; the best of many turns.
What is compared with the committed baseline is the ratio of the two, which other programs on the machine hardly move.
A path that seems slower is measured again before it is called so.
"""

import argparse
import gc
import json
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.stages import spend
from benchmarks.yardstick import database, plain
from tenure import Tenure

BASELINE = Path(__file__).with_name("baseline.json")
TOLERANCE = 1.15
JOBS = 400
TURNS = 40
TRIES = 3  # a slow-down that is real stays; one that the machine made does not
Ratios = dict[str, float]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.check", description="Compare with the baseline.")
    parser.add_argument("--write", action="store_true", help="make what is measured now the baseline")
    if parser.parse_args().write:
        return _write()
    baseline = _baselines().get(_python())
    if baseline is None:
        print(f"no baseline for Python {_python()}: write one with python -m benchmarks.check --write")
        return 0
    return _compare(baseline)


def _compare(baseline: Ratios) -> int:
    best: Ratios = {}
    for _ in range(TRIES):
        found = measure(TURNS)
        best = {name: min(value, best.get(name, value)) for name, value in found.items()}
        slower = slowed(best, baseline)
        if not slower:
            break
    for name, value in best.items():
        print(f"{name:<24}{value:6.2f} yardsticks, {value / baseline[name] - 1:+.0%}")
    if slower:
        print(
            f"The hot path is slower than the baseline by more than {TOLERANCE - 1:.0%}: {', '.join(slower)}.\n"
            "If that is meant, say why in the commit and write a new one: python -m benchmarks.check --write",
            file=sys.stderr,
        )
    return bool(slower)


def slowed(found: Ratios, baseline: Ratios) -> list[str]:
    """The paths that take longer than the baseline allows; one that it does not know is no regression."""
    return [name for name, value in found.items() if value > TOLERANCE * baseline.get(name, value)]


def measure(turns: int) -> Ratios:
    """Each path in units of its yardstick, by the best of many turns of either."""
    best: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="tenure-check-", dir=_memory()) as folder:
        tables = database()
        gc.collect()
        gc.disable()
        try:
            for turn in range(turns):
                for name, seconds in _turn(Path(folder), turn, tables).items():
                    best[name] = min(seconds, best.get(name, seconds))
                gc.collect()
        finally:
            gc.enable()
    yard, tables_yard = best.pop("yardstick"), best.pop("yardstick of tables")
    return {name: seconds / (tables_yard if "sqlite" in name else yard) for name, seconds in best.items()}


def _turn(folder: Path, turn: int, tables: Callable[[int], None]) -> dict[str, float]:
    sqlite = f"sqlite:///{folder}/{turn}.db"
    return {
        "yardstick": _timed(lambda: plain(JOBS)),
        "path on memory": _path("memory://"),
        "inline on memory": _inline("memory://"),
        "yardstick of tables": _timed(lambda: tables(JOBS)),
        "path on sqlite": _path(sqlite),
        "inline on sqlite": _inline(sqlite),
    }


def _path(url: str) -> float:
    """Build, seal, put, lease, open, call and settle, each by itself in one thread."""
    with Tenure(url) as app:
        return sum(spend(app, JOBS, time.process_time).values())


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


def _python() -> str:
    return ".".join(platform.python_version_tuple()[:2])


def _baselines() -> dict[str, Ratios]:
    found: dict[str, Ratios] = json.loads(BASELINE.read_text()) if BASELINE.is_file() else {}
    return found


def _write() -> int:
    found = {name: round(value, 3) for name, value in measure(TURNS * TRIES).items()}
    BASELINE.write_text(json.dumps({**_baselines(), _python(): found}, indent=2) + "\n")
    print(f"written to {BASELINE}: {found}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
