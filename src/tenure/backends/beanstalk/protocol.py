"""The protocol of beanstalkd: commands, replies, tube names, priorities and statistics.

A reservation that ended neither by a release nor by a bury was lost with its connection, or timed out. The server
counts since its start: what happened before a restart of the server is not charged to a job.
"""

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from tenure.definition.limits import check_queue

ERRORS = frozenset({b"OUT_OF_MEMORY", b"INTERNAL_ERROR", b"BAD_FORMAT", b"UNKNOWN_COMMAND", b"EXPECTED_CRLF"})
_PAYLOAD = re.compile(rb"(RESERVED|FOUND|OK)(?: (\d+))? (\d+)\r\n").match
_PLAIN_WORDS = ("DELETED", "TOUCHED", "RELEASED", "TIMED_OUT", "DEADLINE_SOON", "NOT_FOUND", "BURIED", "KICKED")
_MAX_PRIORITY = 2**32 - 1
MAX_DELAY = 2**32 - 1  # seconds
_PLACE_BITS = 28
_NEW_PLACE = (1 << _PLACE_BITS) - 1
_JOB_STATS = re.compile(
    rb'\ntube: "?([^"\n]*)"?\n.*?\nttr: (\d+)\n.*?'
    rb"\nreserves: (\d+)\ntimeouts: \d+\nreleases: (\d+)\nburies: (\d+)\nkicks: (\d+)\n",
    re.DOTALL,
)
_FIRST_RESERVATION = b"\nreserves: 1\ntimeouts: 0\nreleases: 0\nburies: 0\nkicks: 0\n"


class Reply(NamedTuple):
    """`number` is a job id or a count, for the words that have one."""

    word: bytes
    number: int = 0
    data: bytes = b""


_PLAIN = {word.encode(): Reply(word.encode()) for word in _PLAIN_WORDS}


class Stream:
    """Cuts the bytes that a connection received into replies."""

    def __init__(self) -> None:
        self._bytes = b""

    def feed(self, data: bytes) -> None:
        self._bytes += data

    def take(self, limit: int) -> list[Reply]:
        """Up to `limit` replies that are complete; one call returns many, because a call costs as much as a reply."""
        replies: list[Reply] = []
        held, at = self._bytes, 0
        while len(replies) < limit:
            if found := _PAYLOAD(held, at):
                word, number, size = found.groups()
                start = found.end()
                end = start + int(size)
                if len(held) < end + 2:
                    break
                replies.append(Reply(word, int(number) if number else 0, held[start:end]))
                at = end + 2
                continue
            end = held.find(b"\r\n", at)
            if end < 0:
                break
            replies.append(_PLAIN.get(held[at:end]) or _other(held[at:end]))
            at = end + 2
        self._bytes = held[at:]
        return replies


def _other(line: bytes) -> Reply:
    word, *arguments = line.split(b" ")
    return Reply(word, _number(arguments))


def _number(arguments: list[bytes]) -> int:
    return int(arguments[0]) if arguments and arguments[0].isdigit() else 0


def put(priority: int, delay: int, ttr: int, body: bytes) -> bytes:
    """Checks the header: the server would read the body as commands after a header that it cannot parse."""
    if not (0 <= priority <= _MAX_PRIORITY and 0 <= delay <= MAX_DELAY and ttr >= 1):
        raise ValueError(f"invalid put: priority {priority}, delay {delay}, ttr {ttr}")
    return b"put %d %d %d %d\r\n%s\r\n" % (priority, delay, ttr, len(body), body)


def use(tube: bytes) -> bytes:
    return b"use %s\r\n" % tube


def watch(tube: bytes) -> bytes:
    return b"watch %s\r\n" % tube


def ignore(tube: bytes) -> bytes:
    return b"ignore %s\r\n" % tube


def reserve(seconds: int = 0) -> bytes:
    return b"reserve-with-timeout %d\r\n" % seconds


def reserve_job(job: int) -> bytes:
    return b"reserve-job %d\r\n" % job


def delete(job: int) -> bytes:
    return b"delete %d\r\n" % job


def release(job: int, priority: int, delay: int) -> bytes:
    return b"release %d %d %d\r\n" % (job, priority, delay)


def bury(job: int, priority: int) -> bytes:
    return b"bury %d %d\r\n" % (job, priority)


def touch(job: int) -> bytes:
    return b"touch %d\r\n" % job


def stats_job(job: int) -> bytes:
    return b"stats-job %d\r\n" % job


def stats_tube(tube: bytes) -> bytes:
    return b"stats-tube %s\r\n" % tube


PEEK_BURIED = b"peek-buried\r\n"
LIST_TUBES = b"list-tubes\r\n"
STATS = b"stats\r\n"


_SUSPECTS = b"(suspects)"  # no name of a queue has parentheses


class Tubes:
    """One tube for each queue, and one for its suspects, with a prefix that separates ours from those of others."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix.encode("ascii")

    def tube(self, queue: str) -> bytes:
        """The tube of a queue; checked here too, because a line break in its name would begin another command."""
        return self._prefix + check_queue(queue).encode("ascii")

    def tubes(self, queues: Sequence[str]) -> list[bytes]:
        return [self.tube(queue) for queue in queues]

    def suspects(self, queue: str) -> bytes:
        return self.tube(queue) + _SUSPECTS

    def holds_suspects(self, tube: bytes) -> bool:
        return tube.endswith(_SUSPECTS)

    def queue(self, tube: bytes) -> str:
        return tube.removeprefix(self._prefix).removesuffix(_SUSPECTS).decode("ascii")

    def ours(self, listed: bytes) -> list[bytes]:
        """The tubes in the server's list that have our prefix."""
        tubes = [line.removeprefix(b"- ").strip(b'"') for line in listed.splitlines() if line.startswith(b"- ")]
        return [tube for tube in tubes if tube.startswith(self._prefix)]


class JobStats(NamedTuple):
    """The server's statistics of one job."""

    tube: bytes
    ttr: int
    reserves: int
    releases: int
    buries: int
    kicks: int

    @property
    def vanished(self) -> int:
        """How many earlier reservations ended without a command of their worker."""
        return max(0, self.reserves - 1 - self.releases - self.buries)


def parse_job_stats(yaml: bytes, expected: JobStats | None = None) -> JobStats:
    """The statistics of a job; `expected` are those of a job that is reserved for the first time, as most are."""
    if expected and yaml.endswith(_FIRST_RESERVATION) and b"\nttr: %d\n" % expected.ttr in yaml:
        return expected
    found = _JOB_STATS.search(yaml)
    if found is None:
        raise ValueError(f"cannot parse the server's statistics of a job: {yaml[:200]!r}")
    tube, *numbers = found.groups()
    return JobStats(tube, *map(int, numbers))


def statistic(yaml: bytes, name: bytes) -> int:
    """One number of the statistics of the server or of a tube; 0 where it is missing."""
    found = re.search(rb"^%s: (\d+)$" % re.escape(name), yaml, re.MULTILINE)
    return int(found[1]) if found else 0


def server_priority(priority: int, place: int) -> int:
    """Small numbers go first: by priority, then returned jobs in the order of their put, then new jobs."""
    return (9 - priority) << _PLACE_BITS | (place % _NEW_PLACE if place else _NEW_PLACE)


def whole_seconds(seconds: float) -> int:
    """Rounded up, because the server counts whole seconds and a job must not start early; at most 136 years."""
    return math.ceil(max(0, min(seconds, MAX_DELAY)))
