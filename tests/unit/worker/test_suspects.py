"""The role that has suspects run: in one process at a time, or else between the jobs of the worker."""

import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tenure.backends.memory.backend import MemoryBackend
from tenure.backends.messages import Message
from tenure.testing import FakeClock
from tenure.worker.lane import Lane
from tenure.worker.suspects import SuspectRunner
from tests.support.waiting import WAIT_SECONDS

LANES = [Lane(queues=("a",)), Lane(queues=("b", "c"))]


PAUSED = "paused"


def room(queues):
    return [([queue], 1) for queue in queues if queue != PAUSED], 0.0


class FakeProcess:
    """A process that ends when it is told to; it takes the suspects of its lane with it."""

    pid = 1

    def __init__(self, backend, lane, begun):
        self.backend, self.lane, self.begun = backend, lane, begun
        self.ended, self.signals, self.code = threading.Event(), [], 0

    def wait(self):
        self.begun.release()
        assert self.ended.wait(WAIT_SECONDS)
        while self.backend.lease_suspect(self.lane.queues, seconds=60):
            continue
        return self.code

    def send_signal(self, number):
        self.signals.append(number)
        self.ended.set()


@pytest.fixture
def backend():
    backend = MemoryBackend(clock := FakeClock())

    def add_suspect(queue):
        backend.put([Message(id=f"{queue} {clock.now()}", queue=queue, body=b"", handler="h")])
        backend.lease([queue], limit=1, seconds=1)
        clock.advance(2)
        backend.reap([queue], suspect_after=1)

    backend.add_suspect = add_suspect
    return backend


@pytest.fixture
def runner(backend):
    """A runner in its thread, with the processes that it starts."""
    runner = SuspectRunner(backend, LANES, room, interval=0.01)
    runner.processes, runner.begun = [], threading.Semaphore(0)

    def start(lane):
        runner.processes.append(FakeProcess(backend, lane, runner.begun))
        return runner.processes[-1]

    runner.start = start
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(runner.run)
        yield runner
        runner.stop()
        for process in runner.processes:
            process.ended.set()
        running.result(WAIT_SECONDS)


def test_a_process_is_started_for_the_lane_that_has_suspects(backend, runner):
    backend.add_suspect("c")
    assert runner.begun.acquire(timeout=WAIT_SECONDS)
    assert runner.processes[0].lane is LANES[1]


def test_one_process_runs_at_a_time(backend, runner):
    backend.add_suspect("a")
    assert runner.begun.acquire(timeout=WAIT_SECONDS)
    backend.add_suspect("b")
    assert not runner.begun.acquire(timeout=0.1)
    runner.processes[0].ended.set()
    assert runner.begun.acquire(timeout=WAIT_SECONDS)
    assert [process.lane for process in runner.processes] == LANES


@pytest.mark.parametrize(("stop", "number"), [("stop", signal.SIGTERM), ("stop_now", signal.SIGQUIT)])
def test_a_stop_is_passed_on_to_the_process(backend, runner, stop, number):
    backend.add_suspect("a")
    assert runner.begun.acquire(timeout=WAIT_SECONDS)
    getattr(runner, stop)()
    assert runner.processes[0].signals == [number]


def test_a_second_stop_does_not_interrupt_the_suspect(backend, runner):
    backend.add_suspect("a")
    assert runner.begun.acquire(timeout=WAIT_SECONDS)
    runner.stop()
    runner.stop()
    assert runner.processes[0].signals == [signal.SIGTERM]


def test_a_worker_that_ends_when_nothing_is_left_waits_for_the_process(backend, runner):
    backend.add_suspect("a")
    assert runner.have_work()
    assert runner.begun.acquire(timeout=WAIT_SECONDS)
    assert runner.have_work()
    runner.processes[0].ended.set()
    while runner.have_work():
        continue
    assert not runner.failed


def test_it_does_not_wait_for_suspects_whose_process_fails(backend, runner):
    backend.add_suspect("a")
    backend.lease_suspect = lambda queues, seconds: []
    assert runner.begun.acquire(timeout=WAIT_SECONDS)
    runner.processes[0].code = 2
    runner.processes[0].ended.set()
    while runner.have_work():
        continue
    assert (runner.failed, backend.has_suspects(["a"])) == (True, True)


def test_suspects_of_a_paused_queue_wait(backend):
    runner = SuspectRunner(backend, [Lane(queues=(PAUSED,))], room, interval=5.0)
    backend.add_suspect(PAUSED)
    assert not runner.have_work()


def test_without_processes_the_leaser_of_the_lane_is_told(backend):
    runner = SuspectRunner(backend, LANES, room, interval=5.0)
    assert not runner.have_work()
    backend.add_suspect("b")
    assert runner.have_work()
    assert runner.next_here is LANES[1]
