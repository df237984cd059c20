"""Graveyard: the dead letters are the buried jobs, and a kick by hand replays one as `replay` does.

The server shows only the first buried job of a tube, so all are taken out, looked at, and buried again in their order.
Whoever dies meanwhile leaves them ready for a moment: the next worker that meets one, not kicked, buries it again.
Two who look at the same moment see a part each.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from tenure.backends.asking import Burial, JobRecord
from tenure.backends.beanstalk import protocol
from tenure.backends.beanstalk.connection import Connection
from tenure.backends.beanstalk.copying import Copier, Parcel
from tenure.backends.beanstalk.counting import figure, rank
from tenure.backends.beanstalk.pool import Pool
from tenure.backends.beanstalk.tubes import Tubes
from tenure.backends.facts import Facts, interred, record, replayed
from tenure.clock import Clock
from tenure.errors import PartialPut


class Grave(NamedTuple):
    """A buried job, taken out; `facts` is None for one that is not of our making."""

    job: int
    tube: bytes
    facts: Facts | None
    body: bytes


class Graveyard:
    """Every verb looks at all dead letters of the tubes concerned: their number is what it costs."""

    def __init__(self, pool: Pool, tubes: Tubes, clock: Clock, copier: Copier) -> None:
        self._pool = pool
        self._tubes = tubes
        self._clock = clock
        self._copier = copier

    def dead(
        self, *, queue: str | None = None, limit: int = 100, after: tuple[int, str] | None = None
    ) -> list[JobRecord]:
        with self._opened(queue) as (_, graves):
            records = [
                record(grave.facts, self._tubes.queue(grave.tube), grave.body) for grave in graves if grave.facts
            ]
        records.sort(key=lambda letter: (letter.finished_at or 0, letter.id))
        return [letter for letter in records if after is None or (letter.finished_at or 0, letter.id) > after][:limit]

    def bury(self, burials: Sequence[Burial]) -> list[str]:
        """Whether an id is known is not looked at: the server could not tell."""
        now = self._clock.now()
        parcels = [
            Parcel(index, 0, self._tubes.tube(each.message.queue), interred(each, now), each.message.body)
            for index, each in enumerate(burials)
        ]
        with self._pool.private() as connection:
            taken = self._copier.inter(connection, parcels)
        if len(taken) < len(parcels):
            raise PartialPut("the server refused dead letters", [burials[index].message.id for index in sorted(taken)])
        return [burial.message.id for burial in burials]

    def replay(self, ids: Sequence[str]) -> list[str]:
        wanted, now = set(ids), self._clock.now()
        with self._opened(None) as (connection, graves):
            chosen = [(grave, grave.facts) for grave in graves if grave.facts and grave.facts.id in wanted]
            chosen.sort(key=lambda pair: (pair[1].enqueued, pair[1].id))
            parcels = [
                Parcel(index, grave.job, grave.tube, replayed(facts, now), grave.body)
                for index, (grave, facts) in enumerate(chosen)
            ]
            done = self._copier.replace(connection, parcels)
        return [facts.id for index, (_, facts) in enumerate(chosen) if index in done]

    def discard(self, ids: Sequence[str]) -> list[str]:
        wanted = set(ids)
        with self._opened(None) as (connection, graves):
            chosen = [(grave.job, grave.facts.id) for grave in graves if grave.facts and grave.facts.id in wanted]
            connection.exchange([protocol.delete(job) for job, _ in chosen])
        return [id for _, id in chosen]

    def trim(self, state: str, before: int, limit: int, queue: str | None = None) -> int:
        """Only dead letters stay here after their end; most of the time one look at the oldest is enough."""
        if state != "dead" or not self._any_died(before):
            return 0
        old = [letter.id for letter in self.dead(queue=queue, limit=limit) if (letter.finished_at or 0) < before]
        return len(self.discard(old)) if old else 0

    def _any_died(self, before: int) -> bool:
        with self._pool.private() as connection:
            for tube in self._full_tubes(connection):
                _, first = connection.exchange([protocol.use(tube), protocol.PEEK_BURIED])
                read = self._copier.read(first.data)
                if read and read[0].died < before:
                    return True
        return False

    @contextmanager
    def _opened(self, queue: str | None) -> Iterator[tuple[Connection, list[Grave]]]:
        """The dead letters of one queue or of all, reserved; what is still there in the end is buried again."""
        with self._pool.private() as connection:
            tubes = self._full_tubes(connection) if queue is None else [self._tubes.tube(queue)]
            graves = _without_twins(connection, [grave for tube in tubes for grave in self._exhume(connection, tube)])
            yield connection, graves
            connection.exchange([protocol.bury(grave.job, _place(grave)) for grave in graves])

    def _exhume(self, connection: Connection, tube: bytes) -> Iterator[Grave]:
        connection.exchange([protocol.use(tube)])
        while (first := connection.exchange([protocol.PEEK_BURIED])[0]).word == b"FOUND":
            (taken,) = connection.exchange([protocol.reserve_job(first.number)])
            if taken.word == b"RESERVED":
                facts, body = self._copier.read(taken.data) or (None, taken.data)
                yield Grave(taken.number, tube, facts, body)

    def _full_tubes(self, connection: Connection) -> list[bytes]:
        (listed,) = connection.exchange([protocol.LIST_TUBES])
        tubes = self._tubes.ours(listed.data)
        replies = connection.exchange([protocol.stats_tube(tube) for tube in tubes])
        buried = [figure(reply.data, b"current-jobs-buried") for reply in replies]
        return [tube for tube, count in zip(tubes, buried, strict=True) if count]


def _without_twins(connection: Connection, graves: list[Grave]) -> list[Grave]:
    """Of two copies that a crash left of one job, the one with the higher fence stays."""
    newest: dict[str, Grave] = {}
    for grave in graves:
        if grave.facts is not None:
            other = newest.get(grave.facts.id)
            if other is None or other.facts is None or other.facts.fence <= grave.facts.fence:
                newest[grave.facts.id] = grave
    twins = [grave for grave in graves if grave.facts and newest[grave.facts.id] is not grave]
    connection.exchange([protocol.delete(grave.job) for grave in twins])
    return [grave for grave in graves if grave not in twins]


def _place(grave: Grave) -> int:
    return rank(grave.facts.priority, grave.facts.place) if grave.facts else 0
