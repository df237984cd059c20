"""Facts: what changes about a job, carried beside its sealed bytes through brokers that have no place for it.

Each copy of a message has its own. Those of a new message count nothing yet and repeat what is sealed; once there is
something to count, they are marked with the app's keys, so that only its workers can write them.
What they say decides when and how often a job runs, never what it may do.
"""

from typing import NamedTuple

import msgspec
from msgspec import Struct, structs

from tenure.backends.asking import Burial, JobRecord
from tenure.backends.contract import Charge, Lease, Message
from tenure.clock import MICROSECOND
from tenure.definition.failure import Failure
from tenure.errors import BadSignature, UnknownKey
from tenure.wire.signing import SEAL_SIZE, Key, Ring

KEPT_FAILURES = 25
LONGEST_REASON = 200
_NOBODY = Ring([Key("none", b"facts that were marked without an app, for tests")])
_NO_MARK = b"-"
_UNMARKED = b" " + _NO_MARK
_encode = msgspec.json.Encoder().encode


class Facts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One copy of a message; `fence` counts the leases of former copies, times are UTC microseconds.

    `place` orders copies that came back, `replaces` is the broker's name for the copy that this one stands for,
    and `copy` counts them, so that no two have the same name.
    """

    id: str
    handler: str
    name: str | None = None
    priority: int = 5
    enqueued: int = 0
    due: int = 0
    attempts: int = 0
    crashes: int = 0
    fence: int = 0
    suspect: bool = False
    place: int = 0
    replaces: int = 0
    copy: int = 0
    reason: str | None = None
    died: int = 0
    owner: str | None = None
    failures: tuple[Failure, ...] = ()

    @property
    def is_new(self) -> bool:
        """Whether nothing has happened to the message yet."""
        counted = self.fence or self.attempts or self.crashes or self.suspect or self.died
        return not (counted or self.copy or self.place or self.replaces or self.failures)


_decode = msgspec.json.Decoder(Facts).decode


class Standing(NamedTuple):
    """What a lease begins with."""

    fence: int
    attempts: int
    crashes: int
    suspect: bool


def standing(facts: Facts, leases: int, vanished: int) -> Standing:
    """Facts as they were written, and what the broker counted since: leases of this copy, the present one included,
    and those before it that ended without a word of their holder. A dead letter that was revived starts afresh."""
    fence = facts.fence + leases
    if facts.died:
        return Standing(fence, 0, 0, suspect=False)
    charged = max(0, vanished - (not facts.suspect))
    return Standing(fence, facts.attempts, facts.crashes + charged, facts.suspect or vanished > 0)


def first(message: Message, now: int) -> Facts:
    """The facts of a message that is new."""
    return Facts(
        id=message.id,
        handler=message.handler,
        name=message.name,
        priority=message.priority,
        enqueued=now,
        due=message.due or now + round(message.delay * MICROSECOND),
    )


def returned(facts: Facts, lease: Lease, charge: Charge | None, failure: Failure | None) -> Facts:
    """The facts after a lease that ended with this charge."""
    return structs.replace(
        facts,
        attempts=lease.attempts + (charge == "attempt"),
        crashes=lease.crashes + (charge == "crash"),
        fence=lease.fence,
        suspect=charge == "suspect",
        reason=None,
        died=0,
        failures=facts.failures if failure is None else (*facts.failures, failure)[-KEPT_FAILURES:],
    )


def reaped(facts: Facts, lease: Lease) -> Facts:
    """The facts after a lease that ran out: a crash if it was a suspect already."""
    return structs.replace(returned(facts, lease, "suspect", None), crashes=lease.crashes + lease.suspect)


def buried(facts: Facts, lease: Lease, reason: str, now: int) -> Facts:
    """The facts of a dead letter; `facts` are those after its last lease."""
    return structs.replace(facts, suspect=False, reason=reason[:LONGEST_REASON], died=now, owner=lease.owner)


def interred(burial: Burial, now: int) -> Facts:
    """The facts of a dead letter that nobody leased."""
    return structs.replace(
        first(burial.message, now),
        due=now,
        attempts=burial.attempts,
        reason=burial.reason[:LONGEST_REASON],
        died=now,
        failures=(burial.failure,) if burial.failure else (),
    )


def replayed(facts: Facts, now: int) -> Facts:
    """A fresh start; failures and fence stay."""
    return structs.replace(
        facts, attempts=0, crashes=0, suspect=False, reason=None, died=0, owner=None, due=now, place=0, replaces=0
    )


def record(facts: Facts, queue: str, body: bytes) -> JobRecord:
    """A dead letter, as people see it."""
    return JobRecord(
        id=facts.id,
        queue=queue,
        handler=facts.handler,
        name=facts.name,
        state="dead",
        priority=facts.priority,
        attempts=facts.attempts,
        crashes=facts.crashes,
        fence=facts.fence,
        enqueued_at=facts.enqueued,
        due_at=facts.due,
        finished_at=facts.died,
        owner=facts.owner,
        reason=facts.reason,
        failures=facts.failures,
        body=body,
    )


def fitting(facts: Facts, room: int) -> Facts:
    """The facts without what does not fit: the oldest failures go first, of the last one the trace."""
    while facts.failures and len(_encode(facts)) > room:
        kept = facts.failures[1:]
        if not kept and facts.failures[0].trace is not None:
            kept = (structs.replace(facts.failures[0], trace=None),)
        facts = structs.replace(facts, failures=kept)
    return facts


class Marker:
    """Writes facts down with a mark, and reads them back; the mark covers the message's own seal too."""

    def __init__(self, ring: Ring = _NOBODY) -> None:
        self._ring = ring

    def write(self, facts: Facts, body: bytes) -> bytes:
        """One line, without its end: the facts and their mark."""
        text = _encode(facts)
        if facts.is_new:
            return text + _UNMARKED
        return b"%s %s" % (text, self._ring.mark(text + body[-SEAL_SIZE:]))

    def read(self, line: bytes, body: bytes) -> Facts | None:
        """The facts in a line, or None when it was not written so: the message is then somebody else's."""
        text, _, mark = line.rpartition(b" ")
        try:
            facts = _decode(text)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        if mark == _NO_MARK:
            return facts if facts.is_new else None
        return facts if self._vouches(text + body[-SEAL_SIZE:], mark) else None

    def _vouches(self, text: bytes, mark: bytes) -> bool:
        """A key we do not hold may be on its way to us: the body is judged by its own seal, and soon."""
        try:
            self._ring.check_mark(text, mark)
        except UnknownKey:
            return True
        except BadSignature:
            return False
        return True
