"""BeanstalkClaims: reserves jobs, asks the server how their earlier reservations ended, and makes leases of them."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import structs

from tenure.backends.beanstalk import protocol
from tenure.backends.beanstalk.connection import MAX_COMMANDS, PooledConnection, Reservation
from tenure.backends.beanstalk.copies import JobCopies, JobCopy
from tenure.backends.beanstalk.protocol import JobStats, Reply, Tubes, parse_job_stats, server_priority
from tenure.backends.message_state import LeaseCounters, MessageState, lease_counters
from tenure.backends.messages import Lease
from tenure.clock import Clock


class ReservedJob(NamedTuple):
    """A reserved job with its state and the server's statistics."""

    job: int
    state: MessageState
    body: bytes
    stats: JobStats

    def counters(self) -> LeaseCounters:
        state, stats = self.state, self.stats
        if stats.reserves == 1 and not state.died:  # a shortcut for nearly all jobs
            return LeaseCounters(state.fence + 1, state.attempts, state.crashes, state.vanished)
        return lease_counters(state, stats.reserves, stats.vanished)


class BeanstalkClaims:
    """Works on one connection at a time, which the caller has locked."""

    def __init__(self, copies: JobCopies, tubes: Tubes, clock: Clock, owner: str) -> None:
        self._copies = copies
        self._tubes = tubes
        self._clock = clock
        self._owner = owner

    def take(self, pooled: PooledConnection, queues: Sequence[str], limit: int, seconds: float) -> list[Lease]:
        """Jobs that are ready now, from the first queue first."""
        leases: list[Lease] = []
        for queue in queues:
            wanted = found = 0
            tube = self._tubes.tube(queue)
            while wanted == found and len(leases) < limit:
                wanted = min(limit - len(leases), MAX_COMMANDS)
                reserved = _reserve(pooled, [tube], wanted)
                found = len(reserved)
                leases += self._grant(pooled, reserved, seconds, tube)
        return leases

    def take_suspect(self, pooled: PooledConnection, queues: Sequence[str], seconds: float) -> list[Lease]:
        """One suspect that is ready now."""
        for queue in queues:
            tube = self._tubes.suspects(queue)
            if leases := self._grant(pooled, _reserve(pooled, [tube], 1), seconds, tube):
                return leases
        return []

    def wait(
        self, pooled: PooledConnection, queues: Sequence[str], limit: int, seconds: float, wait: float
    ) -> list[Lease]:
        """The first job that becomes ready, and more of its queue; the connection must hold no leases."""
        give_up = self._clock.monotonic() + wait
        tubes = self._tubes.tubes(queues)
        while (left := give_up - self._clock.monotonic()) > 0:
            started = self._clock.monotonic()
            reserved = _reserve(pooled, tubes, 1, math.ceil(left))
            if leases := self._grant(pooled, reserved, seconds):
                return leases + self.take(pooled, [leases[0].queue], limit - 1, seconds)
            if not reserved and self._clock.monotonic() - started < 0.5:
                return []  # the server refused the wait; the caller tries again
        return []

    def _grant(
        self, pooled: PooledConnection, reserved: Sequence[Reply], seconds: float, tube: bytes | None = None
    ) -> list[Lease]:
        """Leases on these jobs, which are all of one tube if it is given."""
        leases: list[Lease] = []
        expires = self._clock.monotonic() + seconds
        for found in self._leasable(pooled, self._read(pooled, reserved, tube), seconds):
            counters = found.counters()
            lease = Lease(
                id=found.state.id,
                queue=self._tubes.queue(found.stats.tube),
                body=found.body,
                owner=self._owner,
                fence=counters.fence,
                attempts=counters.attempts,
                crashes=counters.crashes,
                vanished=counters.vanished,
                priority=found.state.priority,
                due=found.state.due,
                token=(pooled.connection.number, found.job),
            )
            pooled.held[found.job] = Reservation(lease, found.state, expires)
            leases.append(lease)
        return leases

    def _read(self, pooled: PooledConnection, reserved: Sequence[Reply], tube: bytes | None) -> list[ReservedJob]:
        """Decode jobs, ask the server for their statistics, and delete the old jobs that they replace."""
        if not reserved:
            return []
        decoded: list[tuple[MessageState, bytes]] = []

        def decode_all() -> None:
            decoded.extend([self._copies.decode(reply.data) or self._foreign(reply) for reply in reserved])

        commands = [protocol.stats_job(reply.number) for reply in reserved]
        answers = pooled.connection.exchange(commands, meanwhile=decode_all)
        if replaced := [protocol.delete(state.replaces) for state, _ in decoded if state.replaces]:
            pooled.connection.exchange(replaced)
        expected = JobStats(tube, self._copies.ttr, 1, 0, 0, 0) if tube else None
        return [
            ReservedJob(reply.number, state, body, parse_job_stats(answer.data, expected))
            for reply, (state, body), answer in zip(reserved, decoded, answers, strict=True)
            if answer.word == b"OK"
        ]

    def _leasable(self, pooled: PooledConnection, found: list[ReservedJob], seconds: float) -> list[ReservedJob]:
        """The jobs that may be leased.

        A dead letter that was not kicked is buried again; a job with a shorter TTR than the lease is put again.
        """
        dead = [each for each in found if each.state.died and not each.stats.kicks]
        short = [each for each in found if each.stats.ttr < seconds and each not in dead]
        if not (dead or short):
            return found
        pooled.connection.exchange(
            [protocol.bury(each.job, server_priority(each.state.priority, each.state.place)) for each in dead]
        )
        self._copies.replace(pooled.connection, [_with_our_ttr(each) for each in short])
        return [each for each in found if each not in dead and each not in short]

    def _foreign(self, reply: Reply) -> tuple[MessageState, bytes]:
        """A job that another program put or changed is leased as it is; the worker rejects its message."""
        now = self._clock.now()
        return MessageState(id=f"beanstalkd-{reply.number}", handler="unknown", enqueued=now, due=now), reply.data


def _with_our_ttr(found: ReservedJob) -> JobCopy:
    counters = found.counters()
    place = found.state.place or found.job
    state = structs.replace(found.state, **counters._asdict(), place=place, replaces=found.job)
    return JobCopy(0, found.job, found.stats.tube, state, found.body)


def _reserve(pooled: PooledConnection, tubes: Sequence[bytes], limit: int, seconds: int = 0) -> list[Reply]:
    watching = pooled.connection.watch(tubes)
    commands = [*watching, *[protocol.reserve(seconds)] * limit]
    replies = pooled.connection.exchange(commands, wait=seconds)[len(watching) :]
    return [reply for reply in replies if reply.word == b"RESERVED"]
