"""Runs rows, prints a table, and writes JSON beside it: `python -m benchmarks [ROW…] [--jobs N] [--rounds N]`."""

import argparse
import json
import os
import platform
import sqlite3
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.bench import Numbers
from benchmarks.places import VARIABLE
from benchmarks.rows import ROWS
from benchmarks.serving import PID
from tests.support.servers import started

NUMBERS_ON_A_LINE = 6


def main() -> None:
    arguments = _arguments()
    with _server(arguments) as url:
        if url is not None:
            os.environ[VARIABLE] = url
        _measure(arguments)


def _measure(arguments: argparse.Namespace) -> None:
    results: dict[str, Numbers] = {}
    for name in arguments.rows or ROWS:
        rounds = [ROWS[name](arguments.jobs) for _ in range(arguments.rounds)]
        results[name] = {key: statistics.median(each[key] for each in rounds) for key in rounds[0]}
        _print(name, results[name])
    backend = urlsplit(os.environ.get(VARIABLE, "sqlite:")).scheme
    report = {
        "machine": _machine(),
        "backend": backend,
        "jobs": arguments.jobs,
        "rounds": arguments.rounds,
        "rows": results,
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(report, indent=2) + "\n")
    print(f"written to {arguments.out}")


def _print(name: str, numbers: Numbers) -> None:
    """On one line, or on one each where there are many."""
    told = [f"{key} {value:,.6g}" for key, value in numbers.items()]
    print(f"{name:<14}" + ("   " if len(told) <= NUMBERS_ON_A_LINE else f"\n{'':<14}").join(told), flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure Tenure on SQLite, or on a server."
    )
    parser.add_argument("rows", nargs="*", help=f"which of {', '.join(ROWS)}; all when none is named")
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=1, help="take the median of this many")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--url", help="a server of yours: each row makes a database of its own there")
    where.add_argument("--server", choices=["postgresql", "mariadb", "redis", "beanstalk"], help="start one")
    parser.add_argument("--volatile", action="store_true", help="the server that is started need not write to disk")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/latest.json"))
    return parser.parse_args()


@contextmanager
def _server(arguments: argparse.Namespace) -> Iterator[str | None]:
    if arguments.server is None:
        yield arguments.url
    else:
        with started(arguments.server, durable=not arguments.volatile) as server:
            os.environ[PID] = str(server.process.pid)
            yield server.url


def _machine() -> dict[str, object]:
    return {
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "cores": os.cpu_count(),
        "system": platform.system(),
        "date": datetime.now(UTC).date().isoformat(),
    }


if __name__ == "__main__":
    main()
