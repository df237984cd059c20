"""arq: async only; a lower poll delay, which bounds both its rate and its latency, and results dropped."""

from arq import Retry, create_pool
from arq.connections import RedisSettings
from arq.worker import func

from benchmarks.peers.bodies import ASYNC
from benchmarks.peers.place import AWAITS, LEASE, RESULT_SECONDS, URL, command, redis_keys

settings = RedisSettings.from_dsn(URL)
quiet = {"version": 1, "loggers": {"arq": {"level": "CRITICAL"}}}


def _taking_context(body):
    async def run(context, i, pad=""):
        try:
            return await body(i, pad)
        except Exception as error:
            raise Retry(defer=0) from error

    return run


class WorkerSettings:
    functions = tuple(func(_taking_context(body), name=name) for name, body in ASYNC.items())
    redis_settings = settings
    keep_result = RESULT_SECONDS
    max_jobs = AWAITS
    poll_delay = 0.01
    job_timeout = LEASE - 10  # a dead worker's job is free ten seconds after this
    log_results = False


async def open() -> None:
    global pool
    pool = await create_pool(settings)


async def send(job: str, i: int, pad: str) -> None:
    await pool.enqueue_job(job, i, pad)


async def send_later(job: str, i: int, seconds: float) -> None:
    await pool.enqueue_job(job, i, _defer_by=seconds)


async def close() -> None:
    await pool.aclose()


def kept() -> int:
    return redis_keys("arq:result:*")


def worker(processes: int, job: str) -> list[list[str]]:
    place = "benchmarks.peers.adapters.arq"
    return [[command("arq"), f"{place}.WorkerSettings", "--custom-log-dict", f"{place}.quiet"]] * processes
