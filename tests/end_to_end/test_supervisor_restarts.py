"""Processes are replaced between jobs after so many jobs, above a memory limit, and on SIGHUP."""

import signal
from collections import Counter

import pytest

from tests.support.waiting import STOP_SECONDS

MORE = """
import os
import time
from shop import LIFE, app, here


@app.job
def grow() -> None:
    app.ballast = bytearray(os.urandom(1024)) * (400 * 1024)
    (here / "grown").touch()


@app.job
def alone() -> None:
    (here / "alone").mkdir()
    time.sleep(0.8)  # long enough for another child to start and run into this
    (here / "alone").rmdir()
    with open(here / "book", "a") as book:
        book.write(f"{os.getpid()} {LIFE} alone\\n")
"""


LINGER = """
import atexit
import time
from shop import here


def linger() -> None:
    (here / "lingering").touch()
    while not (here / "go").exists():
        time.sleep(0.005)
"""
LINGERING = {
    "late in the old life": f"{LINGER}\natexit.register(linger)\n",
    "early in the new life": f"{LINGER}\nif (here / 'book').exists():\n    linger()\n",
}


@pytest.fixture(autouse=True)
def more(tenure):
    (tenure.folder / "more.py").write_text(MORE)
    tenure.environment["TENURE_MODULES"] = "more"


@pytest.fixture
def book(tenure):
    """The notes that jobs have made so far: process, life, version."""

    def read():
        path = tenure.folder / "book"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    return read


@pytest.fixture
def enqueue(tenure):
    def enqueue(job, count=1):
        (tenure.folder / "producer.py").write_text(
            f"from shop import app\nimport more\nfor _ in range({count}): app.define('{job}').dispatch()\n"
        )
        tenure.python("producer.py")

    return enqueue


def stop(worker):
    worker.send_signal(signal.SIGTERM)
    return worker.wait(STOP_SECONDS)


def test_an_inline_worker_starts_over_in_its_process_after_so_many_jobs(tenure, enqueue, book, eventually):
    enqueue("note", 5)
    worker = tenure.start("work", "--runner", "inline", "--recycle-after", "2")
    eventually(lambda: len(book()) == 5)
    assert stop(worker) == 0
    assert {pid for pid, _, _ in book()} == {str(worker.pid)}
    assert sorted(Counter(life for _, life, _ in book()).values()) == [1, 2, 2]


@pytest.mark.parametrize("runner", ["process", "threads", "event_loop"])
def test_a_child_is_replaced_after_so_many_jobs(tenure, enqueue, book, eventually, runner):
    enqueue("note", 5)
    worker = tenure.start("work", "--runner", runner, "--concurrency", "1", TENURE_RECYCLE_AFTER="2")
    eventually(lambda: len(book()) == 5)
    assert stop(worker) == 0
    assert sorted(Counter(pid for pid, _, _ in book()).values()) == [1, 2, 2]


@pytest.mark.parametrize("runner", ["inline", "process"])
def test_a_process_above_the_memory_limit_is_replaced_after_its_job(tenure, enqueue, book, eventually, runner):
    enqueue("note", 2)
    worker = tenure.start("work", "--runner", runner, "--concurrency", "1", "--max-memory", "300")
    eventually(lambda: len(book()) == 2)
    enqueue("grow")
    eventually((tenure.folder / "grown").exists)
    enqueue("note")
    eventually(lambda: len(book()) == 3)
    assert stop(worker) == 0
    first, second, third = [life for _, life, _ in book()]
    assert first == second
    assert third != first


def test_a_worker_that_ends_by_itself_is_not_recycled(tenure, enqueue, book):
    enqueue("note", 3)
    assert tenure("work", "--burst", "--runner", "inline", "--recycle-after", "1").returncode == 0
    assert len({life for _, life, _ in book()}) == 1
    assert len(book()) == 3


def test_recycling_never_runs_more_jobs_at_once_than_was_asked_for(tenure, enqueue, book, eventually):
    enqueue("alone", 2)
    worker = tenure.start("work", "--runner", "process", "--concurrency", "1", "--recycle-after", "1")
    eventually(lambda: len(book()) == 2)
    assert stop(worker) == 0
    assert len({pid for pid, _, _ in book()}) == 2


def test_a_long_job_in_a_child_that_is_to_be_replaced_does_not_hold_up_the_others(tenure, enqueue, book, eventually):
    enqueue("hold")
    worker = tenure.start("work", "--runner", "threads", "--concurrency", "2", "--recycle-after", "1")
    eventually((tenure.folder / "started").exists)
    enqueue("note", 2)
    eventually(lambda: len(book()) == 2)
    assert not (tenure.folder / "finished").exists()
    (tenure.folder / "released").touch()
    assert stop(worker) == 0
    assert (tenure.folder / "finished").exists()


@pytest.mark.parametrize(("when", "lives"), [("late in the old life", 1), ("early in the new life", 2)])
def test_a_worker_told_to_stop_while_it_starts_over_stops(tenure, enqueue, eventually, when, lives):
    enqueue("note")
    (tenure.folder / "more.py").write_text(LINGERING[when])
    worker = tenure.start("work", "--runner", "inline", "--recycle-after", "1")
    eventually((tenure.folder / "lingering").exists)
    worker.send_signal(signal.SIGTERM)
    (tenure.folder / "go").touch()
    assert worker.wait(STOP_SECONDS) == 0
    assert worker.stdout.read().count("Working on") == lives


def test_a_hangup_has_an_inline_worker_finish_its_job_and_start_over_with_new_code(tenure, enqueue, book, eventually):
    id = tenure.enqueue("hold")
    worker = tenure.start("work", "--runner", "inline")
    eventually((tenure.folder / "started").exists)
    deploy(tenure, '"second"')
    worker.send_signal(signal.SIGHUP)
    assert worker.stderr.readline() == "Reloading once the running job is done.\n"
    (tenure.folder / "released").touch()
    enqueue("note")
    eventually(book)
    assert stop(worker) == 0
    assert (book()[0][0], book()[0][2]) == (str(worker.pid), "second")
    assert tenure.json("jobs", "show", id)["state"] == "done"


def test_a_hangup_has_fresh_children_take_over_with_new_code(tenure, enqueue, book, eventually):
    worker = tenure.start("work", "--runner", "process", "--concurrency", "1")
    enqueue("note")
    eventually(book)
    deploy(tenure, '"second"')
    worker.send_signal(signal.SIGHUP)
    assert worker.stderr.readline() == "Reloading: fresh child processes take over.\n"
    eventually(lambda: enqueue("note") or book()[-1][2] == "second")
    assert stop(worker) == 0


def test_children_stay_when_the_new_code_does_not_start(tenure, enqueue, book, eventually):
    worker = tenure.start("work", "--runner", "process", "--concurrency", "1")
    enqueue("note")
    eventually(book)
    original = deploy(tenure, "1 / 0")
    worker.send_signal(signal.SIGHUP)
    worker.stderr.readline()
    assert worker.stderr.readline()
    (tenure.folder / "shop.py").write_text(original)
    enqueue("note")
    eventually(lambda: len(book()) == 2)
    assert stop(worker) == 0


def test_a_worker_that_ends_by_itself_is_not_reloaded(tenure, eventually):
    tenure.enqueue("hold")
    worker = tenure.start("work", "--burst", "--runner", "inline")
    eventually((tenure.folder / "started").exists)
    worker.send_signal(signal.SIGHUP)
    assert worker.stderr.readline() == "A worker that ends by itself is not reloaded.\n"
    (tenure.folder / "released").touch()
    assert worker.wait(STOP_SECONDS) == 0


def deploy(tenure, version):
    """Changes the version of the app's code, and returns what it was."""
    path = tenure.folder / "shop.py"
    original = path.read_text()
    path.write_text(original.replace('"first"', version))
    return original
