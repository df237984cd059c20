"""The helpers that users import into their own tests."""

import subprocess
import sys
from datetime import UTC, datetime

import pytest

from tenure import Tenure
from tenure.errors import TenureError
from tenure.testing import FakeClock, assert_enqueued, enqueued, run_due


@pytest.fixture
def app(clock):
    with Tenure("memory://", clock=clock) as app:
        yield app


@pytest.fixture
def send(app):
    @app.job(queue="emails", max_retries=1)
    def send_welcome(user_id: int, at: datetime | None = None):
        return f"welcome {user_id}"

    return send_welcome


def test_enqueued_shows_what_waits_with_its_decoded_payload(app, send, clock):
    send.using(priority=8, name="vip", delay=60).enqueue(user_id=42)
    (job,) = enqueued(app)
    assert (job.handler, job.payload, job.queue, job.priority) == ("send_welcome", {"user_id": 42}, "emails", 8)
    assert (job.name, job.max_retries, job.attempts) == ("vip", 1, 0)
    assert job.due.timestamp() == pytest.approx(clock.now() / 1e6 + 60)


def test_enqueued_selects_by_handler_and_queue_and_forgets_what_ran(app, send):
    app.job(name="other")(lambda: None)
    send.enqueue(user_id=1)
    app.define("other", {}).dispatch()
    assert [job.handler for job in enqueued(app, send)] == ["send_welcome"]
    assert [job.handler for job in enqueued(app, "other")] == ["other"]
    assert [job.handler for job in enqueued(app, queue="default")] == ["other"]
    run_due(app)
    assert enqueued(app) == []


def test_assert_enqueued_gives_the_job_that_holds_these_arguments(app, send):
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    send.enqueue(user_id=1)
    send.enqueue(user_id=2, at=moment)
    assert assert_enqueued(app, "send_welcome", at=moment).payload["user_id"] == 2
    assert assert_enqueued(app, send).payload == {"user_id": 1}


def test_assert_enqueued_says_what_waits_instead(app, send):
    send.enqueue(user_id=41)
    with pytest.raises(AssertionError) as failed:
        assert_enqueued(app, "send_welcome", user_id=42)
    assert "no job send_welcome(user_id=42) is waiting" in str(failed.value)
    assert "send_welcome(user_id=41) on 'emails'" in str(failed.value)


def test_enqueued_needs_the_memory_backend_and_says_so(tmp_path):
    with Tenure(f"sqlite:///{tmp_path}/jobs.db") as app, pytest.raises(TenureError, match="memory://"):
        enqueued(app)


def test_run_due_runs_what_fell_due_once_the_clock_was_advanced(app, send, clock):
    send.using(delay="10m").enqueue(user_id=1)
    assert run_due(app) == {}
    clock.advance(601)
    assert run_due(app) == {"acked": 1}


def test_run_due_can_be_kept_to_some_queues(app, send):
    send.enqueue(user_id=1)
    assert run_due(app, "default") == {}
    assert run_due(app, "emails") == {"acked": 1}


def test_a_fake_clock_stands_still_until_it_is_moved():
    clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
    wall, monotonic = clock.now(), clock.monotonic()
    clock.advance(1.5)
    assert (clock.now() - wall, clock.monotonic() - monotonic) == (1_500_000, 1.5)
    clock.jump(-60)
    assert (clock.now() - wall, clock.monotonic() - monotonic) == (-58_500_000, 1.5)


def test_the_helpers_need_neither_pytest_nor_hypothesis():
    code = "import sys, tenure.testing, tenure.testing.model; assert not {'pytest', 'hypothesis'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
