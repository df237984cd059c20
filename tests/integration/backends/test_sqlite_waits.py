"""How a worker waits for work in SQLite: it keeps its watch on the log, and sees the writes of other processes."""

import sys
import threading
import time
from contextlib import closing

import pytest

from tenure.backends.sql.sqlite import log_watch
from tenure.backends.sql.sqlite.log_watch import LogWatch, LogWatches
from tenure.backends.url import open_backend
from tenure.clock import SystemClock
from tenure.testing.conformance.messages import QUEUE, make, numbers
from tests.support.waiting import WAIT_SECONDS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify")


@pytest.fixture
def opened(monkeypatch):
    """The watches that were opened; a closed one is replaced by None."""
    watches = []

    class CountedWatch(LogWatch):
        def __init__(self, log):
            super().__init__(log)
            watches.append(self)

        def close(self):
            super().close()
            watches[watches.index(self)] = None

    monkeypatch.setattr(log_watch, "LogWatch", CountedWatch)
    return watches


def test_a_worker_opens_one_watch_for_all_its_waits(tmp_path, opened):
    with closing(open_backend(f"sqlite:///{tmp_path}/jobs.db", SystemClock())) as backend:
        for _ in range(5):
            assert backend.lease([QUEUE], limit=1, seconds=60, wait=0.005) == []
        assert len(opened) == 1
        assert opened[0] is not None
    assert opened == [None]


def test_two_threads_that_wait_have_a_watch_each(tmp_path, opened):
    watches = LogWatches(tmp_path)
    with watches.watch(), watches.watch():
        assert len(opened) == 2
    with watches.watch(), watches.watch():
        assert len(opened) == 2
    watches.close()


def test_a_job_of_another_process_ends_a_wait(tmp_path, monkeypatch):
    monkeypatch.setattr(log_watch, "_IDLE_POLL_SECONDS", WAIT_SECONDS)
    url = f"sqlite:///{tmp_path}/jobs.db"
    with closing(open_backend(url, SystemClock())) as worker, closing(open_backend(url, SystemClock())) as producer:
        for number in range(3):
            thread = threading.Timer(0.05, producer.put, [[make(number)]])  # so that it waits; weaker, without
            thread.start()
            assert numbers(worker.lease([QUEUE], limit=1, seconds=60, wait=WAIT_SECONDS)) == [number]
            thread.join()


def test_a_watch_on_a_deleted_log_is_replaced(tmp_path, opened, monkeypatch):
    monkeypatch.setattr(log_watch, "_IDLE_POLL_SECONDS", WAIT_SECONDS)
    log = tmp_path / "log"
    log.touch()
    watches = LogWatches(log)
    with watches.watch():
        log.unlink()
    log.touch()
    with watches.watch() as wait:
        log.write_text("x")
        began = time.monotonic()
        wait(WAIT_SECONDS)
        assert time.monotonic() - began < WAIT_SECONDS / 2
    assert opened[0] is None
    assert len(opened) == 2
    watches.close()


def test_a_write_before_the_wait_shortens_its_first_polls(tmp_path, monkeypatch):
    """Its commit may become visible after the worker has looked."""
    monkeypatch.setattr(log_watch, "_IDLE_POLL_SECONDS", WAIT_SECONDS)
    log = tmp_path / "log"
    log.touch()
    watches = LogWatches(log)
    with watches.watch():
        log.write_text("x")
    with watches.watch() as wait:
        began = time.monotonic()
        wait(WAIT_SECONDS)
        assert time.monotonic() - began < WAIT_SECONDS / 2
    watches.close()


@pytest.mark.parametrize("earlier", ["the watch", "the end of the last wait"])
def test_a_write_of_which_no_report_is_left_shortens_the_first_polls_too(tmp_path, monkeypatch, earlier):
    monkeypatch.setattr(log_watch, "_IDLE_POLL_SECONDS", WAIT_SECONDS)
    log = tmp_path / "log"
    log.write_text("x")
    watches = LogWatches(log)
    if earlier == "the end of the last wait":
        with watches.watch() as wait:
            log.write_text("y")
            wait(WAIT_SECONDS)
    with watches.watch() as wait:
        began = time.monotonic()
        wait(WAIT_SECONDS)
        assert time.monotonic() - began < WAIT_SECONDS / 2
    watches.close()


def test_polls_after_a_write_become_rare(tmp_path):
    log = tmp_path / "log"
    log.touch()
    watches = LogWatches(log)
    polls = 0
    with watches.watch() as wait:
        log.write_text("x")
        give_up = time.monotonic() + 0.5
        while time.monotonic() < give_up:
            wait(WAIT_SECONDS)
            polls += 1
    assert polls <= 25
    watches.close()


def test_a_forked_child_waits_with_a_watch_of_its_own(tmp_path, opened):
    watches = LogWatches(tmp_path)
    with watches.watch():
        pass
    watches._pid = 0  # as in a child process
    with watches.watch():
        assert len(opened) == 2
        assert opened[0] is None
    watches.close()


def test_without_watches_a_worker_polls(tmp_path):
    with LogWatches(tmp_path / "missing").watch() as wait:
        began = time.monotonic()
        wait(0.001)
        assert time.monotonic() - began < WAIT_SECONDS
