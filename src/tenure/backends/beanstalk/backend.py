"""BeanstalkBackend: the eight verbs on tubes.

A lease is a reservation, lost when its connection is; the server takes it back at once then, or after its TTR.
What must be counted is written into a new copy, which is put before the old one is deleted: a crash in between
duplicates the job and never loses it, and the copy deletes what it replaces when it is leased.
Order is strict by priority, then enqueue; a job that came back with a charge comes before the fresh ones.
"""

import logging
import secrets
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TypeVar

from msgspec import structs

from tenure.backends import facts as fact
from tenure.backends.beanstalk import protocol
from tenure.backends.beanstalk.connection import Broken
from tenure.backends.beanstalk.copying import Copier, Parcel
from tenure.backends.beanstalk.counting import rank, whole
from tenure.backends.beanstalk.granting import Granter
from tenure.backends.beanstalk.graveyard import Graveyard
from tenure.backends.beanstalk.pool import Held, Pool, Site
from tenure.backends.beanstalk.server import Server
from tenure.backends.beanstalk.tubes import Tubes
from tenure.backends.contract import Abandon, Ack, Lease, Message, Nack, Reaped
from tenure.clock import MICROSECOND, Clock
from tenure.errors import BackendError, InvalidPayload, PartialPut
from tenure.wire.signing import Ring

logger = logging.getLogger(__name__)

T = TypeVar("T")
V = TypeVar("V", Ack, Nack, Abandon)
Holding = tuple[int, T, Held]


class BeanstalkBackend:
    """The hot verbs, and by delegation what `graveyard` and `server` can tell."""

    def __init__(self, pool: Pool, tubes: Tubes, clock: Clock, ttr: int) -> None:
        self._pool = pool
        self._tubes = tubes
        self._clock = clock
        self._ttr = ttr
        self._owner = secrets.token_hex(8)
        self._copier = Copier(pool, ttr)
        self._granter = Granter(self._copier, tubes, clock, self._owner)
        graveyard = Graveyard(pool, tubes, clock, self._copier)
        self.dead, self.replay, self.discard = graveyard.dead, graveyard.replay, graveyard.discard
        self.trim, self.bury = graveyard.trim, graveyard.bury
        server = Server(pool, tubes, ttr)
        self.counts, self.facts = server.counts, server.facts

    def mark_with(self, ring: Ring) -> None:
        self._copier.marker = fact.Marker(ring)

    def put(self, messages: Sequence[Message]) -> list[str]:
        now = self._clock.now()
        commands: list[bytes] = []
        for queue, same in groupby(messages, key=lambda message: message.queue):
            commands.append(protocol.use(self._tubes.tube(queue)))
            commands += [self._put(message, now) for message in same]
        with self._pool.site() as site:
            try:
                replies = site.connection.exchange(commands)
            except Broken as error:
                raise _partial(messages, error.replies, str(error)) from error
        if sum(reply.word == b"INSERTED" for reply in replies) < len(messages):
            raise _partial(messages, replies, "the server refused others; it may be draining, or out of memory")
        return [message.id for message in messages]

    def lease(self, queues: Sequence[str], *, limit: int, seconds: float, wait: float = 0.0) -> list[Lease]:
        """A wait of half a second or more is rounded up to whole seconds, because the server counts those."""
        if seconds > self._ttr:
            raise BackendError(
                f"a lease of {seconds:g} s is longer than the TTR of {self._ttr} s that jobs are put with; "
                f"shorten the setting 'lease', or put ttr={whole(seconds)} into the options of the beanstalk URL"
            )
        with self._pool.site() as site:
            leases = self._granter.take(site, queues, limit, seconds)
        if leases or wait < 0.5:
            return leases
        with self._pool.site(unburdened=True) as site:
            return self._granter.wait(site, queues, limit, seconds, wait)

    def ack(self, verdicts: Sequence[Ack]) -> list[Lease]:
        def delete(site: Site, items: list[Holding[Ack]]) -> set[int]:
            return _told(site, [(index, protocol.delete(_job(held))) for index, _, held in items], b"DELETED")

        return self._settle(verdicts, delete)

    def nack(self, verdicts: Sequence[Nack]) -> list[Lease]:
        return self._settle(verdicts, self._return)

    def abandon(self, verdicts: Sequence[Abandon]) -> list[Lease]:
        def bury(site: Site, items: list[Holding[Abandon]]) -> set[int]:
            parcels = []
            for index, verdict, held in items:
                after = fact.returned(held.facts, held.lease, verdict.charge, verdict.failure)
                dead = fact.buried(after, held.lease, verdict.reason, self._clock.now())
                parcels.append(self._parcel(index, held, dead))
            return self._copier.bury(site.connection, parcels)

        return self._settle(verdicts, bury)

    def renew(self, leases: Sequence[Lease], *, seconds: float) -> list[Lease]:
        """The server counts its TTR anew, which is never shorter than the lease."""

        def touch(site: Site, items: list[Holding[Lease]]) -> set[int]:
            kept = _told(site, [(index, protocol.touch(_job(held))) for index, _, held in items], b"TOUCHED")
            expires = self._clock.monotonic() + seconds
            for index, _, held in items:
                if index in kept:
                    site.held[_job(held)] = held._replace(expires=expires)
            return kept

        return self._apply(leases, leases, touch)

    def reap(self, queues: Sequence[str]) -> list[Reaped]:
        """What this process let run out; the server itself takes back what others held."""
        now = self._clock.monotonic()
        expired = [held for _, _, held in self._pool.held() if held.expires <= now and held.lease.queue in queues]

        def give_back(site: Site, items: list[Holding[Lease]]) -> set[int]:
            parcels = [self._parcel(index, held, fact.reaped(held.facts, held.lease)) for index, _, held in items]
            self._copier.replace(site.connection, parcels)
            return {index for index, _, _ in items}

        leases = [held.lease for held in expired]
        settled_meanwhile = {(lease.id, lease.fence) for lease in self._apply(leases, leases, give_back)}
        return [
            Reaped(lease.id, lease.queue, lease.suspect)
            for lease in leases
            if (lease.id, lease.fence) not in settled_meanwhile
        ]

    def close(self) -> None:
        self._pool.close()

    def _put(self, message: Message, now: int) -> bytes:
        facts = fact.first(message, now)
        job = self._copier.job(facts, message.body)
        if len(job) > self._copier.largest():
            raise InvalidPayload(
                f"job {message.handler!r} makes a message of {len(message.body)} bytes, and this beanstalkd takes "
                f"{self._pool.largest_job()} with all that is kept beside it (its option -z); "
                "store the data elsewhere and send where it is"
            )
        delay = (message.due - now) / MICROSECOND if message.due else message.delay
        return protocol.put(rank(message.priority, 0), whole(delay), self._ttr, job)

    def _return(self, site: Site, items: list[Holding[Nack]]) -> set[int]:
        """What nothing is written down about keeps its copy and its place; the others get a new one."""
        released, parcels = [], []
        for index, verdict, held in items:
            if verdict.charge is None and verdict.failure is None and not held.lease.suspect and not held.facts.died:
                command = protocol.release(
                    _job(held), rank(held.lease.priority, held.facts.place), whole(verdict.delay)
                )
                released.append((index, command))
            else:
                after = fact.returned(held.facts, held.lease, verdict.charge, verdict.failure)
                parcels.append(self._parcel(index, held, after, whole(verdict.delay)))
        return _told(site, released, b"RELEASED") | self._copier.replace(site.connection, parcels)

    def _parcel(self, index: int, held: Held, facts: fact.Facts, delay: int = 0) -> Parcel:
        job = _job(held)
        facts = structs.replace(facts, place=facts.place or job, replaces=job)
        return Parcel(index, job, self._tubes.tube(held.lease.queue), facts, held.lease.body, delay)

    def _settle(self, verdicts: Sequence[V], settle: Callable[[Site, list[Holding[V]]], set[int]]) -> list[Lease]:
        return self._apply(verdicts, [verdict.lease for verdict in verdicts], settle)

    def _apply(
        self, items: Sequence[T], leases: Sequence[Lease], apply: Callable[[Site, list[Holding[T]]], set[int]]
    ) -> list[Lease]:
        """Do it to what is still held, each on its own connection; returns the leases for which it was not done."""
        sites: dict[int, list[int]] = {}
        for index, lease in enumerate(leases):
            if lease.owner == self._owner:
                sites.setdefault(lease.token[0], []).append(index)
        done: set[int] = set()
        for number, indexes in sites.items():
            with self._pool.site_of(number) as site:
                if site is not None:
                    found = [(index, items[index], _take_out(site, leases[index])) for index in indexes]
                    done |= apply(site, [(index, item, held) for index, item, held in found if held])
        return [lease for index, lease in enumerate(leases) if index not in done]


def _take_out(site: Site, lease: Lease) -> Held | None:
    """A lease that ended, and was granted again on the same connection, has another fence."""
    held = site.held.get(lease.token[1])
    if held is None or held.lease.fence != lease.fence:
        return None
    return site.held.pop(lease.token[1])


def _job(held: Held) -> int:
    job: int = held.lease.token[1]
    return job


def _told(site: Site, commands: list[tuple[int, bytes]], word: bytes) -> set[int]:
    """Which commands were answered with this word, before the connection broke if it did."""
    try:
        replies = site.connection.exchange([command for _, command in commands])
    except Broken as error:
        logger.warning("%s; what was leased on it runs again", error)
        replies = error.replies
    return {index for (index, _), reply in zip(commands, replies, strict=False) if reply.word == word}


def _partial(messages: Sequence[Message], replies: Sequence[protocol.Reply], why: str) -> PartialPut:
    """What was stored: the words for `use` are left out, so that the others are those of the messages, in order."""
    answers = [reply.word for reply in replies if reply.word != b"USING"]
    accepted = [message.id for message, word in zip(messages, answers, strict=False) if word == b"INSERTED"]
    return PartialPut(f"{len(accepted)} of {len(messages)} messages were stored for certain: {why}", accepted)
