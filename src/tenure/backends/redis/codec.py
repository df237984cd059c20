"""How jobs, counters and outcomes are written in the values of hashes; lua/prelude.lua describes the keys."""

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from tenure.backends.messages import Abandon, Ack, Lease, Message, Nack, Park, vanished_after
from tenure.backends.records import JobRecord, NewDeadLetter
from tenure.clock import MICROSECOND
from tenure.definition.context import Progress
from tenure.definition.failure import Failure
from tenure.events import Run

PRIORITY_STEP = 1 << 48  # between two priorities: so many jobs may be put before their places overlap
_MAX_PRIORITY = 9

_encode = msgspec.json.Encoder().encode
_encode_lines = msgspec.json.Encoder().encode_lines
pack = msgspec.msgpack.Encoder().encode  # for cmsgpack.unpack in a script, which knows text but no bytes
_decode_failure = msgspec.json.Decoder(Failure).decode
_decode_progress = msgspec.json.Decoder(Progress).decode


class StoredOutcome(Struct, array_like=True):
    """How a job ended, as stored in the history and with dead letters."""

    attempts: int = 0
    crashes: int = 0
    fence: int = 0
    owner: str | None = None
    seconds: float | None = None
    reason: str | None = None
    output: str | None = None
    run: Run | None = None


class Labels(Struct, frozen=True, array_like=True):
    """The end of the head of a record; `tags` is only written for a job that has tags."""

    handler: str
    name: str | None
    tags: tuple[str, ...] = ()


_decode_labels = msgspec.json.Decoder(Labels).decode
_decode_outcome = msgspec.json.Decoder(StoredOutcome).decode
_COUNTERS = re.compile(rb"(?=.{7,32}\Z)([0-9]+) ([0-9]+) ([0-9]{1,9}) (-1|[0-9]{1,9})")
_UNREADABLE = (msgspec.MsgspecError, ValueError, TypeError)


class RecordHead(Struct, frozen=True):
    """The part of a record that does not change while the job waits and runs."""

    enqueued: int
    due: int
    priority: int
    handler: str
    name: str | None
    tags: tuple[str, ...] = ()


def json_bytes(value: Any) -> bytes:
    return _encode(value)


def record_tail(message: Message) -> bytes:
    """The part of a record that the producer writes; the server puts its number and times before it."""
    labels = (message.handler, message.name, message.tags) if message.tags else (message.handler, message.name)
    return b"%d %b\n%b" % (message.priority, _encode(labels), message.body)


def tags_argument(message: Message) -> str:
    return ",".join(message.tags)


def priority_offset(message: Message) -> int:
    return (_MAX_PRIORITY - message.priority) * PRIORITY_STEP


def due_argument(message: Message) -> str:
    """A time, or `+` and the microseconds from now."""
    return str(message.due) if message.due else f"+{round(message.delay * MICROSECOND)}"


def lease_member(lease: Lease) -> str:
    return lease_members([lease])[0]


def lease_members(leases: Sequence[Lease]) -> list[str]:
    return [f"{lease.id}:{lease.owner}:{lease.fence}:{lease.token[0]}" for lease in leases]


def decode_lease(id: bytes, place: bytes, meta: bytes | None, record: bytes, queue: str, owner: str) -> Lease:
    """A granted lease; its token is the place and the head of the record, which the history needs."""
    try:
        start, _, body = record.partition(b"\n")
        head = start.decode() if start.isascii() else start.decode("utf-8", "replace")
        due = int(head.split(" ", 3)[2])
        attempts, crashes, fence, vanished = decode_counters(meta) if meta else (0, 0, 0, 0)
    except (ValueError, IndexError, AttributeError):
        return _damaged_lease(id, place, meta, record, queue, owner)
    return Lease(
        id=id.decode(),
        queue=queue,
        body=body,
        owner=owner,
        fence=fence + 1,
        attempts=attempts,
        crashes=crashes,
        vanished=vanished,
        priority=_MAX_PRIORITY - int(place) // PRIORITY_STEP,
        due=due,
        token=(place.decode(), head),
    )


def _damaged_lease(id: bytes, place: bytes, meta: bytes | None, record: bytes | None, queue: str, owner: str) -> Lease:
    """The lease of a job whose record or counters another program changed; the fence is what the script counted."""
    what = "has no record" if record is None else f"has the record {record[:40]!r} and the counters {meta!r:.40}"
    has_counters = meta is not None and _COUNTERS.fullmatch(meta)
    attempts, crashes, fence, _ = decode_counters(meta) if has_counters else (0, 0, 0, 0)
    return Lease(
        id=id.decode(),
        queue=queue,
        body=record or b"",
        owner=owner,
        fence=fence + 1,
        attempts=attempts,
        crashes=crashes,
        vanished=0,
        priority=_MAX_PRIORITY - int(place) // PRIORITY_STEP,
        due=0,
        token=(place.decode(), ""),
        fault=f"the job {what} in Redis, which no release of Tenure wrote",
    )


def decode_counters(meta: bytes | None) -> tuple[int, int, int, int]:
    """Attempts, crashes, fence and vanished; raises ValueError where the function `split` of prelude.lua finds none."""
    if not meta:
        return 0, 0, 0, 0
    found = _COUNTERS.fullmatch(meta)
    if found is None:
        raise ValueError(f"no counters: {meta!r:.80}")
    attempts, crashes, fence, vanished = found.groups()
    return int(attempts), int(crashes), int(fence), int(vanished)


def encode_counters(verdict: Nack) -> str:
    lease = verdict.lease
    attempts = lease.attempts + (verdict.charge == "attempt")
    crashes = lease.crashes + (verdict.charge == "crash")
    return f"{attempts} {crashes} {lease.fence} {vanished_after(verdict)}"


def park_arguments(verdict: Park) -> tuple[str, str, str, int]:
    """Place, counters, guard, and the rank among its waiters: by priority, then by the millisecond of the enqueue."""
    lease = verdict.lease
    place, head = lease.token
    enqueued = int(head.split(" ", 2)[1]) // 1000
    counts = f"{lease.attempts} {lease.crashes} {lease.fence} {lease.vanished}"
    return place, counts, verdict.key, (_MAX_PRIORITY - lease.priority) * 10**13 + enqueued


def ended_tails(verdicts: Sequence[Ack]) -> list[str]:
    """The tails of the records of ended jobs; their outcomes are encoded together, a line each."""
    outcomes = _encode_lines(
        [
            (
                (lease := verdict.lease).attempts,
                lease.crashes,
                lease.fence,
                lease.owner,
                verdict.seconds,
                verdict.reason,
                verdict.output,
                verdict.run,
            )
            for verdict in verdicts
        ]
    )
    lines = outcomes.decode().split("\n")  # the last is empty
    return [f"{verdict.lease.token[1]}\n{line}" for verdict, line in zip(verdicts, lines, strict=False)]


def dead_outcome(verdict: Abandon) -> bytes:
    lease = verdict.lease
    attempts = lease.attempts + (verdict.charge == "attempt")
    crashes = lease.crashes + (verdict.charge == "crash")
    return _encode((attempts, crashes, lease.fence, lease.owner, None, verdict.reason, None))


def dead_letter_arguments(letter: NewDeadLetter) -> tuple[str, bytes, bytes, bytes, str]:
    """A dead letter that was never leased: id, tail, outcome, failure and tags."""
    outcome = _encode((letter.attempts, 0, 0, None, None, letter.reason, None))
    failure = _encode(letter.failure) if letter.failure else b""
    return letter.message.id, record_tail(letter.message), outcome, failure, tags_argument(letter.message)


def encode_failure(verdict: Nack | Abandon) -> bytes:
    return _encode(verdict.failure) if verdict.failure else b""


def decode_live(id: str, queue: str, state: str, record: bytes, counts: tuple[int, int, int], **more: Any) -> JobRecord:
    """The record of a job that waits, runs or is a dead letter; one that cannot be read is shown with its bytes."""
    head, _, body = (record or b"").partition(b"\n")
    fields = _decode_head(head)
    if fields is _NO_HEAD:
        body = record or b""
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
        tags=fields.tags,
    )


def decode_dead(
    id: str, queue: str, died: bytes, record: bytes, outcome: bytes, failures: tuple[Failure, ...]
) -> JobRecord:
    end = _outcome(outcome)
    counts = (end.attempts, end.crashes, end.fence)
    more = {"finished_at": round(float(died)), "owner": end.owner, "reason": end.reason, "failures": failures}
    return decode_live(id, queue, "dead", record, counts, **more)


def decode_ended(id: str, queue: str, record: bytes, failures: tuple[Failure, ...]) -> JobRecord:
    start, head, outcome, *_ = [*record.split(b"\n", 2), b"", b""]
    _, finished, state, *_ = [*start.split(), b"0", b"unknown", b"unknown"]
    fields, end = _decode_head(head), _outcome(outcome)
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
        finished_at=int(finished) if finished.isdigit() else 0,
        owner=end.owner,
        seconds=end.seconds,
        reason=end.reason,
        output=end.output,
        run=end.run,
        failures=failures,
        tags=fields.tags,
    )


def without_output(record: bytes) -> bytes:
    """The record of an ended job without its result."""
    start, head, outcome, *_ = [*record.split(b"\n", 2), b"", b""]
    return b"\n".join((start, head, _encode(msgspec.structs.replace(_outcome(outcome), output=None))))


def decode_failures(lines: bytes | None) -> tuple[Failure, ...]:
    found = []
    for line in (lines or b"").splitlines():
        with suppress(*_UNREADABLE):
            found.append(_decode_failure(line))
    return tuple(found)


def decode_progress(value: bytes | None) -> Progress | None:
    with suppress(*_UNREADABLE):
        return _decode_progress(value) if value else None
    return None


_NO_HEAD = RecordHead(0, 0, 5, "unknown", None)


def _decode_head(head: bytes) -> RecordHead:
    try:
        _, enqueued, due, priority, labels = head.split(b" ", 4)
        read = _decode_labels(labels)
        return RecordHead(int(enqueued), int(due), int(priority), read.handler, read.name, read.tags)
    except _UNREADABLE:
        return _NO_HEAD


def _outcome(stored: bytes | None) -> StoredOutcome:
    try:
        return _decode_outcome(stored or b"[]")
    except _UNREADABLE:
        return StoredOutcome()
