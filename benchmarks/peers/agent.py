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
Order = dict[str, Any]


async def _settled(value: object) -> object:
    return await value if inspect.isawaitable(value) else value


class Box:
    """So many jobs, or as many as fit into so many seconds."""

    def __init__(self, order: Order) -> None:
        self.jobs, self._until = int(order["jobs"]), time.perf_counter() + float(order["seconds"])

    def steps(self, size: int = 1) -> Iterator[range]:
        for start in range(0, self.jobs, size):
            if time.perf_counter() > self._until:
                return
            yield range(start, min(start + size, self.jobs))


async def one(adapter: ModuleType, order: Order) -> int:
    job, pad, sent = order["job"], order["pad"], 0
    send: Callable[..., Awaitable[object]] = adapter.send
    if inspect.iscoroutinefunction(send):
        for step in Box(order).steps():
            await send(job, step[0], pad)
            sent = step.stop
    else:
        for step in Box(order).steps():
            send(job, step[0], pad)
            sent = step.stop
    return sent


async def many(adapter: ModuleType, order: Order) -> int:
    sent = 0
    for step in Box(order).steps(CHUNK):
        await _settled(adapter.send_many(order["job"], list(step), order["pad"]))
        sent = step.stop
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
    probe, pause = _probe(), asyncio.sleep if _is_async(adapter) else None
    for i in range(order["first"], order["first"] + order["jobs"]):
        probe.sent[i] = time.monotonic_ns()
        await _settled(adapter.send(order["job"], i, ""))
        if pause:
            await pause(order["gap"])
        else:
            time.sleep(order["gap"])  # noqa: ASYNC251 - there is no loop around a plain adapter
    return int(order["jobs"])


WAYS = {each.__name__: each for each in (one, many, gathered, later, ranked, spaced)}
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
