"""The app under measurement: handlers that mark their start, and then do nothing or wait."""

import asyncio
import os
import time
from pathlib import Path

from benchmarks.probe import Probe
from tenure import Tenure

app = Tenure()
probe = Probe(Path(os.environ["BENCH_PROBE"]))
PAUSE = 0.005


@app.job
def noop(i: int) -> None:
    probe.mark(i)


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
