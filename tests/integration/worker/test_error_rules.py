"""Errors that decide: retry_on and give_up_on, wherever a handler may run."""

import asyncio
import logging

import pytest

from tenure import Cancel, Fail, Retry, Snooze, Tenure
from tenure.errors import CircuitOpen, JobFailed
from tenure.testing import FakeClock, run_due

# Counts are read one by one: a busy machine may hand a job back before it starts, which counts as postponed.
pytestmark = pytest.mark.timeout(60, method="thread")  # the runner needs the alarm that the other method uses
ERRORS = {
    "lost": ConnectionError("no route"),
    "wrong": ValueError("no such user"),
    "again": Retry("not yet", delay=30),
    "later": Snooze("1m"),
    "never": Cancel("withdrawn"),
    "open": CircuitOpen("open"),
    "failed": Fail("stolen"),
    "exit": SystemExit(3),
}


@pytest.fixture
def send(app):
    @app.job(max_retries=3, retry_on=ConnectionError)
    def send(error: str):
        raise ERRORS[error]

    return send


def test_an_error_to_retry_is_retried_until_no_retry_is_left(app, clock, send):
    id = send.using(backoff="none").enqueue("lost")
    tally = run_due(app)
    assert (tally["requeued"], tally["dead-lettered"]) == (3, 1)
    record = app.backend.jobs.find(id)
    assert (record.reason, record.attempts) == ("retries_exhausted", 4)


@pytest.mark.parametrize("error", ["wrong", "exit"])
def test_another_error_is_a_dead_letter_at_once(app, send, error):
    id = send.enqueue(error)
    assert run_due(app)["dead-lettered"] == 1
    record = app.backend.jobs.find(id)
    assert (record.state, record.reason, record.attempts) == ("dead", "gave_up", 1)
    assert [failure.type for failure in record.failures] == [type(ERRORS[error]).__name__]
    assert app.metrics.snapshot()["counters"]["jobs_failed|queue=default"] == 1


@pytest.mark.parametrize(
    ("error", "state", "attempts"),
    [
        ("again", "delayed", 1),
        ("later", "delayed", 0),
        ("never", "cancelled", 0),
        ("open", "delayed", 1),
        ("failed", "dead", 1),
    ],
)
def test_an_exception_that_says_what_happens_is_no_matter_of_the_rules(app, send, error, state, attempts):
    id = send.enqueue(error)
    run_due(app)
    record = app.backend.jobs.find(id)
    assert (record.state, record.attempts) == (state, attempts)


def test_a_timeout_is_no_matter_of_the_rules(app):
    @app.job(max_retries=3, retry_on=ConnectionError, give_up_on=Exception, timeout=0.05)
    async def hang():
        await asyncio.sleep(60)

    hang.enqueue()
    assert run_due(app)["requeued"] == 1


def test_a_job_that_died_so_can_be_replayed(app, send):
    id = send.enqueue("wrong")
    run_due(app)
    app.backend.dead_letters.replay([id])
    assert run_due(app)["dead-lettered"] == 1
    assert app.backend.jobs.find(id).attempts == 1


def test_a_failing_rule_leaves_an_ordinary_failure(app, caplog):
    @app.job(max_retries=1, give_up_on=lambda error: error.status == 404)
    def call():
        raise ConnectionError("no route")

    call.enqueue()
    with caplog.at_level(logging.ERROR):
        assert run_due(app)["requeued"] == 1
    assert "retry_on or give_up_on of handler 'call' failed over a ConnectionError" in caplog.text


def test_errors_of_a_hook_and_of_a_middleware_count_too(app):
    def refuse(ctx, proceed):
        raise PermissionError("no")

    class Hooked:
        max_retries = 3
        give_up_on = PermissionError

        def before_run(self, ctx):
            raise PermissionError("no")

        def handle(self): ...

    app.register("hooked", Hooked)
    app.job(name="wrapped", max_retries=3, give_up_on=PermissionError, middleware=[refuse])(lambda: None)
    for key in ("hooked", "wrapped"):
        app.define(key).dispatch()
    assert run_due(app)["dead-lettered"] == 2


def test_the_errors_of_tasks_decide_together(app):
    async def fail(error):
        raise ERRORS[error]

    @app.job(max_retries=1, give_up_on=ValueError)
    async def gather(errors: list[str]):
        async with asyncio.TaskGroup() as tasks:
            for error in errors:
                tasks.create_task(fail(error))

    gather.enqueue(["lost", "wrong"])
    gather.enqueue(["lost", "lost"])
    tally = run_due(app)
    assert (tally["dead-lettered"], tally["requeued"]) == (1, 1)


def test_on_the_sync_backend_the_caller_gets_the_first_error_that_is_not_retried():
    ran = []
    with Tenure("sync://") as app:

        @app.job(max_retries=3, retry_on=ConnectionError)
        def send():
            ran.append(1)
            raise ConnectionError("no route") if len(ran) < 3 else ValueError("no such user")

        with pytest.raises(JobFailed, match="reason 'gave_up': ValueError: no such user"):
            send.enqueue()
    assert len(ran) == 3


def test_an_inline_run_of_a_schedule_gives_up(app):
    @app.job(max_retries=3, retry_on=ConnectionError)
    def send():
        raise ValueError("no such user")

    app.schedule(send.build()).every_minute().inline()
    (ran,) = app.cron.run()
    assert app.parts().find(ran.record.id).reason == "gave_up"


class TestManager:
    @pytest.fixture
    def app(self):
        with Tenure("memory://", clock=FakeClock(), backoff={"strategy": "fixed", "base": 60}) as app:
            yield app

    @pytest.fixture
    def claim(self, app, send):
        manager = app.manager()
        worker = manager.register_worker()

        def push(error):
            manager.push("send", {"error": error})
            return manager, manager.next_job([], worker)

        return push

    @pytest.mark.parametrize(
        ("error", "seconds", "state", "reason"),
        [
            ("lost", 60, "delayed", None),
            ("again", 30, "delayed", None),
            ("later", 60, "delayed", None),
            ("wrong", None, "dead", "gave_up"),
            ("failed", None, "dead", "gave_up"),
            ("never", None, "cancelled", "withdrawn"),
        ],
    )
    def test_the_error_decides_what_a_retry_does(self, app, claim, error, seconds, state, reason):
        manager, job = claim(error)
        at = manager.retry(job, ERRORS[error])
        assert (at and at.timestamp() - app.clock.now() / 1e6) == seconds
        record = app.backend.jobs.find(job.id)
        assert (record.state, record.reason) == (state, reason)

    @pytest.mark.parametrize(
        ("error", "reason"),
        [
            ("lost", "retries_exhausted"),
            ("wrong", "gave_up"),
            ("failed", "gave_up"),
            ("later", "retries_exhausted"),
            ("never", "retries_exhausted"),
            ("again", "retries_exhausted"),
        ],
    )
    def test_a_failed_job_is_dead_whatever_its_error_asks_for(self, app, claim, error, reason):
        manager, job = claim(error)
        assert manager.mark_failed(job, ERRORS[error])
        record = app.backend.jobs.find(job.id)
        assert (record.state, record.reason) == ("dead", reason)
        assert record.failures[0].type == type(ERRORS[error]).__name__

    def test_a_policy_gets_the_error(self, app):
        class ByError:
            def delay(self, retry, error):
                return error.args[0]

        app.job(name="call", retry=ByError())(lambda: None)
        manager = app.manager()
        manager.push("call")
        job = manager.next_job([], manager.register_worker())
        at = manager.retry(job, ValueError(77))
        assert at.timestamp() - app.clock.now() / 1e6 == 77
