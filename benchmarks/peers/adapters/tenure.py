"""Tenure: `tenure work` as it comes (children), or with the runner that suits the body; signing and history are on."""

from benchmarks.peers.bodies import BODIES
from benchmarks.peers.place import AWAITS, FOLDER, LEASE, PEER, THREADS, URL, command
from tenure import Backoff, Tenure
from tenure.wire.signing import Key

store = f"sqlite:///{FOLDER}/store.db" if URL.startswith("beanstalk:") else None
is_default = PEER.endswith("-default")
chosen = {} if is_default else {"lease": LEASE}
app = Tenure(URL, keys=[Key("bench", bytes(range(32))).dump()], store=store, **chosen)
calls = {
    name: app.job(name=name, max_retries=3, backoff=Backoff(strategy="none"))(body) for name, body in BODIES.items()
}
jobs = app.aio

RUNNERS = {
    "pause_sync": ("threads", THREADS),
    "pause_async": ("event_loop", AWAITS),
    "noop_async": ("event_loop", AWAITS),
}


def open() -> None:
    """Connect, and make the tables."""
    assert app.backend


def send(job: str, i: int, pad: str) -> None:
    calls[job].enqueue(i=i, pad=pad)


def send_many(job: str, indexes: list[int], pad: str) -> None:
    app.enqueue_many(calls[job].build(i=i, pad=pad) for i in indexes)


async def send_from_asyncio(job: str, i: int, pad: str) -> None:
    await jobs.enqueue(calls[job].build(i=i, pad=pad))


def send_later(job: str, i: int, seconds: float) -> None:
    calls[job].using(delay=seconds).enqueue(i=i)


def send_ranked(job: str, i: int, urgent: bool) -> None:
    calls[job].using(priority="high" if urgent else "normal").enqueue(i=i)


def close() -> None:
    app.close()


def kept() -> int:
    found, cursor, is_last = 0, None, False
    while not is_last:
        page, cursor = app.parts().jobs.page("done", "default", limit=1000, cursor=cursor)
        found, is_last = found + sum(1 for job in page if job.output), cursor is None
    return found


def worker(processes: int, job: str) -> list[list[str]]:
    work = [command("tenure"), "--app", "benchmarks.peers.adapters.tenure:app", "work", "--quiet"]
    if is_default:
        return [[*work, "--concurrency", str(processes)]]
    runner, concurrency = RUNNERS.get(job, ("inline", 1))
    return [[*work, "--runner", runner, "--concurrency", str(concurrency)]] * processes
