"""AppUnderTest, which the fixture `tenure` of the pytest plugin is: run, move the time, inject faults."""

import asyncio
import threading
from datetime import UTC, datetime

import pytest
from msgspec import structs

from tenure import Backoff, Cancel, Context, Retry, Tenure
from tenure.errors import InvalidJob, JobFailed
from tenure.events import Status
from tenure.testing import AppUnderTest, FakeClock

NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)


@pytest.fixture
def app(tmp_path):
    """An app whose real backend would be a file."""
    with Tenure(f"sqlite:///{tmp_path}/real.db", retry=Backoff("fixed", base=60, jitter=0)) as app:
        yield app
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def tenure(app):
    with AppUnderTest(app, FakeClock(NOON)) as tenure:
        yield tenure


@pytest.fixture
def effects():
    return []


@pytest.fixture
def send(app, effects):
    @app.job(queue="emails")
    def send(ctx: Context, user_id: int) -> None:
        effects.append((user_id, ctx.fence))

    return send


@pytest.fixture
def flaky(app, effects):
    @app.job(max_retries=2)
    def flaky(fails: int) -> str:
        effects.append(fails)
        if len(effects) <= fails:
            raise ConnectionError("the bank is closed")
        return "paid"

    return flaky


def test_enqueued_lists_the_waiting_jobs_of_a_handler_with_these_arguments(tenure, send, flaky):
    send.enqueue(user_id=1)
    send.using(delay="1h").enqueue(user_id=2)
    flaky.enqueue(fails=0)
    assert len(tenure.enqueued()) == 3
    assert [job.payload for job in tenure.enqueued(send)] == [{"user_id": 1}, {"user_id": 2}]
    assert [job.queue for job in tenure.enqueued("send", user_id=2)] == ["emails"]
    assert tenure.enqueued(send, user_id=3) == []


def test_run_due_runs_what_is_ready_and_what_those_jobs_enqueue(tenure, app, send, effects):
    @app.job
    def sign_up(user_id: int) -> None:
        send.enqueue(user_id=user_id)
        send.using(delay="1h").enqueue(user_id=user_id + 1)

    sign_up.enqueue(user_id=1)
    assert tenure.run_due() == {Status.ACKED: 2}
    assert effects == [(1, 1)]
    assert [job.payload for job in tenure.enqueued()] == [{"user_id": 2}]


def test_run_due_can_be_limited_to_queues(tenure, send, flaky):
    send.enqueue(user_id=1)
    flaky.enqueue(fails=0)
    assert tenure.run_due("emails") == {Status.ACKED: 1}
    assert [job.handler for job in tenure.enqueued()] == ["flaky"]


def test_a_failed_attempt_is_raised_with_its_traceback_after_the_other_jobs_ran(tenure, flaky, send, effects):
    flaky.enqueue(fails=1)
    send.enqueue(user_id=7)
    with pytest.raises(JobFailed, match=r"\('flaky'\) failed: ConnectionError: the bank is closed") as failed:
        tenure.run_due()
    assert 'raise ConnectionError("the bank is closed")' in str(failed.value)
    assert (7, 1) in effects


def test_a_test_may_let_attempts_fail(tenure, flaky):
    flaky.enqueue(fails=1)
    assert tenure.run_due(raising=False) == {Status.REQUEUED: 1}
    assert tenure.advance("1m") == {Status.ACKED: 1}
    assert [run.outcome for run in tenure.runs(flaky)] == ["failed", "succeeded"]


def test_a_message_that_is_refused_without_a_run_is_raised_too(tenure, app, send):
    message = app._sealer.message(send.build(user_id=1), app.open_backend())
    app.backend.put([structs.replace(message, body=message.body.replace(b'"user_id":1', b'"user_id":2'))])
    with pytest.raises(JobFailed, match="BadSignature"):
        tenure.run_due()
    assert tenure.runs() == []


def test_a_handler_that_cancels_itself_or_waits_has_not_failed(tenure, app):
    @app.job
    def stop() -> None:
        raise Cancel("not needed")

    stop.enqueue()
    assert tenure.run_due() == {Status.CANCELLED: 1}


def test_advance_gives_each_thing_its_own_time(tenure, app, effects):
    @app.job(max_retries=3)
    def step(name: str) -> None:
        effects.append((name, tenure.clock.now() // 1_000_000 - int(NOON.timestamp())))
        if name == "again" and len(effects) < 4:
            raise Retry("later", delay="90s")

    step.enqueue(name="now")
    step.using(delay="5m").enqueue(name="delayed")
    step.enqueue(name="again")
    tenure.advance("10m", raising=False)
    assert effects == [("now", 0), ("again", 0), ("again", 90), ("again", 180), ("delayed", 300)]
    assert tenure.clock.now() / 1e6 == NOON.timestamp() + 600


def test_advance_runs_every_tick_of_a_schedule(tenure, app, send, effects):
    app.schedule(send.build(user_id=1)).every_five_minutes().named("queued")
    app.schedule(send.build(user_id=2)).every_five_minutes().named("inline").inline()
    assert tenure.advance("4m") == {}
    tenure.advance("11m")
    assert sorted(user for user, _ in effects) == [1, 1, 1, 2, 2, 2]
    assert [tick.state for tick in app.cron.history("queued")] == ["succeeded"] * 3
    tenure.advance("5m")
    assert len(effects) == 8


def test_a_schedule_that_depends_on_another_runs_in_the_same_advance(tenure, app, send, effects):
    app.schedule(send.build(user_id=1)).hourly().named("first")
    app.schedule(send.build(user_id=2)).hourly().named("second").depends_on("first")
    tenure.advance("1h")
    assert [user for user, _ in effects] == [1, 2]


def test_a_failed_inline_tick_is_raised(tenure, app, flaky):
    app.schedule(flaky.build(fails=9)).hourly().named("nightly").inline()
    with pytest.raises(JobFailed, match="the bank is closed"):
        tenure.advance("1h")


def test_jobs_that_wait_for_a_guard_run_when_the_guard_allows_it(tenure, app, effects):
    @app.job(rate="1/min")
    def limited(n: int) -> None:
        effects.append(n)

    for n in range(3):
        limited.enqueue(n=n)
    tenure.run_due()
    assert effects == [0]
    tenure.advance("1m")
    assert effects == [0, 1]
    tenure.advance("1m")
    assert effects == [0, 1, 2]


def test_time_cannot_go_back(tenure):
    with pytest.raises(InvalidJob, match="the time to advance by"):
        tenure.advance(-1)


def test_after_a_crash_the_handler_runs_again_and_a_crash_is_counted(tenure, app, send, effects):
    id = send.enqueue(user_id=1)
    tenure.crash_after(send)
    assert tenure.run_due() == {Status.REQUEUED: 1, Status.ACKED: 1}
    assert effects == [(1, 1), (1, 2)]
    first, second = tenure.runs(send)
    assert (first.outcome, first.attempt, first.crashes) == ("crashed", 1, 0)
    assert (second.outcome, second.attempt, second.crashes) == ("succeeded", 1, 1)
    record = app.backend.jobs.find(id)
    assert (record.state, record.attempts, record.crashes) == ("done", 0, 1)


def test_a_job_that_crashes_too_often_is_dead(tenure, app, send):
    send.using(max_crashes=1).enqueue(user_id=1)
    tenure.crash_after(send, times=2)
    assert tenure.run_due() == {Status.REQUEUED: 1, Status.DEAD_LETTERED: 1}
    assert [letter.reason for letter in app.dead_letters().find()] == ["crash_loop"]


def test_a_duplicate_runs_twice_and_only_the_second_run_is_settled(tenure, app, send, effects):
    id = send.enqueue(user_id=1)
    tenure.duplicate(send)
    assert tenure.run_due() == {Status.ACKED: 1}
    assert effects == [(1, 1), (1, 2)]
    assert [(run.fence, run.settled) for run in tenure.runs(send)] == [(1, False), (2, True)]
    record = app.backend.jobs.find(id)
    assert (record.state, record.attempts, record.crashes) == ("done", 0, 0)


def test_a_run_that_lost_its_lease_comes_after_the_run_that_has_it(tenure, app, send, effects):
    id = send.enqueue(user_id=1)
    send.enqueue(user_id=2)
    tenure.lose_lease(send)
    assert tenure.run_due() == {Status.ACKED: 2}
    assert effects == [(1, 2), (1, 1), (2, 1)]
    assert [(run.fence, run.settled) for run in tenure.runs(send) if run.id == id] == [(2, True), (1, False)]


def test_a_handler_that_writes_by_its_fence_survives_a_stale_run(tenure, app):
    stored = {"fence": 0, "value": 0}

    @app.job
    def write(ctx: Context) -> None:
        if ctx.fence > stored["fence"]:
            stored.update(fence=ctx.fence, value=stored["value"] + 1)

    write.enqueue()
    tenure.lose_lease(write)
    tenure.run_due()
    assert stored == {"fence": 2, "value": 1}


@pytest.mark.parametrize("fault", ["crash_after", "duplicate", "lose_lease"])
@pytest.mark.parametrize("options", [{"single_instance": True}, {"idempotency_key": "k"}, {"at_most": 1}])
def test_a_fault_leaves_the_guards_of_a_job_in_order(tenure, app, effects, fault, options):
    @app.job(**options)
    def guarded(n: int) -> None:
        effects.append(n)

    guarded.enqueue(n=1)
    getattr(tenure, fault)(guarded)
    tenure.run_due()
    assert effects == [1, 1]
    guarded.using(idempotency_key="other").enqueue(n=2)
    tenure.run_due()
    assert effects == [1, 1, 2]


@pytest.mark.parametrize("fault", ["crash_after", "duplicate", "lose_lease"])
def test_faults_reach_async_handlers_and_handler_classes(tenure, app, effects, fault):
    class Report:
        def handle(self) -> None:
            effects.append("report")

    @app.job
    async def fetch() -> None:
        await asyncio.sleep(0)
        effects.append("fetch")

    app.register("report", Report)
    app.define("report").dispatch()
    fetch.enqueue()
    getattr(tenure, fault)("report")
    getattr(tenure, fault)(fetch)
    tenure.run_due()
    assert sorted(effects) == ["fetch", "fetch", "report", "report"]


def test_jobs_of_an_async_test_run_beside_its_loop(tenure, app, effects):
    @app.job
    async def fetch() -> None:
        await asyncio.sleep(0)
        effects.append(threading.current_thread() is threading.main_thread())

    @app.job
    def plain() -> None:
        effects.append(threading.current_thread() is threading.main_thread())

    async def test():
        fetch.enqueue()
        plain.enqueue()
        tenure.run_due()
        fetch.using(delay=60).enqueue()
        tenure.advance("1m")

    asyncio.run(test())
    assert effects == [False, True, False]


def test_an_eager_async_job_runs_in_async_code(app, effects):
    @app.job
    async def fetch() -> None:
        await asyncio.sleep(0)
        effects.append("fetched")

    async def request():
        fetch.enqueue()

    with app.override(eager=True):
        asyncio.run(request())
        fetch.enqueue()
    assert effects == ["fetched", "fetched"]


def test_a_job_with_a_connection_is_enqueued_although_memory_has_no_transactions(tenure, send):
    send.using(connection=object()).enqueue(user_id=1)
    assert tenure.run_due() == {Status.ACKED: 1}


def test_after_the_block_the_app_is_as_before_and_a_new_block_is_empty(app, send):
    settings, clock = app.settings, app.clock
    with AppUnderTest(app):
        send.enqueue(user_id=1)
    assert (app.settings, app.clock) == (settings, clock)
    with AppUnderTest(app) as tenure:
        assert tenure.enqueued() == []
        assert tenure.runs() == []
