"""Entry: one job in memory, and everything that changes about it."""

from tenure.backends.asking import JobRecord
from tenure.backends.contract import Abandon, Ack, Charge, Message
from tenure.definition.failure import Failure
from tenure.definition.progress import Progress

MAX_FAILURES = 25
WAITING = ("ready", "delayed", "parked")
ENDED = ("done", "cancelled", "expired")


class Entry:
    """`place` is where it stands among those that are ready: by priority, then by enqueue."""

    def __init__(self, message: Message, key: int, now: int, due: int) -> None:
        self.message = message
        self.key = key
        self.enqueued = now
        self.due = due
        self.place = (-message.priority, key)
        self.state = "ready"
        self.attempts = self.crashes = self.fence = 0
        self.suspect = False
        self.expires = 0
        self.progress: Progress | None = None
        self.ended: Ack | Abandon | None = None
        self.reason: str | None = None
        self.waits_for: str | None = None
        self.finished: int | None = None
        self.failures: list[Failure] = []

    def charge(self, charge: Charge | None, failure: Failure | None) -> None:
        self.attempts += charge == "attempt"
        self.crashes += charge == "crash"
        if failure is not None:
            self.failures = [*self.failures, failure][-MAX_FAILURES:]

    def record(self, owner: str, cancel_asked: bool = False) -> JobRecord:
        leased, ended = self.state == "leased", self.ended
        return JobRecord(
            id=self.message.id,
            queue=self.message.queue,
            handler=self.message.handler,
            name=self.message.name,
            state=self.state,
            priority=self.message.priority,
            attempts=self.attempts,
            crashes=self.crashes,
            fence=self.fence,
            enqueued_at=self.enqueued,
            due_at=self.expires if self.state == "delayed" else self.due,
            finished_at=self.finished,
            owner=owner if leased or ended else None,
            lease_until=self.expires if leased else None,
            seconds=ended.seconds if isinstance(ended, Ack) else None,
            reason=self.reason,
            output=ended.output if isinstance(ended, Ack) else None,
            failures=tuple(self.failures),
            run=ended.run if isinstance(ended, Ack) else None,
            body=self.message.body if self.state not in ENDED else None,
            progress=self.progress,
            cancel_asked=cancel_asked,
            waits_for=self.waits_for,
        )
