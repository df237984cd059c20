"""Call sites of RQ, Dramatiq and Huey keep working; what cannot work says what to write instead."""

from datetime import UTC, datetime, timedelta

import pytest

from tenure import Backoff
from tenure.errors import InvalidJob, JobFailed, NotSupported, ResultTimeout
from tenure.integrations import dramatiq as dramatiq_adapter
from tenure.integrations import rq as rq_adapter
from tenure.integrations.dramatiq import DramatiqApp
from tenure.integrations.huey import HueyApp, crontab
from tenure.integrations.rq import RqQueue, RqRetry

LATER = datetime(2031, 3, 1, 9, tzinfo=UTC)


@pytest.fixture
def work(app, run_within):
    return lambda: run_within(app.worker("default", "emails", burst=True))


@pytest.fixture
def add(app):
    @app.job
    def add(a: int, b: int = 1) -> int:
        if a < 0:
            raise ValueError("negative")
        return a + b

    return add


def test_no_adapter_imports_the_library_that_it_replaces(start, finish):
    code = (
        "import sys, tenure.integrations.celery, tenure.integrations.rq, tenure.integrations.dramatiq, "
        "tenure.integrations.huey; print({'celery', 'kombu', 'rq', 'dramatiq', 'huey', 'redis'} & set(sys.modules))"
    )

    assert finish(start(code)) == ["set()\n"]


def test_rq_enqueue_takes_arguments_and_options_together(app, add, work):
    queue = RqQueue(app, "emails")

    jobs = [
        queue.enqueue(add, 1, b=2, job_timeout="1m", job_id="my-id", meta={"a": 1}, description="a sum"),
        queue.enqueue(add, args=(3,), kwargs={"b": 4}, retry=RqRetry(max=2, interval=10)),
        queue.enqueue(add, -1, result_ttl=None, at_front=False),
        queue.enqueue_in(timedelta(hours=1), add, 5),
        queue.enqueue_at(LATER, add, 5, job_timeout=-1),
    ]
    assert [job.get_status() for job in jobs] == ["queued"] * 3 + ["scheduled"] * 2
    assert jobs[0].job.info().meta == {"a": 1, "description": "a sum"}
    work()

    assert [job.return_value() for job in jobs] == [3, 7, None, None, None]
    assert [(job.is_finished, job.is_failed) for job in jobs[:3]] == [(True, False), (True, False), (False, True)]
    assert (jobs[0].id, jobs[0].get_id(), jobs[0].job.info().queue) == ("my-id", "my-id", "emails")
    jobs[3].cancel()
    assert jobs[3].get_status() == "canceled"
    assert rq_adapter.RqJob(app.handle("unknown")).get_status() is None


def test_the_options_of_rq_become_options_of_the_job(app, add):
    options = RqQueue(app)._options

    assert options({}) == {"timeout": 180}
    assert options({"job_timeout": -1, "ttl": 60}) == {"expires_at": "in 60 s"}
    assert options({"retry": RqRetry(3, [5, 5])}) == {
        "timeout": 180, "max_retries": 3, "backoff": Backoff(strategy="fixed", base=5),
    }  # fmt: skip


def test_the_default_timeout_is_that_of_rq():
    assert pytest.importorskip("rq").Queue.DEFAULT_TIMEOUT == rq_adapter.DEFAULT_TIMEOUT


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"result_ttl": 500}, "retention"),
        ({"depends_on": "a"}, "then="),
        ({"on_success": print}, "then=job"),
        ({"unique": True}, "unique="),
        ({"retry": RqRetry(3, [1, 2])}, "different intervals"),
    ],
)
def test_an_option_of_rq_without_a_counterpart_is_refused(app, add, options, told):
    with pytest.raises(NotSupported, match=told):
        RqQueue(app).enqueue(add, 1, **options)


def test_rq_takes_only_jobs_and_instants(app, add):
    with pytest.raises(NotSupported, match=r"@app\.job"):
        RqQueue(app).enqueue(len, [])
    with pytest.raises(InvalidJob, match="time zone"):
        RqQueue(app).enqueue_at(datetime(2031, 1, 1), add, 1)
    with pytest.raises(AttributeError, match=r"app\.enqueue_many"):
        RqQueue(app).enqueue_many  # noqa: B018 - the access is the test


def test_actors_of_dramatiq_send_jobs(app, work):
    dramatiq = DramatiqApp(app)

    @dramatiq.actor(queue_name="emails", actor_name="double")
    def twice(a: int) -> int:
        return 2 * a

    @dramatiq.actor
    def fail() -> None:
        raise ValueError("no")

    sent, failed = twice.send(4), fail.send_with_options(max_retries=0)
    later = twice.send_with_options(args=(5,), delay=timedelta(hours=1))
    with pytest.raises(ResultTimeout):
        sent.get_result()
    work()

    assert (sent.get_result(), twice(3), twice.fn(3), twice.actor_name) == (8, 6, 6, "double")
    assert sent.job.info().queue == "emails"
    assert later.job.state == "delayed"
    with pytest.raises(JobFailed, match="no"):
        failed.get_result(block=True, timeout=100)


def test_the_options_of_dramatiq_become_options_of_the_job(app):
    dramatiq = DramatiqApp(app)

    @dramatiq.actor
    def plain() -> None: ...

    @dramatiq.actor(max_retries=2, min_backoff=1000, max_backoff=8000, time_limit=float("inf"), max_age=60_000)
    def other() -> None: ...

    first, second = plain.job.build(), other.job.build()

    assert (first.max_retries, first.timeout, first.backoff) == (20, 600, Backoff(base=22.5, cap=604800, jitter=1 / 3))
    assert (second.max_retries, second.timeout, second.expires_at) == (2, None, "in 60.000000 s")
    assert second.backoff == Backoff(base=1.5, cap=8, jitter=1 / 3)


def test_the_defaults_are_those_of_dramatiq():
    middleware = pytest.importorskip("dramatiq.middleware")
    retries = middleware.Retries()

    assert (retries.max_retries, retries.min_backoff, retries.max_backoff, middleware.TimeLimit().time_limit) == (
        dramatiq_adapter.MAX_RETRIES, dramatiq_adapter.MIN_BACKOFF, dramatiq_adapter.MAX_BACKOFF,
        dramatiq_adapter.TIME_LIMIT,
    )  # fmt: skip


def test_an_actor_gives_up_on_what_it_throws(app, work):
    tried = []

    @DramatiqApp(app).actor(throws=(KeyError,), min_backoff=0, max_backoff=1)
    def fail() -> None:
        tried.append(1)
        raise KeyError("a")

    fail.send()
    work()

    assert len(tried) == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"priority": 5}, "where 9 runs first"),
        ({"retry_when": print}, "retry_on"),
        ({"store_results": False}, "always stored"),
        ({"periodic": 1}, "migration guide"),
    ],
)
def test_an_option_of_dramatiq_without_a_counterpart_is_refused(app, options, told):
    with pytest.raises(NotSupported, match=told):

        @DramatiqApp(app).actor(**options)
        def ping() -> None: ...


def test_a_pipeline_of_dramatiq_is_refused(app):
    @DramatiqApp(app).actor
    def ping() -> None: ...

    with pytest.raises(NotSupported, match="chain="):
        ping.send_with_options(pipe_target="a")
    with pytest.raises(AttributeError, match="build"):
        ping.message  # noqa: B018 - the access is the test


def test_a_call_of_a_huey_task_enqueues_it(app, work):
    huey = HueyApp(app)
    tried = []

    @huey.task(retries=1)
    def double(a: int) -> int:
        tried.append(a)
        if len(tried) == 1:
            raise OSError("once")
        return 2 * a

    result = double(4)
    assert result() is None
    work()

    assert (result(), result.get(blocking=True, timeout=1)) == (8, 8)
    assert tried == [4, 4]
    assert (double.call_local(8), double.func(3)) == (16, 6)


def test_huey_schedules_with_a_delay_or_a_time(app, work):
    @HueyApp(app).task(name="twice", priority=3)
    def double(a: int) -> int:
        return 2 * a

    results = [
        double.schedule((1,), delay=60),
        double.schedule(args=(1,), eta=LATER),
        double.schedule(kwargs={"a": 1}, delay=0),
    ]
    work()

    assert [each.job.state for each in results] == ["delayed", "delayed", "done"]
    assert (results[2].job.info().handler, results[2].job.info().priority) == ("twice", 3)
    results[0].revoke()
    assert results[0].job.state == "cancelled"
    with pytest.raises(ResultTimeout):
        results[1].get(blocking=True, timeout=0)
    with pytest.raises(NotSupported, match="delay="):
        double.schedule((1,))


def test_a_huey_task_that_fails_raises_when_its_result_is_read(app, work):
    @HueyApp(app).task()
    def fail() -> None:
        raise ValueError("no")

    result = fail()
    work()

    with pytest.raises(JobFailed, match="no"):
        result()


def test_the_options_of_huey_become_options_of_the_job(app):
    @HueyApp(app).task(retries=3, retry_delay=10, retry_backoff=2, expires=60, timeout=5)
    def ping() -> None: ...

    job = ping.job.build()

    assert (job.max_retries, job.priority, job.expires_at, job.timeout) == (3, 0, "in 60.000000 s", 5)
    assert [job.backoff.delay(number) for number in (1, 2, 3)] == [10, 20, 40]


def test_a_periodic_task_of_huey_is_a_schedule(app):
    huey = HueyApp(app)

    @huey.periodic_task(crontab(minute="*/5", day_of_week="1-5"))
    def report() -> None: ...

    assert [(each.name, each.expression) for each in app.schedules.all()] == [("report", "*/5 * * * 1-5")]
    with pytest.raises(NotSupported, match="when both match"):
        huey.periodic_task(crontab(day=1, day_of_week=1))(report.func)
    for owner, name, told in [(huey, "lock_task", "single_instance"), (report, "s", "build")]:
        with pytest.raises(AttributeError, match=told):
            getattr(owner, name)
    with pytest.raises(NotSupported, match="context"):
        huey.task(context=True)(report.func)
