"""The guard holder takes the guards of jobs, keeps them while they run, and settles them with the job."""

import logging
import time
from datetime import UTC, datetime

import pytest
from msgspec import structs

from tenure import Job
from tenure.backends.memory import MemoryBackend
from tenure.backends.messages import Ack, Nack, Park
from tenure.errors import BackendUnavailable
from tenure.guards.guard import drain_worker, forget_keys, pause_queue, read_pauses, renew_drain
from tenure.guards.rate_limit import parse_rate
from tenure.guards.states import Paused, drain_key
from tenure.guards.store import MemoryStore
from tenure.testing import FakeClock
from tenure.worker import guard_holder as module
from tenure.worker.guard_holder import GuardHolder, GuardRules

LOCKED = Job(handler="ping", single_instance=True)
KEYED = Job(handler="ping", idempotency_key="order-7")


class Down(MemoryStore):
    """A store that does not answer."""

    def change(self, changes):
        raise BackendUnavailable("gone for a moment")


@pytest.fixture
def clock():
    return FakeClock(datetime(2030, 1, 1, tzinfo=UTC))


@pytest.fixture
def guards(clock):
    return GuardHolder(MemoryStore(clock))


@pytest.fixture
def rated(clock):
    return GuardHolder(MemoryStore(clock), GuardRules(rates={"slow": parse_rate("1/m")}))


@pytest.fixture
def two(attempt_of):
    """Makes attempts at two jobs that are alike."""

    def make(job):
        first = attempt_of(job)
        return first, structs.replace(first, ticket=structs.replace(first.ticket, id="id-2"))

    return make


def admit(guards, clock, *attempts):
    return guards.admit(list(attempts), clock.now())


def settle(guards, verdict):
    guards.mark(guards.attach([verdict]))


def test_jobs_without_guards_do_not_need_the_store(clock, attempt_of):
    guards = GuardHolder(Down(clock))
    attempt = attempt_of(Job(handler="ping"))
    assert admit(guards, clock, attempt) == ([attempt], [])
    assert not guards.has_guarded_jobs


def test_a_job_whose_lock_is_held_waits_at_no_cost(guards, clock, two):
    first, second = two(LOCKED)
    assert admit(guards, clock, first) == ([first], [])
    attempts, (verdict,) = admit(guards, clock, second)
    assert attempts == []
    assert (type(verdict), verdict.charge, verdict.reason) == (Nack, None, "busy")
    assert 0.05 <= verdict.delay <= 45


def test_a_job_whose_lock_is_held_is_parked_where_the_backend_can(clock, two):
    first, second = two(LOCKED)
    backend = MemoryBackend(clock)
    guards = GuardHolder(backend.guards, is_backend=True, parking=backend.parking)
    admit(guards, clock, first)
    _, (verdict,) = admit(guards, clock, second)
    assert (type(verdict), verdict.reason) == (Park, "busy")


def test_the_end_of_a_job_frees_its_lock(guards, clock, two):
    first, second = two(LOCKED)
    admit(guards, clock, first)
    settle(guards, Ack(lease=first.ticket))
    assert admit(guards, clock, second) == ([second], [])


def test_a_key_is_final_after_a_success(guards, clock, two):
    first, second = two(KEYED)
    admit(guards, clock, first)
    settle(guards, Ack(lease=first.ticket))
    _, (verdict,) = admit(guards, clock, second)
    assert (type(verdict), verdict.reason) == (Ack, "skipped-idempotent: job id-1 has done it")


def test_a_key_is_free_again_some_time_after_a_failure(guards, clock, two):
    first, second = two(KEYED)
    admit(guards, clock, first)
    settle(guards, Nack(lease=first.ticket, charge="attempt"))
    clock.advance(31)
    assert admit(guards, clock, second) == ([second], [])


def test_a_job_that_finds_its_own_mark_has_only_to_be_acked(guards, clock, attempt_of):
    first, again = attempt_of(KEYED, fence=1), attempt_of(KEYED, fence=2)
    admit(guards, clock, first)
    settle(guards, Ack(lease=first.ticket))
    _, (verdict,) = admit(guards, clock, again)
    assert (type(verdict), verdict.state, verdict.reason) == (Ack, "done", None)


def test_without_the_store_a_guarded_job_does_not_run_and_waits(clock, attempt_of, caplog):
    guards = GuardHolder(Down(clock))
    with caplog.at_level(logging.WARNING):
        attempts, (verdict,) = admit(guards, clock, attempt_of(LOCKED))
    assert attempts == []
    assert (type(verdict), verdict.charge) == (Nack, None)
    assert 1.0 <= verdict.delay <= 3.0


def test_a_lock_that_is_renewed_outlives_its_length(guards, clock, two):
    first, second = two(LOCKED)
    admit(guards, clock, first)
    for _ in range(5):
        clock.advance(10)
        assert guards.renew([first.ticket]) == []
    attempts, _ = admit(guards, clock, second)
    assert attempts == []


def test_a_job_that_lost_its_lock_is_named_by_the_renewal(guards, clock, two):
    first, second = two(LOCKED)
    admit(guards, clock, first)
    clock.advance(16)
    assert admit(guards, clock, second) == ([second], [])
    assert guards.renew([first.ticket, second.ticket]) == [first.ticket]


def test_the_verdict_on_a_lost_lease_changes_no_guard(guards, clock, attempt_of):
    first = attempt_of(LOCKED)
    admit(guards, clock, first)
    guards.drop([first.ticket])
    assert guards.attach([Ack(lease=first.ticket)]) == [Ack(lease=first.ticket)]


def test_queues_without_a_rate_are_leased_from_together(guards):
    ((queues, most),), _ = guards.room(["a", "b"])
    assert queues == ["a", "b"]
    assert most >= 3000


def test_a_queue_with_a_rate_is_a_portion_of_its_own_with_its_tokens(rated):
    room, _ = rated.room(["a", "slow", "b"])
    assert [queues for queues, _ in room] == [["a"], ["slow"], ["b"]]
    assert room[1][1] == 1


def test_a_queue_without_tokens_is_left_out_until_the_next_token(rated, clock, attempt_of):
    job = attempt_of(Job(handler="ping", queue="slow"))
    assert admit(rated, clock, job) == ([job], [])
    room, wait = rated.room(["slow"])
    assert room == []
    assert 0 < wait <= 60


def test_when_all_queues_are_paused_there_is_no_room_for_as_long_as_it_takes(clock):
    store = MemoryStore(clock)
    store.change([pause_queue("a", None)])
    assert GuardHolder(store).room(["a"]) == ([], float("inf"))


class CountingStore(MemoryStore):
    reads = 0

    def read(self, keys):
        self.reads += 1
        return super().read(keys)


def drained(clock):
    store = CountingStore(clock)
    store.change([drain_worker("host:1:a", "disk")])
    guards = GuardHolder(store)
    guards.worker = "host:1:a"
    return store, guards


def test_a_draining_worker_has_no_room_and_finds_that_out_with_the_pauses_of_its_queues(clock):
    store, guards = drained(clock)
    assert guards.room(["a", "b"]) == ([], float("inf"))
    assert (guards.drain(), guards.drain().reason, store.reads) == (Paused(clock.now(), "disk"), "disk", 1)


def test_a_worker_that_lives_keeps_its_drain_and_one_that_was_killed_leaves_it_for_a_day(clock, monkeypatch):
    monkeypatch.setattr(module, "PAUSE_POLL_SECONDS", 0.0)
    monkeypatch.setattr(module, "_DRAIN_RENEWAL_SECONDS", 0.0)
    store, guards = drained(clock)
    clock.advance(80_000)
    assert guards.drain() is not None
    clock.advance(80_000)
    assert read_pauses(store, (), ["host:1:a"]).workers
    clock.advance(80_000)
    assert read_pauses(store, (), ["host:1:a"]).workers == {}
    assert guards.drain() is None
    assert store.sweep(10) == 1


def test_a_renewal_does_not_bring_back_a_drain_that_was_ended(clock):
    store, _ = drained(clock)
    store.change([forget_keys(drain_key("host:1:a"))])
    store.change([renew_drain("host:1:a")])
    assert read_pauses(store, (), ["host:1:a"]).workers == {}


def test_guards_in_another_store_that_were_not_renewed_in_time_cost_the_lease(guards, clock, attempt_of):
    first = attempt_of(LOCKED)
    admit(guards, clock, first)
    now = time.monotonic()
    assert (guards.overdue(now), guards.overdue(now + 12.1)) == ([], [first.ticket])


def test_guards_in_the_backend_last_as_long_as_the_lease(clock, attempt_of):
    guards = GuardHolder(MemoryBackend(clock).guards, is_backend=True)
    admit(guards, clock, attempt_of(LOCKED))
    assert guards.overdue(time.monotonic() + 1000) == []
