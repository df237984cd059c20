"""What has been: results of jobs, and statistics of many."""

import time
from collections import Counter
from typing import Any

import msgspec

from tenure.app.shelves import Shelves
from tenure.backends.asking import Aged, Counted, JobRecord
from tenure.backends.upkeep import Statistical, WorkerRecord
from tenure.clock import MICROSECOND, Clock
from tenure.errors import BackendError, JobFailed, JobNotFound, ResultTimeout
from tenure.metrics.signals import Before, Signals, signals
from tenure.metrics.summary import By, Summary, summaries
from tenure.metrics.tally import SLOT, gathered

_SOONEST = 0.005
_LATEST = 0.5
_OVER = ("done", "dead", "cancelled", "expired")


def wait_for_end(shelves: Shelves, id: str, timeout: float) -> JobRecord:
    """The record of a job once it has ended; looked for more and more slowly.

    A chronicle knows only jobs that have run, so that there one that is not known may still wait.
    """
    finder, may_wait = shelves.finder, shelves.chronicle is not None
    give_up, pause = time.monotonic() + timeout, _SOONEST
    while True:
        record = finder.find(id)
        if record is not None and record.state in _OVER:
            return record
        left = give_up - time.monotonic()
        if record is None and not (may_wait and timeout):
            raise JobNotFound(f"no job {id!r} is known here; {_why(may_wait)}")
        if left <= 0:
            state = "not known to have run" if record is None else record.state
            raise ResultTimeout(f"job {id!r} is {state} and has not ended within {timeout:g} s")
        time.sleep(min(pause, left))
        pause = min(pause * 1.5, _LATEST)


def _why(may_wait: bool) -> str:
    reasons = "it may have been trimmed, or live on another backend"
    return f"it may not have run yet, which this backend does not tell, or {reasons[3:]}" if may_wait else reasons


def value_of(record: JobRecord) -> Any:
    """What the handler returned, as far as it is kept; what is no JSON any more, or was cut, is given as text."""
    if record.state != "done":
        error = f": {record.failures[-1].type}: {record.failures[-1].message}" if record.failures else ""
        raise JobFailed(f"job {record.id!r} is {record.state} ({record.reason}){error}")
    if record.output is None or record.run is None or not record.run.is_json:
        return record.output
    try:
        return msgspec.json.decode(record.output)
    except msgspec.DecodeError:
        return record.output


def summarise(books: Statistical, clock: Clock, seconds: float, *ways: By) -> list[list[Summary]]:
    """What workers counted in about the last so many seconds, by each of these ways.

    Whole slots are counted, the current one included.
    """
    now = clock.now()
    since = (now - round(seconds * MICROSECOND)) // SLOT * SLOT
    tallies = gathered(books.tallies(since, now + SLOT))
    return [summaries(tallies, (now - since) / MICROSECOND, by) for by in ways]


def read_signals(shelves: Shelves, clock: Clock) -> list[Signals]:
    """The signals of every queue that has jobs or is worked on."""
    backend = shelves.backend
    if not isinstance(backend, Counted):
        raise BackendError("this backend does not count its jobs, so it has no signals")
    counts = backend.counts(ended=False)
    ages = backend.oldest(list(counts)) if isinstance(backend, Aged) else None
    try:
        workers = shelves.roster.workers()
    except BackendError:  # nobody keeps one, or the store beside a broker is away
        return signals(counts, ages, None, None)
    rates: Counter[str] = Counter()
    for worker in workers:
        rates.update(dict.fromkeys(worker.queues, 0))
        rates.update(worker.rates)
    return signals(counts, ages, rates, _before(workers, clock.now()))


def _before(workers: list[WorkerRecord], now: int) -> Before | None:
    """The count of whichever worker counted, the oldest if there are several."""
    known = [(worker.live_at, worker.live) for worker in workers if worker.live_at]
    if not known:
        return None
    at, live = min(known, key=lambda each: each[0])
    return Before((now - at) / MICROSECOND, live)
