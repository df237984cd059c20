"""Copier: what is known about a job is written into a new copy of it, and only then is the old one deleted."""

import logging
from collections.abc import Sequence
from typing import NamedTuple

from tenure.backends.beanstalk import protocol
from tenure.backends.beanstalk.connection import Broken, Connection
from tenure.backends.beanstalk.counting import rank
from tenure.backends.beanstalk.pool import Pool
from tenure.backends.facts import Facts, Marker, fitting

logger = logging.getLogger(__name__)

_MAGIC = b"tenure1 "
_GROWTH = 1024  # counters and a reason, without any failure, always fit
_MOST_FACTS = 16_384
_MARK = 256  # the word at the front, the mark and the end of the line
_GRAVE_TTR = 600  # dead letters are reserved while they are listed, however many there are
_UNTIL_BURIED = 60  # a copy on its way to its grave must not be leased meanwhile


class Parcel(NamedTuple):
    """A job to be replaced by a copy with these facts; `position` is how the caller knows it."""

    position: int
    job: int
    tube: bytes
    facts: Facts
    body: bytes
    delay: int = 0


class Copier:
    """Writes and reads what a job consists of: one line of facts, then the sealed bytes."""

    def __init__(self, pool: Pool, ttr: int) -> None:
        self._pool = pool
        self.ttr = ttr
        self.marker = Marker()

    def largest(self) -> int:
        """The most bytes of a new job, so that later copies with more facts fit too."""
        return self._pool.largest_job() - _GROWTH

    def job(self, facts: Facts, body: bytes) -> bytes:
        return b"%s%s\n%s" % (_MAGIC, self.marker.write(facts, body), body)

    def read(self, job: bytes) -> tuple[Facts, bytes] | None:
        """The facts and the sealed bytes, or None for a job that is not of our making."""
        line, end, body = job.partition(b"\n")
        if not (end and line.startswith(_MAGIC)):
            return None
        facts = self.marker.read(line[len(_MAGIC) :], body)
        return None if facts is None else (facts, body)

    def replace(self, connection: Connection, parcels: Sequence[Parcel]) -> set[int]:
        """Put copies and delete the old ones; returns the positions of those that were still ours."""
        return self._exchange(connection, parcels, self.ttr, to_grave=False)

    def bury(self, connection: Connection, parcels: Sequence[Parcel]) -> set[int]:
        """The same, but the copies are buried."""
        return self._exchange(connection, parcels, _GRAVE_TTR, to_grave=True)

    def inter(self, connection: Connection, parcels: Sequence[Parcel]) -> set[int]:
        """Bury what is new; returns the positions of those that the server took."""
        copies = self._put_copies(connection, parcels, _GRAVE_TTR, _UNTIL_BURIED)
        _lower(connection, parcels, copies)
        return {parcel.position for parcel, copy in zip(parcels, copies, strict=True) if copy}

    def _exchange(self, connection: Connection, parcels: Sequence[Parcel], ttr: int, to_grave: bool) -> set[int]:
        if not parcels:
            return set()
        try:
            ours = self._still_ours(connection, parcels)
            copies = self._put_copies(connection, ours, ttr, _UNTIL_BURIED if to_grave else None)
            if to_grave:
                _lower(connection, ours, copies)
            pairs = list(zip(ours, copies, strict=True))
            ends = connection.exchange([_end(parcel, copy, to_grave) for parcel, copy in pairs])
            late = [copy for copy, reply in zip(copies, ends, strict=True) if copy and reply.word == b"NOT_FOUND"]
            connection.exchange([protocol.delete(copy) for copy in late])  # the job is with another holder already
        except Broken as error:
            logger.warning("%s; what was leased on it runs again", error)
            return set()
        return {parcel.position for parcel, reply in zip(ours, ends, strict=True) if reply.word != b"NOT_FOUND"}

    def _still_ours(self, connection: Connection, parcels: Sequence[Parcel]) -> list[Parcel]:
        """Touching also makes sure that the server does not take them back before they are deleted."""
        replies = connection.exchange([protocol.touch(parcel.job) for parcel in parcels])
        return [parcel for parcel, reply in zip(parcels, replies, strict=True) if reply.word == b"TOUCHED"]

    def _put_copies(self, connection: Connection, parcels: Sequence[Parcel], ttr: int, delay: int | None) -> list[int]:
        """The server's ids of the copies, 0 where it took none."""
        commands: list[bytes] = []
        for parcel in parcels:
            commands += self._put(parcel if delay is None else parcel._replace(delay=delay), ttr)
        replies = connection.exchange(commands)[1::2]
        return [reply.number if reply.word == b"INSERTED" else 0 for reply in replies]

    def _put(self, parcel: Parcel, ttr: int) -> list[bytes]:
        room = min(_MOST_FACTS, self.largest() + _GROWTH - len(parcel.body) - _MARK)
        job = self.job(fitting(parcel.facts, room), parcel.body)
        place = rank(parcel.facts.priority, parcel.facts.place)
        return [protocol.use(parcel.tube), protocol.put(place, parcel.delay, ttr, job)]


def _lower(connection: Connection, parcels: Sequence[Parcel], copies: Sequence[int]) -> None:
    commands: list[bytes] = []
    for parcel, copy in zip(parcels, copies, strict=True):
        if copy:
            place = rank(parcel.facts.priority, parcel.facts.place)
            commands += [protocol.reserve_job(copy), protocol.bury(copy, place)]
    connection.exchange(commands)


def _end(parcel: Parcel, copy: int, to_grave: bool) -> bytes:
    """Delete the old job; where the server took no copy, keep the old one, though what happened is not written down."""
    if copy:
        return protocol.delete(parcel.job)
    logger.warning("the server took no new copy of job %s; what happened to it is not kept", parcel.facts.id)
    place = rank(parcel.facts.priority, parcel.facts.place)
    return protocol.bury(parcel.job, place) if to_grave else protocol.release(parcel.job, place, parcel.delay)
