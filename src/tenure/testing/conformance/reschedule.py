"""Reschedule: a waiting job gets another start time and keeps its place; other jobs do not change."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tenure.backends.messages import Abandon, Ack, Nack
from tenure.testing.conformance.capabilities import needs
from tenure.testing.conformance.concurrency import WAIT_TIMEOUT
from tenure.testing.conformance.messages import (
    LEASE,
    OTHER,
    QUEUE,
    AdvancingClock,
    FullBackend,
    drain,
    fail_times,
    failure,
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
from tenure.testing.conformance.parking import LOCK, hold, parked, release

ONE = id_of(1)
FAR = 3600.0


class RescheduleTests:
    @needs("control")
    @pytest.mark.parametrize("delay", [0.0, 0.5, FAR], ids=["ready", "due sooner", "due later"])
    def test_a_job_that_was_put_off_runs_at_its_time_and_not_before(
        self, backend: FullBackend, clock: AdvancingClock, delay: float
    ) -> None:
        backend.put([make(1, delay=delay)])
        assert backend.control.reschedule([ONE], delay=1.0) == {ONE: "rescheduled"}
        clock.advance(0.6)
        assert take(backend) == []
        clock.advance(0.5)
        assert drain(backend, 10) == [1]

    @needs("control")
    def test_jobs_that_were_put_off_or_brought_forward_keep_their_place(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        backend.put([make(1), make(2, delay=FAR), make(3), make(4, delay=FAR, priority=9)])
        backend.control.reschedule([id_of(number) for number in (4, 2, 1)])
        assert backend.control.reschedule([ONE], delay=1.0) == {ONE: "rescheduled"}
        clock.advance(1.1)
        assert drain(backend, 10) == [4, 1, 2, 3]

    @needs("control", "jobs")
    def test_the_time_may_be_given_by_the_clock(self, backend: FullBackend) -> None:
        backend.put([make(1), make(2)])
        soon = known(backend).enqueued_at + 60_000_000
        backend.control.reschedule([ONE], due=soon, delay=FAR)
        assert (known(backend).state, known(backend).due_at) == ("delayed", soon)
        backend.control.reschedule([ONE], due=known(backend).enqueued_at - 60_000_000)
        assert (known(backend).state, known(backend).due_at) == ("ready", known(backend).enqueued_at - 60_000_000)
        assert drain(backend, 10) == [1, 2]

    @needs("control", "jobs")
    def test_counts_and_failures_stay(self, backend: FullBackend) -> None:
        backend.put([make(1)])
        fail_times(backend, 2)
        backend.control.reschedule([ONE], delay=FAR)
        record = known(backend)
        assert (record.attempts, record.fence, record.failures) == (2, 2, (failure(0), failure(1)))
        backend.control.reschedule([ONE])
        (lease,) = take(backend)
        assert (lease.attempts, lease.fence, lease.due) == (2, 3, known(backend).due_at)

    @needs("control")
    @pytest.mark.parametrize("delays", [[1.0], [0.0], [1.0, 0.0]])
    def test_a_suspect_stays_one(self, backend: FullBackend, clock: AdvancingClock, delays: list[float]) -> None:
        make_suspects(backend, clock, make(1), make(2))
        for delay in delays:
            backend.control.reschedule([ONE, id_of(2)], delay=delay)
        assert take(backend, 2) == []
        assert len(backend.lease_suspect([QUEUE], seconds=LEASE)) == (delays[-1] == 0)
        clock.advance(delays[-1] + 0.1)
        assert take(backend, 2) == []
        assert [lease.alone for lease in take_suspect(backend)] == [True]

    @needs("control", "jobs")
    def test_a_job_that_runs_goes_on(self, backend: FullBackend) -> None:
        (lease,) = put_and_take(backend, make(1))
        assert backend.control.reschedule([ONE], delay=FAR) == {ONE: "running"}
        assert backend.nack([Nack(lease=lease)]) == []
        (again,) = take(backend)
        assert backend.ack([Ack(lease=again)]) == []

    @needs("control", "dead_letters")
    def test_rescheduling_tells_what_becomes_of_each(self, backend: FullBackend) -> None:
        done, dead, _ = put_and_take(backend, make(1), make(2), make(3))
        backend.ack([Ack(lease=done)])
        backend.abandon([Abandon(lease=dead, reason="failed")])
        backend.put([make(4), make(5, delay=60), make(6, queue=OTHER)])
        assert backend.control.reschedule([id_of(number) for number in (1, 2, 3, 4, 4, 5, 6, 9)], delay=FAR) == {
            id_of(1): "too_late",
            id_of(2): "too_late",
            id_of(3): "running",
            id_of(4): "rescheduled",
            id_of(5): "rescheduled",
            id_of(6): "rescheduled",
            id_of(9): "unknown",
        }
        assert backend.control.reschedule([], delay=FAR) == {}
        assert take(backend, 10, QUEUE, OTHER) == []

    @needs("control", "parking")
    def test_a_parked_job_that_was_put_off_waits_for_its_time_alone(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        hold(backend, LOCK)
        parked(backend, 1, 2)
        assert backend.control.reschedule([ONE], delay=1.0) == {ONE: "rescheduled"}
        assert (known(backend).state, known(backend).waits_for) == ("delayed", None)
        release(backend, LOCK)
        assert drain(backend, 10) == [2]
        clock.advance(1.1)
        assert drain(backend, 10) == [1]

    @needs("control", "parking")
    def test_a_parked_job_that_was_brought_forward_is_ready(self, backend: FullBackend) -> None:
        hold(backend, LOCK)
        parked(backend, 1, 2)
        assert backend.control.reschedule([id_of(2)]) == {id_of(2): "rescheduled"}
        assert (known(backend, 2).state, known(backend).state) == ("ready", "parked")
        assert drain(backend, 10) == [2]

    @needs("control")
    def test_a_job_raced_for_is_either_put_off_or_leased(self, backend: FullBackend) -> None:
        everything = list(range(200))
        backend.put(make_many(range(200)))
        go = threading.Barrier(3)

        def put_off() -> dict[str, str]:
            go.wait(WAIT_TIMEOUT)
            chunks = [everything[first : first + 9] for first in range(0, 200, 9)][::-1]
            results = [backend.control.reschedule([id_of(n) for n in chunk], delay=FAR) for chunk in chunks]
            return {id: result for each in results for id, result in each.items()}

        def work() -> list[int]:
            go.wait(WAIT_TIMEOUT)
            return drain(backend, 5)

        with ThreadPoolExecutor(3) as threads:
            runs, moving = [threads.submit(work) for _ in range(2)], threads.submit(put_off)
            ran = [number for run in runs for number in run.result(WAIT_TIMEOUT)]
            results = moving.result(WAIT_TIMEOUT)
        moved = [number for number in everything if results[id_of(number)] == "rescheduled"]
        assert sorted(ran + moved) == everything

    @needs("control")
    def test_who_waits_for_work_learns_of_what_was_brought_forward(self, backend: FullBackend) -> None:
        backend.put([make(1, delay=FAR)])
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(lambda: backend.lease([QUEUE], limit=1, seconds=30.0, wait=WAIT_TIMEOUT))
            backend.control.reschedule([ONE])
            assert numbers(waiting.result(WAIT_TIMEOUT * 2)) == [1]
