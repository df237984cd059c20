"""Concurrency: many threads and processes share a backend; each message has one holder, and none is lost."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tenure.backends.messages import Ack
from tenure.testing.conformance.capabilities import LINGERING, SHARED, needs
from tenure.testing.conformance.messages import (
    LEASE,
    QUEUE,
    AdvancingClock,
    FullBackend,
    drain,
    drain_all,
    id_of,
    make_many,
    numbers,
    reap_all,
    take,
    take_all,
)

THREADS = 4
PROCESSES = 3
WAIT_TIMEOUT = 60.0
LONG_WAIT = 100.0  # so much longer that only a wake-up ends it in time


def start(verb: str, url: str, *arguments: str) -> subprocess.Popen[str]:
    """Another process on the same backend; see other_process for the verbs."""
    return subprocess.Popen(
        [sys.executable, "-m", "tenure.testing.conformance.other_process", verb, url, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def hold_and_die(url: str, count: int) -> None:
    """Start a process that leases the first `count` messages, and kill it."""
    with start("hold", url, QUEUE, str(count)) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == f"holding {count}\n"
        other.kill()


class ConcurrencyTests:
    @pytest.fixture
    def url(self) -> str:
        """Where other processes open the backend under test; override it if the backend is Shared."""
        raise NotImplementedError("a backend that is Shared needs a fixture `url`")

    def test_a_thousand_messages_are_leased_once_each_by_many_threads(self, backend: FullBackend) -> None:
        backend.put(make_many(range(1000)))
        with ThreadPoolExecutor(THREADS) as threads:
            runs = [threads.submit(drain, backend, 7) for _ in range(THREADS)]
            seen = [number for run in runs for number in run.result(WAIT_TIMEOUT)]
        seen += drain(backend, 100, expected=1000 - len(seen))  # a busy broker may deliver some of them later
        assert sorted(seen) == list(range(1000))

    def test_puts_from_many_threads_are_all_stored(self, backend: FullBackend) -> None:
        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(backend.put, [make_many(range(first, first + 25)) for first in range(0, 500, 25)]))
        assert sorted(drain(backend, 100, expected=500)) == list(range(500))

    def test_one_message_raced_for_by_many_threads_is_settled_once(self, backend: FullBackend) -> None:
        backend.put(make_many(range(1)))
        (lease,) = take_all(backend, 1)
        with ThreadPoolExecutor(THREADS) as threads:
            lost = list(threads.map(backend.ack, [[Ack(lease=lease)]] * THREADS))
        assert sorted(lost, key=len) == [[], *[[lease]] * (THREADS - 1)]

    @needs(SHARED)
    def test_a_thousand_messages_are_leased_once_each_by_many_processes(self, backend: FullBackend, url: str) -> None:
        backend.put(make_many(range(1000)))
        others = [start("drain", url, QUEUE) for _ in range(PROCESSES)]
        seen = [int(line) for other in others for line in other.communicate(timeout=WAIT_TIMEOUT)[0].split()]
        seen += drain(backend, 100, expected=1000 - len(seen))  # as above
        assert sorted(seen) == list(range(1000))
        assert [other.returncode for other in others] == [0] * PROCESSES

    @needs(SHARED)
    def test_what_one_process_puts_another_leases(self, backend: FullBackend, url: str) -> None:
        with start("put", url, QUEUE, "7") as other:
            other.wait(WAIT_TIMEOUT)
        assert numbers(take_all(backend, 1)) == [7]
        assert take(backend, 10) == []

    @needs(SHARED)
    def test_a_killed_process_loses_none_of_what_it_held(
        self, backend: FullBackend, url: str, clock: AdvancingClock
    ) -> None:
        backend.put(make_many(range(20)))
        hold_and_die(url, 10)
        assert drain_all(backend, clock, 20) == list(range(20))

    @needs(SHARED, LINGERING)
    def test_what_a_killed_process_held_is_reaped_when_its_leases_ran_out(
        self, backend: FullBackend, url: str, clock: AdvancingClock
    ) -> None:
        backend.put(make_many(range(20)))
        hold_and_die(url, 10)
        assert drain(backend, 20) == list(range(10, 20))
        assert reap_all(backend, clock, 10) == [id_of(number) for number in range(10)]

    @needs(SHARED)
    def test_a_put_of_another_process_wakes_a_waiting_lease(self, backend: FullBackend, url: str) -> None:
        with ThreadPoolExecutor(1) as threads, start("put", url, QUEUE, "7"):
            waiting = threads.submit(backend.lease, [QUEUE], limit=1, seconds=10 * LEASE, wait=LONG_WAIT)
            assert numbers(waiting.result(WAIT_TIMEOUT)) == [7]
