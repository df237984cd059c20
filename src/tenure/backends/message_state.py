"""MessageState: the counters of a job, sent beside its sealed bytes through brokers that cannot store them.

Each copy of a message has its own state. The state of a new message counts nothing yet and repeats what is sealed. Once
there is something to count, the state is marked with the app's keys, so that only its workers can write it.
The state decides when and how often a job runs, never what it may do.
"""

from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta, Struct, structs

from tenure.backends.messages import (
    SUSPECT,
    Abandon,
    Lease,
    Message,
    Nack,
    vanished_after,
    vanished_after_expiry,
)
from tenure.backends.records import JobRecord, NewDeadLetter
from tenure.clock import MICROSECOND
from tenure.definition.failure import KEPT_FAILURES, Failure
from tenure.definition.limits import MAX_COUNT, Count, Priority, Text, check_text
from tenure.errors import BadSignature, InvalidJob, UnknownKey
from tenure.wire.envelope import claimed_tags
from tenure.wire.signing import SEAL_SIZE, Key, Ring

MAX_REASON_LENGTH = 200
_TEST_RING = Ring([Key("none", b"for a backend that is used without an app")])
_NO_MARK = b"-"
_UNMARKED = b" " + _NO_MARK
_encode = msgspec.json.Encoder().encode
# A time of the years 1 to 9999, or an id of the broker; every store has room for it.
Microseconds = Annotated[int, Meta(ge=-62_135_596_800_000_000, le=253_402_300_799_999_999)]


class MessageState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of one copy of a message; `fence` counts the leases of earlier copies, times are UTC microseconds.

    `place` orders copies that came back to the queue, `replaces` is the broker's id of the copy that this one replaces,
    and `copy` is the number of this copy, so that no two have the same name.
    Any program can write the state of a new message, so its values have bounds.
    """

    id: Text
    handler: Text
    name: Text | None = None
    priority: Priority = 5
    enqueued: Microseconds = 0
    due: Microseconds = 0
    attempts: Count = 0
    crashes: Count = 0
    fence: Count = 0
    vanished: Annotated[int, Meta(ge=SUSPECT, le=MAX_COUNT)] = 0
    place: Microseconds = 0
    replaces: Microseconds = 0
    copy: Count = 0
    reason: str | None = None
    died: Microseconds = 0
    owner: str | None = None
    failures: tuple[Failure, ...] = ()

    @property
    def is_new(self) -> bool:
        """Whether nothing has happened to the message yet."""
        counted = self.fence or self.attempts or self.crashes or self.vanished or self.died
        return not (counted or self.copy or self.place or self.replaces or self.failures)


_decode = msgspec.json.Decoder(MessageState).decode


class LeaseCounters(NamedTuple):
    """The counters that a lease starts with."""

    fence: int
    attempts: int
    crashes: int
    vanished: int


def lease_counters(state: MessageState, leases: int, vanished: int) -> LeaseCounters:
    """The written counters, plus what the broker has counted since they were written.

    `leases` counts the leases of this copy with the present one, `vanished` those whose worker ended without settling.
    A dead letter that is replayed by hand starts with zero attempts and crashes.
    """
    fence = state.fence + leases
    if state.died:
        return LeaseCounters(fence, 0, 0, 0)
    if state.vanished == SUSPECT:
        return LeaseCounters(fence, state.attempts, state.crashes + vanished, SUSPECT)
    return LeaseCounters(fence, state.attempts, state.crashes, state.vanished + vanished)


def new_state(message: Message, now: int) -> MessageState:
    return MessageState(
        id=message.id,
        handler=message.handler,
        name=message.name,
        priority=message.priority,
        enqueued=now,
        due=message.due or now + round(message.delay * MICROSECOND),
    )


def settled_state(state: MessageState, verdict: Nack | Abandon) -> MessageState:
    """The state after this settlement."""
    lease, charge, failure = verdict.lease, verdict.charge, verdict.failure
    return structs.replace(
        state,
        attempts=lease.attempts + (charge == "attempt"),
        crashes=lease.crashes + (charge == "crash"),
        fence=lease.fence,
        vanished=vanished_after(verdict) if isinstance(verdict, Nack) else 0,
        reason=None,
        died=0,
        failures=state.failures if failure is None else (*state.failures, failure)[-KEPT_FAILURES:],
    )


def expired_state(state: MessageState, lease: Lease, suspect_after: int) -> MessageState:
    """The state after the lease expired; it counts a crash if the lease was taken alone."""
    return structs.replace(
        state,
        attempts=lease.attempts,
        crashes=lease.crashes + lease.alone,
        fence=lease.fence,
        vanished=vanished_after_expiry(lease.vanished, suspect_after),
        reason=None,
        died=0,
    )


def dead_state(state: MessageState, lease: Lease, reason: str, now: int) -> MessageState:
    """The state of a dead letter; `state` is that after its last settlement."""
    return structs.replace(state, vanished=0, reason=reason[:MAX_REASON_LENGTH], died=now, owner=lease.owner)


def new_dead_state(letter: NewDeadLetter, now: int) -> MessageState:
    """The state of a dead letter that was never leased."""
    return structs.replace(
        new_state(letter.message, now),
        due=now,
        attempts=letter.attempts,
        reason=letter.reason[:MAX_REASON_LENGTH],
        died=now,
        failures=(letter.failure,) if letter.failure else (),
    )


def replayed_state(state: MessageState, now: int) -> MessageState:
    """The state of a replayed dead letter: counters start again, failures and fence stay."""
    return structs.replace(
        state, attempts=0, crashes=0, vanished=0, reason=None, died=0, owner=None, due=now, place=0, replaces=0
    )


def dead_record(state: MessageState, queue: str, body: bytes) -> JobRecord:
    """A dead letter as users see it."""
    return JobRecord(
        id=state.id,
        queue=queue,
        handler=state.handler,
        name=state.name,
        state="dead",
        priority=state.priority,
        attempts=state.attempts,
        crashes=state.crashes,
        fence=state.fence,
        enqueued_at=state.enqueued,
        due_at=state.due,
        finished_at=state.died,
        owner=state.owner,
        reason=state.reason,
        failures=state.failures,
        body=body,
        tags=claimed_tags(body),
    )


def shortened(state: MessageState, max_bytes: int) -> MessageState:
    """The state cut to a size: first the oldest failures are left out, then the trace of the last one."""
    while state.failures and len(_encode(state)) > max_bytes:
        kept = state.failures[1:]
        if not kept and state.failures[0].trace is not None:
            kept = (structs.replace(state.failures[0], trace=None),)
        state = structs.replace(state, failures=kept)
    return state


class StateCodec:
    """Writes states with a mark and reads them back; the mark covers the seal of the message too."""

    def __init__(self, ring: Ring = _TEST_RING) -> None:
        self._ring = ring

    def write(self, state: MessageState, body: bytes) -> bytes:
        """One line, without its end: the state and its mark."""
        text = _encode(state)
        if state.is_new:
            return text + _UNMARKED
        return b"%s %s" % (text, self._ring.mark(text + body[-SEAL_SIZE:]))

    def read(self, line: bytes, body: bytes) -> MessageState | None:
        """The state in a line; None when no app with our keys has written it."""
        text, _, mark = line.rpartition(b" ")
        try:
            state = _decode(text)
            for field in ("id", "handler", "name") if rb"\u0000" in text else ():
                check_text(field, getattr(state, field) or "")
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, InvalidJob):
            return None
        if mark == _NO_MARK:
            return state if state.is_new else None
        return state if self._accepts(text + body[-SEAL_SIZE:], mark) else None

    def _accepts(self, text: bytes, mark: bytes) -> bool:
        """Accepts a mark with an unknown key, which may reach us soon: the worker checks the seal of the body next."""
        try:
            self._ring.check_mark(text, mark)
        except UnknownKey:
            return True
        except BadSignature:
            return False
        return True
