"""Several lanes in one worker: each leases and runs by itself, and they end together."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tenure.execution.inline import InlineRunner
from tenure.worker.lane import Lane, WorkerOptions
from tenure.worker.worker import Worker
from tests.support.waiting import WAIT_SECONDS

pytestmark = pytest.mark.timeout(120, method="thread")


class BrokenRunner:
    """Dies when it is started."""

    concurrency = 1
    ticked = None

    def serve(self, source, done):
        raise RuntimeError("a runner's bug")

    def stop_now(self): ...

    def reload(self):
        return False

    def lose(self, tickets): ...


@pytest.fixture
def worker(app):
    """Makes a worker with a lane for each of these queues; all run jobs in threads of this process."""

    def make(*queues, runners=None, **terms):
        runners = runners or [InlineRunner(app.clock) for _ in queues]
        lanes = [(Lane(name=queue, queues=(queue,)), runner) for queue, runner in zip(queues, runners, strict=True)]
        opened = app.open_backend()
        bounds = WorkerOptions(queues=queues, **terms)
        pipeline = app._runtime._builder.pipeline(opened, app._runtime._builder.guard_holder(opened.backend))
        return Worker(opened.backend, lanes, bounds, pipeline, app.listeners, "here")

    return make


def test_a_job_of_one_lane_runs_while_a_job_of_another_does(app, worker, run_within):
    both = threading.Barrier(2, timeout=WAIT_SECONDS)

    @app.job
    def meet():
        both.wait()

    for queue in "ab":
        meet.using(queue=queue).enqueue()
    assert run_within(worker("a", "b", burst=True)) == {"acked": 2}


def test_a_burst_ends_when_no_lane_brings_another_job(app, worker, run_within):
    @app.job
    def pass_on(left: int):
        if left:
            pass_on.using(queue="ab"[left % 2]).enqueue(left=left - 1)

    pass_on.using(queue="a").enqueue(left=60)
    assert run_within(worker("a", "b", burst=True), WAIT_SECONDS) == {"acked": 61}


def test_a_bounded_worker_counts_across_its_lanes(app, worker, run_within):
    @app.job
    def note(): ...

    app.enqueue_many(note.using(queue="ab"[number % 2]).build() for number in range(200))
    assert run_within(worker("a", "b", max_jobs=101)) == {"acked": 101}


def test_a_bounded_worker_with_work_in_one_lane_only_ends_too(app, worker, run_within):
    @app.job
    def note(): ...

    app.enqueue_many(note.using(queue="b").build() for _ in range(5))
    assert run_within(worker("a", "b", "c", max_jobs=5)) == {"acked": 5}


@pytest.mark.parametrize("queue", ["a", "b", "c"])
def test_a_bounded_worker_that_waits_runs_the_first_job_of_any_lane(app, worker, queue):
    @app.job
    def note(): ...

    working = worker("a", "b", "c", max_jobs=1)
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(working.run)
        assert working.ready.wait(WAIT_SECONDS)
        threading.Event().wait(0.7)  # longer than a lease call waits, so that one lane has reserved the job again
        note.using(queue=queue).enqueue()
        timer = threading.Timer(WAIT_SECONDS, working.stop)
        timer.start()
        assert running.result() == {"acked": 1}
        timer.cancel()


def test_a_worker_is_ready_once_every_lane_has_had_an_answer(app, worker):
    working = worker("a", "b")
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(working.run)
        assert working.ready.wait(WAIT_SECONDS)
        working.stop()
        assert running.result(WAIT_SECONDS) == {}


def test_a_stopped_worker_finishes_the_jobs_of_all_lanes_and_hands_back_the_rest(app, worker):
    started, release = threading.Semaphore(0), threading.Event()

    @app.job
    def slow():
        started.release()
        assert release.wait(WAIT_SECONDS)

    ids = [slow.using(queue=queue).enqueue() for queue in "aaabbb"]
    with ThreadPoolExecutor(1) as threads:
        working = worker("a", "b")
        running = threads.submit(working.run)
        assert [started.acquire(timeout=WAIT_SECONDS) for _ in range(2)] == [True, True]
        working.stop()
        release.set()
        assert running.result(WAIT_SECONDS)["acked"] == 2
    assert Counter(app.backend.jobs.find(id).state for id in ids) == {"done": 2, "ready": 4}


@pytest.mark.parametrize("place", [0, 1])
def test_a_lane_that_dies_ends_the_worker_with_its_error(app, worker, place):
    @app.job
    def note(): ...

    runners = [InlineRunner(app.clock)]
    runners.insert(place, BrokenRunner())
    with pytest.raises(RuntimeError, match="a runner's bug"):
        worker("a", "b", runners=runners).run()


def test_a_suspect_of_one_lane_runs_while_no_other_lane_does(app, clock, worker, run_within):
    running, together = [], []
    began, release = threading.Event(), threading.Event()

    @app.job
    def watch(name: str):
        running.append(name)
        began.set()
        assert release.wait(WAIT_SECONDS)
        together.append(sorted(running))
        running.remove(name)

    suspect = watch.using(queue="a").enqueue(name="suspect")
    app.backend.lease(["a"], limit=1, seconds=15)
    clock.advance(16)
    assert [each.id for each in app.backend.reap(["a"], suspect_after=1)] == [suspect]
    for _ in range(3):
        watch.using(queue="b").enqueue(name="other")
    with ThreadPoolExecutor(1) as threads:
        result = threads.submit(run_within, worker("a", "b", burst=True))
        assert began.wait(WAIT_SECONDS)
        threading.Event().wait(0.2)  # so that the other lane has a chance to start something beside it
        release.set()
        assert result.result(WAIT_SECONDS)["acked"] == 4
    assert Counter(map(tuple, together)) == {("suspect",): 1, ("other",): 3}
    assert app.backend.jobs.find(suspect).crashes == 0
