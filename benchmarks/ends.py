"""How soon a caller that waits for a job learns of its end, measured from the return of the settlement."""

import queue
import time

from benchmarks.bench import Numbers, interleaved, percentile
from benchmarks.places import place
from tenure.backends.contract import Backend
from tenure.backends.job_waiter import JobWaiter
from tenure.backends.messages import Ack, Message
from tenure.backends.url import open_backend
from tenure.clock import SystemClock

ROUNDS = 3
RUN_SECONDS = 0.02  # of each job


def ends(jobs: int) -> Numbers:
    """One wait, and one beside a thousand others; another client settles the jobs one by one."""
    count = min(jobs, 200)
    return interleaved({"alone": lambda: _lateness(count, 0), "beside 1000": lambda: _lateness(count, 1000)}, ROUNDS)


def _lateness(count: int, others: int) -> Numbers:
    with place() as (url, _):
        backend, settler = (open_backend(url, SystemClock()) for _ in range(2))
        waiter = JobWaiter(backend.ends) if backend.ends else None
        assert waiter is not None, "this backend does not tell ends"
        settler.put([_message(f"other-{number}", delay=3600.0) for number in range(others)])
        for number in range(others):
            waiter.watch(f"other-{number}", lambda _: None)
        late = [_one(waiter, settler, f"job-{number}") * 1000 for number in range(count)]
        waiter.close()
        backend.close()
        settler.close()
        return {"p50 ms": percentile(late, 0.5), "p99 ms": percentile(late, 0.99)}


def _one(waiter: JobWaiter, settler: Backend, id: str) -> float:
    settler.put([_message(id)])
    (lease,) = settler.lease(["bench"], limit=1, seconds=60)
    ended: queue.SimpleQueue[float] = queue.SimpleQueue()
    waiter.watch(id, lambda _: ended.put(time.perf_counter()))
    time.sleep(RUN_SECONDS)
    settler.ack([Ack(lease=lease)])
    settled = time.perf_counter()
    return ended.get() - settled


def _message(id: str, delay: float = 0.0) -> Message:
    return Message(id=id, queue="bench", body=b"{}", handler="noop", name=None, delay=delay)
