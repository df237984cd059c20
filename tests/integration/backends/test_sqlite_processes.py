"""Many processes on one SQLite file take turns, wake each other, and survive a fork."""

import json
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tenure.backends.messages import Message
from tenure.backends.sql.sqlite import log_watch
from tenure.backends.url import open_backend
from tenure.clock import SystemClock
from tests.support.waiting import WAIT_SECONDS

PREAMBLE = """
import json, os, sys, time
from tenure.backends.contract import Message
from tenure.backends.url import open_backend
from tenure.clock import SystemClock
def message(number):
    return Message(id=f"job-{int(number):08d}", queue="mail", body=b"{}", handler="greet")
def say(*values):
    print(json.dumps(values), flush=True)
url = sys.argv[1]
"""


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/jobs.db"


def ready(url):
    with closing(open_backend(url, SystemClock())) as backend:
        return backend.queues.counts().get("mail", {}).get("ready", 0)


def test_ten_processes_may_create_the_database_at_once(url, start, finish):
    finish(*[start(PREAMBLE + PUT_ONE, url, number) for number in range(10)])
    assert ready(url) == 10


PUT_ONE = """
backend = open_backend(url, SystemClock())
assert backend.schema.version()[0] == backend.schema.version()[1]
backend.put([message(sys.argv[2])])
backend.close()
"""


def test_connections_that_open_a_new_file_at_the_same_moment_wait_for_each_other(tmp_path):
    together = threading.Barrier(6)

    def open_all(_):
        for number in range(40):
            together.wait(WAIT_SECONDS)
            open_backend(f"sqlite:///{tmp_path}/{number}.db", SystemClock()).close()

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(open_all, range(6)))


@pytest.mark.timing
def test_processes_that_write_without_pause_take_turns(url, start, finish):
    open_backend(url, SystemClock()).close()
    writers = [start(PREAMBLE + PUT_BATCHES, url, first) for first in (0, 100_000)]
    longest = [json.loads(output)[0] for output in finish(*writers)]
    assert max(longest) < 1.0
    assert ready(url) == 2 * 60 * 100


PUT_BATCHES = """
backend = open_backend(url, SystemClock())
longest = 0.0
for batch in range(60):
    begun = time.monotonic()
    backend.put([message(int(sys.argv[2]) + batch * 100 + number) for number in range(100)])
    longest = max(longest, time.monotonic() - begun)
backend.close()
say(longest)
"""


def test_a_put_in_another_process_wakes_a_waiting_lease_at_once(url, start, monkeypatch):
    monkeypatch.setattr(log_watch, "_IDLE_POLL_SECONDS", WAIT_SECONDS)
    with closing(open_backend(url, SystemClock())) as backend, ThreadPoolExecutor(1) as threads:
        other = start(PREAMBLE + PUT_WHEN_TOLD, url)
        assert json.loads(other.stdout.readline()) == ["open"]

        def wait():
            leases = backend.lease(["mail"], limit=1, seconds=60, wait=WAIT_SECONDS)
            return len(leases), time.monotonic()

        waiting = threads.submit(wait)
        print(file=other.stdin, flush=True)
        (put_at,) = json.loads(other.stdout.readline())
        count, woken_at = waiting.result(WAIT_SECONDS)
    assert count == 1
    assert woken_at - put_at < WAIT_SECONDS / 2


PUT_WHEN_TOLD = """
backend = open_backend(url, SystemClock())
say("open")
sys.stdin.readline()
backend.put([message(1)])
say(time.monotonic())
"""


@pytest.mark.parametrize("hold", ["in a transaction", "at the gate"])
def test_a_stopped_process_does_not_keep_others_from_writing(url, start, finish, eventually, caplog, hold):
    with closing(open_backend(url, SystemClock())) as backend:
        holder = start(PREAMBLE + STOP_WHILE_HOLDING, url, hold)
        assert json.loads(holder.stdout.readline()) == ["holds"]
        eventually(lambda: _is_stopped(holder.pid))
        backend.put([Message(id="job-2", queue="mail", body=b"{}", handler="greet")])  # or it gives up after 30 s
    finish(holder)
    assert f"process {holder.pid} was stopped while it wrote" in caplog.text
    assert ready(url) == (2 if hold == "in a transaction" else 1)


def _is_stopped(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("T")


STOP_WHILE_HOLDING = """
import fcntl, signal
from pathlib import Path
from tenure.backends.sql.sqlite.database import WriteLock
if sys.argv[2] == "at the gate":
    lock = WriteLock(Path(url.removeprefix("sqlite:///")), 30)
    fcntl.flock(lock._gate, fcntl.LOCK_EX)
    say("holds")
    os.kill(os.getpid(), signal.SIGSTOP)
else:
    backend = open_backend(url, SystemClock())
    database = backend._dialect._database
    with database.transaction():
        say("holds")
        os.kill(os.getpid(), signal.SIGSTOP)
    backend.put([message(1)])
    backend.close()
"""


def test_a_fork_after_use_gets_a_connection_of_its_own_and_loses_nothing(url, start, finish):
    """SQLite keeps its locks in memory, so a child that shared them could write to a log that is deleted already."""
    (output,) = finish(start(PREAMBLE + FORK, url))
    assert [json.loads(line) for line in output.splitlines()] == [["child", 1], ["child", 1], ["child", 1]]
    assert ready(url) == 4


FORK = """
backend = open_backend(url, SystemClock())
backend.put([message(1)])
to_child, from_parent = os.pipe()
to_parent, from_child = os.pipe()
if os.fork() == 0:
    for number in (2, 3, 4):
        os.read(to_child, 1)
        say("child", len(backend.put([message(number)])))
        os.write(from_child, b"x")
    backend.close()
    os._exit(0)
os.write(from_parent, b"x"); os.read(to_parent, 1)
backend.close()
os.write(from_parent, b"x"); os.read(to_parent, 1)
other = open_backend(url, SystemClock())
assert other.queues.counts()["mail"]["ready"] == 3, other.queues.counts()
os.write(from_parent, b"x")
assert os.wait()[1] == 0
other.close()
"""


def test_a_fork_while_another_thread_writes_does_not_stop_the_child(url, start, finish):
    finish(start(PREAMBLE + FORK_WHILE_WRITING, url))


FORK_WHILE_WRITING = """
import threading
backend = open_backend(url + "?synchronous=normal", SystemClock())
stop = threading.Event()
def write():
    number = 0
    while not stop.is_set():
        number += 1
        backend.put([message(number * 100 + each) for each in range(100)])
writer = threading.Thread(target=write)
writer.start()
children = []
for number in range(20):
    pid = os.fork()
    if pid == 0:
        backend.put([message(10_000_000 + number)])
        os._exit(0)
    children.append(pid)
assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 20
stop.set()
writer.join()
assert all(backend.jobs.find(message(10_000_000 + number).id) for number in range(20))
backend.close()
"""


def test_the_file_is_sound_after_processes_were_killed_while_writing(url, tmp_path, start, eventually):
    open_backend(url, SystemClock()).close()
    for round_ in range(3):
        writer = start(PREAMBLE + PUT_FOR_EVER, url, round_)
        for _ in range(5):
            writer.stdout.readline()
        writer.kill()
        writer.wait()
    stored = ready(url)
    assert stored >= 3 * 5 * 10
    assert stored % 10 == 0
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


PUT_FOR_EVER = """
backend = open_backend(url, SystemClock())
number = int(sys.argv[2]) * 1_000_000
while True:
    backend.put([message(number + each) for each in range(10)])
    number += 10
    say(number)
"""
