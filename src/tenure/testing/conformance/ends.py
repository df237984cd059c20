"""Ends: callers that wait for jobs learn of every end, however the job ended, from any thread and process."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import pytest

from tenure.backends import job_waiter
from tenure.backends.job_waiter import JobWaiter
from tenure.backends.messages import Abandon, Ack, Nack
from tenure.testing.conformance.capabilities import SHARED, needs
from tenure.testing.conformance.concurrency import WAIT_TIMEOUT, start
from tenure.testing.conformance.messages import (
    QUEUE,
    AdvancingClock,
    FullBackend,
    expire,
    id_of,
    make,
    make_many,
    put_and_take,
    take,
)

ONE, TWO = id_of(1), id_of(2)
End = Callable[[FullBackend, AdvancingClock], object]


def abandon(backend: FullBackend, _: AdvancingClock) -> None:
    backend.abandon([Abandon(lease=lease, reason="failed") for lease in take(backend)])


def cancel_and_nack(backend: FullBackend, _: AdvancingClock) -> None:
    (lease,) = take(backend)
    backend.control.cancel([ONE])
    backend.nack([Nack(lease=lease)])


def cancel_and_expire(backend: FullBackend, clock: AdvancingClock) -> None:
    take(backend)
    backend.control.cancel([ONE])
    expire(backend, clock)


def abandon_and_discard(backend: FullBackend, clock: AdvancingClock) -> None:
    abandon(backend, clock)
    backend.dead_letters.discard([ONE])


ENDS: dict[str, End] = {
    "done": lambda backend, _: backend.ack([Ack(lease=lease) for lease in take(backend)]),
    "expired": lambda backend, _: backend.ack([Ack(lease=lease, state="expired") for lease in take(backend)]),
    "dead": abandon,
    "cancelled while it waits": lambda backend, _: backend.control.cancel([ONE]),
    "cancelled and handed back": cancel_and_nack,
    "cancelled and reaped": cancel_and_expire,
    "dead and discarded": abandon_and_discard,
}


class EndTests:
    @pytest.fixture
    def waiter(self, backend: FullBackend) -> Iterator[JobWaiter]:
        waiter = JobWaiter(backend.ends)
        yield waiter
        waiter.close()

    @pytest.fixture
    def only_signals(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Waits end because of a signal, or because the backend polls by itself."""
        monkeypatch.setattr(job_waiter, "POLL_SECONDS", 10 * WAIT_TIMEOUT)

    @needs("ends", "control", "dead_letters")
    @pytest.mark.parametrize("end", ENDS)
    def test_a_job_counts_as_ended_after_each_end_and_not_before(
        self, backend: FullBackend, clock: AdvancingClock, end: str
    ) -> None:
        backend.put([make(1), make(2, delay=60)])
        assert backend.ends.ended([ONE, TWO]) == set()
        ENDS[end](backend, clock)
        assert backend.ends.ended([ONE, TWO]) == {ONE}

    @needs("ends")
    def test_a_job_that_is_leased_or_came_back_has_not_ended(self, backend: FullBackend) -> None:
        (lease, _) = put_and_take(backend, make(1), make(2))
        backend.nack([Nack(lease=lease)])
        assert backend.ends.ended([ONE, TWO]) == set()

    @needs("ends", "dead_letters")
    def test_a_replayed_job_has_not_ended(self, backend: FullBackend, clock: AdvancingClock) -> None:
        backend.put([make(1)])
        abandon(backend, clock)
        backend.dead_letters.replay([ONE])
        assert backend.ends.ended([ONE]) == set()

    @needs("ends")
    def test_an_unknown_job_counts_as_ended(self, backend: FullBackend) -> None:
        assert backend.ends.ended([ONE]) == {ONE}
        assert backend.ends.ended([]) == set()

    @needs("ends", "control", "dead_letters")
    @pytest.mark.usefixtures("only_signals")
    @pytest.mark.parametrize("end", ENDS)
    def test_each_end_of_a_job_ends_a_wait_that_began_before(
        self, backend: FullBackend, clock: AdvancingClock, waiter: JobWaiter, end: str
    ) -> None:
        backend.put([make(1)])
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(waiter.wait, [ONE], WAIT_TIMEOUT)
            threading.Event().wait(0.05)  # lets the waiter ask first; without it the test is weaker, but correct
            ENDS[end](backend, clock)
            assert waiting.result(WAIT_TIMEOUT)

    @needs("ends")
    @pytest.mark.usefixtures("only_signals")
    def test_a_wait_that_began_after_the_end_ends_at_once(self, backend: FullBackend, waiter: JobWaiter) -> None:
        backend.ack([Ack(lease=lease) for lease in put_and_take(backend, make(1), make(2))])
        assert waiter.wait([ONE, TWO], WAIT_TIMEOUT)

    @needs("ends")
    def test_a_wait_for_a_job_that_does_not_end_gives_up(self, backend: FullBackend, waiter: JobWaiter) -> None:
        backend.put([make(1)])
        assert not waiter.wait([ONE], 0.05)

    @needs("ends")
    @pytest.mark.usefixtures("only_signals")
    def test_many_callers_wait_for_many_jobs_with_one_waiter(self, backend: FullBackend, waiter: JobWaiter) -> None:
        backend.put(make_many(range(1200)))
        ended: SimpleQueue[tuple[int, Exception | None]] = SimpleQueue()
        for number in range(1200):
            waiter.watch(id_of(number), lambda error, number=number: ended.put((number, error)))  # type: ignore[misc]
        while leases := take(backend, 100):
            backend.ack([Ack(lease=lease) for lease in leases])
        assert sorted(ended.get(timeout=WAIT_TIMEOUT) for _ in range(1200)) == [(n, None) for n in range(1200)]

    @needs("ends", SHARED)
    @pytest.mark.usefixtures("only_signals")
    def test_a_job_that_another_process_settles_ends_the_wait(
        self, backend: FullBackend, url: str, waiter: JobWaiter
    ) -> None:
        backend.put([make(1), make(2)])
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(waiter.wait, [ONE, TWO], WAIT_TIMEOUT)
            with start("drain", url, QUEUE) as other:
                other.wait(WAIT_TIMEOUT)
            assert waiting.result(WAIT_TIMEOUT)
