"""taskiq on Redis: a plain list, which does not acknowledge, and a stream, which does."""

from taskiq import SimpleRetryMiddleware
from taskiq_redis import ListQueueBroker, RedisAsyncResultBackend, RedisStreamBroker

from benchmarks.peers.bodies import BODIES
from benchmarks.peers.place import AWAITS, LEASE, PEER, RESULT_SECONDS, URL, command, redis_keys

if PEER == "taskiq-stream":
    lease = {"idle_timeout": LEASE * 1000, "unacknowledged_lock_timeout": LEASE}
    broker = RedisStreamBroker(URL, queue_name="bench", consumer_id="0", **lease)
else:
    broker = ListQueueBroker(URL, queue_name="bench")
if RESULT_SECONDS:
    broker = broker.with_result_backend(
        RedisAsyncResultBackend(URL, result_ex_time=RESULT_SECONDS, prefix_str="result")
    )
broker = broker.with_middlewares(SimpleRetryMiddleware(default_retry_count=4))
tasks = {
    name: broker.register_task(body, task_name=name, retry_on_error=name.startswith("flaky"))
    for name, body in BODIES.items()
}


async def open() -> None:
    await broker.startup()


async def send(job: str, i: int, pad: str) -> None:
    await tasks[job].kiq(i, pad)


async def close() -> None:
    await broker.shutdown()


def kept() -> int:
    return redis_keys("result:*")


def worker(processes: int, job: str) -> list[list[str]]:
    size = ["-w", str(processes), "--max-async-tasks", str(AWAITS), "--max-prefetch", str(AWAITS)]
    quiet = ["--no-parse", "--log-level", "CRITICAL"]
    return [[command("taskiq"), "worker", "benchmarks.peers.adapters.taskiq:broker", *size, *quiet]]
