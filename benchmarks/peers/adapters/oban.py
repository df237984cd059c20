"""Oban for Python: fetches in batches, acknowledges in transactions."""

from pathlib import Path

from oban import Oban
from oban import worker as oban_worker
from oban.schema import install
from psycopg_pool import AsyncConnectionPool

from benchmarks.peers.bodies import ASYNC
from benchmarks.peers.place import AWAITS, FOLDER, LEASE, URL, command


@oban_worker(queue="default", max_attempts=4)
class Bench:
    async def process(self, job):
        await ASYNC[job.args["job"]](job.args["i"], job.args["pad"])

    def backoff(self, job):  # noqa: ARG002
        return 0


def _made(job, i, pad):
    return Bench.new({"job": job, "i": i, "pad": pad})


async def open() -> None:
    global pool, oban
    pool = AsyncConnectionPool(URL, min_size=1, max_size=4, open=False)
    await pool.open()
    oban = Oban(pool=pool)


async def setup() -> None:
    await install(pool)


async def send(job: str, i: int, pad: str) -> None:
    await oban.enqueue(_made(job, i, pad))


async def send_many(job: str, indexes: list[int], pad: str) -> None:
    await oban.enqueue_many(_made(job, i, pad) for i in indexes)


async def close() -> None:
    await pool.close()


def worker(processes: int, job: str) -> list[list[str]]:
    settings = Path(FOLDER) / "oban.toml"
    settings.write_text(f"[lifeline]\ninterval = 5.0\nrescue_after = {LEASE}.0\n")
    work = [command("oban"), "start", "--config", str(settings), "--dsn", URL, "--queues", f"default:{AWAITS}"]
    modules = ["--log-level", "ERROR", "--cron-modules", "benchmarks.peers.adapters.oban"]
    return [[*work, *modules, "--node", f"n{n}"] for n in range(processes)]
