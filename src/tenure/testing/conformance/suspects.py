"""Suspects: a vanished holder costs nothing until it happens several times in a row; then a job is leased alone."""

import pytest

from tenure.backends.messages import Abandon, Ack, Charge, Nack
from tenure.testing.conformance.capabilities import PLACES, needs
from tenure.testing.conformance.messages import (
    LEASE,
    OTHER,
    QUEUE,
    AdvancingClock,
    FullBackend,
    await_suspects,
    drain,
    expire,
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


class SuspectTests:
    def test_a_vanished_holder_is_counted_at_no_charge_and_the_jobs_run_again_together(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        put_and_take(backend, *make_many(range(3)))
        for count in (1, 2):
            expire(backend, clock)
            leases = take_all(backend, 3)
            assert take(backend, 10) == []
            assert sorted(numbers(leases)) == [0, 1, 2]
            assert {(lease.vanished, lease.attempts, lease.crashes) for lease in leases} == {(count, 0, 0)}
        assert not backend.has_suspects([QUEUE])

    def test_after_so_many_expiries_in_a_row_a_job_is_leased_alone_only(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        put_and_take(backend, make(1))
        for _ in range(2):
            expire(backend, clock)
            assert numbers(take_all(backend, 1)) == [1]
        expire(backend, clock)
        await_suspects(backend, OTHER, QUEUE)
        (lease,) = take_suspect(backend)
        assert (numbers([lease]), lease.alone, lease.attempts, lease.crashes, lease.fence) == ([1], True, 0, 0, 4)
        assert lease.body == make(1).body
        assert not backend.has_suspects([QUEUE])

    @needs("jobs")
    def test_a_run_whose_worker_vanished_leaves_a_record(self, backend: FullBackend, clock: AdvancingClock) -> None:
        put_and_take(backend, make(1))
        for runs in (1, 2, 3):
            assert (known(backend, 1).attempts, known(backend, 1).runs) == (0, runs)
            expire(backend, clock)
            failures = known(backend, 1).failures
            assert [(each.type, each.attempt) for each in failures] == [("Vanished", 1)] * runs
            assert (known(backend, 1).runs, "vanished" in failures[-1].message) == (runs, True)
            assert numbers(take(backend) or backend.lease_suspect([QUEUE], seconds=LEASE)) == [1]
        expire(backend, clock)
        assert [each.type for each in known(backend, 1).failures][3:] == ["Crashed"]
        assert (known(backend, 1).crashes, known(backend, 1).runs) == (1, 4)

    def test_suspects_hold_nothing_back(self, backend: FullBackend, clock: AdvancingClock) -> None:
        make_suspects(backend, clock, *make_many(range(3)))
        backend.put([make(4), make(5, queue=OTHER), make(6)])
        assert sorted(drain(backend, 2, QUEUE, OTHER, expected=3)) == [4, 5, 6]
        assert backend.has_suspects([QUEUE])

    def test_suspects_are_leased_one_by_one_from_the_named_queues(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        make_suspects(backend, clock, make(1), make(2))
        assert backend.lease_suspect([OTHER], seconds=LEASE) == []
        assert not backend.has_suspects([OTHER])
        leases = [lease for _ in range(2) for lease in take_suspect(backend, OTHER, QUEUE)]
        assert backend.lease_suspect([OTHER, QUEUE], seconds=LEASE) == []
        assert sorted(numbers(leases)) == [1, 2]
        assert backend.ack([Ack(lease=lease) for lease in leases]) == []

    @needs(PLACES)
    def test_suspects_are_leased_in_their_order(self, backend: FullBackend, clock: AdvancingClock) -> None:
        make_suspects(backend, clock, make(1), make(2, priority=9), make(3))
        assert [numbers(take_suspect(backend)) for _ in range(3)] == [[2], [1], [3]]

    def test_the_expiry_of_a_lease_taken_alone_is_a_crash_and_the_job_stays_a_suspect(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        make_suspects(backend, clock, make(1))
        crashes = []
        for _ in range(3):
            (lease,) = take_suspect(backend)
            crashes.append((lease.alone, lease.attempts, lease.crashes))
            expire(backend, clock)
            assert take(backend) == []
        assert crashes == [(True, 0, 0), (True, 0, 1), (True, 0, 2)]

    def test_a_lease_taken_alone_is_renewed(self, backend: FullBackend, clock: AdvancingClock) -> None:
        make_suspects(backend, clock, make(1))
        (lease,) = take_suspect(backend)
        for _ in range(2):
            clock.advance(LEASE * 0.6)
            assert backend.renew([lease], seconds=LEASE) == []
        assert backend.reap([QUEUE]) == []
        assert backend.ack([Ack(lease=lease)]) == []

    @pytest.mark.parametrize("charge", [None, "attempt", "crash"])
    def test_a_settlement_ends_the_suspicion(
        self, backend: FullBackend, clock: AdvancingClock, charge: Charge | None
    ) -> None:
        make_suspects(backend, clock, make(1))
        (lease,) = take_suspect(backend)
        assert backend.nack([Nack(lease=lease, charge=charge)]) == []
        assert not backend.has_suspects([QUEUE])
        (again,) = take_all(backend, 1)
        assert (again.vanished, again.attempts, again.crashes) == (0, charge == "attempt", charge == "crash")

    def test_a_settlement_resets_the_vanished_count(self, backend: FullBackend, clock: AdvancingClock) -> None:
        put_and_take(backend, make(1))
        expire(backend, clock)
        backend.nack([Nack(lease=take_all(backend, 1)[0], charge="attempt")])
        assert [lease.vanished for lease in take_all(backend, 1)] == [0]

    def test_an_inconclusive_return_keeps_the_vanished_count(self, backend: FullBackend, clock: AdvancingClock) -> None:
        put_and_take(backend, make(1))
        expire(backend, clock)
        assert backend.nack([Nack(lease=take_all(backend, 1)[0], inconclusive=True)]) == []
        assert [lease.vanished for lease in take_all(backend, 1)] == [1]

    @pytest.mark.parametrize("delay", [0.0, 1.0])
    def test_a_suspect_that_comes_back_inconclusively_is_one_still_after_its_delay(
        self, backend: FullBackend, clock: AdvancingClock, delay: float
    ) -> None:
        make_suspects(backend, clock, make(1))
        (lease,) = take_suspect(backend)
        began = clock.now()
        assert backend.nack([Nack(lease=lease, delay=delay, inconclusive=True)]) == []
        early = backend.lease_suspect([QUEUE], seconds=LEASE) if delay else []
        assert early == [] or clock.now() - began >= 1_000_000  # a broker's clock moved on by itself
        clock.advance(delay + 0.1 if delay else 0.0)
        assert take(backend, 10) == []
        (again,) = early or take_suspect(backend)
        assert (again.alone, again.attempts, again.crashes, again.fence) == (True, 0, 0, lease.fence + 1)

    def test_a_return_can_count_a_vanished_process(self, backend: FullBackend) -> None:
        (lease,) = put_and_take(backend, make(1))
        assert backend.nack([Nack(lease=lease, charge="vanished")]) == []
        (again,) = take_all(backend, 1)
        assert (again.vanished, again.attempts, again.crashes) == (1, 0, 0)

    @pytest.mark.parametrize("delay", [0.0, 1.0])
    def test_a_return_can_make_a_suspect_at_no_charge(
        self, backend: FullBackend, clock: AdvancingClock, delay: float
    ) -> None:
        (lease,) = put_and_take(backend, make(1))
        assert backend.nack([Nack(lease=lease, delay=delay, charge="suspect")]) == []
        clock.advance(delay + 0.1 if delay else 0.0)
        assert take(backend, 10) == []
        (suspect,) = take_suspect(backend)
        assert (suspect.alone, suspect.attempts, suspect.crashes) == (True, 0, 0)

    @needs("jobs", "queues")
    def test_a_suspect_that_waits_is_shown_as_parked(self, backend: FullBackend, clock: AdvancingClock) -> None:
        make_suspects(backend, clock, make(1))
        record = known(backend)
        assert (record.state, record.waits_for, record.fence) == ("parked", "suspect:mail", 1)
        assert backend.queues.counts()[QUEUE]["parked"] == 1
        take_suspect(backend)
        assert (known(backend).state, known(backend).waits_for) == ("leased", None)

    @needs("dead_letters")
    def test_a_replayed_suspect_starts_afresh(self, backend: FullBackend, clock: AdvancingClock) -> None:
        make_suspects(backend, clock, make(1))
        (lease,) = take_suspect(backend)
        assert backend.abandon([Abandon(lease=lease, reason="failed")]) == []
        assert backend.dead_letters.replay([lease.id]) == [lease.id]
        (again,) = take_all(backend, 1)
        assert (again.vanished, again.crashes) == (0, 0)
