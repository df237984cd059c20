"""Lease: strict order, one holder for each message, a growing fence, and a wait that ends when work arrives."""

import threading
from concurrent.futures import ThreadPoolExecutor

from tenure.backends.messages import Nack
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
    take_all,
)

LONG = 100.0
SOON = 60.0  # a wake-up takes milliseconds, and the wait would end much later


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

    def test_the_fence_grows_with_every_lease(self, backend: FullBackend, clock: AdvancingClock) -> None:
        (first,) = put_and_take(backend, make(1))
        backend.nack([Nack(lease=first)])
        (second,) = take_all(backend, 1)
        expire(backend, clock)
        (third,) = take_all(backend, 1)
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
            shares = [numbers(each.result(SOON)) for each in waiting]
        assert all(shares)
        leased = [number for share in shares for number in share]  # a broker may deliver some of them later
        assert sorted(leased + drain(backend, 6, expected=6 - len(leased))) == list(range(6))

    def test_a_wait_without_work_ends_by_itself_with_nothing(self, backend: FullBackend) -> None:
        assert backend.lease([QUEUE], limit=1, seconds=LEASE, wait=0.05) == []
