"""The leaser leases what the inbox can use, and hands it over unopened."""

import threading
import time

import pytest

from tenure import Backoff
from tenure.backends.memory import MemoryBackend
from tenure.backends.messages import Lease, Message
from tenure.definition.handler import Registry
from tenure.errors import BackendUnavailable
from tenure.events import Leased, Listeners
from tenure.guards.guard import pause_queue
from tenure.testing import FakeClock
from tenure.worker.guard_holder import GuardHolder
from tenure.worker.inbox import HeldLeases, Inbox
from tenure.worker.lane import Lane, WorkerOptions
from tenure.worker.leaser import Leaser, RunLimits, SharedParts
from tenure.worker.pipeline import JobDefaults, Pipeline
from tenure.worker.settler import Settler
from tenure.worker.suspects import SuspectRunner
from tests.support.waiting import WAIT_SECONDS


class Flaky(MemoryBackend):
    """Fails the first `failures` calls of lease."""

    failures = 0

    def __init__(self, clock):
        super().__init__(clock)
        self.asked = []

    def lease(self, queues, **limits):
        self.asked.append(time.monotonic())
        if self.failures:
            self.failures -= 1
            raise BackendUnavailable("gone for a moment")
        return super().lease(queues, **limits)


class Bench:
    """A leaser with real parts around it, which ends after the turn in which the backend has answered."""

    def __init__(self, wire, *, concurrency=1, **options):
        clock = self.clock = FakeClock()
        self.events, self.answers = [], []
        self.backend = Flaky(clock)
        self.held = HeldLeases()
        self.inbox = Inbox(concurrency, on_idle=lambda: None, admit=list)
        guards = GuardHolder(self.backend.guards)
        pipeline = Pipeline(wire, Registry({}), clock, JobDefaults(retry=Backoff()), guards=guards)
        listeners = Listeners()
        listeners.add(self.events.append)
        self.settler = Settler(self.backend, self.held, listeners, guards)
        given = WorkerOptions(queues=("a", "b"), **options)
        limits = RunLimits(given, 1, self.held, self.settler.tally)
        lane, breaker = Lane(queues=("a", "b")), guards.backend_breaker()
        self.suspects = SuspectRunner(self.backend, [lane], guards.room, 5.0)
        parts = SharedParts(
            self.backend, given, pipeline, self.held, self.settler, limits, listeners, breaker, self.suspects
        )
        self.leaser = Leaser(lane, self.inbox, parts, self._answered)

    def put(self, queue, *ids):
        self.backend.put([Message(id=id, queue=queue, body=b"sealed", handler="h") for id in ids])

    def states(self, *ids):
        return [self.backend.jobs.find(id).state for id in ids]

    def _answered(self):
        self.answers.append(True)
        self.leaser.stop()


@pytest.fixture
def bench(wire):
    return lambda **options: Bench(wire, **options)


def test_leases_reach_the_inbox_unopened_and_are_held(bench):
    one = bench(concurrency=4)
    one.put("a", "1", "2")

    one.leaser.run()

    waiting = one.inbox.take_back()
    assert [(type(lease), lease.body) for lease in waiting] == [(Lease, b"sealed")] * 2
    assert one.held.leases() == waiting


def test_the_time_of_a_lease_counts_from_the_call_by_the_clock_of_the_app(bench):
    one = bench(lease_seconds=15.0)
    one.put("a", "1")
    asked = one.clock.monotonic()  # this clock stands still, real time does not

    one.leaser.run()

    assert one.held.renewable(asked + 4.99) == []
    assert [lease.id for lease in one.held.renewable(asked + 5.0)] == ["1"]


def test_no_more_is_leased_than_can_start(bench):
    one = bench(concurrency=2)
    one.put("a", "1", "2", "3")

    one.leaser.run()

    assert one.states("1", "2", "3") == ["leased", "leased", "ready"]


def test_a_limited_worker_leases_no_more_than_its_limit(bench):
    one = bench(concurrency=4, max_jobs=1)
    one.put("a", "1", "2")

    one.leaser.run()

    assert one.states("1", "2") == ["leased", "ready"]


def test_a_paused_queue_is_left_out(bench):
    one = bench(concurrency=4)
    one.put("a", "1")
    one.put("b", "2")
    one.backend.guards.change([pause_queue("a", None)])

    one.leaser.run()

    assert one.states("1", "2") == ["ready", "leased"]


def test_a_burst_ends_when_there_is_nothing_to_lease(bench):
    one = bench(burst=True)

    one.leaser.run()

    assert (one.answers, len(one.held)) == ([True], 0)


def test_a_backend_that_fails_is_asked_again(bench):
    one = bench()
    one.put("a", "1")
    one.backend.failures = 2

    one.leaser.run()

    assert one.answers == [True]
    assert one.states("1") == ["leased"]


def test_the_leaser_waits_longer_after_each_failure(bench):
    one = bench()
    one.backend.failures = 2

    one.leaser.run()

    first, second, third = one.backend.asked
    assert second - first >= 0.04  # 0.05 s, less a fifth
    assert third - second >= 0.08


def test_a_limited_worker_whose_backend_failed_leases_up_to_its_limit(bench):
    one = bench(max_jobs=1)
    one.put("a", "1")
    one.backend.failures = 1
    rescue = threading.Timer(WAIT_SECONDS, one.leaser.stop)  # a leaser that counts the failed lease would wait for ever
    rescue.start()

    one.leaser.run()
    rescue.cancel()

    assert one.states("1") == ["leased"]


def test_listeners_receive_what_was_leased_by_queue(bench):
    one = bench(concurrency=4)
    one.put("a", "1", "2")
    one.put("b", "3")

    one.leaser.run()

    assert one.events == [Leased("a", ("1", "2")), Leased("b", ("3",))]
