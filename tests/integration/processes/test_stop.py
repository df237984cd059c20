"""A worker with children stops: running jobs finish, the rest goes back, and no process is left."""

import os
import signal
import sys

import pytest

from tenure.execution.parent.child_process import ChildProcess
from tests.support.waiting import STOP_SECONDS, WAIT_SECONDS

CHILDREN = [("process", "hold"), ("threads", "hold"), ("event_loop", "linger"), ("event_loop", "hold")]


@pytest.fixture(params=CHILDREN, ids=lambda param: "-".join(param))
def busy(request, site):
    """A worker at two jobs, with two more that wait; their ids, and those of the two."""
    runner, handler = request.param
    enqueue = getattr(site.shop, handler).enqueue
    ids = [enqueue() for _ in range(4)]
    worker = site.work(runner, 2)
    site.wait_for("started", times=2)
    running = [id for id, _, _ in site.journal("started")]
    return worker, running, [id for id in ids if id not in running]


def test_a_worker_told_to_stop_finishes_what_runs_and_hands_back_the_rest(site, busy, counted, nobody_left):
    worker, running, waiting = busy
    worker.send(signal.SIGTERM)
    assert worker.process.stderr.readline().startswith("Stopping")
    site.wait_for_ready(*waiting)  # the worker may have leased them before the signal
    site.say("released")
    assert worker.end().code == 0
    assert {counted(site.job(id)) for id in running} == {("done", 0, 0)}
    assert {counted(site.job(id)) for id in waiting} == {("ready", 0, 0)}
    assert {id for id, _, _ in site.journal("started")} == set(running)
    nobody_left(worker)


def test_a_worker_told_twice_interrupts_what_runs_and_ends_quickly(site, busy, counted, nobody_left):
    worker, running, waiting = busy
    worker.stop_at_once()
    assert worker.process.wait(STOP_SECONDS) == 0
    assert {counted(site.job(id)) for id in (*running, *waiting)} == {("ready", 0, 0)}
    assert site.journal("finished") == []
    assert len(site.journal("started")) == 2
    nobody_left(worker)


def test_a_burst_that_is_told_to_stop_hands_back_the_orders_a_child_had_not_started(site, counted, nobody_left):
    site.never_hand_back()  # else the slow one may overtake some of the first
    first = [site.shop.quick.enqueue() for _ in range(50)]
    slow = site.shop.hold.enqueue()
    rest = [site.shop.quick.enqueue() for _ in range(50)]
    worker = site.work("process", 1, "--burst")
    site.wait_for("started", slow)
    worker.send(signal.SIGTERM)
    worker.process.stderr.readline()
    site.wait_for_ready(*rest)
    site.say("released")
    assert worker.end().code == 0
    assert {counted(site.job(id)) for id in (*first, slow)} == {("done", 0, 0)}
    assert {counted(site.job(id)) for id in rest} == {("ready", 0, 0)}
    nobody_left(worker)


@pytest.mark.parametrize("runner", ["process", "threads", "event_loop"])
def test_ctrl_c_reaches_the_children_through_their_worker_alone(site, runner, counted):
    id = site.shop.hold.enqueue()
    worker = site.work(runner)
    site.wait_for("started")
    worker.send(signal.SIGINT, *worker.family())  # as a terminal does, to every process of the session
    worker.send(signal.SIGTERM, *worker.children())
    assert worker.process.stderr.readline().startswith("Stopping")
    site.say("released")
    assert worker.end().code == 0
    assert counted(site.job(id)) == ("done", 0, 0)


def test_a_child_that_is_still_starting_leaves_signals_to_its_parent(tmp_path, eventually):
    code = "import pathlib, signal, sys; blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())\n"
    code += "pathlib.Path(sys.argv[1]).write_text(' '.join(str(int(each)) for each in blocked) + '.')"
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    child = ChildProcess([sys.executable, "-c", code, str(tmp_path / "blocked")], os.environ, 1)

    eventually(lambda: (tmp_path / "blocked").exists() and (tmp_path / "blocked").read_text().endswith("."))
    child.release(child.wait_for_exit(WAIT_SECONDS))

    blocked = set(map(int, (tmp_path / "blocked").read_text()[:-1].split()))
    assert {signal.SIGINT, signal.SIGTERM, signal.SIGHUP} <= blocked
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


def test_a_job_that_leaves_a_thread_running_does_not_keep_the_worker(site, nobody_left):
    id = site.shop.leave_a_thread.enqueue()
    worker = site.work("process", 1, "--burst")
    assert worker.end().code == 0
    assert site.job(id).state == "done"
    nobody_left(worker)
