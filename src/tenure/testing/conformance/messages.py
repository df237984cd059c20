"""Messages, leases and records for the tests of the suites, and the short functions that they share."""

import time
from collections.abc import Sequence
from typing import Any

import msgspec

from tenure.backends.contract import Backend
from tenure.backends.ledger import Ledger
from tenure.backends.messages import Ack, Lease, Message, Nack
from tenure.backends.parts import (
    AuditLog,
    DeadLetters,
    JobArchive,
    JobControl,
    JobEnds,
    Jobs,
    Parking,
    Payloads,
    QueueCounts,
    RecentJobs,
    StatsStore,
    UniqueJobs,
    WorkerRegistry,
)
from tenure.backends.records import JobRecord
from tenure.definition.failure import Failure
from tenure.guards.store import Store

QUEUE = "mail"
OTHER = "reports"
LEASE = 1.0  # short, because the clock of a broker can only be advanced by waiting
DELIVERY_SECONDS = 60.0  # only a backend that lost a message reaches it


class FullBackend(Backend):
    """For type checkers: a backend with every part. A test marks the parts that it needs with `needs`."""

    jobs: Jobs
    recent: RecentJobs
    payloads: Payloads
    queues: QueueCounts
    dead_letters: DeadLetters
    control: JobControl
    ends: JobEnds
    workers: WorkerRegistry
    stats: StatsStore
    guards: Store
    parking: Parking
    unique: UniqueJobs
    ledger: Ledger
    archive: JobArchive
    audit: AuditLog


class AdvancingClock:
    """For type checkers: the clock of the backend under test. A FakeClock moves at once, a broker's clock waits."""

    def now(self) -> int:
        raise NotImplementedError

    def advance(self, seconds: float) -> None:
        raise NotImplementedError


def id_of(number: int) -> str:
    """Ids that sort by their number, as UUIDv7 sorts by time."""
    return f"00000000-0000-7000-8000-{number:012d}"


def make(number: int, **fields: Any) -> Message:
    """A message of the usual queue; `fields` are those of Message."""
    usual = Message(id=id_of(number), queue=QUEUE, body=b"{}", handler="greet", name=f"no {number}")
    return msgspec.structs.replace(usual, **fields)


def kept_body(backend: Backend) -> bytes | None:
    """The body that the record of a usual message has after its end."""
    return None if backend.payloads is None else b"{}"


def make_many(numbers: range, queue: str = QUEUE) -> list[Message]:
    return [make(number, queue=queue) for number in numbers]


def take(backend: Backend, limit: int = 1, *queues: str) -> list[Lease]:
    return backend.lease(queues or (QUEUE,), limit=limit, seconds=LEASE)


def take_all(backend: Backend, count: int, queue: str = QUEUE) -> list[Lease]:
    """Leases on exactly so many messages: one call may grant fewer, since a broker returns what has arrived."""
    leases: list[Lease] = []
    give_up = time.monotonic() + DELIVERY_SECONDS
    while len(leases) < count and time.monotonic() < give_up:
        leases += backend.lease((queue,), limit=count - len(leases), seconds=LEASE, wait=0.5)
    assert len(leases) == count, f"{len(leases)} of {count} messages were leased"
    return leases


def put_and_take(backend: Backend, *messages: Message) -> list[Lease]:
    backend.put(messages)
    return take_all(backend, len(messages))


def numbers(leases: Sequence[Lease]) -> list[int]:
    """Which messages these leases are for."""
    return [int(lease.id.rpartition("-")[2]) for lease in leases]


def drain(backend: Backend, limit: int, *queues: str, expected: int = 0) -> list[int]:
    """Lease and ack batches until nothing is ready; which messages came, in what order.

    While fewer than `expected` came, wait for more: a busy broker may deliver nothing for a moment.
    """
    seen: list[int] = []
    while leases := backend.lease(
        queues or (QUEUE,), limit=limit, seconds=LEASE, wait=DELIVERY_SECONDS if len(seen) < expected else 0.0
    ):
        seen += numbers(leases)
        backend.ack([Ack(lease=lease) for lease in leases])
    return seen


def drain_all(backend: Backend, clock: AdvancingClock, count: int) -> list[int]:
    """Drain and reap until so many messages came, at most for a minute; which ones, sorted."""
    seen: list[int] = []
    for _ in range(120):
        seen += drain(backend, count)
        if len(seen) >= count:
            break
        clock.advance(0.5)
        backend.reap([QUEUE])
    return sorted(seen)


def failure(number: int, **fields: Any) -> Failure:
    usual = Failure(type="ValueError", message=f"no {number}", at=number, attempt=number, place="mail.py:7", trace="…")
    return msgspec.structs.replace(usual, **fields)


def fail_times(backend: Backend, times: int) -> None:
    """Lease and nack the head of the queue, with a charge and a failure each time."""
    for number in range(times):
        (lease,) = take_all(backend, 1)
        backend.nack([Nack(lease=lease, charge="attempt", failure=failure(number))])


def expire(backend: Backend, clock: AdvancingClock) -> None:
    """Let every lease of the usual queue run out, as when its holder vanished."""
    clock.advance(LEASE + 0.1)
    backend.reap([QUEUE])


def make_suspects(backend: Backend, clock: AdvancingClock, *messages: Message) -> None:
    """Put messages whose holder vanishes, which makes them suspects at once."""
    put_and_take(backend, *messages)
    clock.advance(LEASE + 0.1)
    backend.reap([QUEUE], suspect_after=1)
    await_suspects(backend)


def await_suspects(backend: Backend, *queues: str) -> None:
    """Lease nothing until there are suspects: a worker on a broker sets them apart when they arrive."""
    give_up = time.monotonic() + DELIVERY_SECONDS
    assert take(backend, 10) == [], "a lease leaves suspects out"
    while not backend.has_suspects(queues or (QUEUE,)):
        assert time.monotonic() < give_up, "there are no suspects"
        assert take(backend, 10) == [], "a lease leaves suspects out"


def take_suspect(backend: Backend, *queues: str) -> list[Lease]:
    """A lease on the next suspect, which may still have to arrive."""
    give_up = time.monotonic() + DELIVERY_SECONDS
    while not (leases := backend.lease_suspect(queues or (QUEUE,), seconds=LEASE)):
        assert time.monotonic() < give_up, "no suspect was leased"
        assert take(backend, 10) == [], "a lease leaves suspects out"
    return leases


def known(backend: FullBackend, number: int = 1) -> JobRecord:
    record = backend.jobs.find(id_of(number))
    assert record is not None, f"the backend does not know message {number}"
    return record


def what_is_known(backend: Backend, number: int = 1) -> JobRecord | None:
    """The record of a message, where the backend can show it."""
    return backend.jobs.find(id_of(number)) if backend.jobs is not None else None


def reap_all(backend: Backend, clock: AdvancingClock, count: int) -> list[str]:
    """Advance the clock until this many leases were reaped, at most a minute; the ids, sorted."""
    reaped: list[str] = []
    for _ in range(120):
        reaped += [each.id for each in backend.reap([QUEUE])]
        if len(reaped) >= count:
            break
        clock.advance(0.5)
    return sorted(reaped)
