"""Attempts at real handlers, opened from real messages."""

from datetime import UTC, datetime

import pytest

from tenure import Job
from tenure.definition.handler import from_class, from_function
from tenure.execution.attempt import Attempt, Performer
from tenure.testing import FakeClock
from tenure.wire.envelope import Wire
from tenure.wire.signing import Key, Ring


@pytest.fixture
def clock():
    return FakeClock(datetime(2030, 1, 1, tzinfo=UTC))


@pytest.fixture
def attempt_at(clock):
    """Makes an attempt at a function or class with the bytes of a payload; `own` are options of the handler."""
    wire = Wire(Ring([Key("k1", bytes(range(32)))]))

    def make(target, payload=b"{}", *, timeout=None, number=1, own=None, **options):
        make_handler = from_class if isinstance(target, type) else from_function
        job = Job(handler="job").replace(**options)
        envelope = wire.open(wire.seal(job, payload, "id-1", clock.now()), job.queue)
        return Attempt(make_handler("job", target, own or {}), envelope, number, 0, 1, timeout, None)

    return make


@pytest.fixture
def perform(clock, attempt_at):
    """Runs one attempt and gives its outcome."""

    def run(target, payload=b"{}", **facts):
        attempt = attempt_at(target, payload, **facts)
        with Performer(clock) as performer:
            return performer.perform(attempt)

    return run
