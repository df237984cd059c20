"""Searches and scans read as many pages as they need."""

from tenure.backends.job_filter import all_heads
from tenure.backends.memory import MemoryBackend
from tenure.backends.messages import Message


def test_the_beginnings_of_all_waiting_messages_are_read_page_by_page():
    backend = MemoryBackend()
    bodies = [b"%d" % number for number in range(2500)]
    backend.put([Message(id=body.decode(), queue="a", body=body, handler="h") for body in bodies])

    assert sorted(all_heads(backend.control)) == sorted(bodies)
