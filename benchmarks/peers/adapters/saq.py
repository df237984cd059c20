"""SAQ on Redis and on PostgreSQL: finished jobs are dropped at once."""

import time

from saq import Queue

from benchmarks.peers.bodies import BODIES
from benchmarks.peers.place import AWAITS, LEASE, PEER, RESULT_SECONDS, URL, command, redis_keys

queue = Queue.from_url(URL, name="bench", **({"max_size": 20} if PEER == "saq-postgresql" else {}))


def _taking_context(name, body):
    if name.endswith("_async"):

        async def run(context, *, i, pad=""):
            return await body(i, pad)
    else:

        def run(context, *, i, pad=""):
            return body(i, pad)

    return name, run


settings = {
    "queue": queue,
    "functions": [_taking_context(name, body) for name, body in BODIES.items()],
    "concurrency": AWAITS if PEER == "saq-redis" else 20,
    "timers": {"sweep": 5},
}


TTL = RESULT_SECONDS or -1  # -1 drops a job when it ends


async def open() -> None:
    await queue.connect()


async def send(job: str, i: int, pad: str) -> None:
    await queue.enqueue(job, i=i, pad=pad, ttl=TTL, retries=4, heartbeat=LEASE)


async def send_later(job: str, i: int, seconds: float) -> None:
    await queue.enqueue(job, i=i, ttl=TTL, scheduled=time.time() + seconds)


async def close() -> None:
    await queue.disconnect()


async def kept() -> int:
    if PEER == "saq-redis":
        return redis_keys("saq:job:bench:*") - await queue.count("incomplete")
    async with queue.pool.connection() as connection:
        found = await connection.execute("SELECT count(*) FROM saq_jobs WHERE status = 'complete'")
        return (await found.fetchone())[0]


def worker(processes: int, job: str) -> list[list[str]]:
    return [[command("saq"), "benchmarks.peers.adapters.saq.settings", "--workers", str(processes), "--quiet"]]
