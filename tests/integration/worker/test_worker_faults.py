"""A worker with slow jobs, failing backends and dying threads, and the events that listeners get."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tenure import Context, Tenure, register_backend
from tenure.backends.memory import MemoryBackend
from tenure.errors import BackendUnavailable
from tenure.events import Enqueued, Leased, LeaseLost, Reaped, Settled, WorkerStarted, WorkerStopped
from tenure.testing import FakeClock, run_due
from tests.support.waiting import WAIT_SECONDS

pytestmark = pytest.mark.timeout(120, method="thread")


class Faulty(MemoryBackend):
    """A memory backend whose verbs fail as often as `faults` says, with the error given there."""

    def __init__(self, clock, faults):
        super().__init__(clock)
        self.faults = faults
        self.calls = Counter()
        for verb in ("put", "lease", "ack", "nack", "abandon", "renew", "reap"):
            setattr(self, verb, self._counted(verb))

    def _counted(self, name):
        verb = getattr(super(), name)

        def call(*args, **kwargs):
            self.calls[name] += 1
            times, error = self.faults.get(name, (0, None))
            if times:
                self.faults[name] = (times - 1, error)
                raise error
            return verb(*args, **kwargs)

        return call


@pytest.fixture
def faulty_app(clock):
    def open_app(**faults):
        register_backend("faulty", lambda parts, clock: Faulty(clock, faults))
        app = Tenure("faulty://", clock=clock)
        app.job(name="greet")(lambda: "hello")
        return app

    return open_app


def test_a_backend_that_is_away_for_a_while_costs_time_and_no_job(faulty_app, run_within):
    away = BackendUnavailable("the server is restarting")
    app = faulty_app(lease=(3, away), ack=(3, away))
    ids = [app.define("greet", {}).dispatch() for _ in range(5)]
    assert run_within(app.worker(max=5)) == {"acked": 5}
    assert [app.backend.jobs.find(id).fence for id in ids] == [1] * 5


def test_a_renewal_that_fails_is_tried_again(faulty_app, clock, eventually):
    app = faulty_app(renew=(2, BackendUnavailable("the server is restarting")))

    @app.job
    def outlast():
        clock.advance(6)  # more than a third of the lease
        eventually(lambda: app.backend.inner.calls["renew"] >= 3)

    id = outlast.enqueue()
    assert app.worker(burst=True).run() == {"acked": 1}
    assert app.backend.jobs.find(id).fence == 1


@pytest.mark.parametrize("verb", ["lease", "reap"])
def test_a_role_that_dies_makes_run_raise_what_killed_it(faulty_app, verb):
    app = faulty_app(**{verb: (1, RuntimeError("a bug"))})
    app.define("greet", {}).dispatch()
    with pytest.raises(RuntimeError, match="a bug"):
        app.worker().run()


@pytest.mark.parametrize(("times", "end"), [(1, "done"), (2, "dead")])
def test_an_error_that_settling_a_job_meets_again_is_the_end_of_the_job_and_not_of_the_worker(faulty_app, times, end):
    app = faulty_app(ack=(times, RuntimeError("a bug")))
    id = app.define("greet", {}).dispatch()
    worker = app.worker(burst=True)
    assert worker.run().total() == 1
    record = app.backend.jobs.find(id)
    assert record.state == end
    assert [each.type for each in record.failures] == ["RuntimeError"] * (end == "dead")


def test_jobs_behind_a_slow_one_are_handed_back_for_other_workers(app, run_within, monkeypatch):
    started, release, done = threading.Event(), threading.Event(), []

    @app.job
    def quick(number: int):
        done.append((number, threading.current_thread().name))

    @app.job
    def slow():
        started.set()
        assert release.wait(WAIT_SECONDS)

    for number in range(100):
        quick.enqueue(number=number)
    slow.enqueue()
    for number in range(100, 120):
        quick.enqueue(number=number)
    with ThreadPoolExecutor(1, thread_name_prefix="busy") as threads:
        busy = app.worker()
        running = threads.submit(busy.run)
        assert started.wait(WAIT_SECONDS)
        monkeypatch.setattr("tenure.worker.keeper._UNSTARTED_SECONDS", 0.25)
        others = run_within(app.worker(max=20))  # the clock stands still, so that no lease expires
        release.set()
        busy.stop()
        running.result(WAIT_SECONDS)
    assert others == {"acked": 20}
    assert sorted(number for number, _ in done) == list(range(120))


def test_a_stopped_worker_finishes_its_job_and_hands_back_the_rest(app):
    started, release = threading.Event(), threading.Event()

    @app.job
    def slow(number: int):
        started.set()
        assert release.wait(WAIT_SECONDS)

    ids = [slow.enqueue(number=number) for number in range(5)]
    with ThreadPoolExecutor(1) as threads:
        worker = app.worker()
        running = threads.submit(worker.run)
        assert started.wait(WAIT_SECONDS)
        worker.stop()
        release.set()
        running.result(WAIT_SECONDS)
    assert Counter(app.backend.jobs.find(id).state for id in ids) == {"done": 1, "ready": 4}
    assert [app.backend.jobs.find(id).attempts for id in ids] == [0] * 5


def test_listeners_are_told_every_step_of_a_job(app, clock):
    events = []
    app.listen(events.append)

    @app.job(queue="mail")
    def greet():
        pass

    id = greet.enqueue()
    run_due(app, "mail")
    assert events[0] == Enqueued("mail", "greet", (id,))
    kinds = [type(event) for event in events]
    assert kinds == [Enqueued, WorkerStarted, Leased, Settled, WorkerStopped]
    (settlement,) = events[3].settlements
    assert (settlement.id, settlement.queue, settlement.status, settlement.attempt) == (id, "mail", "acked", 1)


def test_a_listener_that_fails_changes_nothing(app):
    def break_down(event):
        raise RuntimeError("a listener's bug")

    app.listen(break_down)

    @app.job
    def greet():
        pass

    greet.enqueue()
    assert run_due(app) == {"acked": 1}


def test_a_settlement_that_comes_too_late_is_refused_and_told(app, clock, eventually):
    events = []
    app.listen(events.append)

    def lose_lease():
        clock.advance(60)
        app.backend.reap(["default"])  # in vain if the worker has renewed the lease just now
        return app.backend.jobs.find(id).state == "ready"

    @app.job
    def oversleep(context: Context):
        if context.fence == 1:
            eventually(lose_lease)

    id = oversleep.enqueue()
    app.worker(burst=True).run()
    lost = [event for event in events if isinstance(event, LeaseLost)]
    assert lost[0].ids == (id,)


def test_reaped_leases_are_told(app, clock, run_within):
    events = []
    app.listen(events.append)
    app.job(name="greet")(lambda: None)
    id = app.define("greet", {}).dispatch()
    app.backend.lease(["default"], limit=1, seconds=15)
    clock.advance(16)
    assert run_within(app.worker(max=1)) == {"acked": 1}
    assert [event for event in events if isinstance(event, Reaped)] == [Reaped("default", (id,), ())]


def test_a_jump_of_the_wall_clock_reaps_nobody(app, clock):
    started, release = threading.Event(), threading.Event()

    @app.job
    def slow():
        started.set()
        assert release.wait(WAIT_SECONDS)

    id = slow.enqueue()
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(app.worker(max=1).run)
        assert started.wait(WAIT_SECONDS)
        clock.jump(3600)
        threading.Event().wait(0.5)  # several ticks of the keeper, which cannot be told
        release.set()
        assert running.result(WAIT_SECONDS) == {"acked": 1}
    assert app.backend.jobs.find(id).fence == 1


def test_the_counters_tell_what_happened(app, message):
    @app.job
    def succeed():
        pass

    @app.job(max_retries=1, backoff="none")
    def fail():
        raise ValueError("no")

    succeed.enqueue()
    fail.enqueue()
    good = app.backend.jobs.find(succeed.enqueue()).body
    app.backend.put([message(1, queue="default", body=good.replace(b"succeed", b"sXcceed"))])
    run_due(app)
    counters = app.metrics.snapshot()["counters"]
    assert {name: count for name, count in counters.items() if name.startswith("jobs_")} == {
        "jobs_fetched|queue=default": 5,
        "jobs_succeeded|queue=default": 2,
        "jobs_failed|queue=default": 2,
        "jobs_requeued|queue=default": 1,
        "jobs_failed_permanently|queue=default": 1,
        "jobs_rejected|queue=default": 1,
        "jobs_rejected_signature|queue=default": 1,
    }


def test_a_worker_on_a_clock_that_stands_still_can_be_stopped(url):
    with Tenure(url, clock=FakeClock()) as app, ThreadPoolExecutor(1) as threads:
        worker = app.worker()
        running = threads.submit(worker.run)
        threading.Event().wait(0.1)  # so that it waits for work; correct, but weaker, without
        worker.stop()
        assert running.result(WAIT_SECONDS) == {}
