"""A worker is killed: its children die with it, its jobs come back, and none is lost."""

import signal
import subprocess
import sys

import pytest

from tests.support.waiting import WAIT_SECONDS

CHILDREN = ["process", "threads", "event_loop"]


@pytest.mark.parametrize("runner", CHILDREN)
def test_the_children_of_a_killed_worker_die_with_it(site, runner, nobody_left):
    for _ in range(2):
        site.shop.hold.enqueue()
    worker = site.work(runner, 2)
    site.wait_for("started", times=2)  # no child is still starting: on a busy machine that takes long
    assert worker.children()
    worker.send(signal.SIGKILL)
    nobody_left(worker)


def test_children_die_with_their_worker_even_while_they_call_c_with_the_interpreter_locked(site, nobody_left):
    site.shop.seize.enqueue(seconds=3600)
    worker = site.work("process", 1)
    site.wait_for("started")
    worker.send(signal.SIGKILL)
    nobody_left(worker)


def test_a_child_imports_little_before_it_sees_to_it_that_it_dies_with_its_worker():
    code = "import sys, tenure.cli.process.child as child; print(child.die_with_parent.__name__, *sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True, timeout=WAIT_SECONDS
    )
    assert {"asyncio", "msgspec", "die_with_parent"} & set(done.stdout.split()) == {"die_with_parent"}


@pytest.mark.slow
def test_a_worker_killed_among_many_short_jobs_loses_none_and_costs_none_anything(site, counted):
    ids = site.app.enqueue_many(site.shop.step.build(do="hold" if i == 200 else "nothing") for i in range(400))
    worker = site.work("process", 1, lease=1)
    site.wait_for("hold")
    worker.send(signal.SIGKILL)
    site.say("released")
    site.work("process", 1, lease=1)
    assert {counted(each) for each in site.wait_for_end(*ids)} == {("done", 0, 0)}


def test_two_workers_that_vanish_in_a_row_cost_their_jobs_nothing(site, counted, nobody_left):
    id, waiting = site.shop.hold.enqueue(), site.shop.quick.using(delay=1).enqueue()
    for deaths in (1, 2):
        worker = site.work("process", 1, lease=2)
        site.wait_for("started", id, times=deaths)
        worker.send(signal.SIGKILL)
        nobody_left(worker)
    site.say("released")
    worker = site.work("process", 1, lease=2)
    ended = site.wait_for_end(id, waiting)
    assert [counted(each) for each in ended] == [("done", 0, 0), ("done", 0, 0)]
    assert len(site.journal("finished", id)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("runner", CHILDREN)
def test_workers_killed_one_after_the_other_lose_no_job(site, runner, counted):
    ids = [site.shop.quick.enqueue(number=number) for number in range(300)]
    for rounds in (1, 2):
        worker = site.work(runner, lease=1)
        site.wait_for("ran", times=rounds * 50)
        worker.send(signal.SIGKILL)
        worker.end()
    site.work(runner, lease=1)
    assert {counted(each) for each in site.wait_for_end(*ids)} == {("done", 0, 0)}
    assert {id for id, _, _ in site.journal("ran")} == set(ids)
    assert site.counts() == {"done": 300}
