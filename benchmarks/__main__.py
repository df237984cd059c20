"""Runs rows, prints a table, and writes JSON beside it: `python -m benchmarks [ROW…] [--jobs N] [--rounds N]`."""

import argparse
import json
import os
import platform
import sqlite3
import statistics
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.rows import ROWS, Numbers


def main() -> None:
    arguments = _arguments()
    results: dict[str, Numbers] = {}
    for name in arguments.rows or ROWS:
        rounds = [ROWS[name](arguments.jobs) for _ in range(arguments.rounds)]
        results[name] = {key: statistics.median(each[key] for each in rounds) for key in rounds[0]}
        print(f"{name:<14}" + "   ".join(f"{key} {value:,.6g}" for key, value in results[name].items()), flush=True)
    report = {"machine": _machine(), "jobs": arguments.jobs, "rounds": arguments.rounds, "rows": results}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(report, indent=2) + "\n")
    print(f"written to {arguments.out}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure Tenure on SQLite.")
    parser.add_argument("rows", nargs="*", help=f"which of {', '.join(ROWS)}; all when none is named")
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=1, help="take the median of this many")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/latest.json"))
    return parser.parse_args()


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
