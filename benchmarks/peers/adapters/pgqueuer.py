"""PgQueuer on asyncpg with uvloop: batches of a hundred; its acknowledgements are buffered."""

import json
import sys
from datetime import timedelta

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.domain.errors import RetryRequested
from pgqueuer.queries import Queries

from benchmarks.peers.bodies import ASYNC
from benchmarks.peers.place import LEASE, URL


def _taking_job(name, body):
    read = json.loads if name.startswith("records") else str

    async def run(job):
        i, _, pad = job.payload.decode().partition(" ")
        try:
            await body(int(i), read(pad))
        except Exception as error:
            raise RetryRequested from error

    return run


async def serve() -> None:
    """What `pgq run` does; its command line breaks with the pinned typer."""
    pgq = PgQueuer(AsyncpgDriver(await asyncpg.connect(URL)))
    for name, body in ASYNC.items():
        pgq.entrypoint(name)(_taking_job(name, body))
    await pgq.run(timedelta(seconds=5), batch_size=100, heartbeat_timeout=timedelta(seconds=LEASE))


async def open() -> None:
    global queries, connection
    connection = await asyncpg.connect(URL)
    queries = Queries(AsyncpgDriver(connection))


async def setup() -> None:
    await queries.install()


def _payload(i, pad):
    """It carries bytes; what is not text is JSON, as its guide has it."""
    return f"{i} {pad if isinstance(pad, str) else json.dumps(pad)}".encode()


async def send(job: str, i: int, pad: str) -> None:
    await queries.enqueue(job, _payload(i, pad))


async def send_many(job: str, indexes: list[int], pad: str) -> None:
    count = len(indexes)
    await queries.enqueue([job] * count, [_payload(i, pad) for i in indexes], [0] * count)


async def send_later(job: str, i: int, seconds: float) -> None:
    await queries.enqueue(job, str(i).encode(), execute_after=timedelta(seconds=seconds))


async def send_ranked(job: str, i: int, urgent: bool) -> None:
    await queries.enqueue(job, str(i).encode(), priority=1 if urgent else 0)


async def close() -> None:
    await connection.close()


def worker(processes: int, job: str) -> list[list[str]]:
    return [[sys.executable, "-m", "benchmarks.peers.adapters.pgqueuer"]] * processes


if __name__ == "__main__":
    uvloop.run(serve())
