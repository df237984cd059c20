"""A worker cleans every five minutes, and only one worker of a fleet does."""

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tenure.backends.contract import parts_for
from tenure.backends.ledger import TickRecord
from tenure.backends.messages import Ack, Message
from tenure.backends.url import open_backend
from tenure.errors import BackendUnavailable
from tenure.testing import FakeClock
from tenure.worker.janitor import CLEANING, Janitor

DAY = 86_400.0


@pytest.fixture
def clock():
    return FakeClock(datetime(2026, 1, 1, 0, 1, tzinfo=UTC))


@pytest.fixture(params=["memory", "sqlite", "redis"])
def backend(request, tmp_path, clock):
    places = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db?synchronous=normal"}
    with closing(open_backend(places.get(request.param) or request.getfixturevalue("redis_url"), clock)) as backend:
        yield backend


def janitor(backend, clock):
    return Janitor(parts_for(backend, None), clock, {"done": DAY})


def finish(backend, count):
    backend.put([Message(id=f"j{n}", queue="q", body=b"{}", handler="h") for n in range(count)])
    while leases := backend.lease(["q"], limit=500, seconds=60):
        backend.ack([Ack(lease=lease) for lease in leases])


def states(backend):
    return [(each.state, each.why) for each in backend.ledger.history(CLEANING)]


def test_one_janitor_of_a_fleet_cleans_every_five_minutes(backend, clock):
    fleet = [janitor(backend, clock) for _ in range(3)]
    for _ in range(5):
        pauses = [each.turn() for each in fleet]
        clock.advance(60)
    assert all(0 < pause <= 302 for pause in pauses)
    assert len(states(backend)) == 2  # of 00:00, which nobody had cleaned, and of 00:05


def test_everything_past_its_time_is_deleted_however_much_it_is(backend, clock):
    finish(backend, 1100)
    clock.advance(DAY + 1)
    old = clock.now() - round(40 * DAY * 1e6)
    backend.ledger.enter([TickRecord(id="t", schedule="s", tick=old, due=old, state="skipped")])
    clock.advance(31 * DAY)
    janitor(backend, clock).turn()
    assert states(backend) == [("succeeded", "1101 deleted")]
    assert sum(backend.queues.counts().get("q", {"done": 0}).values()) == 0
    assert backend.ledger.history("s") == []


def test_a_janitor_that_vanished_is_given_up_by_the_next(backend, clock):
    first = janitor(backend, clock)

    def vanish(*arguments):
        raise BackendUnavailable("gone")

    first.sweep = vanish
    with pytest.raises(BackendUnavailable):
        first.turn()
    clock.advance(300)
    janitor(backend, clock).turn()
    assert states(backend) == [("succeeded", "0 deleted"), ("failed", "the worker that cleaned has vanished")]


def test_a_backend_without_a_ledger_is_cleaned_by_every_worker(backend, clock):
    finish(backend, 3)
    clock.advance(DAY + 1)
    parts = replace(parts_for(backend, None), ledger=None)
    assert Janitor(parts, clock, {"done": DAY}).turn() == 60.0
    assert backend.queues.counts().get("q", {"done": 0})["done"] == 0
