"""Parking: a job waits for a key, keeps its place at no cost, and no wake-up is lost."""

from collections.abc import Sequence

import pytest

from tenure.backends.messages import Abandon, Ack, Lease, Nack, Park, suspects_key
from tenure.guards.concurrency_limit import ConcurrencyLimit
from tenure.guards.guard import Ending, Guard, forget_keys, settle_guards, take_guards
from tenure.guards.idempotency import Idempotency
from tenure.guards.rate_limit import Rate, RateLimit
from tenure.guards.states import Holder
from tenure.testing.conformance.capabilities import needs
from tenure.testing.conformance.messages import (
    LEASE,
    OTHER,
    QUEUE,
    AdvancingClock,
    FullBackend,
    drain,
    expire,
    fail_times,
    id_of,
    known,
    make,
    make_many,
    make_suspects,
    numbers,
    put_and_take,
    take,
    take_suspect,
)

LOCK = ConcurrencyLimit("lock:report")
KEY = Idempotency("once:order-7")
WAKE_SECONDS = 6.0  # after that a job that waits for a guard tries again
DONE = Ending(over=True, succeeded=True)
OTHER_HOLDER = Holder("another-job", 1, 60.0)


def holder(lease: Lease, seconds: float = 60.0) -> Holder:
    return Holder(lease.id, lease.fence, seconds)


def under_lease(lease: Lease) -> Holder:
    """The holder as a worker on this backend makes it: with the lease, for as long as the lease."""
    return Holder(lease.id, lease.fence, LEASE, lease.queue, lease.owner)


def hold(backend: FullBackend, *guards: Guard, by: Holder = OTHER_HOLDER) -> None:
    """Take these guards for a holder."""
    assert backend.guards.change([take_guards(guards, by)]) == [None]


def release(backend: FullBackend, *guards: Guard, by: Holder = OTHER_HOLDER) -> None:
    backend.guards.change([settle_guards(guards, by, DONE)])


def parked(backend: FullBackend, *messages: int, key: str = LOCK.key) -> list[Lease]:
    """Put these, and let them wait for a key that another job holds."""
    leases = put_and_take(backend, *(make(number) for number in messages))
    assert park(backend, leases, key) == []
    return leases


def park(backend: FullBackend, leases: Sequence[Lease], key: str = LOCK.key) -> list[Lease]:
    return backend.parking.park([Park(lease=lease, key=key, reason="busy") for lease in leases])


class ParkingTests:
    @needs("parking")
    def test_a_parked_job_is_not_leased(self, backend: FullBackend, clock: AdvancingClock) -> None:
        hold(backend, LOCK)
        parked(backend, 1)
        clock.advance(LEASE * 2)
        assert take(backend) == []
        assert backend.reap([QUEUE]) == []

    @needs("parking")
    def test_a_parked_job_says_what_it_waits_for(self, backend: FullBackend) -> None:
        hold(backend, LOCK)
        parked(backend, 1)
        assert (known(backend).state, known(backend).waits_for) == ("parked", LOCK.key)
        (listed,), _ = backend.jobs.page("parked", QUEUE, limit=5)
        assert listed.waits_for == LOCK.key
        if backend.recent is not None:
            (newest,), _ = backend.recent.page(limit=5)
            assert newest.waits_for == LOCK.key
        assert backend.queues.counts()[QUEUE]["parked"] == 1

    @needs("parking")
    def test_the_jobs_that_wait_for_a_key_are_counted_by_queue(self, backend: FullBackend) -> None:
        hold(backend, LOCK)
        parked(backend, 1, 2)
        backend.put([make(3, queue=OTHER)])
        park(backend, take(backend, 1, OTHER))
        assert backend.parking.waiters([LOCK.key, "lock:free"], 10) == {LOCK.key: {QUEUE: 2, OTHER: 1}}
        assert sum(backend.parking.waiters([LOCK.key], 2)[LOCK.key].values()) == 2
        assert backend.parking.waiters([], 2) == {}

    @needs("parking")
    def test_a_release_wakes_the_head_and_nobody_else(self, backend: FullBackend) -> None:
        hold(backend, LOCK)
        parked(backend, 1, 2, 3)
        release(backend, LOCK)
        assert numbers(take(backend, 3)) == [1]
        assert known(backend).waits_for is None

    @needs("parking")
    def test_the_head_is_the_one_with_the_highest_priority_and_then_the_oldest(self, backend: FullBackend) -> None:
        hold(backend, LOCK)
        backend.put([make(1), make(2, priority=8), make(3, priority=8)])
        leases = take(backend, 3)
        park(backend, leases[::-1])
        woken = []
        for _ in range(3):
            release(backend, LOCK)
            (lease,) = take(backend, 3)
            woken += numbers([lease])
            hold(backend, LOCK, by=OTHER_HOLDER)
        assert woken == [2, 3, 1]

    @needs("parking")
    def test_a_woken_job_is_back_in_its_place(self, backend: FullBackend) -> None:
        hold(backend, LOCK)
        parked(backend, 1)
        backend.put([make(2)])
        release(backend, LOCK)
        assert numbers(take(backend, 2)) == [1, 2]

    @needs("parking")
    def test_waiting_costs_nothing_and_forgets_nothing(self, backend: FullBackend) -> None:
        backend.put([make(1)])
        fail_times(backend, 2)
        hold(backend, LOCK)
        (lease,) = take(backend)
        park(backend, [lease])
        release(backend, LOCK)
        (again,) = take(backend)
        assert (again.attempts, again.crashes, again.vanished) == (2, 0, 0)
        assert again.fence == lease.fence + 1

    @needs("parking")
    def test_parking_keeps_the_vanished_count(self, backend: FullBackend, clock: AdvancingClock) -> None:
        put_and_take(backend, make(1))
        expire(backend, clock)
        hold(backend, LOCK)
        (lease,) = take(backend)
        park(backend, [lease])
        release(backend, LOCK)
        assert [again.vanished for again in take(backend)] == [1]

    @needs("parking")
    @pytest.mark.parametrize("freed", ["before it parks", "after it parked"])
    def test_a_suspect_that_waited_for_a_key_is_a_suspect_still(
        self, backend: FullBackend, clock: AdvancingClock, freed: str
    ) -> None:
        make_suspects(backend, clock, make(1))
        hold(backend, LOCK)
        (lease,) = take_suspect(backend)
        if freed == "before it parks":
            release(backend, LOCK)
        assert park(backend, [lease]) == []
        if freed == "after it parked":
            assert backend.lease_suspect([QUEUE], seconds=LEASE) == []
            release(backend, LOCK)
        assert take(backend) == []
        (again,) = take_suspect(backend)
        assert (again.alone, again.crashes, again.fence) == (True, 0, lease.fence + 1)

    @needs("parking")
    def test_nothing_wakes_a_suspect(self, backend: FullBackend, clock: AdvancingClock) -> None:
        make_suspects(backend, clock, make(1))
        clock.advance(LEASE)
        backend.parking.wake(None, 100)
        backend.parking.wake([suspects_key(QUEUE)], 100)
        backend.guards.sweep(100)
        assert take(backend) == []
        assert numbers(take_suspect(backend)) == [1]

    @needs("parking")
    def test_a_key_that_became_free_meanwhile_is_not_waited_for(self, backend: FullBackend) -> None:
        """No wake-up is lost: the step that parks checks the key once more."""
        hold(backend, LOCK)
        leases = put_and_take(backend, make(1))
        release(backend, LOCK)
        park(backend, leases)
        assert numbers(take(backend)) == [1]

    @needs("parking")
    def test_a_lost_lease_cannot_be_parked(self, backend: FullBackend, clock: AdvancingClock) -> None:
        hold(backend, LOCK)
        (lease,) = put_and_take(backend, make(1))
        expire(backend, clock)
        assert park(backend, [lease]) == [lease]
        assert numbers(take(backend)) == [1]

    @needs("parking")
    def test_a_parked_job_is_held_by_nobody(self, backend: FullBackend) -> None:
        hold(backend, LOCK)
        (lease,) = parked(backend, 1)
        assert backend.ack([Ack(lease=lease)]) == [lease]
        assert backend.renew([lease], seconds=LEASE) == [lease]

    @needs("parking")
    def test_jobs_of_many_queues_wait_for_one_key(self, backend: FullBackend) -> None:
        hold(backend, LOCK)
        backend.put([make(1), make(2, queue=OTHER)])
        park(backend, take(backend, 2, QUEUE, OTHER))
        for number in (1, 2):
            release(backend, LOCK)
            assert numbers(take(backend, 2, QUEUE, OTHER)) == [number]
            hold(backend, LOCK)

    @needs("parking")
    def test_a_done_key_wakes_all_who_waited_for_it(self, backend: FullBackend) -> None:
        key = Idempotency("once:7")
        hold(backend, key)
        parked(backend, 1, 2, 3, key=key.key)
        release(backend, key)
        assert drain(backend, 10) == [1, 2, 3]

    @needs("parking")
    def test_a_settlement_applies_its_change_and_wakes_in_the_same_step(self, backend: FullBackend) -> None:
        (lease,) = put_and_take(backend, make(1))
        hold(backend, LOCK, by=holder(lease))
        parked(backend, 2)
        assert backend.ack([Ack(lease=lease, change=settle_guards([LOCK], holder(lease), DONE))]) == []
        assert numbers(take(backend)) == [2]

    @needs("parking")
    def test_every_kind_of_settlement_applies_its_change(self, backend: FullBackend) -> None:
        locks = [ConcurrencyLimit(f"lock:{number}") for number in range(3)]
        leases = put_and_take(backend, *make_many(range(3)))
        for lock, lease in zip(locks, leases, strict=True):
            hold(backend, lock, by=holder(lease))
        changes = [settle_guards([lock], holder(lease), DONE) for lock, lease in zip(locks, leases, strict=True)]
        backend.ack([Ack(lease=leases[0], change=changes[0])])
        backend.nack([Nack(lease=leases[1], change=changes[1])])
        backend.abandon([Abandon(lease=leases[2], reason="failed", change=changes[2])])
        assert backend.guards.read([lock.key for lock in locks])[1] == {}

    @needs("parking")
    def test_a_lost_lease_changes_nothing(self, backend: FullBackend, clock: AdvancingClock) -> None:
        (lease,) = put_and_take(backend, make(1))
        hold(backend, LOCK, by=holder(lease))
        expire(backend, clock)
        backend.ack([Ack(lease=lease, change=settle_guards([LOCK], holder(lease), DONE))])
        assert LOCK.key in backend.guards.read([LOCK.key])[1]

    @needs("parking")
    def test_the_waiter_of_a_holder_that_vanished_is_roused(self, backend: FullBackend, clock: AdvancingClock) -> None:
        hold(backend, LOCK, by=Holder("vanished", 1, LEASE))
        parked(backend, 1, 2)
        assert 0 < backend.parking.wake([LOCK.key], 10)[LOCK.key] <= LEASE
        assert take(backend) == []
        clock.advance(LEASE + 0.1)
        backend.parking.wake(None, 10)
        assert numbers(take(backend, 2)) == [1]

    @needs("parking")
    def test_one_head_is_roused_at_a_time(self, backend: FullBackend, clock: AdvancingClock) -> None:
        hold(backend, LOCK, by=Holder("vanished", 1, LEASE))
        parked(backend, 1, 2)
        clock.advance(LEASE + 0.1)
        for _ in range(3):
            backend.parking.wake([LOCK.key], 10)
        assert numbers(take(backend, 2)) == [1]

    @needs("parking")
    def test_a_woken_head_that_never_comes_does_not_hold_up_the_others(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        hold(backend, LOCK)
        parked(backend, 1, 2)
        release(backend, LOCK)
        assert numbers(take(backend, 2)) == [1]
        clock.advance(5.1)
        backend.parking.wake(None, 10)
        assert numbers(take(backend, 2)) == [2]

    @needs("parking")
    def test_as_many_are_roused_as_there_are_tokens(self, backend: FullBackend, clock: AdvancingClock) -> None:
        bucket = RateLimit("rate:x", Rate(3, 1, 2))
        hold(backend, bucket)
        hold(backend, bucket)
        parked(backend, 1, 2, 3, 4, key=bucket.key)
        assert take(backend) == []
        clock.advance(1.1)
        wait = backend.parking.wake([bucket.key], 10)[bucket.key]
        assert numbers(take(backend, 4)) == [1, 2]
        assert 0 < wait <= 1.1

    @needs("parking")
    @pytest.mark.parametrize(
        ("wide", "narrow"),
        [
            (ConcurrencyLimit("most:key:k", 2), ConcurrencyLimit("most:key:k", 1)),
            (RateLimit("rate:key:k", Rate(2, 60, 2)), RateLimit("rate:key:k", Rate(1, 60))),
        ],
        ids=["slots", "rate"],
    )
    def test_a_job_waits_for_a_key_that_is_free_under_a_higher_limit_only(
        self, backend: FullBackend, wide: Guard, narrow: Guard
    ) -> None:
        """Else the worker would lease it again and again: jobs of one key may have different limits."""
        hold(backend, wide)
        (lease,) = put_and_take(backend, make(1))
        (refusal,) = backend.guards.change([take_guards([narrow], holder(lease))])
        park(backend, [lease], refusal.key)
        assert take(backend) == []
        backend.guards.change([forget_keys(wide.key)])
        assert numbers(take(backend)) == [1]

    @needs("parking")
    def test_nobody_is_waited_for_when_the_last_waiter_is_gone(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        hold(backend, LOCK, by=Holder("vanished", 1, LEASE))
        parked(backend, 1)
        clock.advance(LEASE + 0.1)
        backend.parking.wake(None, 10)
        clock.advance(5.1)
        assert backend.parking.wake([LOCK.key], 10) == {}
        assert backend.guards.read([LOCK.key])[1] == {}

    @needs("parking", "control")
    def test_a_parked_job_can_be_cancelled(self, backend: FullBackend) -> None:
        hold(backend, LOCK)
        parked(backend, 1, 2)
        assert backend.control.cancel([id_of(1)]) == {id_of(1): "cancelled"}
        assert known(backend).state == "cancelled"
        release(backend, LOCK)
        assert numbers(take(backend, 2)) == [2]

    @needs("parking", "control")
    def test_a_job_that_was_asked_to_stop_is_not_parked(self, backend: FullBackend) -> None:
        hold(backend, LOCK)
        leases = put_and_take(backend, make(1))
        backend.control.cancel([id_of(1)])
        assert park(backend, leases) == []
        assert known(backend).state == "cancelled"

    @needs("unique")
    def test_a_message_is_not_stored_while_one_with_the_same_unique_waits_or_runs(self, backend: FullBackend) -> None:
        assert backend.put([make(1, unique="u"), make(2, unique="u"), make(3, unique="v")]) == [id_of(1), id_of(3)]
        assert backend.unique.holders(["u", "v", "w"]) == {"u": id_of(1), "v": id_of(3)}
        (lease,) = take(backend)
        assert backend.put([make(4, unique="u")]) == []
        backend.nack([Nack(lease=lease, delay=LEASE)])
        assert backend.put([make(5, unique="u")]) == []
        assert backend.queues.counts()[QUEUE]["ready"] + backend.queues.counts()[QUEUE]["delayed"] == 2

    @needs("unique")
    def test_a_unique_is_kept_apart_across_queues(self, backend: FullBackend) -> None:
        assert backend.put([make(1, unique="u")]) == [id_of(1)]
        assert backend.put([make(2, queue=OTHER, unique="u")]) == []
        (lease,) = take(backend)
        backend.ack([Ack(lease=lease)])
        assert backend.put([make(3, queue=OTHER, unique="u")]) == [id_of(3)]

    @needs("unique")
    def test_a_unique_is_free_when_its_job_has_ended(self, backend: FullBackend) -> None:
        leases = put_and_take(backend, make(1, unique="u"), make(2, unique="v"))
        backend.ack([Ack(lease=leases[0])])
        backend.abandon([Abandon(lease=leases[1], reason="failed")])
        assert backend.unique.holders(["u", "v"]) == {}
        assert backend.put([make(3, unique="u"), make(4, unique="v")]) == [id_of(3), id_of(4)]

    @needs("unique", "control")
    def test_a_unique_is_free_when_its_job_was_cancelled(self, backend: FullBackend) -> None:
        backend.put([make(1, unique="u")])
        backend.control.cancel([id_of(1)])
        assert backend.put([make(2, unique="u")]) == [id_of(2)]

    @needs("guards", "parking")
    @pytest.mark.parametrize("guard", [LOCK, KEY], ids=["lock", "key"])
    def test_a_guard_that_lapsed_is_kept_while_the_lease_of_its_job_is_not_reaped(
        self, backend: FullBackend, clock: AdvancingClock, guard: Guard
    ) -> None:
        first, second = put_and_take(backend, *make_many(range(2)))
        hold(backend, guard, by=under_lease(first))
        clock.advance(LEASE * 2)
        (refusal,) = backend.guards.change([take_guards([guard], under_lease(second))])
        assert refusal is not None
        assert park(backend, [second], guard.key) == []
        assert known(backend, 1).state == "parked"
        backend.reap([QUEUE])
        clock.advance(WAKE_SECONDS)
        hold(backend, guard, by=under_lease(second))

    @needs("guards", "parking")
    def test_a_success_is_recorded_under_its_key_although_the_claim_lapsed(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        first, second = put_and_take(backend, *make_many(range(2)))
        hold(backend, KEY, by=under_lease(first))
        clock.advance(LEASE * 2)
        (refusal,) = backend.guards.change([take_guards([KEY], under_lease(second))])
        assert refusal.reason == "claimed"
        assert park(backend, [second], KEY.key) == []
        done = settle_guards([KEY], under_lease(first), DONE)
        assert backend.ack([Ack(lease=first, change=done)]) == []
        (woken,) = take(backend)
        (refusal,) = backend.guards.change([take_guards([KEY], under_lease(woken))])
        assert (refusal.reason, refusal.first) == ("done", first.id)

    @needs("guards", "parking")
    def test_a_success_that_is_refused_is_not_recorded_under_the_key_of_another_job(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        first, second = put_and_take(backend, *make_many(range(2)))
        hold(backend, KEY, by=under_lease(first))
        expire(backend, clock)
        hold(backend, KEY, by=under_lease(second))
        done = settle_guards([KEY], under_lease(first), DONE)
        assert backend.ack([Ack(lease=first, change=done)]) == [first]
        (refusal,) = backend.guards.change([take_guards([KEY], OTHER_HOLDER)])
        assert refusal.reason == "claimed"

    @needs("guards", "parking")
    def test_sweeping_leaves_the_lapsed_claim_of_a_job_whose_lease_is_not_reaped(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        first, second = put_and_take(backend, *make_many(range(2)))
        hold(backend, KEY, by=under_lease(first))
        clock.advance(LEASE * 2)
        backend.guards.sweep(100)
        (refusal,) = backend.guards.change([take_guards([KEY], under_lease(second))])
        assert refusal.reason == "claimed"
