"""Validly signed envelopes with hostile values in every field: the worker lives, and only their own jobs are affected.

HOSTILE=1000000 draws that many instead of the usual number.
"""

import logging
import os
from collections import Counter
from collections.abc import Iterator
from secrets import token_hex

import pytest

from tenure import Tenure
from tenure.backends.messages import Message
from tenure.testing import FakeClock, run_due
from tenure.wire.signing import Key, Ring
from tests.support.hostile_envelopes import FIELDS, FOLLOWER_FIELDS, GUARDED, PLACES, QUEUE, HostileEnvelopes
from tests.support.servicebus import Emulator

KEY = Key("k1", bytes(range(32)))
BATCH = 2000
BATCHES = int(os.environ.get("HOSTILE", "20000")) // BATCH
DEPLOY_SECONDS = 3600.0
MAX_BURSTS = 20
pytestmark = pytest.mark.timeout(120, method="thread")  # the runner needs the alarm that the other method uses


class Range:
    """An app that hostile envelopes are put into, with good jobs between them."""

    def __init__(self, app: Tenure, seed: int) -> None:
        self.app = app
        self.ran: list[str] = []
        self.drawn = HostileEnvelopes(Ring([KEY]), seed)
        self.changed: dict[str, frozenset[str]] = {}
        self.fields: Counter[str] = Counter()

        @app.job(queue=QUEUE)
        def note(name: str = "") -> None:
            self.ran.append(name)

        @app.job(queue="notices")
        def mourn() -> None: ...

    def put(self, count: int) -> list[str]:
        """Put hostile envelopes with a good job after every twentieth; return the ids of the hostile ones."""
        hostile = [self.drawn.draw() for _ in range(count)]
        for each in hostile:
            self.fields.update(each.fields)
            self.changed[each.id] = each.fields
        for first in range(0, count, 20):
            part = [
                Message(id=each.id, queue=QUEUE, body=each.body, handler="note") for each in hostile[first : first + 20]
            ]
            self.app.backend.put(part)
            self.app.define("note", {"name": f"good {first}"}).dispatch()
        return [each.id for each in hostile]

    def missing_fields(self) -> set[str]:
        """The fields of an envelope, of its followers and of its callbacks that no hostile value was drawn for."""
        followers = [field.rsplit(".", 1) for field in self.fields if "." in field]
        seen = {*self.fields, *(f"follower.{field}" for _, field in followers), *(place for place, _ in followers)}
        return {*FIELDS, *PLACES, *(f"follower.{field}" for field in (*FIELDS, *FOLLOWER_FIELDS))} - seen

    def check(self, ids: list[str]) -> Counter[str]:
        """Each hostile job has run or is dead with a reason, every good one has run; returns what became of them."""
        good = [f"good {first}" for first in range(0, len(ids), 20)]
        assert sorted(name for name in self.ran if name.startswith("good")) == sorted(good)
        ends: Counter[str] = Counter()
        jobs = self.app.parts().jobs
        for id in ids:
            record = jobs.find(id)
            if record is None and self.app.backend.jobs is None and GUARDED & self.changed[id]:
                continue  # it waits in the broker for its guard
            assert record is not None, (id, self.changed[id])
            assert record.state in ("done", "expired", "dead"), (id, record.state, record.body)
            if record.state == "dead":
                assert record.reason, id
                assert record.failures, id
            ends[f"{record.state} {record.reason or ''}".partition(":")[0]] += 1
        return ends


@pytest.fixture
def make(tmp_path, caplog) -> Iterator:
    caplog.set_level(logging.CRITICAL + 1)  # each death is a line
    opened = []

    def make_range(url: str, seed: int = 1, **settings) -> Range:
        settings = {"keys": [KEY.dump()], "on_dead": "mourn", "unknown_timeout": DEPLOY_SECONDS, **settings}
        app = Tenure(url, execution_log=str(tmp_path / "execution.log"), **settings)
        opened.append(app)
        return Range(app, seed)

    yield make_range
    for app in opened:
        app.close()


def run(made: Range, clock: FakeClock) -> None:
    """Until every job has ended, those too that wait for a deploy or for a guard: a burst does not wait for them."""
    for _ in range(MAX_BURSTS):
        run_due(made.app)
        clock.advance(2 * DEPLOY_SECONDS)
        made.app.backend.parking.wake(None, BATCH)
        waiting = made.app.backend.queues.counts()[QUEUE]
        if not (waiting["ready"] or waiting["delayed"] or waiting["parked"]):
            return


@pytest.mark.parametrize("seed", range(BATCHES))
def test_hostile_envelopes_affect_only_their_own_jobs(make, tmp_path, seed):
    url = "memory://" if seed % 10 < 6 else f"sqlite:///{tmp_path}/jobs.db?synchronous=normal"
    clock = FakeClock()
    made = make(url, seed, clock=clock)

    ids = made.put(BATCH)
    run(made, clock)

    ends = made.check(ids)
    assert ends["done "] > 50, ends  # not all values are refused
    assert ends["dead malformed"] > BATCH / 3, ends
    assert made.missing_fields() == set()


@pytest.mark.parametrize("fixture", ["postgres_url", "mariadb_url", "redis_url"])
def test_hostile_envelopes_affect_only_their_own_jobs_on_every_server(make, request, fixture):
    clock = FakeClock()
    made = make(request.getfixturevalue(fixture), 1001, clock=clock)

    ids = made.put(300)
    run(made, clock)

    assert made.check(ids).total() == 300


@pytest.fixture(params=["sqlite", "postgres_url"])
def store(request, tmp_path):
    return f"sqlite:///{tmp_path}/store.db" if request.param == "sqlite" else request.getfixturevalue(request.param)


def check_on_broker(made: Range) -> None:
    ids = made.put(300)
    made.app.worker(QUEUE, "notices", burst=True).run()
    assert made.check(ids).total() > 250


def test_hostile_envelopes_affect_only_their_own_jobs_on_beanstalkd(make, beanstalk_url, store):
    made = make(f"{beanstalk_url}?prefix=test-{token_hex(6)}.", 1002, store=store, unknown_timeout=0.0)
    check_on_broker(made)
    assert {*made.app.backend.queues.counts()} <= {QUEUE, "notices", "other", "HOSTILE", "x" * 100, "abc", "é"}


@pytest.fixture
def service_bus() -> Iterator[str]:
    with Emulator(QUEUE, "notices", lock=30.0, most_deliveries=10, remember=60) as emulator:
        yield f"servicebus:{emulator.connection_string}?queues={QUEUE},notices"


# `service_bus` comes first: the app must close its connections before the emulator ends.
def test_hostile_envelopes_affect_only_their_own_jobs_on_service_bus(service_bus, make, store):
    check_on_broker(make(service_bus, 1002, store=store, unknown_timeout=0.0))
