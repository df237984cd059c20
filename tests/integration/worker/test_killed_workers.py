"""Jobs of killed workers come back by themselves, and every job ends exactly once."""

from contextlib import closing

import pytest

from tenure import Tenure
from tenure.backends.url import open_backend
from tenure.clock import SystemClock

pytestmark = pytest.mark.timeout(180, method="thread")

APP = """
import os, sys, threading
from tenure import Tenure
folder = sys.argv[1]
app = Tenure(f"sqlite:///{folder}/jobs.db", lease=3.0)
def note(name, line):
    descriptor = os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, f"{line}\\n".encode())
    os.close(descriptor)
@app.job
def stall(number: int):
    note("stalled", number)
    threading.Event().wait()
@app.job
def step(number: int):
    note("steps", number)
    # Not at once, or the worker leases hundreds ahead, which then run one at a time. It never gets to the end.
    threading.Event().wait(0.002 if number < 1000 else None)
app.worker().run()
"""


@pytest.fixture
def app(tmp_path):
    with Tenure(f"sqlite:///{tmp_path}/jobs.db", lease=3.0) as app:

        @app.job
        def stall(number: int):
            return f"second run of {number}"

        @app.job
        def step(number: int):
            with (tmp_path / "steps").open("a") as file:
                file.write(f"{number}\n")

        yield app


def lines(path):
    return path.read_text().split() if path.exists() else []


def test_the_job_of_a_killed_worker_is_leased_again_and_ends_done(app, tmp_path, start, eventually, run_within):
    id = app.define("stall", {"number": 7}).dispatch()
    worker = start(APP, tmp_path)
    eventually(lambda: lines(tmp_path / "stalled") == ["7"])
    worker.kill()
    worker.wait()
    assert app.backend.jobs.find(id).state == "leased"
    assert run_within(app.worker(max=1)) == {"acked": 1}
    record = app.backend.jobs.find(id)
    assert (record.state, record.output, record.fence) == ("done", "second run of 7", 2)
    assert (record.attempts, record.crashes) == (0, 0)


@pytest.mark.timing
def test_a_worker_that_is_alive_keeps_its_job_past_many_leases(app, tmp_path, start, eventually):
    id = app.define("stall", {"number": 7}).dispatch()
    start(APP, tmp_path)
    eventually(lambda: lines(tmp_path / "stalled") == ["7"])
    with closing(open_backend(f"sqlite:///{tmp_path}/jobs.db", SystemClock())) as other:
        first = other.jobs.find(id).lease_until
        eventually(lambda: other.jobs.find(id).lease_until > first + 6_000_000)
        assert other.reap(["default"]) == []
        assert other.jobs.find(id).fence == 1


def test_a_worker_killed_in_a_burst_loses_no_job_and_none_ends_twice(app, tmp_path, start, eventually, run_within):
    step = app.registry.get("step")
    jobs = [app.define(step.key, {"number": number}).build() for number in range(2000)]
    ids = app.enqueue_many(jobs)
    worker = start(APP, tmp_path)
    eventually(lambda: len(lines(tmp_path / "steps")) >= 300)
    worker.kill()
    worker.wait()
    left = 2000 - app.backend.queues.counts()["default"]["done"]
    assert left > 0
    tally = run_within(app.worker(max=left), seconds=60)
    assert tally["acked"] == left  # a busy machine may hand jobs back in between
    counts = app.backend.queues.counts()["default"]
    assert {state: count for state, count in counts.items() if count} == {"done": 2000}
    assert {app.backend.jobs.find(id).state for id in ids} == {"done"}
    assert set(map(int, lines(tmp_path / "steps"))) == set(range(2000))
