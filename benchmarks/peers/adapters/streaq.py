"""streaQ: Redis streams and server-side functions; results off."""

import asyncio
from datetime import timedelta

from streaq import StreaqRetry, Worker

from benchmarks.peers.bodies import BODIES
from benchmarks.peers.place import JOB, LEASE, URL, command

worker_app = Worker(redis_url=URL, queue_name="bench", concurrency=64, idle_timeout=LEASE, priorities=["low", "high"])


def _retrying(body):
    """It retries only what asks for it."""
    if asyncio.iscoroutinefunction(body):

        async def run(i: int, pad: str = "") -> None:
            try:
                await body(i, pad)
            except Exception as error:
                raise StreaqRetry(delay=0) from error
    else:

        def run(i: int, pad: str = "") -> None:
            try:
                body(i, pad)
            except Exception as error:
                raise StreaqRetry(delay=0) from error

    return run


tasks = {
    name: worker_app.task(ttl=0, silent=True, name=name)(_retrying(body))
    for name, body in BODIES.items()
    if name.endswith("_async") == JOB.endswith("_async")
}


async def open():
    global context
    context = worker_app.__asynccontextmanager__()
    await context.__aenter__()


async def send(job, i, pad):
    await tasks[job].enqueue(i, pad)


async def send_many(job, indexes, pad):
    await worker_app.enqueue_many([tasks[job].enqueue(i, pad) for i in indexes])


async def send_later(job, i, seconds):
    await tasks[job].enqueue(i).start(delay=timedelta(seconds=seconds))


async def send_ranked(job, i, urgent):
    await tasks[job].enqueue(i).start(priority="high" if urgent else "low")


async def close():
    await context.__aexit__(None, None, None)


def worker(processes, job):
    return [[command("streaq"), "run", "benchmarks.peers.adapters.streaq:worker_app", "-w", str(processes)]]
