"""How jobs, counters and outcomes are written in the values of hashes; lua/prelude.lua describes the keys."""

from typing import Any

import msgspec
from msgspec import Struct

from tenure.backends.messages import Abandon, Ack, Lease, Message, Nack, Park
from tenure.backends.records import JobRecord, NewDeadLetter
from tenure.clock import MICROSECOND
from tenure.definition.context import Progress
from tenure.definition.failure import Failure
from tenure.events import Run

PRIORITY_STEP = 1 << 48  # between two priorities: so many jobs may be put before their places overlap
_MAX_PRIORITY = 9

_encode = msgspec.json.Encoder().encode
_decode_labels = msgspec.json.Decoder(tuple[str, str | None]).decode
_decode_failure = msgspec.json.Decoder(Failure).decode
_decode_progress = msgspec.json.Decoder(Progress).decode


class StoredOutcome(Struct, array_like=True):
    """How a job ended, as stored in the history and with dead letters."""

    attempts: int
    crashes: int
    fence: int
    owner: str | None
    seconds: float | None
    reason: str | None
    output: str | None
    run: Run | None = None


_decode_outcome = msgspec.json.Decoder(StoredOutcome).decode


class RecordHead(Struct, frozen=True):
    """The part of a record that does not change while the job waits and runs."""

    enqueued: int
    due: int
    priority: int
    handler: str
    name: str | None


def json_bytes(value: Any) -> bytes:
    return _encode(value)


def record_tail(message: Message) -> bytes:
    """The part of a record that the producer writes; the server puts its number and times before it."""
    return b"%d %b\n%b" % (message.priority, _encode((message.handler, message.name)), message.body)


def priority_offset(message: Message) -> int:
    return (_MAX_PRIORITY - message.priority) * PRIORITY_STEP


def due_argument(message: Message) -> str:
    """A time, or `+` and the microseconds from now."""
    return str(message.due) if message.due else f"+{round(message.delay * MICROSECOND)}"


def lease_member(lease: Lease) -> str:
    return f"{lease.id}:{lease.owner}:{lease.fence}:{lease.token[0]}"


def decode_lease(id: bytes, place: bytes, meta: bytes | None, record: bytes, queue: str, owner: str) -> Lease:
    """A granted lease; its token is the place and the head of the record, which the history needs."""
    head, _, body = record.partition(b"\n")
    fields = head.split(b" ", 3)
    attempts, crashes, fence, suspect = decode_counters(meta)
    return Lease(
        id=id.decode(),
        queue=queue,
        body=body,
        owner=owner,
        fence=fence + 1,
        attempts=attempts,
        crashes=crashes,
        suspect=suspect,
        priority=_MAX_PRIORITY - int(place) // PRIORITY_STEP,
        due=int(fields[2]),
        token=(place.decode(), head),
    )


def decode_counters(meta: bytes | None) -> tuple[int, int, int, bool]:
    if not meta:
        return 0, 0, 0, False
    attempts, crashes, fence, suspect = meta.split()
    return int(attempts), int(crashes), int(fence), suspect == b"1"


def encode_counters(verdict: Nack) -> str:
    lease = verdict.lease
    attempts = lease.attempts + (verdict.charge == "attempt")
    crashes = lease.crashes + (verdict.charge == "crash")
    return f"{attempts} {crashes} {lease.fence} {int(verdict.charge == 'suspect')}"


def park_arguments(verdict: Park) -> tuple[str, str, str, int]:
    """Place, counters, guard, and the rank among its waiters: by priority, then by the millisecond of the enqueue."""
    lease = verdict.lease
    place, head = lease.token
    enqueued = int(head.split(b" ", 2)[1]) // 1000
    counts = f"{lease.attempts} {lease.crashes} {lease.fence} {int(lease.suspect)}"
    return place, counts, verdict.key, (_MAX_PRIORITY - lease.priority) * 10**13 + enqueued


def ended_tail(verdict: Ack) -> bytes:
    """The tail of the record of an ended job."""
    lease = verdict.lease
    outcome = (
        *(lease.attempts, lease.crashes, lease.fence, lease.owner),
        *(verdict.seconds, verdict.reason, verdict.output, verdict.run),
    )
    head: bytes = lease.token[1]
    return b"%b\n%b" % (head, _encode(outcome))


def dead_outcome(verdict: Abandon) -> bytes:
    lease = verdict.lease
    attempts = lease.attempts + (verdict.charge == "attempt")
    crashes = lease.crashes + (verdict.charge == "crash")
    return _encode((attempts, crashes, lease.fence, lease.owner, None, verdict.reason, None))


def dead_letter_arguments(letter: NewDeadLetter) -> tuple[str, bytes, bytes, bytes]:
    """A dead letter that was never leased: id, tail, outcome and failure."""
    outcome = _encode((letter.attempts, 0, 0, None, None, letter.reason, None))
    return letter.message.id, record_tail(letter.message), outcome, _encode(letter.failure) if letter.failure else b""


def encode_failure(verdict: Nack | Abandon) -> bytes:
    return _encode(verdict.failure) if verdict.failure else b""


def decode_live(id: str, queue: str, state: str, record: bytes, counts: tuple[int, int, int], **more: Any) -> JobRecord:
    """The record of a job that waits, runs or is a dead letter."""
    head, _, body = record.partition(b"\n")
    fields = _decode_head(head)
    attempts, crashes, fence = counts
    return JobRecord(
        **{"due_at": fields.due, **more},
        id=id,
        queue=queue,
        state=state,
        attempts=attempts,
        crashes=crashes,
        fence=fence,
        handler=fields.handler,
        name=fields.name,
        priority=fields.priority,
        enqueued_at=fields.enqueued,
        body=body,
    )


def decode_dead(
    id: str, queue: str, died: bytes, record: bytes, outcome: bytes, failures: tuple[Failure, ...]
) -> JobRecord:
    end = _decode_outcome(outcome)
    counts = (end.attempts, end.crashes, end.fence)
    more = {"finished_at": int(died), "owner": end.owner, "reason": end.reason, "failures": failures}
    return decode_live(id, queue, "dead", record, counts, **more)


def decode_ended(id: str, queue: str, record: bytes, failures: tuple[Failure, ...]) -> JobRecord:
    start, head, outcome = record.split(b"\n", 2)
    _, finished, state = start.split()
    fields, end = _decode_head(head), _decode_outcome(outcome)
    return JobRecord(
        id=id,
        queue=queue,
        state=state.decode(),
        handler=fields.handler,
        name=fields.name,
        priority=fields.priority,
        attempts=end.attempts,
        crashes=end.crashes,
        fence=end.fence,
        enqueued_at=fields.enqueued,
        due_at=fields.due,
        finished_at=int(finished),
        owner=end.owner,
        seconds=end.seconds,
        reason=end.reason,
        output=end.output,
        run=end.run,
        failures=failures,
    )


def decode_failures(lines: bytes | None) -> tuple[Failure, ...]:
    return tuple(map(_decode_failure, (lines or b"").splitlines()))


def decode_progress(value: bytes | None) -> Progress | None:
    return _decode_progress(value) if value else None


def _decode_head(head: bytes) -> RecordHead:
    _, enqueued, due, priority, labels = head.split(b" ", 4)
    handler, name = _decode_labels(labels)
    return RecordHead(int(enqueued), int(due), int(priority), handler, name)
