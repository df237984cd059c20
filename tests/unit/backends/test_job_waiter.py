"""JobWaiter: one thread for all waits; it stops without waits, survives an outage, and ends waits when it is closed."""

import logging
import threading
from contextlib import contextmanager
from queue import SimpleQueue

import pytest

from tenure.backends import job_waiter
from tenure.backends.ends import Wakeup
from tenure.backends.job_waiter import JobWaiter
from tenure.errors import BackendError, BackendUnavailable
from tests.support.waiting import WAIT_SECONDS, eventually


class Ends:
    """A backend without signals that a test controls."""

    def __init__(self):
        self.over = set()
        self.asked = SimpleQueue()
        self.error = None

    def ended(self, ids):
        self.asked.put(list(ids))
        if self.error is not None:
            raise self.error
        return self.over & set(ids)

    @contextmanager
    def watch(self, wakeup):
        yield lambda seconds, idle: wakeup.wait(seconds)


@pytest.fixture
def threads():
    """Lists the threads of waiters that the test has started; other tests may have left some."""
    before = set(threading.enumerate())
    return lambda: [thread for thread in set(threading.enumerate()) - before if thread.name == "tenure-waiter"]


@pytest.fixture
def ends():
    return Ends()


@pytest.fixture
def waiter(ends, threads):
    waiter = JobWaiter(ends)
    yield waiter
    waiter.close()
    eventually(lambda: threads() == [])  # a thread that was about to stop by itself is not waited for


@pytest.fixture
def soon(monkeypatch):
    """Polls and tries follow soon."""
    monkeypatch.setattr(job_waiter, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(job_waiter, "_RETRY_SECONDS", 0.001)
    monkeypatch.setattr(job_waiter, "_LINGER_SECONDS", 0.001)


@pytest.mark.usefixtures("soon")
def test_a_missed_signal_costs_only_the_time_until_the_next_poll(ends, waiter):
    answers = SimpleQueue()
    waiter.watch("a", answers.put)
    ends.asked.get(timeout=WAIT_SECONDS)
    ends.over.add("a")
    assert answers.get(timeout=WAIT_SECONDS) is None


def test_a_new_wait_is_asked_about_at_once_and_alone(ends, waiter, monkeypatch):
    monkeypatch.setattr(job_waiter, "POLL_SECONDS", WAIT_SECONDS)
    waiter.watch("a", print)
    assert ends.asked.get(timeout=WAIT_SECONDS) == ["a"]
    waiter.watch("b", print)
    assert ends.asked.get(timeout=WAIT_SECONDS) == ["b"]


def test_every_wait_for_one_job_ends_with_it(ends, waiter):
    ends.over.add("a")
    answers = SimpleQueue()
    for _ in range(3):
        waiter.watch("a", answers.put)
    assert [answers.get(timeout=WAIT_SECONDS) for _ in range(3)] == [None] * 3


def test_all_waits_share_one_thread(ends, waiter, threads):
    for number in range(100):
        waiter.watch(str(number), print)
    assert len(threads()) == 1


@pytest.mark.usefixtures("soon")
def test_the_thread_stops_without_waits_and_starts_again(ends, waiter, threads):
    for _ in range(3):
        wait = waiter.watch("a", print)
        waiter.forget(wait)
        eventually(lambda: threads() == [])
    ends.over.add("a")
    assert waiter.wait(["a"], WAIT_SECONDS)


def test_a_forgotten_wait_is_not_told(ends, waiter):
    answers = SimpleQueue()
    waiter.forget(waiter.watch("a", answers.put))
    kept = waiter.watch("a", answers.put)
    waiter.forget(kept)
    waiter.forget(kept)
    ends.over.add("a")
    assert waiter.wait(["a"], WAIT_SECONDS)
    assert answers.empty()


@pytest.mark.usefixtures("soon")
def test_waits_go_on_through_an_outage_which_is_logged_once(ends, waiter, caplog):
    ends.error = BackendUnavailable("no answer")
    answers = SimpleQueue()
    waiter.watch("a", answers.put)
    for _ in range(5):
        ends.asked.get(timeout=WAIT_SECONDS)
    ends.over.add("a")
    ends.error = None
    assert answers.get(timeout=WAIT_SECONDS) is None
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings == ["callers wait for jobs, and the backend cannot tell when they end: no answer"]


def test_a_closed_waiter_ends_its_waits_with_an_error(ends, waiter):
    answers = SimpleQueue()
    waiter.watch("a", answers.put)
    waiter.close()
    error = answers.get(timeout=WAIT_SECONDS)
    assert isinstance(error, BackendUnavailable)
    assert str(error).startswith("the app was closed while a caller waited for job 'a'")
    with pytest.raises(BackendUnavailable, match="was closed"):
        waiter.watch("b", print)


def test_a_caller_that_blocks_gets_the_error_of_the_close(ends, waiter):
    closing = threading.Thread(target=lambda: (ends.asked.get(timeout=WAIT_SECONDS), waiter.close()))
    closing.start()
    with pytest.raises(BackendUnavailable, match="was closed"):
        waiter.wait(["a"], WAIT_SECONDS)
    closing.join()


def test_an_unexpected_error_ends_the_waits_and_the_next_wait_starts_again(ends, waiter, caplog):
    ends.error = ZeroDivisionError("a bug")
    answers = SimpleQueue()
    waiter.watch("a", answers.put)
    error = answers.get(timeout=WAIT_SECONDS)
    assert type(error) is BackendError
    assert str(error) == "waiting for the ends of jobs failed: ZeroDivisionError('a bug')"
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    ends.error = None
    ends.over.add("a")
    assert waiter.wait(["a"], WAIT_SECONDS)


def test_the_descriptors_are_closed_when_the_thread_has_stopped(ends, monkeypatch):
    closed = []

    class Recorded(Wakeup):
        def close(self):
            closed.append(self)
            super().close()

    monkeypatch.setattr(job_waiter, "Wakeup", Recorded)
    waiter = JobWaiter(ends)
    waiter.watch("a", print)
    waiter.close()
    assert len(closed) == 1


def test_a_wakeup_that_is_set_very_often_wakes_and_can_be_cleared():
    wakeup = Wakeup()
    for _ in range(70_000):
        wakeup.set()
    assert not wakeup.wait(WAIT_SECONDS)
    wakeup.clear()
    assert wakeup.wait(0.001)
    wakeup.close()
