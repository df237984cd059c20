"""Celery on Redis: results off, prefetch for short tasks; acknowledged early as it comes, or late."""

from celery import Celery

from benchmarks.peers.bodies import SYNC
from benchmarks.peers.place import LEASE, PEER, RESULT_SECONDS, THREADS, URL, command, redis_keys

late = PEER.endswith("-late")
app = Celery("bench", broker=URL, backend=URL if RESULT_SECONDS else None)
app.conf.update(
    task_ignore_result=not RESULT_SECONDS,
    worker_prefetch_multiplier=128,
    worker_disable_rate_limits=True,
    task_acks_late=late,
    task_reject_on_worker_lost=late,
    broker_transport_options={"visibility_timeout": LEASE, "priority_steps": [0, 9]},
    broker_connection_retry_on_startup=True,
)
retry = {"autoretry_for": (Exception,), "max_retries": 3, "default_retry_delay": 0, "retry_backoff": False}
tasks = {name: app.task(name=name, **retry)(body) for name, body in SYNC.items()}


def open() -> None:
    with app.producer_or_acquire() as producer:
        producer.connection.ensure_connection()


def send(job: str, i: int, pad: str) -> None:
    tasks[job].delay(i, pad)


def send_later(job: str, i: int, seconds: float) -> None:
    tasks[job].apply_async((i,), countdown=seconds)


def send_ranked(job: str, i: int, urgent: bool) -> None:
    tasks[job].apply_async((i,), priority=0 if urgent else 9)


def kept() -> int:
    return redis_keys("celery-task-meta-*")


def worker(processes: int, job: str) -> list[list[str]]:
    quiet = ["-l", "ERROR", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    work = [command("celery"), "-A", "benchmarks.peers.adapters.celery", "worker", *quiet]
    if "threads" not in PEER:
        return [[*work, "-P", "prefork", "-c", str(processes)]]
    threads = THREADS if job == "pause_sync" else 2
    return [[*work, "-P", "threads", "-c", str(threads), "-n", f"w{n}"] for n in range(processes)]
