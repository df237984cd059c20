"""Call sites of Celery keep working while their tasks are jobs; what cannot work says what to write instead."""

import sys
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import pytest

from tenure import PARENT_ERROR, PARENT_RESULT, Backoff, Tenure
from tenure.definition.limits import MAX_COUNT
from tenure.errors import JobFailed, NotSupported, ResultTimeout, UnknownHandler
from tenure.integrations.celery import CeleryApp, chain, crontab, shared_task

LATER = datetime(2031, 3, 1, 9, tzinfo=UTC)


@pytest.fixture
def work(app, run_within):
    return lambda: run_within(app.worker("default", "emails", burst=True))


def test_delay_enqueues_a_job_with_the_name_that_celery_gives_a_task(celery, work):
    @celery.task
    def add(a: int, b: int = 1) -> int:
        return a + b

    result = add.delay(2, b=3)
    assert (result.state, result.ready(), result.result) == ("PENDING", False, None)
    work()

    assert result.job.info().handler == add.name == f"{__name__}.add"
    assert (result.get(timeout=1), result.result, result.state, result.status) == (5, 5, "SUCCESS", "SUCCESS")
    assert (result.ready(), result.successful(), result.failed()) == (True, True, False)
    assert celery.AsyncResult(result.id) == result
    assert add(1, 2) == 3


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"countdown": 60}, {"delay": 60.0}),
        ({"countdown": -5}, {"delay": 0.0}),
        ({"eta": LATER}, {"at": LATER}),
        ({"eta": LATER.replace(tzinfo=None)}, {"at": LATER}),
        ({"expires": LATER.replace(tzinfo=None)}, {"expires_at": LATER}),
        ({"expires": 90}, {"expires_at": "in 90.000000 s"}),
        ({"expires": LATER}, {"expires_at": LATER}),
        ({"queue": "emails"}, {"queue": "emails"}),
        ({"priority": 0}, {"priority": 9}),
        ({"priority": 9}, {"priority": 0}),
        ({}, {"priority": 9}),
        ({"headers": {"tenant": 7}}, {"meta": {"tenant": 7}}),
        ({"time_limit": 30}, {"timeout": 30.0}),
        ({"soft_time_limit": 20}, {"timeout": 20.0}),
        ({"time_limit": 20, "soft_time_limit": 20}, {"timeout": 20.0}),
        ({"serializer": "json", "retry": False, "countdown": None}, {"delay": 0.0}),
    ],
)
def test_options_of_apply_async_become_options_of_the_job(celery, options, expected):
    @celery.task
    def add(a: int, b: int) -> int:
        return a + b

    job = add.described((1, 2), {}, options)

    assert {name: getattr(job, name) for name in expected} == expected


def test_a_job_of_apply_async_gets_the_id_of_the_task(celery, work):
    @celery.task
    def add(a: int, b: int) -> int:
        return a + b

    assert add.apply_async((1,), {"b": 2}, "my-id").id == "my-id"
    work()

    assert celery.AsyncResult("my-id").get(1) == 3


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"max_retries": 3, "backoff": Backoff(strategy="fixed", base=180)}),
        ({"max_retries": None}, {"max_retries": MAX_COUNT}),
        ({"default_retry_delay": 10}, {"backoff": Backoff(strategy="fixed", base=10)}),
        ({"autoretry_for": (OSError,), "retry_kwargs": {"max_retries": 5, "countdown": 7}},
         {"max_retries": 5, "backoff": Backoff(strategy="fixed", base=7)}),
        ({"autoretry_for": (OSError,), "retry_backoff": True}, {"backoff": Backoff(base=0.5, cap=600, jitter=1)}),
        ({"retry_backoff": 5, "retry_backoff_max": 60, "retry_jitter": False},
         {"backoff": Backoff(base=5, cap=60, jitter=0)}),
        ({"rate_limit": "100/m"}, {"rate": "100/min"}),
        ({"rate_limit": 10}, {"rate": "10/s"}),
        ({"queue": "emails", "priority": 3, "time_limit": 9}, {"queue": "emails", "priority": 6, "timeout": 9.0}),
        ({"acks_late": True, "reject_on_worker_lost": True, "track_started": True, "expires": 60},
         {"expires_at": "in 60.000000 s"}),
    ],
)  # fmt: skip
def test_options_of_the_decorator_become_options_of_the_job(celery, options, expected):
    @celery.task(**options)
    def ping() -> None: ...

    job = ping.described((), {}, {})

    assert {name: getattr(job, name) for name in expected} == expected


def test_the_defaults_are_those_of_celery():
    task = pytest.importorskip("celery").Task

    @CeleryApp(Tenure("memory://")).task
    def ping() -> None: ...

    job = ping.described((), {}, {})
    assert (job.max_retries, job.backoff.base) == (task.max_retries, task.default_retry_delay)


def test_a_bound_task_retries_and_sees_its_request(celery, work):
    seen = []

    @celery.task(bind=True, max_retries=2)
    def fetch(self: Any, url: str) -> str:
        request = self.request
        seen.append(
            (request.id, request.task, request.retries, request.kwargs, request.headers, request.called_directly)
        )
        if request.retries < 2:
            raise self.retry(countdown=0, exc=OSError("no answer"))
        return url

    result = fetch.apply_async(("a",), headers={"tenant": 7})
    work()

    assert result.get(1) == "a"
    assert seen == [(result.id, fetch.name, number, {"url": "a"}, {"tenant": 7}, False) for number in range(3)]
    assert result.retries == 2
    assert fetch.request.called_directly


def test_a_task_without_retries_left_fails_with_the_error_that_it_was_retried_for(celery, work):
    @celery.task(bind=True, max_retries=1)
    def fetch(self: Any) -> None:
        try:
            raise OSError("no answer")
        except OSError:
            self.retry(countdown=0)

    result = fetch.delay()
    work()

    assert result.failed()
    assert isinstance(result.result, JobFailed)
    assert result.result.error_type == "OSError"
    assert "no answer" in (result.traceback or "")
    with pytest.raises(JobFailed):
        result.get(1)
    with pytest.raises(OSError, match="no answer"):
        fetch()


@pytest.mark.parametrize(("error", "runs"), [(OSError, 3), (ValueError, 1), (FileNotFoundError, 1)])
def test_only_errors_of_autoretry_for_are_retried(celery, work, error, runs):
    tried = []

    @celery.task(autoretry_for=(OSError,), dont_autoretry_for=[FileNotFoundError], max_retries=2, default_retry_delay=0)
    def fetch() -> None:
        tried.append(1)
        raise error

    fetch.delay()
    work()

    assert len(tried) == runs


def test_without_autoretry_for_an_error_is_not_retried(celery, work):
    tried = []

    @celery.task
    def fetch() -> None:
        tried.append(1)
        raise OSError

    result = fetch.delay()
    work()

    assert (len(tried), result.state) == (1, "FAILURE")


def test_a_task_that_waits_for_a_retry_has_the_state_retry_and_can_be_revoked(celery, work):
    @celery.task(bind=True)
    def fetch(self: Any) -> None:
        self.retry(countdown=600)

    result = fetch.delay()
    work()
    assert result.state == "RETRY"
    with pytest.raises(ResultTimeout):
        result.get(timeout=0)

    result.revoke()

    assert (result.state, result.ready()) == ("REVOKED", True)


def test_revoke_leaves_a_running_task_alone_unless_it_shall_terminate_it(celery, app):
    @celery.task
    def ping() -> None: ...

    result = ping.delay()
    manager = app.manager()
    manager.next_job([], manager.register_worker(["default"]))
    assert result.state == "STARTED"

    result.revoke()
    before = result.job.info().cancel_asked
    result.revoke(terminate=True)

    assert (before, result.job.info().cancel_asked) == (False, True)


def test_the_result_of_an_unknown_id_is_pending(celery):
    assert celery.AsyncResult("unknown").state == "PENDING"


def test_links_and_chains_pass_the_result_on_where_the_function_says_so(celery, work):
    log = []

    @celery.task
    def add(a: int = PARENT_RESULT, b: int = 0) -> int:
        log.append(a + b)
        return a + b

    @celery.task
    def alarm(error: str = PARENT_ERROR, whom: str = "") -> None:
        log.append(f"{whom}: {error}")

    @celery.task
    def fail() -> None:
        raise ValueError("no")

    last = chain(add.s(1, 2), add.s(10) | add.s(b=100)).apply_async(queue="emails")
    assert last.state == "PENDING"
    add.apply_async((5, 5), link=[add.s(1), add.si(7, 7)])
    fail.apply_async(link_error=alarm.s("ada"))
    work()

    assert (last.get(1), last.parent.get(1), last.parent.parent.get(1)) == (113, 13, 3)
    assert {3, 13, 113, 10, 11, 14, "ada: ValueError: no"} == set(log)


def test_a_chain_that_breaks_raises_the_error_of_the_task_that_failed(celery, work):
    @celery.task
    def fail() -> None:
        raise ValueError("no")

    last = chain(fail.si(), fail.si())()
    work()

    with pytest.raises(JobFailed, match="no"):
        last.get(timeout=1)


def test_further_arguments_of_a_signature_go_before_its_own(celery, work):
    @celery.task
    def divide(a: int, b: int) -> float:
        return a / b

    results = [divide.s(2).delay(10), divide.si(6, 2).apply_async((1, 1)), divide.s(8).set(queue="emails").delay(4)]
    work()

    assert [each.get(1) for each in results] == [5.0, 3.0, 0.5]
    assert results[2].job.info().queue == "emails"


def test_a_task_that_ignores_its_result_stores_none(celery, work):
    @celery.task(ignore_result=True)
    def secret() -> str:
        return "secret"

    @celery.task(ignore_result=True, bind=True)
    async def asecret(self: Any, a: int) -> str:
        return f"{self.request.id} {a}"

    results = [secret.delay(), asecret.delay(1)]
    work()

    assert [(each.state, each.get(1), each.job.info().output) for each in results] == [("SUCCESS", None, None)] * 2


def test_shared_tasks_belong_to_the_app_that_includes_their_module(celery, work, monkeypatch):
    module = ModuleType("shop_tasks")
    monkeypatch.setitem(sys.modules, "shop_tasks", module)

    @shared_task(bind=True, name="shop.double")
    def double(self: Any, a: int) -> int:
        return 2 * a

    module.double = double  # type: ignore[attr-defined]
    with pytest.raises(NotSupported, match="include"):
        double.delay(1)
    celery.include("shop_tasks")
    celery.include("shop_tasks")

    result = celery.send_task("shop.double", (21,))
    work()

    assert result.get(1) == 42
    with pytest.raises(UnknownHandler, match=r"did you mean 'shop\.double'"):
        celery.send_task("shop.doubel", (1,))


def test_a_beat_schedule_becomes_schedules(celery, app):
    @celery.task(name="report")
    def report(kind: str) -> None: ...

    entries = {
        "nightly": {"task": "report", "schedule": crontab(minute=30, hour=2, day_of_week="mon-fri"), "args": ("a",)},
        "often": {"task": "report", "schedule": 30.0, "kwargs": {"kind": "b"}, "options": {"queue": "emails"}},
        "hourly": {"task": "report", "schedule": timedelta(hours=1), "args": ["c"]},
        "lists": {"task": "report", "schedule": crontab(minute=[0, 30], hour={9, 17}), "args": ["d"]},
    }
    celery.beat_schedule(entries, timezone="Europe/Madrid")

    found = {each.name: each for each in app.schedules.all()}
    assert {name: each.expression for name, each in found.items()} == {
        "nightly": "30 2 * * mon-fri", "often": "@every 30s", "hourly": "@every 1h", "lists": "0,30 9,17 * * *",
    }  # fmt: skip
    assert (found["nightly"].timezone, found["often"].job.queue) == ("Europe/Madrid", "emails")
    assert found["often"].job.payload == {"kind": "b"}


def test_a_beat_schedule_takes_the_crontab_of_celery_too(celery, app):
    theirs = pytest.importorskip("celery.schedules").crontab

    @celery.task(name="report")
    def report() -> None: ...

    celery.beat_schedule({"a": {"task": "report", "schedule": theirs(minute="*/15", day_of_month="1")}})

    assert [each.expression for each in app.schedules.all()] == ["*/15 * 1 * *"]


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"schedule": object()}, "use a crontab"),
        ({"schedule": crontab(day_of_month="1", day_of_week="1")}, "when both"),
        ({"schedule": 10, "relative": True}, "aligned"),
        ({"schedule": 10, "enabled": False}, "unknown member 'enabled'"),
    ],
)
def test_a_beat_entry_with_other_times_is_refused(celery, entry, told):
    @celery.task(name="report")
    def report() -> None: ...

    with pytest.raises(NotSupported, match=told):
        celery.beat_schedule({"a": {"task": "report", **entry}})
