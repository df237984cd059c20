"""A worker stops while its jobs still run."""

import fcntl
import os
import signal
import subprocess
import sys
import termios

import pytest

from tests.support.waiting import STOP_SECONDS

STUBBORN = """
from shop import app, here
import time

@app.job
def stubborn() -> None:
    (here / "started").touch()
    try:
        time.sleep(600)
    except BaseException:
        time.sleep(600)
"""


@pytest.fixture
def start(tenure, eventually):
    """Starts a worker on one job, waits until it is in the middle of it, and returns both."""

    def start(job, *arguments, **environment):
        (tenure.folder / "more.py").write_text(STUBBORN)
        tenure.environment["TENURE_MODULES"] = "more"
        id = tenure.enqueue(job)
        worker = tenure.start("work", *arguments, **environment)
        eventually((tenure.folder / "started").exists)
        return worker, id

    return start


def is_untouched(job):
    return (job["state"], job["attempts"], job["crashes"], job["owner"]) == ("ready", 0, 0, None)


@pytest.mark.parametrize("runner", ["inline", "process", "threads", "event_loop"])
def test_a_job_that_outlasts_the_stop_grace_is_handed_back_at_no_cost(tenure, start, runner):
    worker, id = start("hold", "--stop-grace", "0.2", "--runner", runner)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(STOP_SECONDS) == 0
    assert is_untouched(tenure.json("jobs", "show", id))
    assert "the stop grace of 0.2 s is over: running jobs are handed back" in worker.stderr.read()


def test_the_end_of_the_stop_grace_wakes_a_job_that_sleeps(tenure, start):
    worker, id = start("sleep", "--stop-grace", "0.2", "--runner", "inline")
    worker.send_signal(signal.SIGINT)
    assert worker.wait(STOP_SECONDS) == 0
    assert is_untouched(tenure.json("jobs", "show", id))


def test_a_job_that_swallows_the_interrupt_is_interrupted_again(tenure, start):
    worker, id = start("stubborn", "--stop-grace", "0.2", "--runner", "inline")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(STOP_SECONDS) == 0
    assert is_untouched(tenure.json("jobs", "show", id))


def test_the_stop_grace_may_be_a_setting(tenure, start):
    worker, _ = start("hold", TENURE_STOP_GRACE="0.2")
    worker.send_signal(signal.SIGTERM)
    assert "or in 0.2 s;" in worker.stderr.readline()
    assert worker.wait(STOP_SECONDS) == 0


def test_a_worker_told_to_quit_hands_its_job_back_at_once(tenure, start):
    worker, id = start("hold")
    worker.send_signal(signal.SIGQUIT)
    assert worker.wait(STOP_SECONDS) == 0
    assert is_untouched(tenure.json("jobs", "show", id))


@pytest.mark.parametrize("runner", ["inline", "threads"])
def test_a_worker_told_to_drain_runs_what_is_ready_and_exits_0(tenure, start, runner):
    worker, id = start("hold", "--runner", runner, "--concurrency", "1")
    dead = tenure.enqueue("fail")
    last = tenure.enqueue("note")
    worker.send_signal(signal.SIGUSR1)
    assert worker.stderr.readline() == "Draining: stopping once nothing is ready.\n"
    (tenure.folder / "released").touch()
    assert worker.wait(STOP_SECONDS) == 0
    assert [tenure.state(each) for each in (id, dead, last)] == ["done", "dead", "done"]


def test_a_worker_that_drains_can_still_be_stopped(tenure, start):
    worker, id = start("hold", "--concurrency", "1")
    waiting = tenure.enqueue("note")
    worker.send_signal(signal.SIGUSR1)
    worker.stderr.readline()
    worker.send_signal(signal.SIGTERM)
    worker.stderr.readline()
    (tenure.folder / "released").touch()
    assert worker.wait(STOP_SECONDS) == 0
    assert [tenure.state(id), tenure.state(waiting)] == ["done", "ready"]


@pytest.mark.parametrize("options", [[], ["--processes", "1"]])
def test_a_worker_whose_terminal_is_closed_stops(tenure, options):
    terminal, inside = os.openpty()
    worker = subprocess.Popen(
        [sys.executable, "-m", "tenure", "work", *options],
        cwd=tenure.folder, env=tenure.environment, stdin=inside, stdout=subprocess.PIPE, text=True,
        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(inside)
    assert worker.stdout.readline().startswith("Working on")
    os.close(terminal)
    assert worker.wait(STOP_SECONDS) == 0
    assert worker.communicate()[0].count("Stopped after") == 1


def test_a_worker_started_by_nohup_does_not_hear_the_hangup(tenure):
    ignore = f"trap '' HUP; exec {sys.executable} -m tenure work"
    worker = subprocess.Popen(
        ["sh", "-c", ignore],
        cwd=tenure.folder, env=tenure.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert worker.stdout.readline().startswith("Working on")
    worker.send_signal(signal.SIGHUP)
    worker.send_signal(signal.SIGTERM)
    said, told = worker.communicate(timeout=STOP_SECONDS)
    assert (worker.returncode, said.count("Stopped after")) == (0, 1)
    assert "Reloading" not in told
