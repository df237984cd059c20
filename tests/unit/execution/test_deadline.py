"""A deadline interrupts the code that is running, and only while it is running."""

import signal
import threading
import time
from concurrent.futures import Future
from contextlib import suppress

import pytest

from tenure.definition.context import LocalLink
from tenure.errors import Cancelled, DeadlineExceeded, StopNow
from tenure.execution.deadline import AlarmDeadline, ThreadDeadline, Watchdog
from tests.support.waiting import WAIT_SECONDS


@pytest.fixture
def deadline():
    deadline = AlarmDeadline()
    with deadline.installed():
        yield deadline


@pytest.fixture
def in_a_thread():
    """Calls a function in a thread of its own and gives its result, or raises what it raised."""

    def call(function):
        result = Future()

        def run():
            try:
                result.set_result(function())
            except BaseException as error:
                result.set_exception(error)

        threading.Thread(target=run).start()
        return result.result(WAIT_SECONDS)

    return call


def spin(seconds):
    """Python code that only an exception stops."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def run_for(deadline, seconds, work):
    """Arm a deadline and call; an alarm that comes at once is inside this call too."""
    deadline.arm(seconds)
    work()


def test_code_that_runs_too_long_is_interrupted(deadline):
    with pytest.raises(DeadlineExceeded):
        run_for(deadline, 0.02, lambda: spin(WAIT_SECONDS))


def test_a_blocking_call_is_interrupted(deadline):
    with pytest.raises(DeadlineExceeded):
        run_for(deadline, 0.02, lambda: threading.Event().wait(WAIT_SECONDS))


@pytest.mark.timing
def test_code_that_ends_in_time_is_left_alone(deadline):
    deadline.arm(0.02)
    deadline.disarm()

    spin(0.05)


def test_without_a_limit_nothing_fires(deadline):
    deadline.arm(None)

    spin(0.05)


def test_an_alarm_is_an_interrupt_that_handlers_do_not_swallow():
    assert not issubclass(DeadlineExceeded, Exception)
    assert not issubclass(StopNow, Exception)


def test_being_told_to_stop_interrupts_what_is_running(deadline):
    deadline.arm(None)

    with pytest.raises(StopNow):
        deadline.stop_now()


def test_being_told_to_stop_while_idle_interrupts_nothing(deadline):
    deadline.stop_now()


def test_the_signal_handler_is_given_back():
    before = signal.getsignal(signal.SIGALRM)

    with AlarmDeadline().installed():
        pass

    assert signal.getsignal(signal.SIGALRM) is before


@pytest.fixture
def alarms():
    """The alarms that code around a deadline hears."""
    heard = []
    before = signal.signal(signal.SIGALRM, lambda signum, frame: heard.append(signum))
    pending = signal.setitimer(signal.ITIMER_REAL, 0)
    yield heard
    signal.signal(signal.SIGALRM, before)
    signal.setitimer(signal.ITIMER_REAL, *pending)


def test_an_alarm_of_somebody_else_reaches_them_while_a_job_without_a_limit_runs(alarms):
    deadline = AlarmDeadline()
    with deadline.installed():
        deadline.arm(None)
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        spin(0.05)
        deadline.disarm()

    assert alarms == [signal.SIGALRM]


def test_an_alarm_of_somebody_else_goes_on_after_a_job_with_a_limit(alarms):
    signal.setitimer(signal.ITIMER_REAL, 50)
    deadline = AlarmDeadline()
    with deadline.installed():
        deadline.arm(5)
        deadline.disarm()

    assert 40 < signal.getitimer(signal.ITIMER_REAL)[0] <= 50


@pytest.mark.timing
def test_an_alarm_of_somebody_else_that_fell_due_during_a_job_comes_after_it(alarms):
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    deadline = AlarmDeadline()
    with deadline.installed():
        deadline.arm(5)
        spin(0.03)
        heard_meanwhile = list(alarms)
        deadline.disarm()
        spin(0.03)

    assert heard_meanwhile == []
    assert alarms == [signal.SIGALRM]


def test_an_alarm_that_comes_just_as_a_job_ends_reaches_nobody_else(alarms):
    deadline = AlarmDeadline()
    with deadline.installed():
        for _ in range(200):
            with suppress(DeadlineExceeded):
                deadline.arm(0.0005)
                spin(0.0005)
                deadline.disarm()
            deadline.disarm()

    assert alarms == []


def test_no_alarm_is_left_behind(alarms):
    deadline = AlarmDeadline()
    with deadline.installed():
        deadline.arm(5)

    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_outside_the_main_thread_an_alarm_says_that_it_is_not_enforced(in_a_thread):
    def work():
        deadline = AlarmDeadline()
        with deadline.installed():
            deadline.arm(0.01)
            deadline.disarm()
            return deadline.enforced

    assert in_a_thread(work) is False


def test_in_a_thread_code_that_runs_too_long_is_interrupted(in_a_thread):
    deadline = ThreadDeadline(Watchdog())

    def work():
        with deadline.installed():
            deadline.arm(0.02)
            spin(WAIT_SECONDS)

    with pytest.raises(DeadlineExceeded):
        in_a_thread(work)


@pytest.mark.timing
def test_in_a_thread_code_that_ends_in_time_is_left_alone(in_a_thread):
    deadline = ThreadDeadline(Watchdog())

    def work():
        with deadline.installed():
            deadline.arm(0.02)
            deadline.disarm()
            spin(0.1)
            return "done"

    assert in_a_thread(work) == "done"


def test_in_a_thread_nothing_fires_without_a_limit(in_a_thread):
    deadline = ThreadDeadline(Watchdog())

    def work():
        with deadline.installed():
            deadline.arm(None)
            spin(0.1)
            return "done"

    assert in_a_thread(work) == "done"


def test_in_a_thread_an_interrupt_that_comes_at_the_end_does_not_hit_the_next_job(in_a_thread):
    deadline = ThreadDeadline(Watchdog())

    def work():
        with deadline.installed():
            for _ in range(50):
                with suppress(DeadlineExceeded):
                    deadline.arm(0.001)
                    spin(0.02)
                    deadline.disarm()
                deadline.disarm()
                spin(0.002)
            return "done"

    assert in_a_thread(work) == "done"


def wait_for_ring(deadline, link):
    """Wait while another thread, as a worker does, cancels and then has the deadline look."""

    def ring():
        link.cancelled = True
        deadline.deliver_cancel()

    threading.Timer(0.02, ring).start()
    threading.Event().wait(WAIT_SECONDS)


def test_a_cancelled_job_is_interrupted_in_the_main_thread(deadline):
    link = LocalLink()
    deadline.arm(None, link)

    with pytest.raises(Cancelled):
        wait_for_ring(deadline, link)


def test_a_ring_for_a_job_that_has_ended_leaves_the_next_one_alone(deadline):
    deadline.arm(5, LocalLink())
    deadline.deliver_cancel()
    deadline.disarm()


def test_a_ring_that_comes_before_the_handler_is_called_is_not_lost(deadline):
    link = LocalLink()
    link.cancelled = True
    deadline.deliver_cancel()

    with pytest.raises(Cancelled):
        deadline.arm(None, link)


def test_a_ring_while_nothing_runs_does_no_harm(deadline):
    deadline.deliver_cancel()
    deadline.arm(None, LocalLink())
    spin(0.01)


def test_a_cancelled_job_is_interrupted_in_a_thread_and_again_a_second_later(in_a_thread):
    link = LocalLink()
    link.cancelled = True
    deadline = ThreadDeadline(Watchdog())

    def work():
        with deadline.installed():
            deadline.arm(None, link)
            with suppress(Cancelled):
                spin(WAIT_SECONDS)
            try:
                spin(WAIT_SECONDS)
            finally:
                deadline.disarm()

    with pytest.raises(Cancelled):
        in_a_thread(work)


def test_a_ring_of_ours_is_no_alarm_of_somebody_else(alarms):
    deadline = AlarmDeadline()
    with deadline.installed():
        deadline.deliver_cancel()
        spin(0.01)

    assert alarms == []
