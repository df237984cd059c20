"""The keeper renews leases and stops jobs whose lease is lost, the guard keeper renews guards, the reaper reaps."""

import logging
import threading

import pytest

from tenure import Backoff
from tenure.backends.memory import MemoryBackend
from tenure.backends.messages import Message
from tenure.definition.handler import Registry
from tenure.errors import BackendUnavailable
from tenure.events import LeaseLost, Listeners, Reaped
from tenure.testing import FakeClock
from tenure.worker.inbox import HeldLeases
from tenure.worker.keeper import GuardKeeper, Keeper, Reaper
from tenure.worker.lane import WorkerOptions
from tenure.worker.pipeline import JobDefaults, Pipeline
from tenure.worker.roles import OutageLog
from tests.support.waiting import WAIT_SECONDS


class Faulty(MemoryBackend):
    """Counts renewals; fails or blocks them when told to."""

    def __init__(self, clock):
        super().__init__(clock)
        self.renewals = 0
        self.is_down = False
        self.asked = threading.Event()
        self.answer = threading.Event()
        self.answer.set()

    def renew(self, leases, *, seconds):
        self.renewals += 1
        self.asked.set()
        assert self.answer.wait(WAIT_SECONDS)
        if self.is_down:
            raise BackendUnavailable("gone for a moment")
        return super().renew(leases, seconds=seconds)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def backend(clock):
    return Faulty(clock)


@pytest.fixture
def held():
    return HeldLeases()


@pytest.fixture
def calls():
    """What the keeper hands back and what it stops, in order."""
    return []


@pytest.fixture
def events():
    return []


@pytest.fixture
def stopped():
    """Set when the keeper has stopped a job."""
    return threading.Event()


@pytest.fixture
def listeners(events):
    listeners = Listeners()
    listeners.add(events.append)
    return listeners


@pytest.fixture
def pipeline(wire, clock):
    return Pipeline(wire, Registry({}), clock, JobDefaults(retry=Backoff()))


@pytest.fixture
def options():
    return WorkerOptions(queues=("q",), lease_seconds=15.0)


@pytest.fixture
def reaper(backend, options, listeners, clock):
    return Reaper(backend, options, listeners, clock)


@pytest.fixture
def keeper(backend, options, held, listeners, pipeline, calls, stopped):
    def stop(leases):
        calls.append(("stop", [lease.id for lease in leases]))
        stopped.set()

    return Keeper(backend, options, held, listeners, pipeline, lambda age: calls.append(("back", age)), stop)


@pytest.fixture
def lease(backend):
    backend.put([Message(id="1", queue="q", body=b"x", handler="h")])
    (lease,) = backend.lease(["q"], limit=1, seconds=15.0)
    return lease


@pytest.fixture
def held_lease(lease, held, clock):
    held.hold([lease], clock.monotonic(), 15.0)
    return lease


def stops(calls):
    return [ids for what, ids in calls if what == "stop"]


def test_a_lease_is_renewed_when_a_third_of_it_has_passed(keeper, backend, clock, held_lease):
    clock.advance(4.9)
    keeper.tick()
    before = backend.renewals
    clock.advance(0.2)
    keeper.tick()
    keeper.tick()
    assert (before, backend.renewals) == (0, 1)


def test_a_lease_that_is_renewed_outlives_its_length(keeper, backend, clock, held_lease):
    for _ in range(10):
        clock.advance(6)
        keeper.tick()
    assert backend.jobs.find("1").state == "leased"
    assert backend.jobs.find("1").fence == 1


def test_a_job_whose_lease_another_worker_took_is_stopped(keeper, backend, clock, held, held_lease, calls, events):
    clock.advance(16)
    backend.reap(["q"])
    backend.lease(["q"], limit=1, seconds=15.0)
    keeper.tick()
    assert stops(calls) == [["1"]]
    assert LeaseLost(("1",), "renew") in events
    assert len(held) == 0


def test_a_renewal_that_fails_is_tried_again_while_there_is_time(keeper, backend, clock, held, held_lease, calls):
    backend.is_down = True
    clock.advance(6)
    with pytest.raises(BackendUnavailable):
        keeper.tick()
    backend.is_down = False
    keeper.tick()
    assert (stops(calls), len(held), backend.renewals) == ([], 1, 2)


def test_a_job_is_stopped_before_its_lease_expires_when_it_cannot_be_renewed(keeper, backend, clock, held_lease, calls):
    backend.is_down = True
    clock.advance(12.1)
    with pytest.raises(BackendUnavailable):
        keeper.tick()
    assert stops(calls) == [["1"]]


def test_a_job_is_stopped_in_time_while_the_backend_does_not_answer(keeper, backend, clock, held_lease, calls, stopped):
    backend.answer.clear()
    clock.advance(6)
    thread = threading.Thread(target=keeper.run)
    thread.start()
    try:
        assert backend.asked.wait(WAIT_SECONDS)
        clock.advance(6.1)
        assert stopped.wait(WAIT_SECONDS)
    finally:
        backend.answer.set()
        keeper.stop()
        thread.join(WAIT_SECONDS)
    assert stops(calls) == [["1"]]


def test_an_expired_lease_of_another_worker_is_reaped(reaper, backend, clock, lease, events):
    clock.advance(16)
    reaper.tick()
    assert events == [Reaped("q", ("1",), ())]
    assert backend.jobs.find("1").state == "ready"


def test_after_a_jump_of_the_clock_nothing_is_reaped_for_one_lease(reaper, backend, clock, lease, caplog):
    clock.jump(3600)
    with caplog.at_level(logging.WARNING):
        reaper.tick()
    after_the_jump = backend.jobs.find("1").state
    clock.advance(14)
    reaper.tick()
    within_one_lease = backend.jobs.find("1").state
    clock.advance(2)
    reaper.tick()
    assert [after_the_jump, within_one_lease, backend.jobs.find("1").state] == ["leased", "leased", "ready"]
    assert "the clock jumped" in caplog.text


def test_jobs_that_wait_a_quarter_of_a_second_unstarted_are_handed_back(keeper, calls):
    keeper.tick()
    assert calls == [("back", 0.25)]


class Away:
    """A part of a backend that is away for so many seconds at its next call, and then answers or fails."""

    def __init__(self, clock, ledger):
        self._clock = clock
        self._ledger = ledger
        self.seconds = 0.0
        self.fails = False

    def time(self):
        seconds, self.seconds = self.seconds, 0.0
        self._clock.advance(seconds)
        if self.fails:
            raise BackendUnavailable("gone for a moment")
        return self._ledger.time()


@pytest.fixture
def ledger(backend, clock):
    backend.ledger = Away(clock, backend.ledger)
    return backend.ledger


def state(backend):
    return backend.jobs.find("1").state


def test_after_an_outage_of_a_third_of_a_lease_nothing_is_reaped_for_one_lease(reaper, backend, ledger, clock, lease):
    clock.advance(12)
    ledger.seconds = 5.1
    reaper.tick()
    after_the_outage = state(backend)
    clock.advance(14.8)
    reaper.tick()
    within_one_lease = state(backend)
    clock.advance(0.3)
    reaper.tick()
    assert [after_the_outage, within_one_lease, state(backend)] == ["leased", "leased", "ready"]


def test_calls_that_failed_count_as_an_outage_too(reaper, backend, ledger, clock, lease):
    ledger.fails = True
    for _ in range(3):
        with pytest.raises(BackendUnavailable):
            reaper.tick()
        clock.advance(6)
    ledger.fails = False
    reaper.tick()
    assert state(backend) == "leased"


def test_a_short_outage_does_not_stop_reaping(reaper, backend, ledger, clock, lease):
    clock.advance(16)
    ledger.seconds = 4.9
    reaper.tick()
    assert state(backend) == "ready"


def test_a_backend_that_flaps_stops_reaping_at_most_once_in_four_leases(reaper, backend, ledger, clock, lease):
    ledger.seconds = 6
    reaper.tick()
    clock.advance(16)
    ledger.seconds = 6
    reaper.tick()
    assert state(backend) == "ready"


class FaultyGuards:
    """The guards of a worker; a neighbour may block their renewal."""

    outage = OutageLog()

    def __init__(self):
        self.calls = []
        self.is_blocked = False

    def adopt_rates(self, queues):
        self.calls.append(queues)

    def wake_parked(self, now):
        self.calls.append("wake")

    def renew(self, leases):
        self.calls.append([lease.id for lease in leases])
        if self.is_blocked:
            raise BackendUnavailable("a neighbour has locked a guard")
        return []

    def overdue(self, now):
        return []


@pytest.fixture
def guards(pipeline):
    pipeline.guards = FaultyGuards()
    return pipeline.guards


@pytest.fixture
def guard_keeper(guards, pipeline, held, options, calls):
    return GuardKeeper(pipeline, held, options, lambda leases: calls.append(("stop", leases)))


def test_guards_are_renewed_every_third_of_a_lease(guard_keeper, guards, held_lease, clock):
    guard_keeper.tick()
    clock.advance(4.9)
    guard_keeper.tick()
    clock.advance(0.2)
    guard_keeper.tick()
    assert guards.calls == [("q",), "wake", ["1"], "wake", "wake", ["1"]]


def test_guards_that_cannot_be_renewed_are_tried_again_and_cost_no_lease(
    guard_keeper, guards, keeper, held, held_lease, clock, calls
):
    guards.is_blocked = True
    for _ in range(20):
        clock.advance(1.1)
        keeper.tick()
        with pytest.raises(BackendUnavailable):
            guard_keeper.tick()
    assert (len(held), stops(calls)) == (1, [])
