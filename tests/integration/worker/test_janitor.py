"""A worker cleans every five minutes, and only one worker of a fleet does."""

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tenure.backends.contract import parts_for
from tenure.backends.ledger import TickRecord
from tenure.backends.messages import Ack, Message
from tenure.backends.records import AuditRecord
from tenure.backends.url import open_backend
from tenure.errors import BackendUnavailable
from tenure.testing import FakeClock
from tenure.worker.janitor import CLEANING, Janitor

DAY = 86_400.0
PAYLOAD_BYTES = 1000


@pytest.fixture
def clock():
    return FakeClock(datetime(2026, 1, 1, 0, 1, tzinfo=UTC))


@pytest.fixture(params=["memory", "sqlite", "redis"])
def backend(request, tmp_path, clock):
    places = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db?synchronous=normal"}
    with closing(open_backend(places.get(request.param) or request.getfixturevalue("redis_url"), clock)) as backend:
        yield backend


def janitor(backend, clock, **retention):
    return Janitor(parts_for(backend, None), clock, {"done": DAY, **retention}, payload_bytes=PAYLOAD_BYTES)


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


def audit(backend, clock, count):
    for number in range(count):
        record = AuditRecord(id=f"{number:04d}", at=clock.now(), actor="ada", action="queue.pause", target="q")
        backend.audit.save(record)


def test_old_audit_records_are_deleted_however_many_there_are(backend, clock):
    audit(backend, clock, 600)
    clock.advance(DAY)
    cleaner = janitor(backend, clock, audit=DAY)
    assert cleaner.clean()["audit"] == 0
    clock.advance(1)
    assert cleaner.clean()["audit"] == 600
    assert backend.audit.page(limit=1) == []


def test_audit_records_with_a_retention_of_0_are_kept_for_ever(backend, clock):
    audit(backend, clock, 1)
    clock.advance(10_000 * DAY)
    assert "audit" not in janitor(backend, clock, audit=0.0).clean()
    assert len(backend.audit.page(limit=9)) == 1


@pytest.fixture
def file_backend(tmp_path, clock):
    with closing(open_backend(f"sqlite:///{tmp_path}/jobs.db?synchronous=normal", clock)) as backend:
        yield backend


def test_old_payloads_are_erased_however_many_there_are(file_backend, clock):
    finish(file_backend, 1100)
    clock.advance(3600)
    cleaner = janitor(file_backend, clock, payloads=3601.0)
    assert cleaner.clean(limit_bytes=False)["payloads"] == 0
    clock.advance(2)
    assert cleaner.clean(limit_bytes=False)["payloads"] == 1100
    assert file_backend.jobs.find("j7").is_erased
    assert file_backend.queues.counts()["q"]["done"] == 1100


def test_payloads_are_erased_when_they_take_too_much_together(file_backend, clock):
    finish(file_backend, 1100)  # of two bytes each
    clock.advance(120)
    assert janitor(file_backend, clock, payloads=DAY).clean()["payloads"] == 600
    assert file_backend.payloads.kept().bytes == PAYLOAD_BYTES


def test_the_bytes_of_payloads_are_counted_once_an_hour(file_backend, clock):
    finish(file_backend, 1100)
    clock.advance(4 * 60)  # 00:05
    janitor(file_backend, clock, payloads=DAY).turn()
    assert file_backend.payloads.kept().jobs == 1100
    clock.advance(55 * 60)
    janitor(file_backend, clock, payloads=DAY).turn()
    assert file_backend.payloads.kept().jobs == 500


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
    assert Janitor(parts, clock, {"done": DAY}, payload_bytes=PAYLOAD_BYTES).turn() == 60.0
    assert backend.queues.counts().get("q", {"done": 0})["done"] == 0
