"""Granter: reserves jobs, looks at what became of their former reservations, and makes leases of them."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import structs

from tenure.backends.beanstalk import protocol
from tenure.backends.beanstalk.connection import PIPELINE
from tenure.backends.beanstalk.copying import Copier, Parcel
from tenure.backends.beanstalk.counting import Figures, figures, rank
from tenure.backends.beanstalk.pool import Held, Site
from tenure.backends.beanstalk.protocol import Reply
from tenure.backends.beanstalk.tubes import Tubes
from tenure.backends.contract import Lease
from tenure.backends.facts import Facts, Standing, standing
from tenure.clock import Clock


class Found(NamedTuple):
    """A reserved job, read."""

    job: int
    facts: Facts
    body: bytes
    seen: Figures

    def standing(self) -> Standing:
        facts, seen = self.facts, self.seen
        if seen.reserves == 1 and not facts.died:  # as nearly all are, so without the rest
            return Standing(facts.fence + 1, facts.attempts, facts.crashes, facts.suspect)
        return standing(facts, seen.reserves, seen.vanished)


class Granter:
    """Works on one site at a time, which its caller has locked."""

    def __init__(self, copier: Copier, tubes: Tubes, clock: Clock, owner: str) -> None:
        self._copier = copier
        self._tubes = tubes
        self._clock = clock
        self._owner = owner

    def take(self, site: Site, queues: Sequence[str], limit: int, seconds: float, *, alone: bool = True) -> list[Lease]:
        """What is ready now, the first queue first; a suspect comes by itself, and only if it may be `alone`."""
        leases: list[Lease] = []
        for queue in queues:
            wanted = found = 0
            while wanted == found and len(leases) < limit:
                wanted = min(limit - len(leases), PIPELINE)
                reserved = _reserve(site, [self._tubes.tube(queue)], wanted)
                found = len(reserved)
                granted, met_suspect = self._grant(site, reserved, seconds, alone and not leases, queue)
                leases += granted
                if met_suspect:
                    return leases
        return leases

    def wait(self, site: Site, queues: Sequence[str], limit: int, seconds: float, wait: float) -> list[Lease]:
        """The first that gets ready, and what is behind it in its queue; the site must hold no leases."""
        give_up = self._clock.monotonic() + wait
        tubes = self._tubes.tubes(queues)
        while (left := give_up - self._clock.monotonic()) > 0:
            asked = self._clock.monotonic()
            reserved = _reserve(site, tubes, 1, math.ceil(left))
            leases, met_suspect = self._grant(site, reserved, seconds, alone=True)
            if leases:
                others = limit - 1 if not met_suspect else 0
                return leases + self.take(site, [leases[0].queue], others, seconds, alone=False)
            if not reserved and self._clock.monotonic() - asked < 0.5:
                return []  # refused rather than timed out: whoever asked asks again
        return []

    def _grant(
        self, site: Site, reserved: Sequence[Reply], seconds: float, alone: bool, queue: str | None = None
    ) -> tuple[list[Lease], bool]:
        """Leases up to the first suspect, and whether one was met; what is behind it goes back to its place."""
        leases: list[Lease] = []
        behind: list[bytes] = []
        met_suspect = False
        expires = self._clock.monotonic() + seconds
        for found in self._fit(site, self._look(site, reserved, queue), seconds):
            stands = found.standing()
            if met_suspect or (stands.suspect and (leases or not alone)):
                met_suspect = True
                behind.append(protocol.release(found.job, rank(found.facts.priority, found.facts.place), 0))
                continue
            met_suspect = stands.suspect
            lease = Lease(
                id=found.facts.id,
                queue=queue or self._tubes.queue(found.seen.tube),
                body=found.body,
                owner=self._owner,
                fence=stands.fence,
                attempts=stands.attempts,
                crashes=stands.crashes,
                suspect=stands.suspect,
                priority=found.facts.priority,
                due=found.facts.due,
                token=(site.connection.number, found.job),
            )
            site.held[found.job] = Held(lease, found.facts, expires)
            leases.append(lease)
        if behind:
            site.connection.exchange(behind)
        return leases, met_suspect

    def _look(self, site: Site, reserved: Sequence[Reply], queue: str | None) -> list[Found]:
        """Read them, ask the server for its figures, and delete what they replace, if that is still there."""
        if not reserved:
            return []
        read: list[tuple[Facts, bytes]] = []

        def read_all() -> None:
            read.extend([self._copier.read(reply.data) or self._foreign(reply) for reply in reserved])

        answers = site.connection.exchange([protocol.stats_job(reply.number) for reply in reserved], meanwhile=read_all)
        if replaced := [protocol.delete(facts.replaces) for facts, _ in read if facts.replaces]:
            site.connection.exchange(replaced)
        usual = Figures(self._tubes.tube(queue), self._copier.ttr, 1, 0, 0, 0) if queue else None
        return [
            Found(reply.number, facts, body, figures(answer.data, usual))
            for reply, (facts, body), answer in zip(reserved, read, answers, strict=True)
            if answer.word == b"OK"
        ]

    def _fit(self, site: Site, found: list[Found], seconds: float) -> list[Found]:
        """Those that may be leased; dead letters that nobody kicked go back to their grave,
        and what was put with a shorter TTR than this lease is put again with a longer one."""
        dead = [each for each in found if each.facts.died and not each.seen.kicks]
        short = [each for each in found if each.seen.ttr < seconds and each not in dead]
        if not (dead or short):
            return found
        site.connection.exchange(
            [protocol.bury(each.job, rank(each.facts.priority, each.facts.place)) for each in dead]
        )
        self._copier.replace(site.connection, [_again(each) for each in short])
        return [each for each in found if each not in dead and each not in short]

    def _foreign(self, reply: Reply) -> tuple[Facts, bytes]:
        """A job that somebody else put, or changed: it is leased as it is, and fails the checks at the door."""
        now = self._clock.now()
        return Facts(id=f"beanstalkd-{reply.number}", handler="unknown", enqueued=now, due=now), reply.data


def _again(found: Found) -> Parcel:
    stands = found.standing()
    facts = structs.replace(found.facts, **stands._asdict(), place=found.facts.place or found.job, replaces=found.job)
    return Parcel(0, found.job, found.seen.tube, facts, found.body)


def _reserve(site: Site, tubes: Sequence[bytes], most: int, seconds: int = 0) -> list[Reply]:
    watching = site.connection.watch(tubes)
    commands = [*watching, *[protocol.reserve(seconds)] * most]
    replies = site.connection.exchange(commands, wait=seconds)[len(watching) :]
    return [reply for reply in replies if reply.word == b"RESERVED"]
