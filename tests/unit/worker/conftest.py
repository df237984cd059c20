"""Leases and attempts made from real jobs, sealed and opened with a real key."""

import pytest

from tenure import Job
from tenure.backends.messages import Lease
from tenure.definition.handler import from_function
from tenure.execution.attempt import Attempt
from tenure.wire.envelope import Wire
from tenure.wire.signing import Key, Ring

NOW = 1_893_456_000_000_000  # 2030-01-01T00:00:00Z


@pytest.fixture
def wire():
    return Wire(Ring([Key("k1", bytes(range(32)))]))


@pytest.fixture
def lease_of(wire):
    """Makes the lease that a backend would grant for a job."""

    def make(job=None, **facts):
        job = job or Job(handler="ping")
        body = wire.seal(job, b"{}", "id-1", NOW)
        known = {
            "id": "id-1",
            "queue": job.queue,
            "body": body,
            "owner": "me",
            "fence": 1,
            "attempts": 0,
            "crashes": 0,
            "vanished": 0,
            "priority": job.priority,
            "due": NOW,
            "token": None,
        }
        return Lease(**{**known, **facts})

    return make


@pytest.fixture
def attempt_of(wire, lease_of):
    """Makes an attempt at a job, ready to run."""

    def ping(): ...

    def make(job=None, *, retry=None, attempts=0, crashes=0, fence=1, vanished=0):
        lease = lease_of(job, attempts=attempts, crashes=crashes, fence=fence, vanished=vanished)
        envelope = wire.open(lease.body, lease.queue)
        handler = from_function("ping", ping, {"retry": retry})
        return Attempt(handler, envelope, attempts + 1, crashes, lease.fence, None, lease)

    return make
