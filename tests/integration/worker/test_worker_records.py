"""What other processes read about a real worker: its memory, and the jobs that run in it, with their start."""

import sys
import threading
from importlib import import_module
from secrets import token_hex

import pytest

from tests.support.waiting import STOP_SECONDS, eventually

APP = """
import time
from pathlib import Path
from tenure import Tenure

here = Path(__file__).parent
app = Tenure(f"sqlite:///{here}/jobs.db?synchronous=normal", max_memory=512)


@app.job(queue="films")
def hold(number: int) -> None:
    (here / f"started-{number}").touch()
    while not (here / "released").exists():
        time.sleep(0.005)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    name = f"app_{token_hex(4)}"
    (tmp_path / f"{name}.py").write_text(APP)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{':'.join(sys.path)}")  # for the child processes
    monkeypatch.setattr("tenure.worker.heartbeat.HEARTBEAT_INTERVAL", 0.05)
    yield import_module(name)
    (tmp_path / "released").touch()
    del sys.modules[name]


@pytest.fixture
def start(module):
    """Starts a worker in a thread, which is stopped at the end of the test."""
    started = []

    def start_worker(**options):
        worker = module.app.worker("films", location=f"{module.__name__}:app", **options)
        thread = threading.Thread(target=worker.run)
        thread.start()
        started.append((worker, thread))
        return worker

    with module.app:
        yield start_worker
        (module.here / "released").touch()
        for worker, thread in started:
            worker.stop()
            thread.join(STOP_SECONDS)


def record(app, condition):
    """The record of the only worker, as soon as this is true of it."""
    return eventually(lambda: next((each for each in app.backend.workers.alive() if condition(each)), None))


@pytest.mark.parametrize(
    ("runner", "children"),
    [("process", 2), ("threads", 1), ("event_loop", 1)],
    ids=["process", "threads", "event_loop"],
)
def test_a_worker_tells_its_running_jobs_and_the_memory_of_its_children(module, start, runner, children):
    before = module.app.clock.now()
    first = module.app.define("hold", {"number": 1}).queue("films").named("trailer").dispatch()
    worker = start(runner=runner, concurrency=2)
    eventually((module.here / "started-1").exists)
    second = module.app.define("hold", {"number": 2}).queue("films").dispatch()
    found = record(module.app, lambda each: len(each.running) == 2)
    assert [(job.id, job.handler, job.name, job.queue) for job in found.running] == [
        (first, "hold", "trailer", "films"),
        (second, "hold", None, "films"),
    ]
    assert before < found.running[0].started_at < found.running[1].started_at <= found.seen_at
    assert (found.id, [lane.held for lane in found.lanes]) == (worker.name, [2])
    assert len(worker.child_pids()) == children
    assert 1 << 20 < found.peak_child < found.memory
    assert found.max_memory == 512 << 20
    (module.here / "released").touch()
    ended = record(module.app, lambda each: not (each.running or each.lanes[0].held))
    assert ended.counts["acked"] == 2  # a busy machine may hand a job back before it starts


def test_the_start_of_a_running_job_does_not_move(module, start):
    module.app.define("hold", {"number": 1}).queue("films").dispatch()
    start(runner="process", concurrency=1)
    first = record(module.app, lambda each: each.running)
    later = record(module.app, lambda each: each.seen_at > first.seen_at + 2_000_000)
    assert abs(later.running[0].started_at - first.running[0].started_at) < 1_000_000


def test_an_inline_worker_tells_the_job_and_the_memory_of_its_own_process(module, start):
    id = module.app.define("hold", {"number": 1}).queue("films").dispatch()
    start()
    found = record(module.app, lambda each: each.running)
    assert [job.id for job in found.running] == [id]
    assert 0 <= found.seen_at - found.running[0].started_at < 60_000_000
    assert found.memory == found.peak_child > 1 << 20


def test_a_busy_worker_that_drains_tells_so(module, start):
    module.app.define("hold", {"number": 1}).queue("films").dispatch()
    worker = start(runner="process", concurrency=1)
    record(module.app, lambda each: each.running)
    module.app.guards.drain_worker(worker.name, "disk")
    found = record(module.app, lambda each: each.draining_since)
    assert (found.draining_reason, len(found.running)) == ("disk", 1)
