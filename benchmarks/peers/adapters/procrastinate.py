"""Procrastinate: finished jobs deleted, and the periodic task of its guide, which frees jobs of dead workers."""

from procrastinate import App, PsycopgConnector, RetryStrategy

from benchmarks.peers.bodies import BODIES
from benchmarks.peers.place import LEASE, THREADS, URL, command

app = App(connector=PsycopgConnector(conninfo=URL, min_size=2, max_size=12))
tasks = {name: app.task(name=name, retry=RetryStrategy(max_attempts=4, wait=0))(body) for name, body in BODIES.items()}


@app.periodic(cron="*/5 * * * * *")
@app.task(name="free_stalled", pass_context=True, queueing_lock="free_stalled")
async def free_stalled(context, timestamp):
    for job in await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=LEASE):
        await app.job_manager.retry_job(job)


async def open() -> None:
    await app.open_async()


async def setup() -> None:
    await app.schema_manager.apply_schema_async()


async def send(job: str, i: int, pad: str) -> None:
    await tasks[job].defer_async(i=i, pad=pad)


async def send_many(job: str, indexes: list[int], pad: str) -> None:
    await tasks[job].batch_defer_async(*({"i": i, "pad": pad} for i in indexes))


async def send_later(job: str, i: int, seconds: float) -> None:
    await tasks[job].configure(schedule_in={"seconds": seconds}).defer_async(i=i)


async def send_ranked(job: str, i: int, urgent: bool) -> None:
    await tasks[job].configure(priority=1 if urgent else 0).defer_async(i=i)


async def close() -> None:
    await app.close_async()


def worker(processes: int, job: str) -> list[list[str]]:
    at_once = THREADS if job.startswith("pause") else 10
    work = [command("procrastinate"), "-a", "benchmarks.peers.adapters.procrastinate.app", "--log-level", "critical"]
    return [[*work, "worker", "-c", str(at_once), "--delete-jobs", "successful"]] * processes
