"""`app.override`: inside the block nothing of the app reaches the real backend, and afterwards nothing is different."""

import asyncio
import threading
from pathlib import Path

import pytest

from tenure import Lane, Notification, Tenure
from tenure.clock import SystemClock
from tenure.errors import InvalidResult, JobFailed, SettingsError
from tenure.notifications.notifier import Subscription
from tenure.testing import FakeClock, enqueued, run_due
from tenure.wire.signing import new_key
from tests.support.waiting import WAIT_SECONDS


@pytest.fixture
def folder(tmp_path):
    """Holds the files of the real backends; nothing may be created there."""
    (tmp_path / "real").mkdir()
    return tmp_path / "real"


@pytest.fixture
def real(folder):
    """An app whose every URL names a file in the folder."""
    with Tenure(
        f"sqlite:///{folder}/jobs.db",
        backends={"reports": f"sqlite:///{folder}/reports.db"},
        store=f"sqlite:///{folder}/store.db",
        execution_log=f"{folder}/executions.log",
        on_dead="report_death",
        rates={"slow": "1/min"},
    ) as app:

        @app.job
        def report_death(): ...

        yield app


@pytest.fixture
def send(real):
    @real.job(idempotency_key="once", max_retries=1)
    def send(user_id: int, fail: bool = False) -> str:
        if fail:
            raise ValueError("no such user")
        return f"sent {user_id}"

    return send


@pytest.fixture
def untouched(folder):
    """Fails the test if a file of a real backend exists at its end."""
    yield
    assert list(folder.iterdir()) == []


@pytest.fixture
def overridden(untouched, real, clock):
    with real.override("memory://", clock=clock):
        yield real


def test_jobs_outlive_a_close_inside_the_block(real, send, untouched):
    """A web application that a test starts and ends closes the app at its end."""
    with real.override("memory://"):
        with real:
            handle = send.enqueue(42)
        run_due(real)
        assert handle.result(timeout=0) == "sent 42"


def test_jobs_of_functions_decorated_before_wait_and_run_in_the_override(overridden, send):
    send.enqueue(user_id=1)
    send.using(delay="10m").enqueue(user_id=2)
    overridden.define("send", {"user_id": 3}).dispatch()
    assert [job.payload["user_id"] for job in enqueued(overridden)] == [1, 2, 3]
    assert run_due(overridden)["acked"] == 1


def test_the_clock_of_the_override_decides_what_is_due(overridden, send, clock):
    id = send.using(delay="10m").enqueue(user_id=1)
    assert run_due(overridden) == {}
    clock.advance(600)
    assert run_due(overridden) == {"acked": 1}
    assert overridden.result(id) == "sent 1"


@pytest.mark.parametrize("place", ["reports", "sqlite:///{folder}/jobs.db", "sqlite:///{folder}/other.db"])
def test_a_backend_by_name_or_url_is_the_backend_of_the_override(overridden, send, folder, place):
    backend = place.format(folder=folder)
    id = overridden.enqueue(send.build(user_id=1), backend)
    assert [job.id for job in enqueued(overridden)] == [id]
    assert overridden.enqueue_many([send.build(user_id=2)], backend)
    assert overridden.enqueue_each([send.build(user_id=3)], backend)
    assert overridden.reschedule(id, delay=5, backend=backend) == "rescheduled"
    assert overridden.cancel(id, backend) == "cancelled"
    assert list(overridden.dead_letters(backend).find()) == []


def test_backends_that_the_override_names_stay_apart(real, send, untouched, tmp_path):
    other = f"sqlite:///{tmp_path}/other.db"
    with real.override("memory://", backends={"reports": other}):
        id = real.enqueue(send.build(user_id=1), "reports")
        assert enqueued(real) == []
        assert real.open_backend(other).backend.jobs.find(id) is not None


def test_guards_and_their_store_are_those_of_the_override(overridden, send):
    send.enqueue(user_id=1)
    run_due(overridden)
    assert overridden.forget("once")
    assert overridden.guards.queue("slow").allow()
    assert not overridden.guards.queue("slow").allow()
    assert overridden.guards.pause("default")
    with overridden.guards.breaker("bank").closed():
        pass


def test_schedules_run_in_the_override(overridden, send, clock):
    overridden.schedule(send.build(user_id=1)).every_minute().named("queued")
    overridden.schedule(send.build(user_id=2)).every_minute().named("inline").inline()
    assert {each.record.state for each in overridden.cron.run()} == {"enqueued", "succeeded"}
    assert run_due(overridden) == {"acked": 1}
    assert [each.state for each in overridden.cron.history("queued")] == ["succeeded"]
    overridden.cron.pause()


def test_a_dead_job_is_reported_in_the_override(overridden, send, clock):
    send.using(max_retries=0).enqueue(user_id=1, fail=True)
    assert run_due(overridden) == {"dead-lettered": 1, "acked": 1}
    assert [letter.handler for letter in overridden.dead_letters().find()] == ["send"]
    assert overridden.statistics()
    assert overridden.signals()
    assert overridden.clean() == 0


def test_a_manager_works_in_the_override(overridden, send):
    manager = overridden.manager()
    manager.push("send", {"user_id": 7})
    job = manager.next_job(["default"], manager.register_worker(["default"]))
    assert manager.mark_complete(job, job.run())


def test_async_callers_enqueue_in_the_override(overridden, send):
    jobs = overridden.aio
    id = asyncio.run(jobs.enqueue(send.build(user_id=1)))
    assert [job.id for job in enqueued(overridden)] == [id]


def test_a_notice_enqueues_its_job_in_the_override_and_sends_no_mail(real, send, untouched, clock):
    @real.job(queue="notices")
    def tell(): ...

    mails = []
    real.notify("team", Notification(on=("dead",), job="tell"))
    real.notifications.add(Subscription("boss", Notification(on=("dead",), job="tell"), {"mail": mails.append}))
    with real.override("memory://", clock=clock):
        send.using(max_retries=0).enqueue(user_id=1, fail=True)
        run_due(real, "default")
        assert real.notifications.flush()
        assert [job.handler for job in enqueued(real, "tell")] == ["tell"]
    assert mails == []
    assert real.notifications.muted == frozenset()


def test_a_notice_that_waits_at_the_end_of_the_block_is_delivered_in_it(real, send, untouched, clock, monkeypatch):
    block_ends, delivered = threading.Event(), []

    def deliver(notice):
        assert block_ends.wait(WAIT_SECONDS)
        delivered.append(real.settings.url)

    real.notify("team", Notification(on=("missed",), job="report_death"))
    real.notifications.add(Subscription("slow", Notification(job="report_death"), {"job": deliver}))
    close = real.notifications.close
    with real.override("memory://", clock=clock):
        monkeypatch.setattr(real.notifications, "close", lambda: (block_ends.set(), close()))
        send.using(max_retries=0).enqueue(user_id=1, fail=True)
        run_due(real)
    assert delivered == ["memory://"]


def test_a_broker_in_an_override_has_its_store_in_memory(folder, untouched, beanstalk_url):
    app = Tenure(f"sqlite:///{folder}/jobs.db", store=f"sqlite:///{folder}/store.db", keys=[new_key().dump()])
    app.job(queue="override", idempotency_key="once", name="send")(lambda: None)
    with app.override(beanstalk_url):
        app.define("send").dispatch()
        assert run_due(app, "override") == {"acked": 1}
        assert app.forget("once")


def test_the_backend_that_was_open_is_used_again_and_those_of_the_override_are_closed(real, send, clock, tmp_path):
    before, url, time = real.backend, real.settings.url, real.clock
    closed = []
    with real.override(f"sqlite:///{tmp_path}/other.db", clock=clock):
        inside = real.backend
        inside_close, inside.close = inside.close, lambda: closed.append(inside_close())
        assert inside is not before
        assert real.clock is clock
    assert closed == [None]
    assert real.backend is before
    assert (real.settings.url, real.clock) == (url, time)
    id = send.enqueue(user_id=1)
    assert before.jobs.find(id) is not None


def test_an_error_in_the_block_undoes_the_override(real, untouched):
    settings = real.settings
    with pytest.raises(ZeroDivisionError), real.override("memory://"):
        1 / 0  # noqa: B018
    assert real.settings is settings
    assert isinstance(real.clock, SystemClock)
    with real.override("memory://"):
        assert enqueued(real) == []


def test_overrides_nest(real, send, untouched, clock):
    with real.override("memory://"):
        send.enqueue(user_id=1)
        with real.override(clock=clock):
            assert real.clock is clock
            assert enqueued(real) == []  # opened apart
            real.enqueue(send.build(user_id=2), f"sqlite:///{Path('x')}.db")
        assert [job.payload["user_id"] for job in enqueued(real)] == [1]


def test_with_a_clock_alone_the_url_stays_and_is_opened_apart(real, send, clock):
    id = send.using(delay="1h").enqueue(user_id=1)
    opened = real.backend
    clock.advance(3601)
    with real.override(clock=clock):
        assert real.backend is not opened
        assert run_due(real, "default") == {"acked": 1}
    assert real.result(id) == "sent 1"


def test_an_eager_job_runs_in_enqueue_through_its_guards_and_keeps_its_result(real, send, untouched):
    with real.override(eager=True):
        id = send.enqueue(user_id=1)
        assert real.result(id) == "sent 1"
        second = real.enqueue(send.build(user_id=2), "reports")
        with pytest.raises(InvalidResult, match=f"skipped-idempotent: job {id} has done it"):
            real.result(second)
        real.schedule(send.build(user_id=3)).every_minute().named("queued")
        assert [each.record.state for each in real.cron.run()] == ["enqueued"]


def test_a_failing_eager_job_raises_in_the_caller_after_its_retries(real, untouched):
    ran = []

    @real.job(max_retries=2)
    def fail(by: int):
        ran.append(by)
        return 1 / by

    with real.override(eager=True), pytest.raises(JobFailed, match="ZeroDivisionError"):
        fail.enqueue(by=0)
    assert ran == [0, 0, 0]


def test_a_worker_with_child_processes_is_refused(overridden):
    with pytest.raises(SettingsError, match=r"'process' is refused inside app\.override"):
        overridden.worker(runner="process", location="shop:app")
    with pytest.raises(SettingsError, match="inline"):
        overridden.worker(lanes=[Lane(queues=("a",), runner="inline"), Lane(queues=("b",), runner="threads")])


def test_a_worker_in_an_override_starts_no_process_for_suspects(real, tmp_path, clock):
    with real.override(f"sqlite:///{tmp_path}/other.db", clock=clock):
        worker = real.worker("default", burst=True, location="shop:app")
        assert worker._suspects.start is None


def test_an_override_is_refused_while_a_worker_of_the_app_runs(real):
    worker = real.worker("default")
    thread = threading.Thread(target=worker.run)
    thread.start()
    assert worker.ready.wait(WAIT_SECONDS)
    with pytest.raises(SettingsError, match="a worker of this app is running"), real.override("memory://"):
        pass
    worker.stop()
    thread.join()
    with real.override("memory://"):
        assert enqueued(real) == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "say what to override"),
        ({"url": "memory://", "eager": True}, "leave out url or eager"),
        ({"clock": FakeClock(), "store": "memory://"}, "needs a url"),
    ],
)
def test_arguments_that_contradict_each_other_are_refused(real, arguments, text):
    with pytest.raises(SettingsError, match=text):
        real.override(**arguments)
