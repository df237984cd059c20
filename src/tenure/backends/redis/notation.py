"""Notation: how jobs, counters and outcomes are written in the values of hashes; see lua/prelude.lua for the keys."""

from typing import Any

import msgspec
from msgspec import Struct

from tenure.backends.asking import Burial, JobRecord
from tenure.backends.contract import Abandon, Ack, Lease, Message, Nack, Park
from tenure.clock import MICROSECOND
from tenure.definition.failure import Failure
from tenure.definition.progress import Progress
from tenure.events import Run

RANK = 1 << 48  # between one priority and the next: so many jobs may be put before places overlap
_TOP = 9

_encode = msgspec.json.Encoder().encode
_labels = msgspec.json.Decoder(tuple[str, str | None]).decode
_failure = msgspec.json.Decoder(Failure).decode
_progress = msgspec.json.Decoder(Progress).decode


class Outcome(Struct, array_like=True):
    """How a job ended, as kept in history and with dead letters."""

    attempts: int
    crashes: int
    fence: int
    owner: str | None
    seconds: float | None
    reason: str | None
    output: str | None
    run: Run | None = None


_outcome = msgspec.json.Decoder(Outcome).decode


class Head(Struct, frozen=True):
    """What of a job's record does not change while it waits and runs."""

    enqueued: int
    due: int
    priority: int
    handler: str
    name: str | None


def text(value: Any) -> bytes:
    return _encode(value)


def tail(message: Message) -> bytes:
    """What a producer knows of a record; the server writes its number and times before it."""
    return b"%d %b\n%b" % (message.priority, _encode((message.handler, message.name)), message.body)


def rank(message: Message) -> int:
    return (_TOP - message.priority) * RANK


def due(message: Message) -> str:
    """`+` and microseconds from now, or a moment."""
    return str(message.due) if message.due else f"+{round(message.delay * MICROSECOND)}"


def member(lease: Lease) -> str:
    return f"{lease.id}:{lease.owner}:{lease.fence}:{lease.token[0]}"


def lease(id: bytes, place: bytes, meta: bytes | None, record: bytes, queue: str, owner: str) -> Lease:
    """A lease as granted; its token is the place and the head of the record, which the history needs."""
    head, _, body = record.partition(b"\n")
    fields = head.split(b" ", 3)
    attempts, crashes, fence, suspect = counters(meta)
    return Lease(
        id=id.decode(),
        queue=queue,
        body=body,
        owner=owner,
        fence=fence + 1,
        attempts=attempts,
        crashes=crashes,
        suspect=suspect,
        priority=_TOP - int(place) // RANK,
        due=int(fields[2]),
        token=(place.decode(), head),
    )


def counters(meta: bytes | None) -> tuple[int, int, int, bool]:
    if not meta:
        return 0, 0, 0, False
    attempts, crashes, fence, suspect = meta.split()
    return int(attempts), int(crashes), int(fence), suspect == b"1"


def meta(verdict: Nack) -> str:
    lease = verdict.lease
    attempts = lease.attempts + (verdict.charge == "attempt")
    crashes = lease.crashes + (verdict.charge == "crash")
    return f"{attempts} {crashes} {lease.fence} {int(verdict.charge == 'suspect')}"


def parked(verdict: Park) -> tuple[str, str, str, int]:
    """Place, counters, guard and rank among its waiters: by priority, then by the millisecond of the enqueue."""
    lease = verdict.lease
    place, head = lease.token
    enqueued = int(head.split(b" ", 2)[1]) // 1000
    counts = f"{lease.attempts} {lease.crashes} {lease.fence} {int(lease.suspect)}"
    return place, counts, verdict.key, (_TOP - lease.priority) * 10**13 + enqueued


def ended(verdict: Ack) -> bytes:
    """The tail of an ended job's record."""
    lease = verdict.lease
    outcome = (
        *(lease.attempts, lease.crashes, lease.fence, lease.owner),
        *(verdict.seconds, verdict.reason, verdict.output, verdict.run),
    )
    head: bytes = lease.token[1]
    return b"%b\n%b" % (head, _encode(outcome))


def death(verdict: Abandon) -> bytes:
    lease = verdict.lease
    attempts = lease.attempts + (verdict.charge == "attempt")
    crashes = lease.crashes + (verdict.charge == "crash")
    return _encode((attempts, crashes, lease.fence, lease.owner, None, verdict.reason, None))


def letter(burial: Burial) -> tuple[str, bytes, bytes, bytes]:
    """A dead letter that nobody leased: id, tail, outcome and failure."""
    outcome = _encode((burial.attempts, 0, 0, None, None, burial.reason, None))
    return burial.message.id, tail(burial.message), outcome, _encode(burial.failure) if burial.failure else b""


def failure(verdict: Nack | Abandon) -> bytes:
    return _encode(verdict.failure) if verdict.failure else b""


def read_live(id: str, queue: str, state: str, record: bytes, counts: tuple[int, int, int], **more: Any) -> JobRecord:
    """The record of a job that waits, runs or lies dead."""
    head, _, body = record.partition(b"\n")
    facts = _head(head)
    attempts, crashes, fence = counts
    return JobRecord(
        **{"due_at": facts.due, **more},
        id=id,
        queue=queue,
        state=state,
        attempts=attempts,
        crashes=crashes,
        fence=fence,
        handler=facts.handler,
        name=facts.name,
        priority=facts.priority,
        enqueued_at=facts.enqueued,
        body=body,
    )


def read_dead(
    id: str, queue: str, died: bytes, record: bytes, outcome: bytes, failures: tuple[Failure, ...]
) -> JobRecord:
    end = _outcome(outcome)
    counts = (end.attempts, end.crashes, end.fence)
    more = {"finished_at": int(died), "owner": end.owner, "reason": end.reason, "failures": failures}
    return read_live(id, queue, "dead", record, counts, **more)


def read_ended(id: str, queue: str, record: bytes, failures: tuple[Failure, ...]) -> JobRecord:
    start, head, outcome = record.split(b"\n", 2)
    _, finished, state = start.split()
    facts, end = _head(head), _outcome(outcome)
    return JobRecord(
        id=id,
        queue=queue,
        state=state.decode(),
        handler=facts.handler,
        name=facts.name,
        priority=facts.priority,
        attempts=end.attempts,
        crashes=end.crashes,
        fence=end.fence,
        enqueued_at=facts.enqueued,
        due_at=facts.due,
        finished_at=int(finished),
        owner=end.owner,
        seconds=end.seconds,
        reason=end.reason,
        output=end.output,
        run=end.run,
        failures=failures,
    )


def read_failures(lines: bytes | None) -> tuple[Failure, ...]:
    return tuple(map(_failure, (lines or b"").splitlines()))


def read_progress(value: bytes | None) -> Progress | None:
    return _progress(value) if value else None


def _head(head: bytes) -> Head:
    _, enqueued, due, priority, labels = head.split(b" ", 4)
    handler, name = _labels(labels)
    return Head(int(enqueued), int(due), int(priority), handler, name)
