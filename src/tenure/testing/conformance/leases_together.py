"""Leases that were granted together: each is settled, renewed, cancelled and reaped by itself."""

import pytest

from tenure.backends.messages import Abandon, Ack, Lease, Nack, ReapedLease
from tenure.definition.context import Progress
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
    numbers,
    put_and_take,
    take,
    take_all,
)


def acked(*leases: Lease) -> list[Ack]:
    return [Ack(lease=lease) for lease in leases]


class LeasesTogetherTests:
    def test_the_members_of_one_grant_can_be_acked_one_after_the_other(self, backend: FullBackend) -> None:
        leases = put_and_take(backend, *make_many(range(5)))
        for lease in leases:
            assert backend.ack(acked(lease)) == []
        assert backend.ack(acked(*leases)) == leases
        assert take(backend, 10) == []

    def test_a_lease_that_was_acked_is_lost_and_its_neighbours_are_not(self, backend: FullBackend) -> None:
        leases = put_and_take(backend, *make_many(range(4)))
        assert backend.ack(acked(leases[1])) == []
        assert backend.ack(acked(*leases)) == [leases[1]]

    def test_each_can_be_settled_in_another_way(self, backend: FullBackend, clock: AdvancingClock) -> None:
        leases = put_and_take(backend, *make_many(range(6)))
        assert backend.ack(acked(leases[0])) == []
        assert backend.nack([Nack(lease=leases[1], charge="attempt")]) == []
        assert backend.abandon([Abandon(lease=leases[2], reason="failed")]) == []
        assert backend.renew([leases[3]], seconds=LEASE * 3) == []
        assert backend.ack(acked(leases[4])) == []
        clock.advance(LEASE + 0.1)
        assert backend.reap([QUEUE]) == [ReapedLease(id_of(5), QUEUE, crashed=False)]
        assert backend.ack(acked(leases[3], leases[5])) == [leases[5]]
        assert sorted(drain(backend, 10, expected=2)) == [1, 5]

    def test_those_that_were_not_acked_come_back_and_the_others_do_not(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        leases = put_and_take(backend, *make_many(range(5)))
        backend.ack(acked(leases[0], leases[3]))
        clock.advance(LEASE + 0.1)
        assert sorted(each.id for each in backend.reap([QUEUE])) == [id_of(1), id_of(2), id_of(4)]
        assert backend.ack(acked(*leases)) == leases
        again = take_all(backend, 3)
        assert take(backend, 10) == []
        assert sorted(numbers(again)) == [1, 2, 4]
        assert {lease.fence for lease in again} == {2}

    def test_a_grant_that_was_reaped_cannot_be_settled(self, backend: FullBackend, clock: AdvancingClock) -> None:
        leases = put_and_take(backend, *make_many(range(3)))
        expire(backend, clock)
        assert backend.ack(acked(leases[0])) == [leases[0]]
        assert backend.nack([Nack(lease=leases[1])]) == [leases[1]]
        assert backend.renew(leases, seconds=LEASE) == leases
        assert sorted(drain(backend, 10, expected=3)) == [0, 1, 2]

    @needs(PLACES)
    def test_jobs_that_came_back_are_granted_with_new_ones(self, backend: FullBackend) -> None:
        (first, second) = put_and_take(backend, make(1), make(2))
        backend.nack([Nack(lease=first, charge="attempt"), Nack(lease=second, charge="crash")])
        backend.put([make(3), make(4, priority=9), make(5)])
        leases = take(backend, 10)
        assert numbers(leases) == [4, 1, 2, 3, 5]
        assert [(lease.attempts, lease.crashes, lease.fence) for lease in leases] == [
            *[(0, 0, 1), (1, 0, 2), (0, 1, 2)],
            *[(0, 0, 1), (0, 0, 1)],
        ]
        assert backend.ack(acked(*leases[1:4])) == []
        assert backend.ack(acked(*leases)) == leases[1:4]

    def test_grants_of_two_queues_are_settled_together(self, backend: FullBackend) -> None:
        backend.put([*make_many(range(3)), *make_many(range(3, 6), OTHER)])
        leases = take(backend, 6, QUEUE, OTHER)
        assert backend.ack(acked(*leases[1:5])) == []
        assert backend.ack(acked(leases[0], leases[5])) == []
        assert take(backend, 6, QUEUE, OTHER) == []

    @needs("jobs", "queues")
    def test_they_are_counted_listed_and_found(self, backend: FullBackend) -> None:
        leases = put_and_take(backend, *make_many(range(5)))
        backend.ack(acked(leases[2]))
        assert {state: count for state, count in backend.queues.counts()[QUEUE].items() if count} == {
            "leased": 4,
            "done": 1,
        }
        assert backend.jobs.queues_with("leased") == [QUEUE]
        first, cursor = backend.jobs.page("leased", QUEUE, limit=3)
        second, _ = backend.jobs.page("leased", QUEUE, limit=3, cursor=cursor)
        assert sorted(job.id for job in [*first, *second]) == [id_of(number) for number in (0, 1, 3, 4)]
        record = known(backend, 3)
        assert (record.state, record.fence, record.attempts, record.owner) == ("leased", 1, 0, leases[3].owner)
        assert record.lease_until is not None

    @needs("control", "jobs")
    def test_one_of_them_can_be_cancelled(self, backend: FullBackend) -> None:
        leases = put_and_take(backend, *make_many(range(4)))
        backend.ack(acked(leases[0]))
        found = backend.control.cancel([id_of(0), id_of(1)])
        assert found == {id_of(0): "too_late", id_of(1): "asked"}
        assert backend.control.cancel_requested(leases[1:]) == [leases[1]]
        assert backend.nack([Nack(lease=lease) for lease in leases[1:3]]) == []
        assert [known(backend, number).state for number in range(4)] == ["done", "cancelled", "ready", "leased"]
        assert backend.ack(acked(leases[3])) == []

    @needs("control", "jobs")
    def test_one_of_them_can_tell_its_progress(self, backend: FullBackend) -> None:
        leases = put_and_take(backend, *make_many(range(3)))
        backend.control.save_progress([(leases[1], Progress(3, 10))])
        assert [known(backend, number).progress for number in range(3)] == [None, Progress(3, 10), None]
        assert backend.ack(acked(*leases)) == []

    @needs("control")
    def test_their_bodies_are_among_the_heads(self, backend: FullBackend) -> None:
        leases = put_and_take(backend, *[make(number, body=b"body %d" % number) for number in range(5)])
        backend.ack(acked(leases[2]))
        backend.renew(leases[:1], seconds=LEASE * 2)
        backend.put([make(7, body=b"body 7"), make(8, body=b"body 8")])
        take(backend, 2)
        found: list[bytes] = []
        cursor = None
        while True:
            page, cursor = backend.control.heads(limit=2, cursor=cursor)
            found += page
            if cursor is None:
                break
        assert sorted(found) == [b"body %d" % number for number in (0, 1, 3, 4, 7, 8)]

    @needs("unique")
    @pytest.mark.parametrize("is_acked", [True, False])
    def test_a_unique_job_among_them_frees_its_text_when_it_ends(self, backend: FullBackend, is_acked: bool) -> None:
        leases = put_and_take(backend, make(1), make(2, unique="u"), make(3))
        backend.ack(acked(leases[0]))
        assert backend.put([make(4, unique="u")]) == []
        if is_acked:
            backend.ack(acked(leases[1]))
        else:
            backend.abandon([Abandon(lease=leases[1], reason="failed")])
        assert backend.put([make(5, unique="u")]) == [id_of(5)]
