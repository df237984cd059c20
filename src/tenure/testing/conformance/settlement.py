"""Settlement: only the present holder changes a job; for all others the verb returns the lost lease."""

from dataclasses import dataclass

import msgspec
import pytest

from tenure.backends.messages import Abandon, Ack, Lease, Nack, Terminal
from tenure.testing.conformance.capabilities import PLACES, needs
from tenure.testing.conformance.messages import (
    AdvancingClock,
    FullBackend,
    drain,
    expire,
    fail_times,
    failure,
    id_of,
    kept_body,
    known,
    make,
    make_many,
    numbers,
    put_and_take,
    take,
    take_all,
    what_is_known,
)

ODD_TEXT = 'quote " backslash \\ newline \n emoji 🎉 end'


@dataclass(frozen=True)
class Lost:
    """The leases that each verb named as lost."""

    ack: list[Lease]
    nack: list[Lease]
    abandon: list[Lease]
    renew: list[Lease]


def settle_every_way(backend: FullBackend, lease: Lease) -> Lost:
    return Lost(
        backend.ack([Ack(lease=lease)]),
        backend.nack([Nack(lease=lease, charge="attempt", failure=failure(1))]),
        backend.abandon([Abandon(lease=lease, reason="failed")]),
        backend.renew([lease], seconds=1000),
    )


class SettlementTests:
    def test_an_acked_message_does_not_come_back(self, backend: FullBackend, clock: AdvancingClock) -> None:
        (lease,) = put_and_take(backend, make(1))
        assert backend.ack([Ack(lease=lease)]) == []
        expire(backend, clock)
        assert take(backend) == []

    def test_settling_nothing_is_allowed(self, backend: FullBackend) -> None:
        assert [*backend.ack([]), *backend.nack([]), *backend.abandon([]), *backend.renew([], seconds=1)] == []

    def test_a_second_ack_is_lost(self, backend: FullBackend) -> None:
        (lease,) = put_and_take(backend, make(1))
        backend.ack([Ack(lease=lease)])
        assert backend.ack([Ack(lease=lease)]) == [lease]

    def test_a_lease_settled_twice_in_one_batch_is_settled_once(self, backend: FullBackend) -> None:
        (lease,) = put_and_take(backend, make(1))
        assert backend.nack([Nack(lease=lease), Nack(lease=lease)]) == [lease]
        assert drain(backend, 10, expected=1) == [1]

    def test_a_lease_of_an_ended_message_is_not_taken_for_one_of_the_next(self, backend: FullBackend) -> None:
        (ended,) = put_and_take(backend, make(1))
        backend.ack([Ack(lease=ended)])
        (present,) = put_and_take(backend, make(2))
        assert settle_every_way(backend, ended) == Lost([ended], [ended], [ended], [ended])
        assert backend.ack([Ack(lease=present)]) == []

    def test_a_settled_lease_is_lost_to_every_verb(self, backend: FullBackend) -> None:
        (lease,) = put_and_take(backend, make(1))
        backend.nack([Nack(lease=lease)])
        assert settle_every_way(backend, lease) == Lost([lease], [lease], [lease], [lease])

    def test_a_reaped_message_cannot_be_acked_by_its_former_owner(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        (former,) = put_and_take(backend, make(1))
        expire(backend, clock)
        assert backend.ack([Ack(lease=former)]) == [former]
        assert drain(backend, 1, expected=1) == [1]

    def test_a_stale_holder_changes_nothing(self, backend: FullBackend, clock: AdvancingClock) -> None:
        (stale,) = put_and_take(backend, make(1))
        expire(backend, clock)
        (present,) = take_all(backend, 1)
        before = what_is_known(backend)
        assert settle_every_way(backend, stale) == Lost([stale], [stale], [stale], [stale])
        assert what_is_known(backend) == before
        assert backend.ack([Ack(lease=present)]) == []

    def test_another_owner_changes_nothing(self, backend: FullBackend) -> None:
        (lease,) = put_and_take(backend, make(1))
        before = what_is_known(backend)
        stranger = msgspec.structs.replace(lease, owner="another owner")
        assert settle_every_way(backend, stranger) == Lost([stranger], [stranger], [stranger], [stranger])
        assert what_is_known(backend) == before
        assert backend.ack([Ack(lease=lease)]) == []

    @pytest.mark.parametrize("fence", [0, 2], ids=["older", "newer"])
    def test_another_fence_changes_nothing(self, backend: FullBackend, fence: int) -> None:
        (lease,) = put_and_take(backend, make(1))
        before = what_is_known(backend)
        other = msgspec.structs.replace(lease, fence=fence)
        assert settle_every_way(backend, other) == Lost([other], [other], [other], [other])
        assert what_is_known(backend) == before
        assert backend.ack([Ack(lease=lease)]) == []

    def test_a_mixed_ack_names_exactly_the_lost_leases_and_applies_the_others(self, backend: FullBackend) -> None:
        leases = put_and_take(backend, *make_many(range(4)))
        backend.nack([Nack(lease=leases[1]), Nack(lease=leases[3])])
        assert backend.ack([Ack(lease=lease) for lease in leases]) == [leases[1], leases[3]]
        assert drain(backend, 10, expected=2) == [1, 3]

    def test_a_mixed_nack_names_exactly_the_lost_leases_and_applies_the_others(self, backend: FullBackend) -> None:
        leases = put_and_take(backend, *make_many(range(4)))
        backend.ack([Ack(lease=leases[0]), Ack(lease=leases[2])])
        assert backend.nack([Nack(lease=lease) for lease in leases]) == [leases[0], leases[2]]
        assert drain(backend, 10, expected=2) == [1, 3]

    @needs("dead_letters")
    def test_a_mixed_abandon_names_exactly_the_lost_leases_and_applies_the_others(self, backend: FullBackend) -> None:
        leases = put_and_take(backend, *make_many(range(4)))
        backend.ack([Ack(lease=leases[0])])
        verdicts = [Abandon(lease=lease, reason="failed") for lease in leases]
        assert backend.abandon(verdicts) == [leases[0]]
        assert [record.id for record in backend.dead_letters.page()] == [id_of(1), id_of(2), id_of(3)]

    def test_a_nack_with_a_charge_counts_the_attempt_and_honours_the_delay(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        (lease,) = put_and_take(backend, make(1))
        began = clock.now()
        backend.nack([Nack(lease=lease, delay=1.0, charge="attempt", failure=failure(1))])
        clock.advance(0.5)
        early = take(backend)
        assert early == [] or clock.now() - began >= 1_000_000  # a broker's clock moved on by itself
        clock.advance(0.6)
        (again,) = early or take_all(backend, 1)
        assert (again.attempts, again.crashes) == (1, 0)

    def test_a_nack_can_charge_a_crash(self, backend: FullBackend) -> None:
        (lease,) = put_and_take(backend, make(1))
        backend.nack([Nack(lease=lease, charge="crash")])
        (again,) = take_all(backend, 1)
        assert (again.attempts, again.crashes) == (0, 1)

    def test_a_nack_without_a_charge_costs_nothing(self, backend: FullBackend) -> None:
        (lease,) = put_and_take(backend, make(1))
        backend.nack([Nack(lease=lease, reason="busy")])
        (again,) = take_all(backend, 1)
        assert (again.attempts, again.crashes, again.vanished) == (0, 0, 0)

    def test_a_nack_of_many_gives_each_its_own_delay_and_charge(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        one, two, three = put_and_take(backend, make(1), make(2), make(3))
        began = clock.now()
        backend.nack([Nack(lease=one, delay=1.0), Nack(lease=two, charge="attempt"), Nack(lease=three, charge="crash")])
        early = [*take_all(backend, 2), *take(backend, 10)]
        assert sorted(numbers(early)) == [2, 3] or clock.now() - began >= 1_000_000  # as above
        clock.advance(1.1)
        leases = sorted([*early, *take_all(backend, 3 - len(early))], key=lambda lease: lease.id)
        assert [(lease.attempts, lease.crashes) for lease in leases] == [(0, 0), (1, 0), (0, 1)]
        assert take(backend, 10) == []

    @needs(PLACES)
    def test_a_returned_job_keeps_its_place(self, backend: FullBackend, clock: AdvancingClock) -> None:
        backend.put([make(1), make(2), make(3, priority=9), make(4)])
        urgent, first = take(backend, 2)
        backend.nack([Nack(lease=first)])
        assert numbers(take(backend, 1)) == [1]
        backend.nack([Nack(lease=urgent, delay=1.0)])
        clock.advance(1.1)
        assert numbers(take(backend, 3)) == [3, 2, 4]

    @needs("jobs")
    def test_the_failures_of_a_job_are_kept_in_their_order(self, backend: FullBackend) -> None:
        backend.put([make(1)])
        fail_times(backend, 3)
        (lease,) = take(backend)
        backend.ack([Ack(lease=lease)])
        assert known(backend).failures == (failure(0), failure(1), failure(2))
        assert (known(backend).state, known(backend).attempts) == ("done", 3)

    @needs("jobs")
    def test_the_failures_kept_are_the_last_25(self, backend: FullBackend) -> None:
        backend.put([make(1)])
        fail_times(backend, 28)
        assert [each.at for each in known(backend).failures] == list(range(3, 28))

    @needs("jobs")
    def test_waiting_at_no_cost_pushes_no_failure_out(self, backend: FullBackend) -> None:
        backend.put([make(1)])
        fail_times(backend, 1)
        for _ in range(30):
            backend.nack([Nack(lease=take(backend)[0])])
        fail_times(backend, 1)
        assert len(known(backend).failures) == 2

    @needs("jobs")
    @pytest.mark.parametrize("state", ["done", "cancelled", "expired"])
    def test_an_ended_job_is_remembered(self, backend: FullBackend, state: Terminal) -> None:
        (lease,) = put_and_take(backend, make(1))
        backend.ack([Ack(lease=lease, state=state, seconds=1.5, output=ODD_TEXT, reason=ODD_TEXT)])
        record = known(backend)
        assert (record.state, record.seconds, record.output, record.reason) == (state, 1.5, ODD_TEXT, ODD_TEXT)
        assert (record.body, record.owner, record.fence) == (kept_body(backend), lease.owner, 1)
        assert record.finished_at is not None
