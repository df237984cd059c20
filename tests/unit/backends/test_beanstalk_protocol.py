"""Replies of beanstalkd are cut out of a stream wherever its parts begin and end."""

import pytest

from tenure.backends.beanstalk.protocol import Reply, Stream

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
