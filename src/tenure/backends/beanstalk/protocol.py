"""The words of beanstalkd's protocol: commands as bytes, and replies out of a stream of bytes."""

import re
from typing import NamedTuple

ERRORS = frozenset({b"OUT_OF_MEMORY", b"INTERNAL_ERROR", b"BAD_FORMAT", b"UNKNOWN_COMMAND", b"EXPECTED_CRLF"})
_PAYLOAD = re.compile(rb"(RESERVED|FOUND|OK)(?: (\d+))? (\d+)\r\n").match
_PLAIN_WORDS = ("DELETED", "TOUCHED", "RELEASED", "TIMED_OUT", "DEADLINE_SOON", "NOT_FOUND", "BURIED", "KICKED")
_MOST_PRIORITY = 2**32 - 1


class Reply(NamedTuple):
    """`number` is a job's id, or a count, where the word has one."""

    word: bytes
    number: int = 0
    data: bytes = b""


_PLAIN = {word.encode(): Reply(word.encode()) for word in _PLAIN_WORDS}


class Stream:
    """Bytes that came in, cut into replies."""

    def __init__(self) -> None:
        self._bytes = b""

    def feed(self, data: bytes) -> None:
        self._bytes += data

    def take(self, most: int) -> list[Reply]:
        """Up to so many replies, as far as they have come in whole; one call for many, because a call costs as much."""
        replies: list[Reply] = []
        held, at = self._bytes, 0
        while len(replies) < most:
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
    """A header that the server cannot read would make it take the body for commands, so it is checked here."""
    if not (0 <= priority <= _MOST_PRIORITY and delay >= 0 and ttr >= 1):
        raise ValueError(f"no such put: priority {priority}, delay {delay}, ttr {ttr}")
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
