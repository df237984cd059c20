"""A worker starts its roles, runs what there is, and stops them in the order that loses nothing."""

import sys
import threading

import pytest

from tenure import Backoff
from tenure.backends.memory import MemoryBackend
from tenure.backends.messages import Message
from tenure.definition.handler import Registry, from_function
from tenure.events import Leased, Listeners, Settled, WorkerStarted, WorkerStopped
from tenure.execution.inline import InlineRunner
from tenure.testing import FakeClock
from tenure.worker.lane import Lane, WorkerOptions
from tenure.worker.pipeline import JobDefaults, Pipeline
from tenure.worker.worker import Worker
from tests.support.waiting import WAIT_SECONDS

pytestmark = pytest.mark.timeout(120, method="thread")


class Companion:
    """A role that notes its thread, and may fail."""

    def __init__(self, error=None):
        self.error = error
        self.stopping = threading.Event()
        self.thread = None

    def run(self):
        self.thread = threading.current_thread()
        if self.error:
            raise self.error
        self.stopping.wait(WAIT_SECONDS)

    def stop(self):
        self.stopping.set()


@pytest.fixture(autouse=True)
def unstarted_jobs_wait(monkeypatch):
    """On a busy machine a job may wait so long for its start that its worker would hand it back."""
    monkeypatch.setattr("tenure.worker.keeper._UNSTARTED_SECONDS", WAIT_SECONDS)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def backend(clock):
    return MemoryBackend(clock)


@pytest.fixture
def ran():
    return []


@pytest.fixture
def pipeline(wire, clock, ran):
    registry = Registry({})
    registry.add(from_function("ping", lambda: ran.append(threading.current_thread()), {}))
    return Pipeline(wire, registry, clock, JobDefaults(retry=Backoff()))


@pytest.fixture
def events():
    return []


@pytest.fixture
def worker(backend, clock, pipeline, events):
    def make(*companions, **options):
        listeners = Listeners()
        listeners.add(events.append)
        lanes = [(Lane(queues=("default",), runner="inline"), InlineRunner(clock))]
        given = WorkerOptions(queues=("default",), **options)
        return Worker(backend, lanes, given, pipeline, listeners, "here:1", companions)

    return make


@pytest.fixture
def put(backend, lease_of):
    def put(count):
        body = lease_of().body
        ids = [f"id-{number}" for number in range(1, count + 1)]
        backend.put([Message(id=id, queue="default", body=body, handler="ping") for id in ids])
        return ids

    return put


def test_a_burst_runs_what_is_ready_and_returns_how_it_went(worker, put, ran):
    put(1)
    assert worker(burst=True).run() == {"acked": 1}
    assert len(ran) == 1


def test_the_first_lane_runs_in_the_thread_that_calls_run(worker, put, ran):
    put(1)
    worker(burst=True).run()
    assert ran == [threading.current_thread()]


def test_listeners_see_the_start_the_job_and_the_stop(worker, put, events):
    put(1)
    worker(burst=True).run()
    assert [type(event) for event in events] == [WorkerStarted, Leased, Settled, WorkerStopped]


def test_a_companion_runs_in_its_own_thread_as_long_as_the_worker(worker):
    companion = Companion()
    worker(companion, burst=True).run()
    assert companion.thread is not threading.current_thread()
    assert not companion.thread.is_alive()


def test_a_role_can_be_added_before_the_run(worker):
    companion, one = Companion(), worker(burst=True)
    one.add_role(companion)
    one.run()
    assert companion.stopping.is_set()


def test_a_role_that_fails_ends_the_worker_with_its_error(worker):
    with pytest.raises(RuntimeError, match="a bug"):
        worker(Companion(RuntimeError("a bug"))).run()


def test_a_worker_is_ready_once_the_backend_has_answered(worker):
    one = worker(burst=True)
    assert not one.ready.is_set()
    one.run()
    assert one.ready.is_set()


def test_a_drained_worker_finishes_what_is_ready(worker, put, ran):
    put(1)
    one = worker()
    one.drain()
    assert one.run() == {"acked": 1}


def test_a_worker_that_was_stopped_before_its_run_starts_no_job(worker, put, backend, ran):
    (id,) = put(1)
    one = worker()
    one.stop()
    assert not one.run()
    assert (ran, backend.jobs.find(id).state) == ([], "ready")


def test_no_thread_outlives_the_run(worker, put):
    put(1)
    before = set(threading.enumerate())
    worker(Companion(), burst=True).run()
    left = [thread for thread in set(threading.enumerate()) - before if thread.name != "tenure-lease-watchdog"]
    assert left == []  # the watchdog notices the stop within its tick


@pytest.fixture
def switch_interval():
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.004)
    yield sys.getswitchinterval()
    sys.setswitchinterval(before)


def test_the_switch_interval_is_as_it_was_after_the_run(worker, switch_interval):
    worker(burst=True).run()
    assert sys.getswitchinterval() == switch_interval


@pytest.mark.parametrize(("waits_rarely", "expected"), [(True, 0.004), (False, 0.001)])
def test_threads_interrupt_each_other_less_where_calls_of_the_backend_wait_rarely(
    worker, backend, switch_interval, waits_rarely, expected
):
    backend.waits_rarely = waits_rarely
    seen = []
    companion = Companion()
    companion.run = lambda: seen.append(sys.getswitchinterval())
    worker(companion, burst=True).run()
    assert seen == [pytest.approx(expected)]


def test_a_worker_whose_jobs_run_in_this_process_cannot_reload(worker):
    assert not worker().reload()


def test_a_worker_that_does_not_run_is_not_silent(worker):
    assert worker().silence() == 0.0
