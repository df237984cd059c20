"""Every way a handler can end, on every embedded backend, from enqueue to the stored record."""

import asyncio
import signal
import sys
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from tenure import Cancel, Context, Fail, Job, Retry, Snooze
from tenure.backends.messages import Park
from tenure.guards.concurrency_limit import ConcurrencyLimit
from tenure.guards.guard import take_guards
from tenure.guards.states import Holder
from tenure.testing import run_due

pytestmark = pytest.mark.timeout(60, method="thread")  # the runner needs the alarm that the other method uses


def test_a_job_runs_with_its_arguments_and_leaves_its_output(app):
    @app.job
    def greet(name: str, times: int = 2):
        return f"hello {name} " * times

    id = greet.enqueue(name="Ada")
    assert run_due(app) == {"acked": 1}
    record = app.backend.jobs.find(id)
    assert (record.state, record.output, record.attempts, record.fence) == ("done", "hello Ada hello Ada ", 0, 1)


@pytest.mark.parametrize(
    ("returned", "printed", "output"),
    [
        (None, "", None),
        (None, "printed\n", "printed\n"),
        ("text", "", "text"),
        ("text", "printed", "text\nprinted"),
        ({"rows": 3}, "", '{"rows":3}'),
        (b"\xff", "", '"/w=="'),
        ("half \udcff surrogate", "", "half \\udcff surrogate"),
        ("with \x00 inside", "", "with \\x00 inside"),
    ],
)
def test_what_a_handler_returns_and_prints_is_kept_as_one_text(app, returned, printed, output):
    @app.job
    def speak():
        sys.stdout.write(printed)
        return returned

    id = speak.enqueue()
    assert run_due(app) == {"acked": 1}
    assert app.backend.jobs.find(id).output == output


def test_a_failure_backs_off_and_is_retried_until_the_budget_is_spent(app, clock):
    @app.job(max_retries=2)
    def break_down(context: Context):
        raise ValueError(f"attempt {context.attempt}")

    id = break_down.enqueue()
    assert run_due(app) == {"requeued": 1}
    clock.advance(4.9)
    assert run_due(app) == {}
    clock.advance(0.2)
    assert run_due(app) == {"requeued": 1}
    clock.advance(10.1)
    assert run_due(app) == {"dead-lettered": 1}
    (record,) = app.backend.dead_letters.page()
    assert (record.id, record.reason, record.attempts) == (id, "retries_exhausted", 3)
    assert [(each.type, each.message, each.attempt) for each in record.failures] == [
        ("ValueError", "attempt 1", 1),
        ("ValueError", "attempt 2", 2),
        ("ValueError", "attempt 3", 3),
    ]
    assert "test_outcomes.py" in record.failures[0].place


def test_a_dead_letter_that_is_replayed_gets_its_attempts_anew(app):
    healed = threading.Event()

    @app.job(max_retries=1, backoff="none")
    def stumble(context: Context):
        if not healed.is_set():
            raise ValueError("broken")
        return f"attempt {context.attempt}, fence {context.fence}"

    id = stumble.enqueue()
    assert run_due(app) == {"requeued": 1, "dead-lettered": 1}
    healed.set()
    app.backend.dead_letters.replay([id])
    assert run_due(app) == {"acked": 1}
    assert app.backend.jobs.find(id).output == "attempt 1, fence 3"


def test_retry_names_its_own_delay_and_counts(app, clock):
    @app.job(max_retries=1)
    def stumble(context: Context):
        raise Retry("the bank is closed", delay=600)

    id = stumble.enqueue()
    assert run_due(app) == {"requeued": 1}
    clock.advance(599)
    assert run_due(app) == {}
    clock.advance(2)
    assert run_due(app) == {"dead-lettered": 1}
    assert [each.message for each in app.backend.jobs.find(id).failures] == ["the bank is closed"] * 2


def test_fail_is_a_dead_letter_at_once_with_its_error(app):
    @app.job(max_retries=5)
    def charge():
        raise Fail("the card was stolen") from ValueError("refused by the bank")

    id = charge.enqueue()
    assert run_due(app)["dead-lettered"] == 1
    record = app.backend.jobs.find(id)
    assert (record.state, record.reason, record.attempts) == ("dead", "gave_up", 1)
    (failure,) = record.failures
    assert (failure.type, failure.message) == ("Fail", "the card was stolen")
    assert "ValueError: refused by the bank" in failure.trace
    counters = app.metrics.snapshot()["counters"]
    assert {name: counters[f"{name}|queue=default"] for name in ("jobs_failed", "jobs_failed_permanently")} == {
        "jobs_failed": 1,
        "jobs_failed_permanently": 1,
    }
    assert "jobs_rejected|queue=default" not in counters


def test_fail_may_name_its_own_reason(app):
    @app.job
    def charge():
        raise Fail("the card was stolen", reason="stolen_card")

    charge.enqueue()
    assert run_due(app)["dead-lettered"] == 1
    assert [letter.reason for letter in app.backend.dead_letters.page()] == ["stolen_card"]


def test_cancel_ends_the_job_without_calling_it_a_failure(app):
    @app.job(max_retries=5)
    def give_up():
        raise Cancel("the order was withdrawn")

    id = give_up.enqueue()
    assert run_due(app) == {"cancelled": 1}
    record = app.backend.jobs.find(id)
    assert (record.state, record.reason, record.failures) == ("cancelled", "the order was withdrawn", ())


@pytest.mark.parametrize("until", [60, timedelta(minutes=1), "datetime"])
def test_postpone_waits_at_no_cost(app, clock, until):
    ran = []

    @app.job
    def wait(context: Context):
        ran.append(context.attempt)
        if len(ran) == 1:
            aware = datetime.fromtimestamp(clock.now() / 1e6, UTC) + timedelta(minutes=1)
            raise Snooze(aware if until == "datetime" else until)

    id = wait.enqueue()
    assert run_due(app) == {"postponed": 1}
    clock.advance(59)
    assert run_due(app) == {}
    clock.advance(2)
    assert run_due(app) == {"acked": 1}
    assert ran == [1, 1]
    assert app.backend.jobs.find(id).attempts == 0


def test_a_timeout_stops_python_code_and_counts_as_a_failure(app):
    assert threading.current_thread() is threading.main_thread()

    @app.job(timeout=0.1)
    def spin():
        while True:
            pass

    id = spin.enqueue()
    assert run_due(app) == {"dead-lettered": 1}
    record = app.backend.jobs.find(id)
    assert (record.reason, [each.type for each in record.failures]) == ("timeout", ["TimedOut"])


def test_a_timeout_stops_a_coroutine(app):
    @app.job(timeout=0.1)
    async def sleep_on():
        await asyncio.sleep(60)

    id = sleep_on.enqueue()
    assert run_due(app) == {"dead-lettered": 1}
    assert app.backend.jobs.find(id).reason == "timeout"


def test_a_job_after_a_timeout_is_not_disturbed(app):
    @app.job
    def nap(seconds: float):
        time.sleep(seconds)

    nap.using(timeout=0.1, priority=9).enqueue(seconds=5)
    nap.using(timeout=60).enqueue(seconds=0.3)
    nap.enqueue(seconds=0.0)
    tally = run_due(app)
    assert (tally["dead-lettered"], tally["acked"]) == (1, 2)  # a busy machine may hand jobs back in between


def test_the_alarm_is_given_back_when_the_worker_ends(app):
    before = signal.getsignal(signal.SIGALRM)
    run_due(app, "default")
    assert signal.getsignal(signal.SIGALRM) is before


def test_an_exit_of_the_handler_is_its_failure_alone(app):
    @app.job
    def leave():
        raise SystemExit(3)

    @app.job
    def stay():
        return "still here"

    leave.enqueue()
    stay.enqueue()
    assert run_due(app) == {"dead-lettered": 1, "acked": 1}


def test_a_job_that_expired_while_it_waited_is_not_run(app, clock):
    ran = []

    @app.job
    def hurry():
        ran.append(1)

    moment = datetime.fromtimestamp(clock.now() / 1e6, UTC) + timedelta(minutes=1)
    id = hurry.using(expires_at=moment).enqueue()
    clock.advance(61)
    assert run_due(app) == {"expired": 1}
    assert (ran, app.backend.jobs.find(id).state) == ([], "expired")


def test_a_job_that_waits_for_something_past_its_expiry_expires_when_it_is_looked_at(app, clock):
    @app.job
    def hurry(): ...

    @app.job
    def stumble():
        raise Retry("not now", delay=120)

    soon = datetime.fromtimestamp(clock.now() / 1e6, UTC) + timedelta(minutes=1)
    ids = [
        hurry.using(expires_at=soon, delay=120).enqueue(),
        stumble.using(expires_at=soon, max_retries=1).enqueue(),
        hurry.using(expires_at=soon, queue="parked").enqueue(),
    ]
    lease = app.backend.lease(["parked"], limit=1, seconds=15)[0]
    app.backend.guards.change([take_guards([ConcurrencyLimit("k", 1)], Holder("somebody", 1, 90.0))])
    assert app.backend.parking.park([Park(lease=lease, key="k", reason="busy")]) == []
    assert run_due(app) == {"requeued": 1}
    clock.advance(121)
    app.backend.parking.wake(["k"], 10)
    assert run_due(app, "default", "parked") == {"expired": 3}
    records = [app.backend.jobs.find(id) for id in ids]
    assert {(each.state, each.reason) for each in records} == {("expired", f"expired at {soon.isoformat()}")}
    assert app.metrics.snapshot()["counters"]["jobs_expired|queue=default"] == 2


def test_a_job_that_waits_for_its_handler_past_its_expiry_expires(app, clock):
    @app.job
    def later(): ...

    soon = datetime.fromtimestamp(clock.now() / 1e6, UTC) + timedelta(minutes=1)
    id = later.using(expires_at=soon).enqueue()
    app.registry._wrapped.clear()  # as on a worker that runs the release before
    assert run_due(app) == {"postponed": 1}
    clock.advance(61)
    assert run_due(app) == {"expired": 1}
    assert app.backend.jobs.find(id).state == "expired"


def test_an_unknown_handler_is_waited_for_and_dead_after_a_while(app, clock):
    @app.job
    def later():
        pass

    id = later.enqueue()
    app.registry._wrapped.clear()  # as on a worker that runs the release before
    assert run_due(app) == {"postponed": 1}
    clock.advance(1800)
    assert run_due(app) == {"postponed": 1}
    clock.advance(1801)
    assert run_due(app) == {"dead-lettered": 1}
    record = app.backend.jobs.find(id)
    assert (record.reason, record.attempts, record.crashes) == ("unknown_handler", 0, 0)
    app.backend.dead_letters.replay([id])
    assert run_due(app) == {"postponed": 1}


def test_a_handler_that_is_deployed_in_time_runs(app, clock):
    @app.job
    def later():
        return "there at last"

    id = later.enqueue()
    kept = dict(app.registry._wrapped)
    app.registry._wrapped.clear()
    assert run_due(app) == {"postponed": 1}
    app.registry._wrapped.update(kept)
    clock.advance(11)
    assert run_due(app) == {"acked": 1}
    assert app.backend.jobs.find(id).output == "there at last"


def test_a_payload_that_does_not_fit_is_dead_at_once_and_never_retried(app):
    @app.job(max_retries=5)
    def count(number: int):
        return number

    app.registry._wrapped["count"] = app.registry.get("count")
    id = app.enqueue(Job(handler="count", payload={"number": 1}, max_retries=5))

    @app.job(name="recount")
    def count_text(text: str):
        return text

    app.registry._wrapped["count"] = app.registry.get("recount")  # the release of the worker expects something else
    assert run_due(app) == {"rejected": 1}
    record = app.backend.jobs.find(id)
    assert (record.state, record.reason, record.attempts) == ("dead", "invalid_payload", 0)


def vanish(app, clock):
    """A worker that leases everything and is never heard of again."""
    leases = app.backend.lease(["default"], limit=10, seconds=15)
    clock.advance(16)
    app.backend.reap(["default"])
    return leases


def test_a_job_that_takes_its_worker_along_again_and_again_is_dead_as_a_crash_loop(app, clock):
    ran = []

    @app.job
    def kill():
        ran.append(1)

    id = kill.using(max_crashes=1).enqueue()
    for _ in range(3):
        assert len(vanish(app, clock)) == 1
    assert vanish(app, clock) == []
    for _ in range(2):
        assert len(app.backend.lease_suspect(["default"], seconds=15)) == 1
        assert vanish(app, clock) == []
    assert run_due(app) == {"dead-lettered": 1}
    record = app.backend.jobs.find(id)
    assert (record.reason, record.crashes, record.attempts, ran) == ("crash_loop", 2, 0, [])


def test_the_first_time_a_worker_vanishes_nobody_is_charged(app, clock):
    @app.job
    def innocent(number: int):
        return number

    ids = [innocent.enqueue(number=number) for number in range(5)]
    assert len(vanish(app, clock)) == 5
    assert run_due(app) == {"acked": 5}
    assert [(app.backend.jobs.find(id).crashes, app.backend.jobs.find(id).fence) for id in ids] == [(0, 2)] * 5


def test_a_handler_may_enqueue_more_jobs(app):
    @app.job(queue="reports")
    def leaf(number: int):
        return number

    @app.job
    def branch():
        for number in range(3):
            leaf.enqueue(number=number)

    branch.enqueue()
    assert run_due(app) == {"acked": 4}
