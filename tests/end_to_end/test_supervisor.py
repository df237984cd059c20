"""`tenure work --processes N` replaces workers that die, and reloads workers."""

import os
import re
import signal
import sys
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pytest

from tenure.supervisor.supervisor import WorkerSlot
from tests.support.waiting import STOP_SECONDS

STUCK = """
import time
from shop import app, here

lease = app.backend.lease


def sticky(*arguments, **options):
    while (here / "stuck").exists():
        time.sleep(0.01)
    return lease(*arguments, **options)


app.backend.lease = sticky
"""


def pid_of(line):
    assert line.startswith("Working on"), line
    return int(line.rpartition(" pid ")[2])


@pytest.fixture
def crew(tenure):
    """Starts a supervisor and waits until its workers work; returns it and their pids, under which their jobs run."""

    def start(count, *arguments, **environment):
        arguments = arguments or ("--runner", "inline")
        supervisor = tenure.start("work", "--processes", str(count), *arguments, **environment)
        return supervisor, [pid_of(supervisor.stdout.readline()) for _ in range(count)]

    return start


@pytest.fixture
def deploy(tenure):
    """Changes the version of the app's code to one of another length: only then does Python surely compile it again."""
    path = tenure.folder / "shop.py"
    original = path.read_text()
    (tenure.folder / "producer.py").write_text(original)

    def deploy(version):
        path.write_text(original.replace('"first"', version))

    return deploy


@pytest.fixture
def enqueue(tenure):
    """Enqueues by a copy of the app, which works when the app itself does not."""

    def enqueue(job):
        assert tenure("--app", "producer:app", "enqueue", job).returncode == 0

    return enqueue


@pytest.fixture
def book(tenure):
    """The notes that jobs have made so far: process, life, version."""

    def read():
        path = tenure.folder / "book"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    return read


def stop(supervisor):
    supervisor.send_signal(signal.SIGTERM)
    return supervisor.wait(STOP_SECONDS)


@pytest.mark.parametrize("count", [1, 2])
def test_a_worker_that_dies_is_replaced(crew, count):
    supervisor, pids = crew(count)
    os.kill(pids[0], signal.SIGKILL)
    assert re.match(
        rf"ERROR: worker {pids[0]} was killed by SIGKILL.*; another starts in 0\.\d s", supervisor.stderr.readline()
    )
    assert pid_of(supervisor.stdout.readline()) not in pids
    assert stop(supervisor) == 0


def test_workers_that_die_young_are_replaced_ever_more_slowly(tenure, crew):
    for _ in range(3):
        tenure.enqueue("die")
    supervisor, _ = crew(1)
    found = (re.search(r"another starts in (\S+) s", line) for line in supervisor.stderr)
    pauses = [float(each[1]) for each in islice(filter(None, found), 3)]
    assert 0.2 <= pauses[0] < pauses[1] < pauses[2] <= 1.2
    assert stop(supervisor) == 0


@pytest.fixture
def impatient(tenure):
    """An environment in which a supervisor waits less between two starts."""
    patch = "from tenure.supervisor import supervisor as s\ns.RESTART_BACKOFF = s.Backoff(base=0.02)\n"
    (tenure.folder / "sitecustomize.py").write_text(patch)
    return {"PYTHONPATH": os.pathsep.join([str(tenure.folder), *sys.path])}


def test_workers_that_cannot_start_are_given_up_with_the_cause(tenure, impatient):
    (tenure.folder / "broken.py").write_text("open('starts', 'a').write('.')\n1 / 0\n")
    done = tenure("--app", "broken:app", "work", "--processes", "1", **impatient)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "CRITICAL: gave up after 5 failed starts: the last worker exited with code 2 before it was ready: "
        "module 'broken' cannot be imported: ZeroDivisionError: division by zero"
    )
    assert (tenure.folder / "starts").read_text() == "....."


def test_a_worker_that_cannot_be_replaced_does_not_stop_the_others(crew, impatient, deploy, enqueue, book, eventually):
    supervisor, pids = crew(2, **impatient)
    deploy("1 / 0")
    os.kill(pids[0], signal.SIGKILL)
    failures = (line for line in supervisor.stderr if re.match("ERROR: worker .*ZeroDivisionError", line))
    assert len([*islice(failures, 6)]) == 6
    enqueue("note")
    eventually(book)
    assert book()[0][0] == str(pids[1])
    deploy('"second"')
    assert pid_of(supervisor.stdout.readline()) not in pids
    assert stop(supervisor) == 0


def test_a_reload_has_each_new_worker_ready_before_an_old_one_goes(crew, deploy, enqueue, book, eventually):
    supervisor, old = crew(2)
    deploy('"second"')
    supervisor.send_signal(signal.SIGHUP)
    told = [supervisor.stdout.readline() for _ in range(4)]
    assert [line.split()[0] for line in told] == ["Working", "Stopped", "Working", "Stopped"]
    enqueue("note")
    eventually(book)
    pid, _, version = book()[0]
    assert version == "second"
    assert int(pid) not in old
    assert stop(supervisor) == 0


def test_an_old_worker_goes_on_until_the_new_one_leases(tenure, crew, book, eventually):
    (tenure.folder / "more.py").touch()
    supervisor, (old,) = crew(1, TENURE_MODULES="more")
    (tenure.folder / "stuck").touch()
    (tenure.folder / "more.py").write_text(STUCK)
    supervisor.send_signal(signal.SIGHUP)
    new = pid_of(supervisor.stdout.readline())
    tenure.enqueue("note")
    eventually(book)
    (tenure.folder / "stuck").unlink()
    assert supervisor.stdout.readline().startswith("Stopped after")
    tenure.enqueue("note")
    eventually(lambda: len(book()) == 2)
    assert [int(pid) for pid, _, _ in book()] == [old, new]
    assert stop(supervisor) == 0


def test_a_job_that_runs_during_a_reload_is_finished(tenure, crew, eventually):
    supervisor, _ = crew(1)
    id = tenure.enqueue("hold")
    eventually((tenure.folder / "started").exists)
    supervisor.send_signal(signal.SIGHUP)
    pid_of(supervisor.stdout.readline())
    assert supervisor.stderr.readline().startswith("Stopping once the running job is done")
    (tenure.folder / "released").touch()
    assert supervisor.stdout.readline().endswith(": 1 done, 0 retried, 0 dead\n")
    assert stop(supervisor) == 0
    assert tenure.json("jobs", "show", id)["fence"] == 1


def test_a_reload_to_code_that_does_not_start_keeps_the_old_workers(crew, deploy, enqueue, book, eventually):
    supervisor, pids = crew(2)
    deploy("1 / 0")
    supervisor.send_signal(signal.SIGHUP)
    told = [supervisor.stderr.readline() for _ in range(2)]
    assert told[1].startswith("ERROR: the reload failed, and the old workers stay: the new worker exited with code 2")
    eventually(lambda: enqueue("note") or {int(pid) for pid, _, _ in book()} == {*pids})
    assert stop(supervisor) == 0


def test_a_reload_during_a_reload_brings_in_the_newest_code(crew, deploy, enqueue, book, eventually):
    supervisor, _ = crew(1)
    deploy('"second"')
    supervisor.send_signal(signal.SIGHUP)
    pid_of(supervisor.stdout.readline())
    deploy('"third-try"')
    supervisor.send_signal(signal.SIGHUP)
    told = [supervisor.stdout.readline().split()[0] for _ in range(3)]
    assert told == ["Stopped", "Working", "Stopped"]
    enqueue("note")
    eventually(book)
    assert book()[0][2] == "third-try"
    assert stop(supervisor) == 0


def test_workers_told_to_drain_run_what_is_ready_and_exit_0(tenure, crew):
    supervisor, _ = crew(2)
    supervisor.send_signal(signal.SIGUSR1)
    assert supervisor.wait(STOP_SECONDS) == 0


def test_workers_that_end_by_themselves_are_not_replaced(tenure):
    id = tenure.enqueue("note")
    done = tenure("work", "--processes", "2", "--burst")
    assert (done.returncode, done.stdout.count("Working on")) == (0, 2)
    assert tenure.state(id) == "done"


def test_workers_get_the_options_that_the_supervisor_was_given(crew):
    supervisor, pids = crew(1, "--runner", "threads", "--concurrency", "3", "--stop-grace", "0.5", "a", "b:2")
    command = Path(f"/proc/{pids[0]}/cmdline").read_text().rstrip("\0").split("\0")
    given = ["--concurrency", "3", "--runner", "threads", "--stop-grace", "0.5", "--shares-terminal", "--", "a", "b:2"]
    assert command[command.index("work") + 1 :] == given
    assert stop(supervisor) == 0


def test_a_worker_that_worked_a_while_is_replaced_as_soon_as_the_first_that_died():
    seat = WorkerSlot()
    young, grown = [SimpleNamespace(ready_at=ready_at, ready=True) for ready_at in (99.0, 1.0)]
    pauses = [seat.delay_start(dead, now=100.0) for dead in (young, young, young, grown)]
    assert pauses[2] > 2 * pauses[0]
    assert pauses[3] < 2 * pauses[0]
