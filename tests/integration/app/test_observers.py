"""Code around whole attempts: it sees how they end, and cannot change it."""

from contextlib import contextmanager

import pytest

from tenure import Tenure


class Watcher:
    """Notes what it is told; it fails at the moment that it is given."""

    def __init__(self, fails_at=None):
        self.fails_at = fails_at
        self.seen = []

    @contextmanager
    def observe(self, run):
        self._fail("start")
        yield lambda outcome, error: self._end(outcome, error)
        self._fail("exit")

    def _end(self, outcome, error):
        self._fail("end")
        self.seen.append((outcome.kind, error and str(error)))

    def _fail(self, moment):
        if self.fails_at == moment:
            raise RuntimeError(f"the observer failed at its {moment}")


@pytest.fixture
def app():
    with Tenure("memory://") as app:
        app.job(name="greet")(lambda: None)

        @app.job(name="fail")
        async def fail():
            raise ValueError("no coffee")

        yield app


def work(app, *handlers):
    for handler in handlers:
        app.define(handler).dispatch()
    app.worker(burst=True).run()


def test_an_observer_is_told_the_outcome_and_the_error_of_each_attempt(app):
    watcher = Watcher()
    app.registry.observe(watcher)
    work(app, "greet", "fail")
    assert watcher.seen == [("succeeded", None), ("failed", "no coffee")]


@pytest.mark.parametrize("moment", ["start", "end", "exit"])
def test_an_observer_that_fails_is_logged_and_changes_no_outcome(app, caplog, moment):
    after = Watcher()
    app.registry.observe(Watcher(moment))
    app.registry.observe(after)
    work(app, "greet")
    assert app.backend.queues.counts()["default"]["done"] == 1
    assert f"the observer failed at its {moment}" in caplog.text
    assert after.seen == [("succeeded", None)]
