"""`on_dead` names a job of the app that is enqueued for every dead letter."""

import logging
from collections import Counter

import pytest

from tenure import Context, Tenure
from tenure.backends.messages import Message
from tenure.errors import BackendUnavailable, SettingsError
from tenure.testing import run_due

pytestmark = pytest.mark.timeout(60, method="thread")  # the runner needs the alarm that the other method uses


@pytest.fixture
def app(url, clock):
    with Tenure(url, clock=clock, on_dead="mourn", unknown_timeout=60) as app:
        yield app


@pytest.fixture
def mourned(app):
    """What `mourn` was told, in order."""
    told = []

    @app.job(queue="wakes")
    def mourn(ctx: Context):
        told.append(ctx.meta["parent"])

    return told


@pytest.fixture
def fail(app):
    @app.job
    def fail(word: str = "no luck"):
        raise ValueError(word)

    return fail


def test_a_death_is_told_with_its_cause(app, mourned, fail):
    id = fail.enqueue()
    assert run_due(app) == {"dead-lettered": 1, "acked": 1}
    assert mourned == [
        {
            "id": id, "state": "dead", "queue": "default", "job": "fail", "reason": "retries_exhausted",
            "error": "ValueError: no luck", "attempts": 1, "crashes": 0,
        }
    ]  # fmt: skip


def test_a_retry_and_an_end_of_another_kind_are_not_told(app, mourned, fail):
    fail.using(max_retries=1).enqueue()
    app.cancel(fail.enqueue())
    app.job(name="nothing")(lambda: None).enqueue()
    assert run_due(app) == {"requeued": 1, "acked": 1}
    assert mourned == []


def test_a_message_that_cannot_be_opened_is_told_of_by_what_it_says_of_itself(app, mourned, fail):
    forged = [b'{"job": "fail", "x": 1}', b"nothing like JSON", b'{"job": "mourn"}']
    messages = [Message(id=f"forged-{n}", queue="default", body=body, handler="?") for n, body in enumerate(forged)]
    app.backend.put(messages)
    run_due(app)
    found = sorted((each["id"], each["job"], each["reason"]) for each in mourned)
    assert [(id, job) for id, job, _ in found] == [("forged-0", "fail"), ("forged-1", None), ("forged-2", "mourn")]
    assert len(app.backend.dead_letters.page()) == 3


def test_messages_that_claim_to_tell_of_deaths_are_told_of_only_now_and_then(app, mourned):
    body = b'{"job": "mourn"}'
    app.backend.put([Message(id=f"forged-{n}", queue="default", body=body, handler="?") for n in range(50)])
    run_due(app)
    assert len(mourned) == 10


def test_the_death_of_a_job_that_tells_of_deaths_is_told_to_nobody(app, fail):
    ran = []

    @app.job
    def mourn(ctx: Context):
        ran.append(ctx.meta["parent"]["job"])
        raise ValueError("too sad")

    fail.enqueue()
    assert run_due(app) == {"dead-lettered": 2}
    assert ran == ["fail"]


def test_a_job_is_told_of_once_though_it_dies_again(app, mourned, fail):
    id = fail.enqueue()
    run_due(app)
    app.backend.dead_letters.replay([id])
    assert run_due(app) == {"dead-lettered": 1}
    assert len(mourned) == 1


def test_a_handler_that_nobody_registered_is_refused_before_anything_runs(app, fail):
    fail.enqueue()
    with pytest.raises(SettingsError, match="on_dead names a job that cannot be enqueued: no handler is registered"):
        app.worker()


def test_a_job_dies_even_if_nobody_can_be_told(url, clock, caplog):
    with Tenure(url, clock=clock, on_dead="mourn" * 20, max_bytes=1024) as app:
        app.job(name="mourn" * 20, queue="w" * 100)(lambda: None)

        @app.job(name="fail" * 50)
        def fail():
            raise ValueError("so sad " * 50)

        id = fail.enqueue()
        with caplog.at_level(logging.CRITICAL):
            assert run_due(app, "default") == {"dead-lettered": 1}
        assert app.backend.jobs.find(id).state == "dead"
    assert "no on_dead job is enqueued" in caplog.text


def test_what_cannot_be_moved_to_the_dead_letters_is_counted_told_and_tried_again(app, mourned, fail, caplog):
    abandon, refused = app.backend.abandon, []

    def refuse_once(verdicts):
        if not refused:
            refused.append(verdicts)
            raise BackendUnavailable("gone for a moment")
        return abandon(verdicts)

    app.backend.abandon = refuse_once
    id = fail.enqueue()
    assert run_due(app) == Counter({"dead-lettered": 1, "acked": 1})
    assert app.metrics.snapshot()["counters"]["jobs_dlq_failed|queue=default"] == 1
    assert [record.levelname for record in caplog.records if "could not be moved" in record.message] == ["CRITICAL"]
    assert (app.backend.jobs.find(id).state, len(mourned)) == ("dead", 1)
