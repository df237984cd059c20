"""Agent: runs inside a peer's environment, and sends jobs or names the worker's commands; standard library only.

`python -m benchmarks.peers.agent ADAPTER '{"do": "send", "job": "noop_sync", "jobs": 1000, "seconds": 2, …}'` prints
one JSON value as its last line. An adapter is a module of these functions, plain ones or coroutines:

    open(), close()                    connect and disconnect; may be missing
    setup()                            make what the peer needs on an empty server; may be missing
    send(job, i, pad)                  enqueue one; `pad` is its payload, any JSON value
    send_many(job, indexes, pad)       enqueue many; missing where the peer has no such call
    send_from_asyncio(job, i, pad)     enqueue one without blocking the event loop; where `send` is no coroutine
    send_later(job, i, seconds)        enqueue one that is due later; may be missing
    send_ranked(job, i, urgent)        enqueue one that may overtake others; may be missing
    kept()                             how many results the peer keeps now; missing where it keeps none
    worker(processes, job)             the commands that together run so many processes
"""

import asyncio
import inspect
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.peers.probe import Probe

CHUNK = 1000
AT_ONCE = 100
TICK = 0.005  # seconds between the bursts of a steady load
Order = dict[str, Any]


async def _settled(value: object) -> object:
    return await value if inspect.isawaitable(value) else value


class Box:
    """So many jobs from the first on, or as many as fit into so many seconds."""

    def __init__(self, order: Order) -> None:
        self.jobs, self._until = int(order["jobs"]), time.perf_counter() + float(order["seconds"])
        self.first = int(order["first"])

    @property
    def is_over(self) -> bool:
        return time.perf_counter() > self._until

    def steps(self, size: int = 1) -> Iterator[range]:
        end = self.first + self.jobs
        for start in range(self.first, end, size):
            if self.is_over:
                return
            yield range(start, min(start + size, end))

    def done(self, step: range) -> int:
        """How many have been sent with this step."""
        return step.stop - self.first


async def one(adapter: ModuleType, order: Order) -> int:
    job, pad, sent, box = order["job"], order["pad"], 0, Box(order)
    send: Callable[..., Awaitable[object]] = adapter.send
    if inspect.iscoroutinefunction(send):
        for step in box.steps():
            await send(job, step[0], pad)
            sent = box.done(step)
    else:
        for step in box.steps():
            send(job, step[0], pad)
            sent = box.done(step)
    return sent


async def many(adapter: ModuleType, order: Order) -> int:
    sent, box = 0, Box(order)
    for step in box.steps(CHUNK):
        await _settled(adapter.send_many(order["job"], list(step), order["pad"]))
        sent = box.done(step)
    return sent


async def gathered(adapter: ModuleType, order: Order) -> int:
    job, pad, sent = order["job"], order["pad"], 0
    send = getattr(adapter, "send_from_asyncio", adapter.send)
    for step in Box(order).steps(AT_ONCE):
        await asyncio.gather(*(send(job, i, pad) for i in step))
        sent = step.stop
    return sent


async def later(adapter: ModuleType, order: Order) -> int:
    """Due in turn through the seconds of the order's `span`, and noted in the probe."""
    sent, jobs, probe = 0, order["jobs"], _probe()
    for step in Box(order).steps():
        i = step[0]
        seconds = order["span"] * (1 + i / jobs)
        probe.sent[i] = time.monotonic_ns() + int(seconds * 1e9)
        await _settled(adapter.send_later(order["job"], i, seconds))
        sent = step.stop
    return sent


async def ranked(adapter: ModuleType, order: Order) -> int:
    """The last third is urgent."""
    sent = 0
    for step in Box(order).steps():
        await _settled(adapter.send_ranked(order["job"], step[0], step[0] >= order["jobs"] * 2 // 3))
        sent = step.stop
    return sent


async def spaced(adapter: ModuleType, order: Order) -> int:
    """One at a time, with pauses; an async client's loop keeps turning in them."""
    probe = _probe()
    for i in range(order["first"], order["first"] + order["jobs"]):
        probe.sent[i] = time.monotonic_ns()
        await _settled(adapter.send(order["job"], i, ""))
        await _pause(adapter, order["gap"])
    return int(order["jobs"])


async def steady(adapter: ModuleType, order: Order) -> int:
    """So many jobs a second; those of a tick go out together where the peer can, and one that is late catches up."""
    probe, box, sent, begun = _probe(), Box(order), 0, time.perf_counter()
    while sent < box.jobs and not box.is_over:
        due = min(box.jobs, 1 + int((time.perf_counter() - begun) * order["rate"]))
        await _burst(adapter, order["job"], range(box.first + sent, box.first + due), probe)
        sent = due
        await _pause(adapter, TICK)
    return sent


async def _burst(adapter: ModuleType, job: str, indexes: range, probe: Probe) -> None:
    if len(indexes) > 1 and hasattr(adapter, "send_many"):
        now = time.monotonic_ns()
        for i in indexes:
            probe.sent[i] = now
        await _settled(adapter.send_many(job, list(indexes), ""))
    else:
        for i in indexes:
            probe.sent[i] = time.monotonic_ns()
            await _settled(adapter.send(job, i, ""))


async def _pause(adapter: ModuleType, seconds: float) -> None:
    if _is_async(adapter):
        await asyncio.sleep(seconds)
    else:
        time.sleep(seconds)  # noqa: ASYNC251 - there is no loop around a plain adapter


WAYS = {each.__name__: each for each in (one, many, gathered, later, ranked, spaced, steady)}
NEEDS = {"many": "send_many", "later": "send_later", "ranked": "send_ranked"}


def _probe() -> Probe:
    return Probe(Path(os.environ["BENCH_PROBE"]))


def _is_async(adapter: ModuleType) -> bool:
    return inspect.iscoroutinefunction(adapter.send)


def _can(adapter: ModuleType, way: str) -> bool:
    if way == "gathered":
        return _is_async(adapter) or hasattr(adapter, "send_from_asyncio")
    return hasattr(adapter, NEEDS.get(way, "send"))


async def obey(adapter: ModuleType, order: Order) -> object:
    try:
        await _settled(getattr(adapter, "open", _nothing)())
        if order["setup"]:
            await _settled(getattr(adapter, "setup", _nothing)())
        if order["do"] == "worker":
            return adapter.worker(order["processes"], order["job"])
        if order["do"] == "count":
            return await _settled(getattr(adapter, "kept", _nothing)())
        if not _can(adapter, order["way"]):
            return None
        cpu, begun = time.process_time(), time.perf_counter()
        sent = await WAYS[order["way"]](adapter, order)
        return {"sent": sent, "seconds": time.perf_counter() - begun, "cpu": time.process_time() - cpu}
    finally:
        await _settled(getattr(adapter, "close", _nothing)())


def _nothing() -> None:
    """Where an adapter has nothing to do."""


def _drive(coroutine: Any) -> object:
    """Run a coroutine that never waits, without an event loop around it."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise RuntimeError("a plain adapter awaited something")


def main() -> None:
    adapter = import_module(f"benchmarks.peers.adapters.{sys.argv[1]}")
    order = json.loads(sys.argv[2])
    needs_loop = _is_async(adapter) or order.get("way") == "gathered"
    result = asyncio.run(obey(adapter, order)) if needs_loop else _drive(obey(adapter, order))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
