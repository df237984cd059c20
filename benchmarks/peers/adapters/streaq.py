"""streaQ: Redis streams and server-side functions; results off."""

import asyncio
from datetime import timedelta

from streaq import StreaqRetry, Worker

from benchmarks.peers.bodies import BODIES
from benchmarks.peers.place import JOB, LEASE, RESULT_SECONDS, URL, command

worker_app = Worker(redis_url=URL, queue_name="bench", concurrency=64, idle_timeout=LEASE, priorities=["low", "high"])


def _retrying(body):
    """It retries only what asks for it."""
    if asyncio.iscoroutinefunction(body):

        async def run(i: int, pad: str = "") -> object:
            try:
                return await body(i, pad)
            except Exception as error:
                raise StreaqRetry(delay=0) from error
    else:

        def run(i: int, pad: str = "") -> object:
            try:
                return body(i, pad)
            except Exception as error:
                raise StreaqRetry(delay=0) from error

    return run


tasks = {
    name: worker_app.task(ttl=RESULT_SECONDS, silent=True, name=name)(_retrying(body))
    for name, body in BODIES.items()
    if name.endswith("_async") == JOB.endswith("_async")
}


async def open() -> None:
    global context
    context = worker_app.__asynccontextmanager__()
    await context.__aenter__()


async def send(job: str, i: int, pad: str) -> None:
    await tasks[job].enqueue(i, pad)


async def send_many(job: str, indexes: list[int], pad: str) -> None:
    await worker_app.enqueue_many([tasks[job].enqueue(i, pad) for i in indexes])


async def send_later(job: str, i: int, seconds: float) -> None:
    await tasks[job].enqueue(i).start(delay=timedelta(seconds=seconds))


async def send_ranked(job: str, i: int, urgent: bool) -> None:
    await tasks[job].enqueue(i).start(priority="high" if urgent else "low")


async def close() -> None:
    await context.__aexit__(None, None, None)


async def kept() -> int:
    return await worker_app.redis.zcard("streaq:bench:index:results")


def worker(processes: int, job: str) -> list[list[str]]:
    return [[command("streaq"), "run", "benchmarks.peers.adapters.streaq:worker_app", "-w", str(processes)]]
