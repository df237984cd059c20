"""The hooks of queue classes are called beside the worker, which waits for none of them."""

import logging
import threading
import time

import pytest

from tenure.worker.queue_hooks import QueueHooks
from tests.support.waiting import WAIT_SECONDS, eventually


@pytest.fixture
def serve():
    """Runs hooks in a thread, as a worker does, and stops them at the end."""
    running = []

    def start(*queues, interval=300.0, timeout=60.0):
        hooks = QueueHooks(queues, "worker-1", interval, timeout)
        thread = threading.Thread(target=hooks.run)
        thread.start()
        running.append((hooks, thread))
        return hooks, thread

    yield start
    for hooks, thread in running:
        hooks.stop()
        thread.join(WAIT_SECONDS)
        assert not thread.is_alive()


@pytest.fixture
def record():
    """Logs of the hooks as they come."""
    arrived = []

    class Handler(logging.Handler):
        def emit(self, record):
            arrived.append(record.getMessage())

    handler = Handler()
    logger = logging.getLogger("tenure.worker.queue_hooks")
    logger.addHandler(handler)
    yield arrived
    logger.removeHandler(handler)


class Queue:
    name = "films"

    def __init__(self, setup=None, refresh=None):
        self.calls = threading.Semaphore(0)
        self.told = []
        self._work = {"setup": setup, "refresh": refresh}

    def setup(self, worker):
        return self._call("setup", worker)

    def refresh(self, worker):
        return self._call("refresh", worker)

    def _call(self, name, worker):
        self.told.append((name, worker))
        self.calls.release()
        return self._work[name]() if self._work[name] else None


def test_setup_is_called_once_and_refresh_every_interval(serve):
    queue = Queue()
    serve(queue, interval=0.01)
    assert [queue.calls.acquire(timeout=WAIT_SECONDS) for _ in range(3)] == [True] * 3
    assert queue.told[:3] == [("setup", "worker-1"), ("refresh", "worker-1"), ("refresh", "worker-1")]


def test_a_queue_without_hooks_is_left_alone(serve):
    class Bare:
        name = "bare"

    queue = Queue()
    serve(Bare(), queue, interval=0.01)
    assert queue.calls.acquire(timeout=WAIT_SECONDS)


def test_a_hook_that_raises_is_logged_with_its_queue_and_called_again(serve, record):
    def fail():
        raise ValueError("no")

    queue = Queue(refresh=fail)
    serve(queue, interval=0.01)
    assert [queue.calls.acquire(timeout=WAIT_SECONDS) for _ in range(3)] == [True] * 3
    eventually(lambda: record)
    assert record[0] == "refresh of queue 'films' failed; the worker continues: fix the hook, or catch the error in it"


def about(record, hook):
    """What was logged of this hook: on a busy machine others may be late too."""
    return [line for line in record if line.startswith(hook)]


@pytest.mark.parametrize("name", ["setup", "refresh"])
def test_a_hook_that_hangs_is_logged_once_and_not_called_on_top_of_itself(serve, record, name):
    release = threading.Event()
    queue = Queue(**{name: lambda: release.wait(WAIT_SECONDS)})  # waits inside C: an interrupt does not reach it
    other = Queue()
    other.name = "other"
    serve(queue, other, interval=0.01, timeout=0.05)
    assert [other.calls.acquire(timeout=WAIT_SECONDS) for _ in range(30)] == [True] * 30  # who is not delayed by it
    eventually(lambda: about(record, f"{name} of queue 'films'"))
    assert [call for call, _ in queue.told].count(name) == 1
    (line,) = about(record, f"{name} of queue 'films'")
    release.set()
    assert line.startswith(f"{name} of queue 'films' ran past its 0.05 s")
    assert "raise the setting hook_timeout" in line


def test_a_hook_that_computes_past_its_deadline_is_interrupted_and_called_again(serve, record):
    is_over = False  # else the last call would compute until the tests end

    def compute():
        while not is_over:
            time.monotonic()

    queue = Queue(refresh=compute)
    serve(queue, interval=0.01, timeout=0.05)
    assert [queue.calls.acquire(timeout=WAIT_SECONDS) for _ in range(3)] == [True] * 3
    is_over = True
    told = {line.partition(" and is")[0] for line in about(record, "refresh")}
    assert told == {"refresh of queue 'films' ran past its 0.05 s"}


def test_a_hook_that_hangs_does_not_delay_the_stop(serve):
    release = threading.Event()
    queue = Queue(setup=lambda: release.wait(WAIT_SECONDS))
    hooks, thread = serve(queue)
    assert queue.calls.acquire(timeout=WAIT_SECONDS)
    hooks.stop()
    thread.join(WAIT_SECONDS / 2)
    assert not thread.is_alive()
    release.set()


def test_hooks_may_be_async(serve):
    class Async:
        name = "films"
        called = threading.Event()

        async def setup(self, worker):
            self.called.set()

    serve(Async())
    assert Async.called.wait(WAIT_SECONDS)


def test_what_a_plain_hook_returns_is_awaited(serve):
    called = threading.Event()

    async def set_up(worker):
        called.set()

    serve(Queue(setup=lambda: set_up("worker-1")))
    assert called.wait(WAIT_SECONDS)


def test_a_hook_whose_code_did_not_run_is_logged(serve, record):
    serve(Queue(setup=lambda: map(print, "abc")))
    eventually(lambda: record)
    assert "setup of queue 'films' failed" in record[0]
