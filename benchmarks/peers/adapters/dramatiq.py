"""Dramatiq on Redis: its own middleware, a wider prefetch, and a dead worker noticed after the common lease."""

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import AsyncIO
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

from benchmarks.peers.bodies import BODIES
from benchmarks.peers.place import JOB, LEASE, RESULT_SECONDS, THREADS, URL, command, redis_keys

broker = RedisBroker(url=URL, heartbeat_timeout=LEASE * 1000, maintenance_chance=50_000)
if JOB.endswith("_async"):
    broker.add_middleware(AsyncIO())
keeping = {}
if RESULT_SECONDS:
    broker.add_middleware(Results(backend=RedisBackend(url=URL, use_namespace_prefix_keys=True)))
    keeping = {"store_results": True, "result_ttl": RESULT_SECONDS * 1000}
dramatiq.set_broker(broker)
mine = {name: body for name, body in BODIES.items() if name.endswith("_async") == JOB.endswith("_async")}
actors = {
    name: dramatiq.actor(actor_name=name, max_retries=3, min_backoff=1, max_backoff=1, **keeping)(body)
    for name, body in mine.items()
}


def send(job: str, i: int, pad: str) -> None:
    actors[job].send(i, pad)


def send_later(job: str, i: int, seconds: float) -> None:
    actors[job].send_with_options(args=(i,), delay=int(seconds * 1000))


def kept() -> int:
    return redis_keys("dramatiq-results:*")


def worker(processes: int, job: str) -> list[list[str]]:
    threads = THREADS if job.startswith("pause") else 4
    size = ["-p", str(processes), "-t", str(threads)]
    return [["env", "dramatiq_queue_prefetch=100", command("dramatiq"), "benchmarks.peers.adapters.dramatiq", *size]]
