"""Processes: what a program that we started and all it started cost, as the kernel counts it."""

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")
_PARENT, _SESSION, _TIMES = 1, 3, slice(11, 15)  # of the fields behind the name in /proc/PID/stat


def family(roots: Iterable[int]) -> list[int]:
    """These processes, their sessions, and everything below them."""
    wanted, found = set(roots), set()
    stats = {pid: stat for pid in _all() if (stat := _stat(pid))}
    grew = True
    while grew:
        more = {pid for pid, stat in stats.items() if wanted & {pid, int(stat[_PARENT]), int(stat[_SESSION])}}
        grew = not more <= found
        found |= more
        wanted |= more
    return sorted(found)


def cpu_seconds(roots: Iterable[int]) -> float:
    """User and system seconds of the family so far, its children that ended included."""
    return sum(sum(map(int, stat[_TIMES])) for pid in family(roots) if (stat := _stat(pid))) / TICK


def megabytes(roots: Iterable[int]) -> tuple[float, float]:
    """Resident memory, and the same with shared pages counted once."""
    totals = {"Rss": 0, "Pss": 0}
    for pid in family(roots):
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                name = line.split(":")[0]
                if name in totals:
                    totals[name] += int(line.split()[1])
    return totals["Rss"] / 1024, totals["Pss"] / 1024


def kill(roots: Iterable[int]) -> None:
    """As a machine that dies would: the whole family, at once and without a word."""
    for pid in family(roots):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _all() -> list[int]:
    return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()]


def _stat(pid: int) -> list[str] | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None  # it has just ended
