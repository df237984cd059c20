"""Searching: jobs by state, queue, handler, name, age and text, with a bound on how many are looked at."""

from collections.abc import Iterator

from msgspec import Struct

from tenure.backends.asking import ENDED, STATES, JobRecord, Listable
from tenure.backends.letters import told

PAGE = 100
LARGEST = 2000  # pages grow: most searches need one, and one that finds nothing should not ask a hundred times
MOST = 10_000  # jobs that are looked at: a filter that finds little must not read a whole history


class Sought(Struct, frozen=True, kw_only=True):
    """All that is given must hold; a job is as old as its end, or as its enqueueing while it has none."""

    states: tuple[str, ...] = ()
    queue: str | None = None
    handler: str | None = None
    name: str | None = None
    since: int | None = None
    before: int | None = None
    text: str | None = None

    def admits(self, job: JobRecord) -> bool:
        born = job.finished_at or job.enqueued_at
        return (
            self.handler in (None, job.handler)
            and self.name in (None, job.name)
            and born >= (self.since or 0)
            and (self.before is None or born < self.before)
            and (self.text is None or _is_said(job, self.text.casefold()))
        )


def jobs(backend: Listable, sought: Sought) -> Iterator[JobRecord | None]:
    """Those that are sought, and None for each that was looked at and is not."""
    for state in sought.states or STATES:
        for queue in [sought.queue] if sought.queue else backend.queues_with(state):
            for job in _all(backend, state, queue, sought.before if state in ENDED else None):
                yield job if sought.admits(job) else None
                if sought.since is not None and (job.finished_at or sought.since) < sought.since:
                    break  # what follows ended even longer ago


def found(backend: Listable, sought: Sought, limit: int) -> tuple[list[JobRecord], bool]:
    """Up to so many, and whether there may be more."""
    kept: list[JobRecord] = []
    for looked, job in enumerate(jobs(backend, sought)):
        if looked == MOST or len(kept) > limit:
            return kept[:limit], True
        if job is not None:
            kept.append(job)
    return kept[:limit], len(kept) > limit


def _all(backend: Listable, state: str, queue: str, before: int | None) -> Iterator[JobRecord]:
    size, cursor = PAGE, None
    while True:
        page, cursor = backend.page(state, queue, limit=size, cursor=cursor, before=before)
        yield from page
        if cursor is None:
            return
        size = min(2 * size, LARGEST)


def _is_said(job: JobRecord, text: str) -> bool:
    said = (job.id, job.name or "", job.reason or "", job.output or "", *map(told, job.failures))
    return any(text in each.casefold() for each in said)
