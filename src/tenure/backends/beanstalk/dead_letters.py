"""BeanstalkDeadLetters: dead letters are buried jobs; a kick by hand replays one, as `replay` does.

The server shows only the first buried job of a tube. So every verb reserves all of them, reads them, and buries them
again in their order. If the process dies meanwhile, they are ready for a moment: the next worker that reserves one that
was not kicked buries it again. Two processes that read at the same time each see a part.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from tenure.backends.beanstalk import protocol
from tenure.backends.beanstalk.connection import BeanstalkConnection, ConnectionPool
from tenure.backends.beanstalk.copies import JobCopies, JobCopy
from tenure.backends.beanstalk.protocol import Tubes, server_priority, statistic
from tenure.backends.message_state import MessageState, dead_record, new_dead_state, replayed_state
from tenure.backends.records import JobRecord, NewDeadLetter
from tenure.clock import Clock
from tenure.errors import PartialPut


class BuriedJob(NamedTuple):
    """A buried job that was reserved; `state` is None for a job that Tenure did not write."""

    job: int
    tube: bytes
    state: MessageState | None
    body: bytes

    @property
    def server_priority(self) -> int:
        return server_priority(self.state.priority, self.state.place) if self.state else 0


class BeanstalkDeadLetters:
    """Every verb reads all dead letters of the tubes concerned, so its cost grows with their number."""

    def __init__(self, pool: ConnectionPool, tubes: Tubes, clock: Clock, copies: JobCopies) -> None:
        self._pool = pool
        self._tubes = tubes
        self._clock = clock
        self._copies = copies

    def page(
        self, *, queue: str | None = None, limit: int = 100, after: tuple[int, str] | None = None
    ) -> list[JobRecord]:
        with self._reserved(queue) as (_, buried):
            records = [
                dead_record(each.state, self._tubes.queue(each.tube), each.body) for each in buried if each.state
            ]
        records.sort(key=lambda letter: (letter.finished_at or 0, letter.id))
        return [letter for letter in records if after is None or (letter.finished_at or 0, letter.id) > after][:limit]

    def add(self, letters: Sequence[NewDeadLetter]) -> list[str]:
        """Known ids are stored again: the server cannot find a job by its id."""
        now = self._clock.now()
        copies = [
            JobCopy(index, 0, self._tubes.tube(each.message.queue), new_dead_state(each, now), each.message.body)
            for index, each in enumerate(letters)
        ]
        with self._pool.temporary() as connection:
            stored = self._copies.add_buried(connection, copies)
        if len(stored) < len(copies):
            raise PartialPut("the server refused dead letters", [letters[index].message.id for index in sorted(stored)])
        return [letter.message.id for letter in letters]

    def replay(self, ids: Sequence[str]) -> list[str]:
        wanted, now = set(ids), self._clock.now()
        with self._reserved(None) as (connection, buried):
            chosen = [(each, each.state) for each in buried if each.state and each.state.id in wanted]
            chosen.sort(key=lambda pair: (pair[1].enqueued, pair[1].id))
            copies = [
                JobCopy(index, each.job, each.tube, replayed_state(state, now), each.body)
                for index, (each, state) in enumerate(chosen)
            ]
            done = self._copies.replace(connection, copies)
        return [state.id for index, (_, state) in enumerate(chosen) if index in done]

    def discard(self, ids: Sequence[str]) -> list[str]:
        wanted = set(ids)
        with self._reserved(None) as (connection, buried):
            chosen = [(each.job, each.state.id) for each in buried if each.state and each.state.id in wanted]
            connection.exchange([protocol.delete(job) for job, _ in chosen])
        return [id for _, id in chosen]

    def trim(self, before: int, limit: int, queue: str | None = None) -> int:
        """Reads only the oldest letter of each tube first; most of the time that is enough."""
        if not self._has_older(before):
            return 0
        old = [letter.id for letter in self.page(queue=queue, limit=limit) if (letter.finished_at or 0) < before]
        return len(self.discard(old)) if old else 0

    def _has_older(self, before: int) -> bool:
        with self._pool.temporary() as connection:
            for tube in self._tubes_with_buried(connection):
                _, first = connection.exchange([protocol.use(tube), protocol.PEEK_BURIED])
                decoded = self._copies.decode(first.data)
                if decoded and decoded[0].died < before:
                    return True
        return False

    @contextmanager
    def _reserved(self, queue: str | None) -> Iterator[tuple[BeanstalkConnection, list[BuriedJob]]]:
        """The dead letters of one queue or of all, reserved; those that remain are buried again at the end."""
        with self._pool.temporary() as connection:
            tubes = self._tubes_with_buried(connection) if queue is None else [self._tubes.tube(queue)]
            found = [each for tube in tubes for each in self._reserve_all(connection, tube)]
            buried = _without_duplicates(connection, found)
            yield connection, buried
            connection.exchange([protocol.bury(each.job, each.server_priority) for each in buried])

    def _reserve_all(self, connection: BeanstalkConnection, tube: bytes) -> Iterator[BuriedJob]:
        connection.exchange([protocol.use(tube)])
        while (first := connection.exchange([protocol.PEEK_BURIED])[0]).word == b"FOUND":
            (reply,) = connection.exchange([protocol.reserve_job(first.number)])
            if reply.word == b"RESERVED":
                state, body = self._copies.decode(reply.data) or (None, reply.data)
                yield BuriedJob(reply.number, tube, state, body)

    def _tubes_with_buried(self, connection: BeanstalkConnection) -> list[bytes]:
        (listed,) = connection.exchange([protocol.LIST_TUBES])
        tubes = self._tubes.ours(listed.data)
        replies = connection.exchange([protocol.stats_tube(tube) for tube in tubes])
        counts = [statistic(reply.data, b"current-jobs-buried") for reply in replies]
        return [tube for tube, count in zip(tubes, counts, strict=True) if count]


def _without_duplicates(connection: BeanstalkConnection, buried: list[BuriedJob]) -> list[BuriedJob]:
    """A crash can leave two copies of one job: delete the one with the lower fence."""
    newest: dict[str, BuriedJob] = {}
    for each in buried:
        if each.state is not None:
            other = newest.get(each.state.id)
            if other is None or other.state is None or other.state.fence <= each.state.fence:
                newest[each.state.id] = each
    duplicates = [each for each in buried if each.state and newest[each.state.id] is not each]
    connection.exchange([protocol.delete(each.job) for each in duplicates])
    return [each for each in buried if each not in duplicates]
