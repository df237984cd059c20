"""Replies of beanstalkd are cut out of a stream wherever its parts begin and end."""

import math

import pytest

from tenure.backends.beanstalk.protocol import MAX_DELAY, Reply, Stream, Tubes, put, whole_seconds
from tenure.errors import InvalidJob

BYTES = b"".join(
    [
        b"RESERVED 12 5\r\na\r\nbc\r\n",
        b"OK 8\r\n---\nx: 1\r\n",
        b"DELETED\r\n",
        b"INSERTED 13\r\n",
        b"FOUND 14 0\r\n\r\n",
        b"USING tenure.mail\r\n",
        b"OUT_OF_MEMORY\r\n",
        b"RESERVED 15 11\r\nOK 3\r\nabc\r\n\r\n",
    ]
)
REPLIES = [
    Reply(b"RESERVED", 12, b"a\r\nbc"),
    Reply(b"OK", 0, b"---\nx: 1"),
    Reply(b"DELETED"),
    Reply(b"INSERTED", 13),
    Reply(b"FOUND", 14, b""),
    Reply(b"USING"),
    Reply(b"OUT_OF_MEMORY"),
    Reply(b"RESERVED", 15, b"OK 3\r\nabc\r\n"),
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_replies_are_the_same_however_they_come_in(size):
    stream, found = Stream(), []
    for first in range(0, len(BYTES), size):
        stream.feed(BYTES[first : first + size])
        found += stream.take(100)
    assert found == REPLIES


def test_no_more_are_taken_than_asked_for():
    stream = Stream()
    stream.feed(BYTES)
    assert [stream.take(3), stream.take(1), stream.take(9)] == [REPLIES[:3], REPLIES[3:4], REPLIES[4:]]
    assert stream.take(1) == []


@pytest.mark.parametrize("queue", ["x\r\ndelete 1", "x y", "", "é", "x" * 101, "x\n", "x\0"])
def test_no_tube_is_named_after_what_cannot_name_a_queue(queue):
    with pytest.raises(InvalidJob, match="cannot name a queue"):
        Tubes("tenure.").tube(queue)


@pytest.mark.parametrize("seconds", [1e12, 1e308, math.inf, 2**40])
def test_a_delay_is_never_longer_than_the_server_can_read(seconds):
    assert whole_seconds(seconds) == MAX_DELAY
    assert put(0, whole_seconds(seconds), 1, b"").startswith(b"put 0 4294967295 1 0")
    with pytest.raises(ValueError, match="invalid put"):
        put(0, MAX_DELAY + 1, 1, b"")
