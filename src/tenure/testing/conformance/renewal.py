"""Renew and reap: a renewed lease stays valid; an expired one returns its job to the queue at no charge."""

from tenure.backends.messages import Ack, ReapedLease
from tenure.testing.conformance.capabilities import PLACES, needs
from tenure.testing.conformance.messages import (
    LEASE,
    OTHER,
    QUEUE,
    AdvancingClock,
    FullBackend,
    drain,
    expire,
    id_of,
    known,
    make,
    make_many,
    make_suspects,
    numbers,
    put_and_take,
    take,
    take_all,
    take_suspect,
)


class RenewalTests:
    def test_a_renewed_lease_outlives_its_first_expiry(self, backend: FullBackend, clock: AdvancingClock) -> None:
        (lease,) = put_and_take(backend, make(1))
        clock.advance(LEASE * 0.6)
        assert backend.renew([lease], seconds=LEASE) == []
        clock.advance(LEASE * 0.6)
        assert backend.reap([QUEUE]) == []
        assert backend.ack([Ack(lease=lease)]) == []

    def test_a_renewed_lease_expires_in_the_end(self, backend: FullBackend, clock: AdvancingClock) -> None:
        (lease,) = put_and_take(backend, make(1))
        backend.renew([lease], seconds=LEASE * 2)
        clock.advance(LEASE * 2 + 0.1)
        assert backend.reap([QUEUE]) == [ReapedLease(id_of(1), QUEUE, crashed=False)]

    def test_a_renewal_names_exactly_the_lost_leases_and_renews_the_others(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        leases = put_and_take(backend, *make_many(range(3)))
        backend.ack([Ack(lease=leases[1])])
        assert backend.renew(leases, seconds=LEASE * 3) == [leases[1]]
        clock.advance(LEASE + 0.1)
        assert backend.reap([QUEUE]) == []

    def test_a_reaped_lease_cannot_be_renewed(self, backend: FullBackend, clock: AdvancingClock) -> None:
        (lease,) = put_and_take(backend, make(1))
        expire(backend, clock)
        assert backend.renew([lease], seconds=LEASE) == [lease]
        assert numbers(take_all(backend, 1)) == [1]

    def test_reaping_returns_only_what_expired(self, backend: FullBackend, clock: AdvancingClock) -> None:
        put_and_take(backend, make(1))
        clock.advance(LEASE * 0.6)
        put_and_take(backend, make(2))
        clock.advance(LEASE * 0.6)
        assert backend.reap([QUEUE]) == [ReapedLease(id_of(1), QUEUE, crashed=False)]
        assert backend.reap([QUEUE]) == []

    def test_reaping_returns_only_what_is_in_the_named_queues(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        backend.put([make(1), make(2, queue=OTHER)])
        take_all(backend, 1)
        take_all(backend, 1, OTHER)
        clock.advance(LEASE + 0.1)
        assert [each.id for each in backend.reap([OTHER])] == [id_of(2)]
        assert [each.id for each in backend.reap([OTHER, QUEUE])] == [id_of(1)]

    def test_reaping_tells_which_suspects_crashed(self, backend: FullBackend, clock: AdvancingClock) -> None:
        make_suspects(backend, clock, make(1))
        take_suspect(backend)
        clock.advance(LEASE + 0.1)
        assert backend.reap([QUEUE]) == [ReapedLease(id_of(1), QUEUE, crashed=True)]

    @needs(PLACES)
    def test_a_reaped_message_keeps_its_place_and_its_attempts(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        put_and_take(backend, make(1))
        backend.put([make(2)])
        expire(backend, clock)
        (lease,) = take(backend)
        assert (numbers([lease]), lease.attempts, lease.crashes) == ([1], 0, 0)

    @needs(PLACES)
    def test_a_reaped_message_comes_after_higher_priorities_and_before_what_was_put_later(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        put_and_take(backend, make(1))
        backend.put([make(2)])
        expire(backend, clock)
        backend.put([make(3, priority=9)])
        assert drain(backend, 1) == [3, 1, 2]

    def test_a_thousand_leases_can_be_reaped_at_once(self, backend: FullBackend, clock: AdvancingClock) -> None:
        put_and_take(backend, *make_many(range(1000)))
        clock.advance(LEASE + 0.1)
        assert len({each.id for each in backend.reap([QUEUE])}) == 1000

    @needs("jobs")
    def test_a_settled_lease_has_nothing_to_reap(self, backend: FullBackend, clock: AdvancingClock) -> None:
        (lease,) = put_and_take(backend, make(1))
        backend.ack([Ack(lease=lease)])
        clock.advance(LEASE + 0.1)
        assert backend.reap([QUEUE]) == []
        assert known(backend).state == "done"
