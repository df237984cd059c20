"""The sync backend runs a job at once, by the same path as a worker, and raises its failure to the caller."""

import pytest

from tenure import Cancel, Context, Retry, Snooze, Tenure
from tenure.backends.records import AuditRecord
from tenure.errors import JobFailed


@pytest.fixture
def app(clock):
    with Tenure("sync://", clock=clock) as app:
        yield app


def test_a_job_has_run_when_enqueue_returns(app):
    ran = []

    @app.job
    def greet(context: Context, name: str):
        ran.append((context.id, context.attempt, name))

    id = greet.enqueue(name="Ada")
    assert ran == [(id, 1, "Ada")]


def test_a_delay_is_not_waited_for(app):
    ran = []

    @app.job
    def greet(name: str):
        ran.append(name)

    greet.using(delay="1h").enqueue(name="Ada")
    assert ran == ["Ada"]


def test_a_failure_is_raised_in_the_caller_with_its_cause(app):
    @app.job
    def break_down():
        raise ValueError("no such customer")

    with pytest.raises(JobFailed, match=r"break_down.*retries_exhausted.*ValueError: no such customer"):
        break_down.enqueue()


def test_retries_follow_at_once_and_are_counted(app):
    attempts = []

    @app.job(max_retries=2)
    def stumble(context: Context):
        attempts.append((context.attempt, context.fence))
        if context.attempt == 2:
            raise Retry(delay=3600)
        if context.attempt < 3:
            raise ValueError("not yet")

    stumble.enqueue()
    assert attempts == [(1, 1), (2, 2), (3, 3)]


def test_retries_end_when_they_are_spent(app):
    attempts = []

    @app.job(max_retries=2)
    def break_down():
        attempts.append(1)
        raise ValueError("never")

    with pytest.raises(JobFailed):
        break_down.enqueue()
    assert len(attempts) == 3


def test_postponing_costs_nothing_and_cancelling_is_no_failure(app):
    seen = []

    @app.job
    def wait(context: Context):
        seen.append(context.attempt)
        raise Snooze(60) if len(seen) < 3 else Cancel("not needed any more")

    wait.enqueue()
    assert seen == [1, 1, 1]


@pytest.mark.parametrize("change", [b"", b"no envelope", b'{"v":1,"kid":"k1","job":"greet"}'])
def test_forged_bytes_never_run(app, message, change):
    ran = []

    @app.job
    def greet():
        ran.append(1)

    with pytest.raises(JobFailed, match=r"malformed|bad_signature"):
        app.backend.put([message(1, body=change)])
    assert ran == []


def test_a_message_sealed_by_somebody_else_never_runs(app, message, clock):
    ran = []

    @app.job
    def greet():
        ran.append(1)

    with Tenure("memory://", clock=clock) as other:
        id = other.job(greet.__wrapped__).enqueue()
        sealed = other.backend.jobs.find(id).body
    with pytest.raises(JobFailed, match="unknown_key"):
        app.backend.put([message(1, queue="default", body=sealed)])
    assert ran == []


def test_what_users_did_is_kept_in_the_store_if_there_is_one(app, clock):
    assert app.parts().audit is None
    with Tenure("sync://", store="memory://", clock=clock) as other:
        other.parts().audit.save(AuditRecord(id="a", at=1, actor="ada", action="queue.pause", target="mail"))
        assert other.parts().audit.find("a").actor == "ada"


def test_nothing_is_stored_and_nothing_waits(app):
    @app.job
    def greet():
        pass

    greet.enqueue()
    assert app.backend.lease(["default"], limit=1, seconds=60) == []
    assert app.worker(burst=True).run() == {}
