"""Processes are stopped and continued: a worker that lost its lease changes nothing, and every job ends once."""

import signal
import time

import pytest

from tests.integration.processes.conftest import processes

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("runner", ["process", "threads", "event_loop"])
def test_a_worker_stopped_past_its_lease_cannot_settle_the_job_that_another_has_done(
    site, runner, eventually, counted, nobody_left
):
    id = site.shop.hold.enqueue()
    stale = site.work(runner, 1, lease=1)
    site.wait_for("started")
    site.freeze(stale, *stale.family())
    site.say("released")
    fresh = site.work(runner, 1, "--max", "1", lease=1)
    assert fresh.end().code == 0
    done = site.job(id)
    assert counted(done) == ("done", 0, 0)
    stale.send(signal.SIGCONT, *stale.family())
    assert eventually(lambda: site.events("LeaseLost"))[0].endswith(id)
    stale.send(signal.SIGTERM)
    assert stale.end().code == 0
    assert site.job(id) == done
    nobody_left(stale)


@pytest.mark.parametrize("runner", ["process", "threads", "event_loop"])
def test_a_child_of_a_stopped_parent_ends_itself_before_another_worker_runs_its_job(site, runner, counted, nobody_left):
    id = site.shop.hold.enqueue()
    stale = site.work(runner, 1, lease=6)  # long enough that a busy worker does not lose it
    child = site.wait_for("started")
    site.freeze(stale, stale.pid)
    fresh = site.work(runner, 1, lease=6)
    site.wait_for("started", id, times=2)
    assert not is_running(child)  # it is a zombie until its parent goes on
    stale.send(signal.SIGCONT)
    site.wait_until_gone(child)
    site.say("released")
    assert counted(*site.wait_for_end(id)) == ("done", 0, 0)
    assert [pid for _, pid, _ in site.journal("finished", id)] != [child]
    for worker in (stale, fresh):
        worker.send(signal.SIGTERM)
        assert worker.end().code == 0
        nobody_left(worker)
    assert site.job(id).fence == 2


@pytest.mark.timing
def test_a_stopped_child_keeps_its_lease_until_its_deadline_and_is_then_killed(site, counted):
    id = site.shop.hold.using(timeout=2.5).enqueue()
    worker = site.work("process", 1, lease=1)
    child = site.wait_for("started")
    worker.send(signal.SIGSTOP, child)
    [ended] = site.wait_for_end(id)
    assert (counted(ended), ended.reason, ended.fence) == (("dead", 1, 0), "timeout", 1)
    assert child not in worker.family()


def test_a_job_that_stops_its_process_among_many_short_ones_costs_the_others_nothing(site, counted):
    before, after = ([site.shop.step.build() for _ in range(200)] for _ in range(2))
    ids = site.app.enqueue_many([*before, site.shop.step.using(timeout=1).build(do="stop"), *after])
    assert site.burst("process", 2).code == 1
    stopped = site.job(ids.pop(200))
    assert (counted(stopped), stopped.reason) == (("dead", 1, 0), "timeout")
    assert {counted(site.job(id)) for id in ids} == {("done", 0, 0)}
    assert sorted(id for id, _, _ in site.journal("nothing")) == sorted(ids)


def test_a_worker_stopped_for_moments_in_the_midst_of_its_work_runs_nothing_twice(site, counted):
    ids = site.app.enqueue_many(site.shop.quick.build(number=number) for number in range(3000))
    worker = site.work("process", 2)
    for ran in range(200, 2200, 200):
        site.wait_for("ran", times=ran)
        site.freeze(worker, worker.pid)
        time.sleep(0.3)  # longer than orders may wait in a child
        worker.send(signal.SIGCONT)
    assert {counted(each) for each in site.wait_for_end(*ids)} == {("done", 0, 0)}
    assert len(site.journal("ran")) == 3000


@pytest.mark.parametrize("runner", ["process", "threads", "event_loop"])
def test_a_child_that_was_stopped_before_it_started_its_job_gets_orders_again(site, runner, eventually, counted):
    first = site.shop.quick.enqueue(number=1)
    worker = site.work(runner, 1)
    child = site.wait_for("ran")
    site.wait_for_end(first)  # otherwise the child may be stopped before it reports the end, and gets no orders
    worker.send(signal.SIGSTOP, child)
    id = site.shop.quick.enqueue(number=2)
    eventually(lambda: site.job(id).fence and site.job(id).state == "ready")  # its order was withdrawn
    worker.send(signal.SIGCONT, child)
    assert counted(*site.wait_for_end(id)) == ("done", 0, 0)


def is_running(pid):
    return dict(processes()).get(pid, ["Z"])[0] != "Z"
