"""Bodies: what the measured jobs do, the same for every Python peer; standard library only.

An adapter registers each of BODIES under its name, as its peer has it done. A name says what a job does: `noop`, `cpu`
(a millisecond of it), `pause` (five milliseconds), `flaky` (every fifth fails once), `records` (is given a list of
objects) or `result` (returns an object); and how: `_sync` or `_async`.
"""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.peers.probe import Probe

PAUSE = 0.005
SPIN = 0.001
FAILS = 5  # one in five

probe = Probe(Path(os.environ["BENCH_PROBE"]))


class Fails(Exception):
    """As meant: the first run of every fifth flaky job."""


def noop_sync(i: int, pad: str = "") -> None:
    probe.start(i)


async def noop_async(i: int, pad: str = "") -> None:
    probe.start(i)


def cpu_sync(i: int, pad: str = "") -> None:
    probe.start(i)
    until = time.thread_time() + SPIN
    while time.thread_time() < until:
        pass


async def cpu_async(i: int, pad: str = "") -> None:
    cpu_sync(i)


def pause_sync(i: int, pad: str = "") -> None:
    probe.start(i)
    time.sleep(PAUSE)
    probe.finish(i)


async def pause_async(i: int, pad: str = "") -> None:
    probe.start(i)
    await asyncio.sleep(PAUSE)
    probe.finish(i)


def flaky_sync(i: int, pad: str = "") -> None:
    probe.start(i)
    if i % FAILS == 0 and probe.runs[i] == 1:
        raise Fails
    probe.finish(i)


async def flaky_async(i: int, pad: str = "") -> None:
    flaky_sync(i)


def records_sync(i: int, pad: list[dict[str, Any]]) -> None:
    probe.start(i)


async def records_async(i: int, pad: list[dict[str, Any]]) -> None:
    probe.start(i)


def result_sync(i: int, pad: str = "") -> dict[str, Any]:
    probe.start(i)
    return {"number": i, "state": "sent", "parts": [1, 2, 3], "complete": True}


async def result_async(i: int, pad: str = "") -> dict[str, Any]:
    return result_sync(i)


_ALL: tuple[Callable[..., object], ...] = (
    *(noop_sync, cpu_sync, pause_sync, flaky_sync, records_sync, result_sync),
    *(noop_async, cpu_async, pause_async, flaky_async, records_async, result_async),
)
BODIES = {body.__name__: body for body in _ALL}
SYNC = {name: body for name, body in BODIES.items() if name.endswith("_sync")}
ASYNC = {name: body for name, body in BODIES.items() if name.endswith("_async")}
