"""Serving: what jobs cost the server that `--server` started, its children and those that ended included."""

import os
from pathlib import Path

from benchmarks.bench import TICK

PID = "BENCH_SERVER_PID"


def server_seconds() -> float | None:
    """User and system seconds so far; none where the server is not ours to look at."""
    if PID not in os.environ:
        return None
    pid = os.environ[PID]
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return _seconds(pid, 4) + sum(_seconds(child, 2) for child in children if Path(f"/proc/{child}").exists())


def server_cost(since: float | None, jobs: int) -> dict[str, float]:
    """What these jobs cost since a moment."""
    now = server_seconds()
    if since is None or now is None:
        return {}
    return {"server CPU s per 10k": (now - since) / jobs * 10_000}


def _seconds(pid: str, fields: int) -> float:
    """The first two fields are the process itself, the next two its children that ended."""
    stat = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, stat[11 : 11 + fields])) / TICK
