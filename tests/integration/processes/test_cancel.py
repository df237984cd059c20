"""A running job that is cancelled stops on every runner, and other jobs are charged nothing."""

import signal
import time

import pytest

from tenure.backends.messages import ON_REQUEST
from tenure.definition.context import Progress

CHILDREN = ["process", "threads", "event_loop"]
RUNNERS = ["inline", *CHILDREN]


def cancel_running(site, id):
    """Cancel a job once it runs, wait for its end; what is known of it, and how long that took."""
    site.wait_for("started", id)
    asked = time.monotonic()
    assert site.app.backend.control.cancel([id]) == {id: "asked"}
    [ended] = site.wait_for_end(id)
    return ended, time.monotonic() - asked


@pytest.fixture
def story(counted):
    """How a job ended and what that cost it."""
    return lambda record: (*counted(record), record.reason, record.failures)


CANCELLED = ("cancelled", 0, 0, ON_REQUEST, ())


@pytest.mark.timing
def test_a_job_that_waits_in_a_child_behind_another_is_cancelled_before_it_starts(site, counted):
    ids = site.app.enqueue_many(site.shop.step.build(do="hold" if i == 200 else "nothing") for i in range(220))
    site.work("process", 1)
    site.wait_for("hold")
    site.app.backend.control.cancel([ids[-1]])
    [cancelled] = site.wait_for_end(ids[-1])
    assert counted(cancelled) == ("cancelled", 0, 0)
    site.say("released")
    assert {counted(each) for each in site.wait_for_end(*ids[:-1])} == {("done", 0, 0)}
    assert site.journal("nothing", ids[-1]) == []


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("handler", ["tidy_up", "tidy_up_async"])
def test_a_job_that_is_asleep_is_woken_tidies_up_and_its_process_lives_on(site, runner, handler, story):
    site.never_kill()
    id = getattr(site.shop, handler).enqueue()
    site.work(runner, 1)
    ended, _ = cancel_running(site, id)
    after = site.shop.quick.enqueue()
    assert story(ended) == CANCELLED
    assert len(site.journal("tidied:True", id)) == 1
    assert story(*site.wait_for_end(after))[:3] == ("done", 0, 0)
    assert site.journal("ran", after)[0][1] == site.journal("started", id)[0][1]


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("handler", ["spin", "watch_for_it", "complain"])
def test_a_job_at_work_in_python_is_stopped_and_its_process_lives_on(site, runner, handler, story):
    site.never_kill()
    id = getattr(site.shop, handler).enqueue()
    site.work(runner, 1)
    ended, _ = cancel_running(site, id)
    after = site.shop.quick.enqueue()
    assert story(ended) == CANCELLED
    site.wait_for_end(after)
    assert site.journal("ran", after)[0][1] == site.journal("started", id)[0][1]


@pytest.mark.timing
@pytest.mark.parametrize("runner", CHILDREN)
@pytest.mark.parametrize("handler", ["deaf", "seize", "sink"])
def test_a_job_that_hears_nothing_is_killed_a_second_later(site, runner, handler, story):
    payload = {} if handler == "deaf" else {"seconds": 3600}
    id = getattr(site.shop, handler).enqueue(**payload)
    site.work(runner, 1)
    ended, took = cancel_running(site, id)
    after = site.shop.quick.enqueue()
    assert (story(ended), 0.9 < took < 4.5) == (CANCELLED, True)
    assert story(*site.wait_for_end(after))[:3] == ("done", 0, 0)
    assert len(site.journal("started", id)) == 1


@pytest.mark.parametrize(
    ("runner", "neighbour", "handler"), [("threads", "hold", "spin"), ("event_loop", "linger", "tidy_up_async")]
)
def test_the_neighbours_of_a_job_that_stops_are_not_disturbed(site, runner, neighbour, handler, story):
    site.never_kill()
    neighbours = [getattr(site.shop, neighbour).enqueue() for _ in range(2)]
    site.work(runner, 4)
    site.wait_for("started", times=2)
    ended, _ = cancel_running(site, getattr(site.shop, handler).enqueue())
    site.say("released")
    assert story(ended) == CANCELLED
    assert {story(each)[:3] for each in site.wait_for_end(*neighbours)} == {("done", 0, 0)}
    assert len(site.journal("started")) == 3


@pytest.mark.parametrize(
    ("runner", "neighbour", "handler"),
    [("threads", "hold", "deaf"), ("threads", "hold", "seize"), ("event_loop", "linger", "clog")],
)
def test_the_neighbours_of_a_job_that_must_be_killed_go_back_uncharged(site, runner, neighbour, handler, story):
    neighbours = [getattr(site.shop, neighbour).enqueue() for _ in range(2)]
    site.work(runner, 4)
    site.wait_for("started", times=2)
    payload = {} if handler == "deaf" else {"seconds": 3600}
    ended, _ = cancel_running(site, getattr(site.shop, handler).enqueue(**payload))
    site.say("released")
    assert story(ended) == CANCELLED
    assert {story(each) for each in site.wait_for_end(*neighbours)} == {("done", 0, 0, None, ())}


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_job_that_succeeds_all_the_same_is_done(site, runner, counted):
    site.never_kill()
    id = site.shop.finish_all_the_same.enqueue()
    site.work(runner, 1)
    ended, _ = cancel_running(site, id)
    assert (counted(ended), ended.output) == (("done", 0, 0), "saved")


@pytest.mark.parametrize("runner", ["inline", "process"])
def test_a_request_is_not_lost_with_the_worker_that_should_have_heard_it(site, runner, story, eventually):
    id = site.shop.hold.enqueue()
    worker = site.work(runner, 1, lease=6)  # long enough that a busy worker does not lose it before
    site.wait_for("started", id)
    site.freeze(worker)
    assert site.app.cancel(id) == "asked"
    worker.send(signal.SIGKILL)
    site.work("process", 1, lease=2)
    [ended] = site.wait_for_end(id)
    assert story(ended)[:4] == CANCELLED[:4]
    assert [failure.type for failure in eventually(lambda: site.job(id).failures)] == ["Vanished"]
    assert len(site.journal("started", id)) == 1


@pytest.mark.parametrize("runner", CHILDREN)
def test_a_job_that_crashes_once_it_was_cancelled_is_charged_nothing(site, runner, story):
    id = site.shop.sink.enqueue()
    worker = site.work(runner, 1)
    child = site.wait_for("started", id)
    with site.holding_up_writers():
        worker.send(signal.SIGSTOP, child)
    site.app.cancel(id)
    [ended] = site.wait_for_end(id)
    assert story(ended) == CANCELLED


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("handler", ["count", "count_async"])
def test_progress_is_seen_while_the_job_runs(site, runner, handler, eventually):
    id = getattr(site.shop, handler).enqueue(upto=40, total=100)
    site.work(runner, 1)
    site.wait_for("counted", id)
    assert eventually(lambda: site.job(id).progress) == Progress(40, 100)
    site.say("released")
    [ended] = site.wait_for_end(id)
    assert (ended.state, ended.progress) == ("done", None)


def test_the_progress_of_jobs_in_one_process_is_kept_apart(site, eventually):
    ids = [site.shop.count_async.enqueue(upto=number) for number in range(5)]
    site.work("event_loop", 10)
    site.wait_for("counted", times=5)
    expected = [Progress(number) for number in range(5)]
    assert eventually(lambda: [site.job(id).progress for id in ids] == expected)
    site.say("released")
    site.wait_for_end(*ids)
