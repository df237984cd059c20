"""A model of a backend on one dictionary, and a state machine that compares a backend with it.

`machine_for` needs hypothesis, which it imports itself; nothing else here does.
A lease that expired and was not reaped yet is never settled: backends may differ there.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tenure.backends.contract import Backend
from tenure.backends.messages import SUSPECT, Abandon, Ack, Lease, Message, Nack, vanished_after
from tenure.backends.records import CancelResult, RescheduleResult
from tenure.clock import MICROSECOND, Clock
from tenure.definition.context import Progress

if TYPE_CHECKING:
    from hypothesis.stateful import RuleBasedStateMachine


@dataclass
class ModelJob:
    """The expected state of one message."""

    message: Message
    position: tuple[int, int]
    due: int
    state: str = "waiting"
    attempts: int = 0
    crashes: int = 0
    fence: int = 0
    vanished: int = 0
    is_apart: bool = False
    expires: int = 0
    asked: bool = False
    progress: Progress | None = None


@dataclass
class Model:
    """All jobs in one dictionary that each method searches: slow, but simple enough to be checked by reading."""

    jobs: dict[str, ModelJob] = field(default_factory=dict)
    puts: int = 0

    def put(self, messages: Iterable[Message], now: int) -> list[str]:
        fresh = []
        for message in messages:
            if message.id not in self.jobs:
                due = now + round(message.delay * MICROSECOND)
                self.jobs[message.id] = ModelJob(message, self._last_position(message), due)
                fresh.append(message.id)
        return fresh

    def lease(self, queues: Sequence[str], limit: int, expires: int, now: int) -> list[str]:
        granted: list[str] = []
        for queue in queues:
            ready = [job for job in self._ready(queue, now) if not job.is_apart]
            for job in ready[: limit - len(granted)]:
                self._grant(job, expires)
                granted.append(job.message.id)
            if len(granted) == limit:
                break
        return granted

    def lease_suspect(self, queues: Sequence[str], expires: int) -> list[str]:
        for job in (job for queue in queues for job in self._in_order(queue)):
            if job.is_apart:
                self._grant(job, expires)
                return [job.message.id]
        return []

    def has_suspects(self, queues: Sequence[str]) -> bool:
        return any(job.is_apart for queue in queues for job in self._in_order(queue))

    def settle(self, verdicts: Iterable[Ack | Nack | Abandon], now: int) -> list[Lease]:
        lost = []
        for verdict in verdicts:
            if not self.holds(verdict.lease):
                lost.append(verdict.lease)
                continue
            job = self.jobs[verdict.lease.id]
            asked = job.asked
            job.asked, job.progress = False, None
            if isinstance(verdict, Ack):
                job.state = verdict.state
                continue
            job.attempts += verdict.charge == "attempt"
            job.crashes += verdict.charge == "crash"
            if isinstance(verdict, Abandon):
                job.state = "dead"
            else:
                job.state, job.vanished = "cancelled" if asked else "waiting", vanished_after(verdict)
                job.due, job.is_apart = now + round(verdict.delay * MICROSECOND), False
                self._set_apart(job, now)
        return lost

    def renew(self, leases: Iterable[Lease], expires: int) -> list[Lease]:
        lost = []
        for lease in leases:
            if self.holds(lease):
                self.jobs[lease.id].expires = expires
            else:
                lost.append(lease)
        return lost

    def reap(self, queues: Sequence[str], suspect_after: int, now: int) -> set[tuple[str, bool]]:
        reaped = set()
        for job in self.jobs.values():
            if job.message.queue in queues and job.state == "leased" and job.expires <= now:
                alone = job.vanished == SUSPECT
                reaped.add((job.message.id, alone))
                job.crashes += alone
                job.vanished = SUSPECT if alone or job.vanished + 1 >= suspect_after else job.vanished + 1
                job.state, job.due = "cancelled" if job.asked else "waiting", now
                job.asked, job.progress = False, None
                self._set_apart(job, now)
        return reaped

    def cancel(self, ids: Iterable[str]) -> dict[str, CancelResult]:
        results: dict[str, CancelResult] = {}
        for id in ids:
            job = self.jobs.get(id)
            if job is None:
                results[id] = "unknown"
            elif job.state == "leased":
                job.asked, results[id] = True, "asked"
            elif job.state == "waiting":
                job.state, job.is_apart, results[id] = "cancelled", False, "cancelled"
            else:
                results[id] = "too_late"
        return results

    def reschedule(self, ids: Iterable[str], due: int, now: int) -> dict[str, RescheduleResult]:
        results: dict[str, RescheduleResult] = {}
        for id in ids:
            job = self.jobs.get(id)
            if job is None:
                results[id] = "unknown"
            elif job.state == "waiting":
                job.due, job.is_apart, results[id] = due, False, "rescheduled"
                self._set_apart(job, now)
            else:
                results[id] = "running" if job.state == "leased" else "too_late"
        return results

    def asked_to_stop(self, leases: Iterable[Lease]) -> list[Lease]:
        return [lease for lease in leases if self.holds(lease) and self.jobs[lease.id].asked]

    def note_progress(self, items: Iterable[tuple[Lease, Progress]]) -> None:
        for lease, progress in items:
            if self.holds(lease):
                self.jobs[lease.id].progress = progress

    def replay(self, ids: Iterable[str], now: int) -> set[str]:
        dead = self.dead_among(ids)
        for id in sorted(dead):
            job = self.jobs[id]
            job.position = self._last_position(job.message)
            job.state, job.vanished, job.due = "waiting", 0, now
            job.attempts = job.crashes = 0
        return dead

    def discard(self, ids: Iterable[str]) -> set[str]:
        dead = self.dead_among(ids)
        for id in dead:
            del self.jobs[id]
        return dead

    def holds(self, lease: Lease) -> bool:
        job = self.jobs.get(lease.id)
        return job is not None and job.state == "leased" and job.fence == lease.fence

    def is_undecided(self, lease: Lease, now: int) -> bool:
        """Expired but not reaped: backends may or may not still settle it."""
        return self.holds(lease) and self.jobs[lease.id].expires <= now

    def dead_among(self, ids: Iterable[str]) -> set[str]:
        return {id for id in ids if id in self.jobs and self.jobs[id].state == "dead"}

    def counts(self) -> dict[str, Counter[str]]:
        found: dict[str, Counter[str]] = {}
        for job in self.jobs.values():
            found.setdefault(job.message.queue, Counter())[job.state] += 1
        return found

    def _ready(self, queue: str, now: int) -> list[ModelJob]:
        """The jobs that are due; a suspect among them waits apart from now on."""
        ready = [job for job in self._in_order(queue) if job.state == "waiting" and job.due <= now]
        for job in ready:
            self._set_apart(job, now)
        return ready

    def _in_order(self, queue: str) -> list[ModelJob]:
        return sorted((job for job in self.jobs.values() if job.message.queue == queue), key=lambda job: job.position)

    def _set_apart(self, job: ModelJob, now: int) -> None:
        job.is_apart = job.vanished == SUSPECT and job.state == "waiting" and job.due <= now

    def _grant(self, job: ModelJob, expires: int) -> None:
        job.state, job.expires, job.is_apart = "leased", expires, False
        job.fence += 1

    def _last_position(self, message: Message) -> tuple[int, int]:
        self.puts += 1
        return (-message.priority, self.puts)


def machine_for(open_backend: Callable[[Clock], Backend]) -> "type[RuleBasedStateMachine]":
    """A hypothesis state machine that drives a fresh backend and the model side by side; use its `.TestCase`."""
    from tenure.testing.machine import ModelComparison

    return type("BackendMachine", (ModelComparison,), {"open_backend": staticmethod(open_backend)})
