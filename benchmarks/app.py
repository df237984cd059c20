"""The app under measurement: handlers that mark their start, and then do nothing, wait, or return an object."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from benchmarks.payloads import Records
from benchmarks.probe import Probe
from tenure import Tenure

app = Tenure()
probe = Probe(Path(os.environ["BENCH_PROBE"]))
PAUSE = 0.005


@app.job
def noop(i: int) -> None:
    probe.mark(i)


@app.job
def text(i: int, pad: str) -> None:
    probe.mark(i)


@app.job
def records(i: int, pad: Records) -> None:
    probe.mark(i)


@app.job
def result(i: int) -> dict[str, Any]:
    probe.mark(i)
    return {"number": i, "state": "sent", "parts": [1, 2, 3], "complete": True}


@app.job
def block(i: int) -> None:
    probe.mark(i)
    time.sleep(PAUSE)


@app.job
def hold(i: int) -> None:
    """The first run holds its process until it is killed."""
    probe.mark(i)
    if probe.runs()[i] == 1:
        time.sleep(3600)


@app.job
async def rest(i: int) -> None:
    probe.mark(i)
    await asyncio.sleep(PAUSE)
