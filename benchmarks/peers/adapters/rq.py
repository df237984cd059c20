"""RQ: the worker that forks for each job, as it comes, and the SimpleWorker that does not; results dropped."""

from pathlib import Path

import redis
import rq

from benchmarks.peers.bodies import SYNC
from benchmarks.peers.place import PEER, RESULT_SECONDS, URL, command, redis_keys

connection = redis.Redis.from_url(URL)
queue, urgent_queue = rq.Queue("bench", connection=connection), rq.Queue("urgent", connection=connection)
options = {"result_ttl": RESULT_SECONDS, "retry": rq.Retry(max=3)}


def send(job: str, i: int, pad: str) -> None:
    queue.enqueue(SYNC[job], i, pad, **options)


def send_many(job: str, indexes: list[int], pad: str) -> None:
    queue.enqueue_many([rq.Queue.prepare_data(SYNC[job], (i, pad), **options) for i in indexes])


def send_ranked(job: str, i: int, urgent: bool) -> None:
    (urgent_queue if urgent else queue).enqueue(SYNC[job], i, **options)


def kept() -> int:
    return redis_keys("rq:results:*")


def worker(processes: int, job: str) -> list[list[str]]:
    kind = ["-w", "rq.worker.SimpleWorker"] if PEER == "rq-simple" else []
    quiet = ["--quiet", "--maintenance-interval", "5", "--disable-job-desc-logging", "--path", str(Path.cwd())]
    return [[command("rq"), "worker", "-u", URL, *quiet, *kind, "urgent", "bench"]] * processes
