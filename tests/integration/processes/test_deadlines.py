"""A timeout stops every job; a lease is renewed for as long as a job runs."""

import signal
import time

import pytest

from tests.integration.processes.conftest import NEVER

CHILDREN = ["process", "threads", "event_loop"]
HOUR = 3600


def ran_for(site, record):
    """Seconds from the first line of a job to its end."""
    return record.finished_at / 1e6 - time.time() + time.monotonic() - site.journal("started", record.id)[0][2]


@pytest.mark.timing
@pytest.mark.slow
def test_the_time_of_a_job_counts_from_its_own_start_and_not_from_that_of_the_jobs_sent_with_it(site, counted):
    warm = site.app.enqueue_many(site.shop.step.build() for _ in range(200))
    slow = [site.shop.step.using(timeout=1).enqueue(do="sleep") for _ in range(10)]
    late = site.shop.step.using(timeout=0.5).enqueue(do="hold")
    after = site.app.enqueue_many(site.shop.step.build() for _ in range(50))
    assert site.burst("process", 1).code == 1
    assert {counted(site.job(id)) for id in (*warm, *slow, *after)} == {("done", 0, 0)}
    assert (counted(site.job(late)), site.job(late).reason) == (("dead", 1, 0), "timeout")


@pytest.mark.timing
@pytest.mark.parametrize("runner", CHILDREN)
def test_a_call_that_locks_the_interpreter_for_longer_than_the_lease_keeps_its_lease(site, runner, counted):
    id = site.shop.seize.enqueue(seconds=5)
    site.work(runner, 1, lease=3)
    site.wait_for("started")
    rival = site.work("process", 1, lease=3)
    [ended] = site.wait_for_end(id)
    assert (counted(ended), ended.fence, ended.output) == (("done", 0, 0), 1, "woke")
    assert len(site.journal("finished", id)) == 1
    assert rival.family()


@pytest.mark.parametrize("runner", CHILDREN)
@pytest.mark.parametrize("handler", ["seize", "deaf"])
def test_a_job_that_hears_no_timeout_is_killed_a_second_after_it(site, runner, handler, counted):
    payload = {"seconds": 3600} if handler == "seize" else {}
    id = getattr(site.shop, handler).using(timeout=1).enqueue(**payload)
    after = site.shop.quick.enqueue()
    assert site.burst(runner, 1).code == 1
    dead = site.job(id)
    assert (counted(dead), dead.reason, dead.failures[-1].type) == (("dead", 1, 0), "timeout", "TimedOut")
    assert "its process was killed" in dead.failures[-1].message
    assert 1.9 < ran_for(site, dead) < HOUR
    assert counted(site.job(after)) == ("done", 0, 0)


@pytest.mark.parametrize("runner", [*CHILDREN, "inline"])
def test_a_python_loop_is_stopped_at_its_timeout_and_its_process_lives_on(site, runner, counted):
    site.never_kill()
    id = site.shop.spin.using(timeout=0.5).enqueue()
    after = site.shop.quick.enqueue()
    assert site.burst(runner, 1).code == 1
    dead = site.job(id)
    assert (counted(dead), dead.reason) == (("dead", 1, 0), "timeout")
    assert 0.4 < ran_for(site, dead) < HOUR
    assert site.journal("ran", after)[0][1] == site.journal("started", id)[0][1]


def test_a_coroutine_that_awaits_too_long_is_cancelled_and_its_neighbours_go_on(site, counted):
    site.never_kill()
    late = site.shop.nap.using(timeout=0.3).enqueue(seconds=3600)
    neighbour = site.shop.linger.enqueue()
    site.work("event_loop", 10)
    [ended] = site.wait_for_end(late)
    site.say("released")
    assert (counted(ended), ended.reason) == (("dead", 1, 0), "timeout")
    assert counted(*site.wait_for_end(neighbour)) == ("done", 0, 0)
    assert len(site.journal("started", neighbour)) == 1


def test_a_job_that_ended_just_before_another_blocked_the_loop_is_not_run_again(site, counted):
    site.never_hand_back()
    clog = site.shop.clog_behind_open.using(timeout=4).enqueue()  # time for the other to start
    ended = site.shop.open_gate.enqueue()
    assert site.burst("event_loop", 2).code == 1
    assert counted(site.job(clog)) == ("dead", 1, 0)
    assert (counted(site.job(ended)), site.job(ended).fence) == (("done", 0, 0), 1)
    assert len(site.journal("ran")) == 1


def test_a_coroutine_that_blocks_its_loop_is_killed_and_its_neighbours_go_back_uncharged(site, counted):
    site.set_in_worker("tenure.execution.parent.runner", FROZEN_AFTER=NEVER)  # a busy machine delays heartbeats too
    neighbours = [site.shop.linger.enqueue() for _ in range(3)]
    worker = site.work("event_loop", 10)
    site.wait_for("started", times=3)
    culprit = site.shop.clog.using(timeout=1).enqueue()
    [dead] = site.wait_for_end(culprit)
    site.say("released")
    assert (counted(dead), dead.reason) == (("dead", 1, 0), "timeout")
    ended = site.wait_for_end(*neighbours)
    assert {counted(each) for each in ended} == {("done", 0, 0)}
    assert {each.failures for each in ended} == {()}
    assert len(site.journal("started", culprit)) == 1
    worker.send(signal.SIGTERM)
    assert worker.end().code == 0


def test_a_blocked_loop_without_a_timeout_is_run_alone_once_it_has_cost_another_its_time(site, counted):
    culprit = site.shop.clog.enqueue(seconds=4)
    site.work("event_loop", 10)
    site.wait_for("started", culprit)
    late = site.shop.linger.using(timeout=0.5).enqueue()
    site.say("released")
    assert {counted(each) for each in site.wait_for_end(culprit, late)} == {("done", 0, 0)}


def test_in_threads_a_python_loop_is_stopped_and_its_neighbours_are_not_disturbed(site, counted):
    site.never_kill()
    neighbours = [site.shop.hold.enqueue() for _ in range(2)]
    site.work("threads", 3)
    site.wait_for("started", times=2)
    culprit = site.shop.spin.using(timeout=0.5).enqueue()
    [dead] = site.wait_for_end(culprit)
    site.say("released")
    assert (counted(dead), dead.reason) == (("dead", 1, 0), "timeout")
    assert {counted(each) for each in site.wait_for_end(*neighbours)} == {("done", 0, 0)}
    assert len(site.journal("started")) == 3


@pytest.mark.parametrize("handler", ["sink", "seize"])
def test_in_threads_a_call_into_c_is_killed_with_its_neighbours_who_go_back_uncharged(site, handler, counted):
    neighbours = [site.shop.hold.using(timeout=timeout).enqueue() for timeout in (None, 60)]
    site.work("threads", 4)
    child = site.wait_for("started", times=2)
    culprit = getattr(site.shop, handler).using(timeout=1).enqueue(seconds=3600)
    site.wait_until_gone(child)
    site.say("released")
    *ended, dead = site.wait_for_end(*neighbours, culprit)
    assert (counted(dead), dead.reason) == (("dead", 1, 0), "timeout")
    assert {counted(each) for each in ended} == {("done", 0, 0)}


@pytest.mark.parametrize(
    ("runner", "innocent", "culprit"), [("threads", "sleep", "seize"), ("event_loop", "nap", "clog")]
)
def test_a_job_made_late_by_another_is_not_charged(site, runner, innocent, culprit, counted):
    late = [getattr(site.shop, innocent).using(timeout=4).enqueue(seconds=0.8) for _ in range(2)]
    site.work(runner, 4)
    site.wait_for("started", times=2)
    blocker = getattr(site.shop, culprit).using(timeout=4).enqueue(seconds=3600)
    *ended, dead = site.wait_for_end(*late, blocker)
    assert (counted(dead), dead.reason) == (("dead", 1, 0), "timeout")
    assert {counted(each) for each in ended} == {("done", 0, 0)}


def test_a_killed_job_takes_the_programs_it_started_with_it(site, eventually):
    id = site.shop.call_program.using(timeout=0.3).enqueue()
    worker = site.work("process", 1)
    [dead] = site.wait_for_end(id)
    assert dead.reason == "timeout"
    # A new child may start between the two looks; a program that was left would never become a child of the worker.
    eventually(lambda: sorted(worker.family()) == sorted([worker.pid, *worker.children()]))
    assert len(worker.children()) <= 1
