"""Lease: strict order, one holder for each message, a growing fence, and a wait that ends when work arrives."""

import threading
from concurrent.futures import ThreadPoolExecutor

from tenure.backends.messages import Ack, Nack
from tenure.testing.conformance.capabilities import PLACES, needs
from tenure.testing.conformance.messages import (
    LEASE,
    OTHER,
    QUEUE,
    AdvancingClock,
    FullBackend,
    drain,
    expire,
    known,
    make,
    make_many,
    numbers,
    put_and_take,
    take,
)

LONG = 20.0
SOON = 5.0  # a wake-up takes milliseconds, and the wait would end much later


class LeaseTests:
    @needs(PLACES)
    def test_higher_priorities_come_first_then_the_order_of_enqueue(self, backend: FullBackend) -> None:
        backend.put([make(1, priority=2), make(2, priority=8), make(3, priority=5), make(4, priority=8), make(5)])
        assert drain(backend, 2) == [2, 4, 3, 5, 1]

    def test_queues_are_served_in_the_order_they_are_named(self, backend: FullBackend) -> None:
        backend.put([make(1, queue=OTHER, priority=9), make(2), make(3, queue=OTHER)])
        assert numbers(take(backend, 10, QUEUE, OTHER)) == [2, 1, 3]

    def test_only_the_named_queues_are_served(self, backend: FullBackend) -> None:
        backend.put([make(1, queue=OTHER)])
        assert take(backend, 10, QUEUE) == []

    def test_a_lease_never_exceeds_its_limit(self, backend: FullBackend) -> None:
        backend.put([*make_many(range(3)), *make_many(range(3, 6), OTHER)])
        assert numbers(take(backend, 4, QUEUE, OTHER)) == [0, 1, 2, 3]
        assert numbers(take(backend, 1, QUEUE, OTHER)) == [4]

    def test_a_leased_message_is_not_leased_again(self, backend: FullBackend) -> None:
        put_and_take(backend, make(1))
        assert take(backend) == []

    def test_an_empty_queue_grants_nothing_and_does_not_wait(self, backend: FullBackend) -> None:
        assert take(backend, 10, QUEUE, OTHER) == []

    @needs(PLACES)
    def test_a_suspect_is_leased_alone_and_its_expiry_is_a_crash(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        put_and_take(backend, make(1))
        expire(backend, clock)
        backend.put([make(2), make(3, priority=9)])
        (before,) = take(backend, 10)
        backend.ack([Ack(lease=before)])
        (suspect,) = take(backend, 10)
        assert (suspect.suspect, suspect.attempts, suspect.crashes, numbers([suspect])) == (True, 0, 0, [1])
        expire(backend, clock)
        (again,) = take(backend, 10)
        assert (again.id, again.suspect, again.attempts, again.crashes) == (suspect.id, True, 0, 1)

    def test_a_suspect_shares_its_lease_with_nobody(self, backend: FullBackend, clock: AdvancingClock) -> None:
        put_and_take(backend, make(1))
        expire(backend, clock)
        backend.put(make_many(range(2, 5)))
        batches = []
        while leases := take(backend, 10):
            batches.append(numbers(leases))
            backend.ack([Ack(lease=lease) for lease in leases])
        assert [1] in batches
        assert sorted(number for batch in batches for number in batch) == [1, 2, 3, 4]

    def test_a_suspect_that_expires_again_is_charged_a_crash(self, backend: FullBackend, clock: AdvancingClock) -> None:
        put_and_take(backend, make(1))
        counters = []
        for _ in range(3):
            expire(backend, clock)
            (lease,) = take(backend)
            counters.append((lease.suspect, lease.attempts, lease.crashes))
        assert counters == [(True, 0, 0), (True, 0, 1), (True, 0, 2)]

    @needs(PLACES)
    def test_a_suspect_holds_back_what_is_behind_it_in_later_queues(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        put_and_take(backend, make(1))
        expire(backend, clock)
        backend.put([make(2, priority=9), make(3, queue=OTHER)])
        assert numbers(take(backend, 10, QUEUE, OTHER)) == [2]
        assert numbers(take(backend, 10, QUEUE, OTHER)) == [1]
        assert numbers(take(backend, 10, QUEUE, OTHER)) == [3]

    def test_a_suspect_that_came_back_by_a_charged_nack_is_a_suspect_no_longer(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        put_and_take(backend, make(1))
        expire(backend, clock)
        backend.nack([Nack(lease=take(backend)[0], charge="attempt")])
        backend.put([make(2)])
        leases = take(backend, 10)
        assert [(number, lease.suspect) for number, lease in zip(numbers(leases), leases, strict=True)] == [
            (1, False),
            (2, False),
        ]

    @needs(PLACES)
    def test_a_nack_can_make_a_suspect_at_no_charge_yet(self, backend: FullBackend, clock: AdvancingClock) -> None:
        (lease,) = put_and_take(backend, make(1))
        backend.put([make(2)])
        backend.nack([Nack(lease=lease, delay=1.0, charge="suspect")])
        clock.advance(1.1)
        (suspect,) = take(backend, 10)
        assert (numbers([suspect]), suspect.suspect, suspect.attempts, suspect.crashes) == ([1], True, 0, 0)
        expire(backend, clock)
        assert [lease.crashes for lease in take(backend, 10)] == [1]

    def test_the_fence_grows_with_every_lease(self, backend: FullBackend, clock: AdvancingClock) -> None:
        (first,) = put_and_take(backend, make(1))
        backend.nack([Nack(lease=first)])
        (second,) = take(backend)
        expire(backend, clock)
        (third,) = take(backend)
        assert [first.fence, second.fence, third.fence] == [1, 2, 3]

    @needs("jobs")
    def test_a_lease_expires_after_its_seconds(self, backend: FullBackend) -> None:
        (short,) = put_and_take(backend, make(1))
        backend.put([make(2)])
        backend.lease([QUEUE], limit=1, seconds=LEASE + 100)
        soon, late = known(backend, 1).lease_until, known(backend, 2).lease_until
        assert soon is not None
        assert late is not None
        assert 99_000_000 < late - soon < 110_000_000
        assert known(backend, 1).owner == short.owner

    def test_a_waiting_lease_wakes_for_a_put_of_another_thread(self, backend: FullBackend) -> None:
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(backend.lease, [OTHER, QUEUE], limit=1, seconds=LEASE, wait=LONG)
            threading.Event().wait(0.1)  # lets the other thread wait first; without it the test is weaker, but correct
            backend.put([make(1)])
            assert numbers(waiting.result(SOON)) == [1]

    def test_a_waiting_lease_wakes_for_the_next_delayed_message(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        backend.put([make(1, delay=0.3)])
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(backend.lease, [QUEUE], limit=1, seconds=LEASE, wait=LONG)
            clock.advance(0.31)
            assert numbers(waiting.result(SOON)) == [1]

    def test_a_waiting_lease_wakes_for_a_message_that_was_handed_back(self, backend: FullBackend) -> None:
        (held,) = put_and_take(backend, make(1))
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(backend.lease, [QUEUE], limit=1, seconds=LEASE, wait=LONG)
            threading.Event().wait(0.1)  # as above
            backend.nack([Nack(lease=held)])
            assert numbers(waiting.result(SOON)) == [1]

    def test_every_waiting_lease_gets_its_share_of_one_put(self, backend: FullBackend) -> None:
        with ThreadPoolExecutor(3) as threads:
            waiting = [threads.submit(backend.lease, [QUEUE], limit=2, seconds=LEASE, wait=LONG) for _ in range(3)]
            threading.Event().wait(0.1)  # as above
            backend.put(make_many(range(6)))
            assert sorted(number for each in waiting for number in numbers(each.result(SOON))) == list(range(6))

    def test_a_wait_without_work_ends_by_itself_with_nothing(self, backend: FullBackend) -> None:
        assert backend.lease([QUEUE], limit=1, seconds=LEASE, wait=0.05) == []
