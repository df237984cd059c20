"""Huey on Redis (blocking pop) and on SQLite (polling): results off; a task is popped before it runs."""

from huey import PriorityRedisHuey, RedisHuey, SqliteHuey

from benchmarks.peers.bodies import SYNC
from benchmarks.peers.place import PEER, RESULT_SECONDS, THREADS, URL, command, path

if PEER == "huey-sqlite":
    huey = SqliteHuey("bench", filename=path(), results=bool(RESULT_SECONDS), fsync=True)
elif PEER == "huey-priority":
    huey = PriorityRedisHuey("bench", url=URL, results=bool(RESULT_SECONDS))
else:
    huey = RedisHuey("bench", url=URL, results=bool(RESULT_SECONDS))
tasks = {name: huey.task(name=name, retries=3)(body) for name, body in SYNC.items()}


def send(job: str, i: int, pad: str) -> None:
    tasks[job](i, pad)


def send_later(job: str, i: int, seconds: float) -> None:
    tasks[job].schedule((i,), delay=seconds)


if PEER in ("huey-sqlite", "huey-priority"):

    def send_ranked(job: str, i: int, urgent: bool) -> None:
        tasks[job](i, priority=9 if urgent else 1)


def kept() -> int:
    return huey.result_count()


def worker(processes: int, job: str) -> list[list[str]]:
    work = [command("huey_consumer"), "benchmarks.peers.adapters.huey.huey", "-q", "-s", "1"]
    polling = ["-d", "0.01", "-b", "1.0"] if PEER == "huey-sqlite" else []
    if job.startswith("pause"):
        return [[*work, *polling, "-k", "thread", "-w", str(THREADS)]] * processes
    return [[*work, *polling, "-k", "process" if processes > 1 else "thread", "-w", str(processes)]]
