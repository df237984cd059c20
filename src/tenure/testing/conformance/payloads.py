"""Payloads of ended jobs: kept for a while, erased from the oldest on; a user can erase those of single jobs.

A user can also delete ended jobs.
"""

import pytest

from tenure.backends.messages import Abandon, Ack, Nack, Terminal
from tenure.backends.records import PayloadSize
from tenure.testing.conformance.capabilities import UNIQUE_IDS, needs
from tenure.testing.conformance.messages import (
    OTHER,
    QUEUE,
    AdvancingClock,
    FullBackend,
    failure,
    id_of,
    known,
    make,
    put_and_take,
    take,
)

LATER = 120  # seconds; the payloads of the last minute stay


def end(backend: FullBackend, *numbers: int, queue: str = QUEUE, state: Terminal = "done", size: int = 10) -> int:
    """Put and end jobs with messages of this size; return when the last one ended."""
    backend.put([make(number, queue=queue, body=b"x" * size) for number in numbers])
    leases = take(backend, len(numbers), queue)
    backend.ack([Ack(lease=lease, state=state, output="a result") for lease in leases])
    return known(backend, numbers[-1]).finished_at or 0


def with_body(backend: FullBackend, *numbers: int) -> list[int]:
    return [number for number in numbers if known(backend, number).body]


class PayloadTests:
    @needs("payloads")
    @pytest.mark.parametrize("state", ["done", "cancelled", "expired"])
    def test_an_old_payload_is_erased_and_the_record_says_so(
        self, backend: FullBackend, clock: AdvancingClock, state: Terminal
    ) -> None:
        ended = end(backend, 1, state=state)
        before = known(backend)
        clock.advance(LATER)
        assert backend.payloads.erase(ended + 1, 10) == PayloadSize(1, 10)
        record = known(backend)
        assert (before.body, before.is_erased) == (b"x" * 10, False)
        assert (record.body, record.is_erased, record.state, record.output) == (None, True, state, "a result")

    @needs("payloads")
    def test_younger_payloads_stay(self, backend: FullBackend, clock: AdvancingClock) -> None:
        end(backend, 1)
        clock.advance(5)
        ended = end(backend, 2)
        clock.advance(LATER)
        assert backend.payloads.erase(ended, 10) == PayloadSize(1, 10)
        assert with_body(backend, 1, 2) == [2]

    @needs("payloads")
    def test_payloads_of_the_last_minute_stay(self, backend: FullBackend, clock: AdvancingClock) -> None:
        ended = end(backend, 1)
        clock.advance(1)
        assert backend.payloads.erase(ended + 1, 10, excess=10) == PayloadSize(0, 0)
        assert with_body(backend, 1) == [1]

    @needs("payloads")
    def test_a_limited_call_erases_the_oldest_of_all_queues_and_states(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        end(backend, 1, queue=OTHER)
        clock.advance(1)
        end(backend, 2, state="expired")
        clock.advance(1)
        ended = end(backend, 3)
        clock.advance(LATER)
        assert backend.payloads.erase(ended + 1, 2) == PayloadSize(2, 20)
        assert with_body(backend, 1, 2, 3) == [3]
        assert backend.payloads.erase(ended + 1, 2) == PayloadSize(1, 10)
        assert backend.payloads.erase(ended + 1, 2) == PayloadSize(0, 0)

    @needs("payloads")
    def test_payloads_that_take_too_much_are_erased_before_their_time(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        for number in (1, 2, 3):
            end(backend, number, size=100)
            clock.advance(1)
        clock.advance(LATER)
        assert backend.payloads.kept() == PayloadSize(3, 300)
        assert backend.payloads.erase(0, 10, excess=150) == PayloadSize(2, 200)
        assert backend.payloads.kept() == PayloadSize(1, 100)
        assert with_body(backend, 1, 2, 3) == [3]

    @needs("payloads")
    def test_jobs_that_have_not_ended_and_dead_letters_keep_their_payloads(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        (dying,) = put_and_take(backend, make(1))
        backend.abandon([Abandon(lease=dying, reason="failed")])
        put_and_take(backend, make(2))
        backend.put([make(3), make(4, delay=3600)])
        clock.advance(LATER)
        assert backend.payloads.kept() == PayloadSize(0, 0)
        assert backend.payloads.erase(1 << 60, 10, excess=1000) == PayloadSize(0, 0)
        assert with_body(backend, 1, 2, 3, 4) == [1, 2, 3, 4]

    @needs("payloads", UNIQUE_IDS)
    def test_an_id_is_known_after_its_payload_was_erased(self, backend: FullBackend, clock: AdvancingClock) -> None:
        ended = end(backend, 1)
        clock.advance(LATER)
        backend.payloads.erase(ended + 1, 10)
        assert backend.put([make(1)]) == []

    @needs("payloads")
    def test_jobs_are_deleted_with_and_without_their_payloads(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        ended = end(backend, 1, 2)
        clock.advance(LATER)
        backend.payloads.erase(ended + 1, 1)
        assert backend.jobs.trim("done", ended + 1, 10) == 2
        assert backend.payloads.kept() == PayloadSize(0, 0)
        assert backend.jobs.find(id_of(1)) is None

    @needs("jobs")
    @pytest.mark.parametrize("state", ["done", "cancelled", "expired"])
    def test_a_forgotten_job_has_no_payload_and_no_result(self, backend: FullBackend, state: Terminal) -> None:
        end(backend, 1, 2, state=state)
        assert backend.jobs.forget([id_of(1)]) == [id_of(1)]
        record = known(backend, 1)
        assert (record.state, record.body, record.output) == (state, None, None)
        assert known(backend, 2).output == "a result"

    @needs("jobs")
    def test_a_job_may_be_forgotten_twice(self, backend: FullBackend) -> None:
        end(backend, 1)
        assert backend.jobs.forget([id_of(1), id_of(1)]) == [id_of(1)]
        assert backend.jobs.forget([id_of(1)]) == [id_of(1)]

    @needs("jobs")
    def test_only_ended_jobs_are_forgotten(self, backend: FullBackend) -> None:
        (dying,) = put_and_take(backend, make(1))
        backend.abandon([Abandon(lease=dying, reason="failed")])
        put_and_take(backend, make(2))
        backend.put([make(3)])
        assert backend.jobs.forget([id_of(number) for number in (1, 2, 3, 4)]) == []
        assert backend.jobs.forget([]) == []
        assert with_body(backend, 1, 2, 3) == [1, 2, 3]

    @needs("payloads")
    def test_a_forgotten_payload_counts_no_more(self, backend: FullBackend) -> None:
        end(backend, 1, 2, size=50)
        backend.jobs.forget([id_of(1)])
        assert backend.payloads.kept().bytes == 50

    @needs("jobs")
    @pytest.mark.parametrize("state", ["done", "cancelled", "expired"])
    def test_a_deleted_job_leaves_nothing_behind(self, backend: FullBackend, state: Terminal) -> None:
        end(backend, *range(1, 6), state=state)
        assert sorted(backend.jobs.delete([id_of(number) for number in (2, 4, 4)])) == [id_of(2), id_of(4)]
        assert [backend.jobs.find(id_of(number)) is None for number in range(1, 6)] == [
            *(False, True, False, True, False),
        ]
        left, _ = backend.jobs.page(state, QUEUE, limit=10)
        assert sorted(record.id for record in left) == [id_of(1), id_of(3), id_of(5)]
        assert backend.queues.counts()[QUEUE][state] == 3
        assert backend.jobs.delete([id_of(2)]) == []

    @needs("jobs")
    def test_the_failures_of_a_deleted_job_are_gone_when_its_id_comes_again(self, backend: FullBackend) -> None:
        (lease,) = put_and_take(backend, make(1))
        backend.nack([Nack(lease=lease, charge="attempt", failure=failure(1))])
        backend.ack([Ack(lease=lease) for lease in take(backend)])
        assert backend.jobs.delete([id_of(1)]) == [id_of(1)]
        assert backend.put([make(1)]) == [id_of(1)]
        assert known(backend).failures == ()

    @needs("jobs")
    def test_only_ended_jobs_are_deleted_and_no_dead_letters(self, backend: FullBackend) -> None:
        (dying,) = put_and_take(backend, make(1))
        backend.abandon([Abandon(lease=dying, reason="failed")])
        put_and_take(backend, make(2))
        backend.put([make(3), make(4, delay=60.0)])
        assert backend.jobs.delete([id_of(number) for number in range(1, 6)]) == []
        assert backend.jobs.delete([]) == []
        assert [known(backend, number).state for number in range(1, 5)] == ["dead", "leased", "ready", "delayed"]
