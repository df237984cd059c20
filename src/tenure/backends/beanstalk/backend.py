"""BeanstalkBackend: the verbs on tubes.

A lease is a reservation. When its connection is lost, the server takes the job back at once, otherwise after its TTR.
New counters are written into a copy, which is put before the old job is deleted. A crash in between duplicates the job
and never loses it: the worker that leases the copy deletes the job that it replaces.
Order is strict by priority, then enqueue; a job that came back with a charge comes before new jobs.
"""

import logging
import secrets
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TypeVar

from msgspec import structs

from tenure.backends.beanstalk import protocol
from tenure.backends.beanstalk.claims import BeanstalkClaims
from tenure.backends.beanstalk.connection import ConnectionLost, ConnectionPool, PooledConnection, Reservation
from tenure.backends.beanstalk.copies import JobCopies, JobCopy
from tenure.backends.beanstalk.dead_letters import BeanstalkDeadLetters
from tenure.backends.beanstalk.protocol import Tubes, server_priority, statistic, whole_seconds
from tenure.backends.beanstalk.server import BeanstalkQueueCounts, BeanstalkServer
from tenure.backends.contract import Backend
from tenure.backends.message_state import (
    MessageState,
    StateCodec,
    dead_state,
    expired_state,
    new_state,
    settled_state,
)
from tenure.backends.messages import (
    DEFAULT_SUSPECT_AFTER,
    SUSPECT,
    Abandon,
    Ack,
    Lease,
    Message,
    Nack,
    ReapedLease,
    vanished_after,
)
from tenure.clock import MICROSECOND, Clock
from tenure.errors import BackendError, InvalidPayload, PartialPut
from tenure.wire.signing import Ring

logger = logging.getLogger(__name__)

T = TypeVar("T")
V = TypeVar("V", Ack, Nack, Abandon)
Item = tuple[int, T, Reservation]  # position, verdict or lease, what is held


class BeanstalkBackend(Backend):
    """The verbs on one server."""

    def __init__(self, pool: ConnectionPool, tubes: Tubes, clock: Clock, ttr: int) -> None:
        self._pool = pool
        self._tubes = tubes
        self._clock = clock
        self._ttr = ttr
        self._owner = secrets.token_hex(8)
        self._copies = JobCopies(pool, ttr)
        self._claims = BeanstalkClaims(self._copies, tubes, clock, self._owner)
        self.dead_letters = BeanstalkDeadLetters(pool, tubes, clock, self._copies)
        self.queues = BeanstalkQueueCounts(pool, tubes)
        self.server = BeanstalkServer(pool, ttr)

    def use_keys(self, ring: Ring) -> None:
        self._copies.codec = StateCodec(ring)

    def put(self, messages: Sequence[Message]) -> list[str]:
        now = self._clock.now()
        commands: list[bytes] = []
        for queue, same in groupby(messages, key=lambda message: message.queue):
            commands.append(protocol.use(self._tubes.tube(queue)))
            commands += [self._put(message, now) for message in same]
        with self._pool.borrow() as pooled:
            try:
                replies = pooled.connection.exchange(commands)
            except ConnectionLost as error:
                raise _partial(messages, error.replies, str(error)) from error
        if sum(reply.word == b"INSERTED" for reply in replies) < len(messages):
            raise _partial(messages, replies, "the server refused others; it may be draining, or out of memory")
        return [message.id for message in messages]

    def lease(self, queues: Sequence[str], *, limit: int, seconds: float, wait: float = 0.0) -> list[Lease]:
        """A wait of half a second or more is rounded up to whole seconds, the unit of the server."""
        self._check_ttr(seconds)
        with self._pool.borrow() as pooled:
            leases = self._claims.take(pooled, queues, limit, seconds)
        if leases or wait < 0.5:
            return leases
        with self._pool.borrow(without_leases=True) as pooled:
            return self._claims.wait(pooled, queues, limit, seconds, wait)

    def ack(self, verdicts: Sequence[Ack]) -> list[Lease]:
        def delete(pooled: PooledConnection, items: list[Item[Ack]]) -> set[int]:
            return _answered(pooled, [(index, protocol.delete(_job(held))) for index, _, held in items], b"DELETED")

        return self._settle(verdicts, delete)

    def nack(self, verdicts: Sequence[Nack]) -> list[Lease]:
        return self._settle(verdicts, self._return)

    def abandon(self, verdicts: Sequence[Abandon]) -> list[Lease]:
        def move(pooled: PooledConnection, items: list[Item[Abandon]]) -> set[int]:
            copies = []
            for index, verdict, held in items:
                after = settled_state(held.state, verdict)
                dead = dead_state(after, held.lease, verdict.reason, self._clock.now())
                copies.append(self._copy(index, held, dead))
            return self._copies.replace_buried(pooled.connection, copies)

        return self._settle(verdicts, move)

    def renew(self, leases: Sequence[Lease], *, seconds: float) -> list[Lease]:
        """The server restarts its TTR, which is never shorter than the lease."""

        def touch(pooled: PooledConnection, items: list[Item[Lease]]) -> set[int]:
            kept = _answered(pooled, [(index, protocol.touch(_job(held))) for index, _, held in items], b"TOUCHED")
            expires = self._clock.monotonic() + seconds
            for index, _, held in items:
                if index in kept:
                    pooled.held[_job(held)] = held._replace(expires=expires)
            return kept

        return self._apply(leases, leases, touch)

    def reap(self, queues: Sequence[str], *, suspect_after: int = DEFAULT_SUSPECT_AFTER) -> list[ReapedLease]:
        """Returns the expired leases of this process; the server itself takes back those of other processes."""
        now = self._clock.monotonic()
        expired = [held for held in self._pool.reservations() if held.expires <= now and held.lease.queue in queues]

        def give_back(pooled: PooledConnection, items: list[Item[Lease]]) -> set[int]:
            copies = [
                self._copy(index, held, expired_state(held.state, held.lease, suspect_after))
                for index, _, held in items
            ]
            self._copies.replace(pooled.connection, copies)
            return {index for index, _, _ in items}

        leases = [held.lease for held in expired]
        settled_meanwhile = {(lease.id, lease.fence) for lease in self._apply(leases, leases, give_back)}
        return [
            ReapedLease(lease.id, lease.queue, lease.alone)
            for lease in leases
            if (lease.id, lease.fence) not in settled_meanwhile
        ]

    def has_suspects(self, queues: Sequence[str]) -> bool:
        with self._pool.borrow() as pooled:
            replies = pooled.connection.exchange([protocol.stats_tube(self._tubes.suspects(queue)) for queue in queues])
        return any(statistic(reply.data, b"current-jobs-ready") for reply in replies)

    def lease_suspect(self, queues: Sequence[str], *, seconds: float) -> list[Lease]:
        self._check_ttr(seconds)
        with self._pool.borrow() as pooled:
            return self._claims.take_suspect(pooled, queues, seconds)

    def close(self) -> None:
        self._pool.close()

    def _check_ttr(self, seconds: float) -> None:
        if seconds > self._ttr:
            raise BackendError(
                f"a lease of {seconds:g} s is longer than the TTR of {self._ttr} s that jobs are put with; "
                f"shorten the setting 'lease', or set the option ttr={whole_seconds(seconds)} in the beanstalk URL"
            )

    def _put(self, message: Message, now: int) -> bytes:
        job = self._copies.encode(new_state(message, now), message.body)
        if len(job) > self._copies.max_size():
            raise InvalidPayload(
                f"job {message.handler!r} makes a message of {len(message.body)} bytes, and this beanstalkd accepts "
                f"{self._pool.max_job_size()} with the counters beside it (its option -z); "
                "store the data elsewhere and send its location"
            )
        delay = (message.due - now) / MICROSECOND if message.due else message.delay
        return protocol.put(server_priority(message.priority, 0), whole_seconds(delay), self._ttr, job)

    def _return(self, pooled: PooledConnection, items: list[Item[Nack]]) -> set[int]:
        """A job without new counters is released and keeps its place; the others are replaced by a copy."""
        released, copies = [], []
        for index, verdict, held in items:
            same_counters = verdict.charge is None and vanished_after(verdict) == held.lease.vanished
            if same_counters and verdict.failure is None and not held.state.died:
                command = protocol.release(
                    _job(held), server_priority(held.lease.priority, held.state.place), whole_seconds(verdict.delay)
                )
                released.append((index, command))
            else:
                after = settled_state(held.state, verdict)
                copies.append(self._copy(index, held, after, whole_seconds(verdict.delay)))
        return _answered(pooled, released, b"RELEASED") | self._copies.replace(pooled.connection, copies)

    def _copy(self, index: int, held: Reservation, state: MessageState, delay: int = 0) -> JobCopy:
        job = _job(held)
        state = structs.replace(state, place=state.place or job, replaces=job)
        tube = self._tubes.suspects if state.vanished == SUSPECT else self._tubes.tube
        return JobCopy(index, job, tube(held.lease.queue), state, held.lease.body, delay)

    def _settle(
        self, verdicts: Sequence[V], settle: Callable[[PooledConnection, list[Item[V]]], set[int]]
    ) -> list[Lease]:
        return self._apply(verdicts, [verdict.lease for verdict in verdicts], settle)

    def _apply(
        self, items: Sequence[T], leases: Sequence[Lease], apply: Callable[[PooledConnection, list[Item[T]]], set[int]]
    ) -> list[Lease]:
        """Apply to the leases that are still held, each on its own connection; return the leases that were lost."""
        by_connection: dict[int, list[int]] = {}
        for index, lease in enumerate(leases):
            if lease.owner == self._owner:
                by_connection.setdefault(lease.token[0], []).append(index)
        done: set[int] = set()
        for number, indexes in by_connection.items():
            with self._pool.borrow_number(number) as pooled:
                if pooled is not None:
                    found = [(index, items[index], _take_out(pooled, leases[index])) for index in indexes]
                    done |= apply(pooled, [(index, item, held) for index, item, held in found if held])
        return [lease for index, lease in enumerate(leases) if index not in done]


def _take_out(pooled: PooledConnection, lease: Lease) -> Reservation | None:
    """The fence is compared because the job may have been leased again on the same connection."""
    held = pooled.held.get(lease.token[1])
    if held is None or held.lease.fence != lease.fence:
        return None
    return pooled.held.pop(lease.token[1])


def _job(held: Reservation) -> int:
    job: int = held.lease.token[1]
    return job


def _answered(pooled: PooledConnection, commands: list[tuple[int, bytes]], word: bytes) -> set[int]:
    """The positions of the commands that the server answered with this word, also before the connection was lost."""
    try:
        replies = pooled.connection.exchange([command for _, command in commands])
    except ConnectionLost as error:
        logger.warning("%s; the jobs that were leased on it run again", error)
        replies = error.replies
    return {index for (index, _), reply in zip(commands, replies, strict=False) if reply.word == word}


def _partial(messages: Sequence[Message], replies: Sequence[protocol.Reply], why: str) -> PartialPut:
    """Names the stored messages; without the replies to `use`, the replies are in the order of the messages."""
    answers = [reply.word for reply in replies if reply.word != b"USING"]
    accepted = [message.id for message, word in zip(messages, answers, strict=False) if word == b"INSERTED"]
    return PartialPut(f"{len(accepted)} of {len(messages)} messages were stored for certain: {why}", accepted)
