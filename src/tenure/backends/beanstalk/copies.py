"""JobCopies: writes the new state of a job into a copy of it, and only then deletes the old job."""

import logging
from collections.abc import Sequence
from typing import NamedTuple

from tenure.backends.beanstalk import protocol
from tenure.backends.beanstalk.connection import BeanstalkConnection, ConnectionLost, ConnectionPool
from tenure.backends.beanstalk.protocol import server_priority
from tenure.backends.message_state import MessageState, StateCodec, shortened

logger = logging.getLogger(__name__)

_MAGIC = b"tenure1 "
_RESERVED_BYTES = 1024  # room in every new job: counters and a reason, without any failure, always fit
_MAX_STATE_BYTES = 16_384
_LINE_OVERHEAD = 256  # the magic word, the mark and the end of the line
_DEAD_LETTER_TTR = 600  # dead letters are reserved while they are listed, even if there are many
_BURY_DELAY = 60  # seconds in which a copy that will be buried cannot be leased


class JobCopy(NamedTuple):
    """A copy with this state, to replace a job; the caller identifies it by `position`."""

    position: int
    job: int
    tube: bytes
    state: MessageState
    body: bytes
    delay: int = 0

    @property
    def server_priority(self) -> int:
        return server_priority(self.state.priority, self.state.place)


class JobCopies:
    """Writes and reads jobs: one line of state, then the sealed bytes."""

    def __init__(self, pool: ConnectionPool, ttr: int) -> None:
        self._pool = pool
        self.ttr = ttr
        self.codec = StateCodec()

    def max_size(self) -> int:
        """The most bytes of a new job, so that later copies with more state fit too."""
        return self._pool.max_job_size() - _RESERVED_BYTES

    def encode(self, state: MessageState, body: bytes) -> bytes:
        return b"%s%s\n%s" % (_MAGIC, self.codec.write(state, body), body)

    def decode(self, job: bytes) -> tuple[MessageState, bytes] | None:
        """The state and the sealed bytes; None for a job that Tenure did not write."""
        line, end, body = job.partition(b"\n")
        if not (end and line.startswith(_MAGIC)):
            return None
        state = self.codec.read(line[len(_MAGIC) :], body)
        return None if state is None else (state, body)

    def replace(self, connection: BeanstalkConnection, copies: Sequence[JobCopy]) -> set[int]:
        """Put copies and delete the old jobs; return the positions of the jobs that we still held."""
        return self._exchange(connection, copies, self.ttr, bury=False)

    def replace_buried(self, connection: BeanstalkConnection, copies: Sequence[JobCopy]) -> set[int]:
        """As `replace`, with copies that are buried: they are dead letters."""
        return self._exchange(connection, copies, _DEAD_LETTER_TTR, bury=True)

    def add_buried(self, connection: BeanstalkConnection, copies: Sequence[JobCopy]) -> set[int]:
        """Put new jobs and bury them; return the positions of those that the server accepted."""
        numbers = self._put_all(connection, copies, _DEAD_LETTER_TTR, _BURY_DELAY)
        _bury_all(connection, copies, numbers)
        return {copy.position for copy, number in zip(copies, numbers, strict=True) if number}

    def _exchange(self, connection: BeanstalkConnection, copies: Sequence[JobCopy], ttr: int, bury: bool) -> set[int]:
        if not copies:
            return set()
        try:
            ours = _still_held(connection, copies)
            numbers = self._put_all(connection, ours, ttr, _BURY_DELAY if bury else None)
            if bury:
                _bury_all(connection, ours, numbers)
            pairs = list(zip(ours, numbers, strict=True))
            replies = connection.exchange([_end_old_job(copy, number, bury) for copy, number in pairs])
            late = [
                number for number, reply in zip(numbers, replies, strict=True) if number and reply.word == b"NOT_FOUND"
            ]
            connection.exchange([protocol.delete(number) for number in late])  # another worker has the old job
        except ConnectionLost as error:
            logger.warning("%s; the jobs that were leased on it run again", error)
            return set()
        return {copy.position for copy, reply in zip(ours, replies, strict=True) if reply.word != b"NOT_FOUND"}

    def _put_all(
        self, connection: BeanstalkConnection, copies: Sequence[JobCopy], ttr: int, delay: int | None
    ) -> list[int]:
        """The server's ids of the copies, 0 where it refused one."""
        commands: list[bytes] = []
        for copy in copies:
            commands += self._put(copy if delay is None else copy._replace(delay=delay), ttr)
        replies = connection.exchange(commands)[1::2]
        return [reply.number if reply.word == b"INSERTED" else 0 for reply in replies]

    def _put(self, copy: JobCopy, ttr: int) -> list[bytes]:
        room = min(_MAX_STATE_BYTES, self.max_size() + _RESERVED_BYTES - len(copy.body) - _LINE_OVERHEAD)
        job = self.encode(shortened(copy.state, room), copy.body)
        return [protocol.use(copy.tube), protocol.put(copy.server_priority, copy.delay, ttr, job)]


def _still_held(connection: BeanstalkConnection, copies: Sequence[JobCopy]) -> list[JobCopy]:
    """Touches the old jobs, so that the server does not take them back before they are deleted."""
    replies = connection.exchange([protocol.touch(copy.job) for copy in copies])
    return [copy for copy, reply in zip(copies, replies, strict=True) if reply.word == b"TOUCHED"]


def _bury_all(connection: BeanstalkConnection, copies: Sequence[JobCopy], numbers: Sequence[int]) -> None:
    commands: list[bytes] = []
    for copy, number in zip(copies, numbers, strict=True):
        if number:
            commands += [protocol.reserve_job(number), protocol.bury(number, copy.server_priority)]
    connection.exchange(commands)


def _end_old_job(copy: JobCopy, number: int, bury: bool) -> bytes:
    """Delete the old job; where the server refused the copy, keep the old job, although its new state is lost."""
    if number:
        return protocol.delete(copy.job)
    logger.warning("the server refused a new copy of job %s; its new counters and failure are lost", copy.state.id)
    if bury:
        return protocol.bury(copy.job, copy.server_priority)
    return protocol.release(copy.job, copy.server_priority, copy.delay)
