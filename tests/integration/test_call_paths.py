"""How many source files a reader opens to follow one action; a change that raises a number says why in its commit."""

import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

import tenure
from tenure import Tenure
from tenure.events import Listeners, Settled
from tenure.testing import FakeClock
from tests.support.waiting import WAIT_SECONDS

SOURCE = str(Path(tenure.__file__).parent)
OBSERVERS = ("clock.py", "events.py", "testing/clock.py")  # they measure and report a job; they do not carry it
RUNS = 5


class Recorder:
    """Notes the files of Tenure whose functions run, in every thread; what listeners do is left out."""

    def __init__(self) -> None:
        self.is_recording = False
        self.files: set[str] = set()
        self._inside = threading.local()

    def __call__(self, frame, event, argument) -> None:
        if frame.f_code is Listeners.emit.__code__ and event in ("call", "return"):
            self._inside.depth = getattr(self._inside, "depth", 0) + (1 if event == "call" else -1)
        elif event == "call" and self.is_recording and not getattr(self._inside, "depth", 0):
            file = frame.f_code.co_filename
            if file.startswith(SOURCE):
                self.files.add(file[len(SOURCE) + 1 :])

    def files_of(self, act: Callable[[], object]) -> set[str]:
        """The files on the path of one action; those that run only in some of several runs are companions."""
        found = []
        for _ in range(RUNS):
            self.files = set()
            self.is_recording = True
            try:
                act()
            finally:
                self.is_recording = False
            found.append(self.files)
        return set.intersection(*found) - set(OBSERVERS)


@pytest.fixture
def recorder():
    recorder = Recorder()
    before, before_in_threads = sys.getprofile(), threading.getprofile()
    sys.setprofile(recorder)
    threading.setprofile(recorder)
    yield recorder
    sys.setprofile(before)
    threading.setprofile(before_in_threads)


@pytest.fixture
def clock():
    """At the beginning of a minute, so that ticks are due when the test says so."""
    return FakeClock(datetime(2030, 1, 1, tzinfo=UTC))


@pytest.fixture
def app(tmp_path, clock, caplog):
    """Done jobs are not logged, whatever the level is that an earlier test has left: that is not on their path."""
    caplog.set_level("WARNING", logger="tenure.worker.logs")
    with Tenure(f"sqlite:///{tmp_path / 'jobs.db'}", metrics="none", clock=clock) as app:
        yield app


def test_enqueue_to_the_stored_row(app, recorder):
    @app.job
    def greet(name: str) -> None: ...

    greet.enqueue("first")
    assert len(found := recorder.files_of(lambda: greet.enqueue("Ada"))) <= 15, "\n".join(sorted(found))


def test_lease_to_settle_on_the_inline_runner(app, recorder):
    settled = threading.Event()
    app.listen(lambda event: settled.set() if isinstance(event, Settled) else None)

    @app.job
    def greet(name: str) -> None: ...

    worker = app.worker()
    thread = threading.Thread(target=worker.run)
    thread.start()

    def run_one() -> None:
        settled.clear()
        recorder.is_recording = False
        greet.enqueue("Ada")
        recorder.is_recording = True
        assert settled.wait(WAIT_SECONDS)

    try:
        run_one()
        found = recorder.files_of(run_one)
    finally:
        worker.stop()
        thread.join()
    assert len(found) <= 21, "\n".join(sorted(found))


def test_a_tick_of_a_schedule(app, clock, recorder):
    @app.job
    def greet(name: str) -> None: ...

    app.schedule(greet.build("Ada")).every_minute()
    scheduler = app.cron.scheduler(None)
    scheduler.beat()

    def tick() -> None:
        recorder.is_recording = False
        clock.advance(59)
        scheduler.beat()  # follows up earlier ticks, which is not on the path of the next one
        recorder.is_recording = True
        clock.advance(1)
        scheduler.beat()

    assert len(found := recorder.files_of(tick)) <= 20, "\n".join(sorted(found))
    assert app.backend.queues.counts()["default"]["ready"] == RUNS


def test_a_replay_of_dead_letters(app, recorder):
    @app.job
    def fail() -> None:
        raise ValueError

    def replay() -> None:
        recorder.is_recording = False
        fail.enqueue()
        app.worker(burst=True).run()
        recorder.is_recording = True
        assert app.dead_letters().replay(letter.id for letter in app.dead_letters().find())

    assert len(found := recorder.files_of(replay)) <= 12, "\n".join(sorted(found))
