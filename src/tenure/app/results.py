"""Job results and statistics."""

import time
from collections import Counter
from collections.abc import Collection

from tenure.app.waiters import Waiters
from tenure.backends.contract import Parts, required
from tenure.backends.parts import StatsStore
from tenure.backends.records import JobRecord, WorkerRecord
from tenure.clock import MICROSECOND, Clock
from tenure.errors import BackendError, JobNotFound, ResultTimeout
from tenure.events import END_STATES
from tenure.metrics.queue_signals import EarlierCounts, QueueSignals, queue_signals
from tenure.metrics.statistics import SLOT_MICROSECONDS, By, Summary, merge_slots, summaries


def wait_for_end(
    parts: Parts, waiters: Waiters, id: str, timeout: float | None, backend: str | None = None
) -> JobRecord:
    """Wait until a job has ended, without limit if the timeout is None; return its record.

    An archive beside a broker knows only jobs that have run, so an unknown job may still be waiting.
    """
    jobs, may_wait = required(parts.jobs, "results or records of jobs"), parts.archive is not None
    give_up = None if timeout is None else time.monotonic() + timeout
    while True:
        record = jobs.find(id)
        if record is not None and record.state in END_STATES:
            return record
        left = None if give_up is None else give_up - time.monotonic()
        if record is None and not (may_wait and timeout != 0):
            raise JobNotFound(f"no job {id!r} is known here; {_why(may_wait)}")
        if left is not None and left <= 0:
            state = "not known to have run" if record is None else record.state
            raise ResultTimeout(f"job {id!r} is {state} and has not ended within {timeout:g} s")
        waiters.get(backend).wait([id], left)


def _why(may_wait: bool) -> str:
    reasons = "it may have been trimmed, or live on another backend"
    return f"it may not have run yet, which this backend cannot show, or {reasons[3:]}" if may_wait else reasons


def summarise_stats(
    stats: StatsStore, clock: Clock, seconds: float, *ways: By, queues: Collection[str] = ()
) -> list[list[Summary]]:
    """What workers counted in about the last `seconds`, grouped in each of these ways, in all queues or in these.

    Whole slots are counted, the current one included.
    """
    now = clock.now()
    since = (now - round(seconds * MICROSECOND)) // SLOT_MICROSECONDS * SLOT_MICROSECONDS
    tallies = merge_slots(stats.read(since, now + SLOT_MICROSECONDS))
    if queues:
        tallies = [tally for tally in tallies if tally.queue in queues]
    return [summaries(tallies, (now - since) / MICROSECOND, by) for by in ways]


def read_signals(parts: Parts, clock: Clock) -> list[QueueSignals]:
    """The signals of every queue that has jobs or workers."""
    if parts.queues is None:
        raise BackendError("this backend does not count its jobs, so it has no signals")
    counts = parts.queues.counts(ended=False)
    ages = parts.queues.oldest(list(counts))
    try:
        workers = required(parts.workers, "registry of workers").alive()
    except BackendError:  # there is none, or the store beside a broker does not answer
        return queue_signals(counts, ages, None, None)
    rates: Counter[str] = Counter()
    serving = Counter(queue for worker in workers if not worker.draining_since for queue in worker.queues)
    for worker in workers:
        rates.update(dict.fromkeys(worker.queues, 0))
        rates.update(worker.rates)
    return queue_signals(counts, ages, rates, _before(workers, clock.now()), serving)


def _before(workers: list[WorkerRecord], now: int) -> EarlierCounts | None:
    """An earlier count of unfinished jobs, by the worker that counted them; the oldest if there are several."""
    known = [(worker.live_at, worker.live) for worker in workers if worker.live_at]
    if not known:
        return None
    at, live = min(known, key=lambda each: each[0])
    return EarlierCounts((now - at) / MICROSECOND, live)
