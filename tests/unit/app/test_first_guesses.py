"""First guesses: what a user of another library would write works, or the error shows what to write."""

import asyncio

import pytest

from tenure import Tenure
from tenure.errors import InvalidJob, InvalidPayload, InvalidSchedule, NotAJob
from tenure.testing import enqueued


@pytest.fixture
def app():
    with Tenure("memory://") as app:
        yield app


@pytest.fixture
def send(app):
    @app.job(queue="emails")
    def send(user_id: int, text: str = "hello") -> str:
        return f"{text} {user_id}"

    return send


@pytest.fixture
def ping(app):
    @app.job
    def ping() -> None: ...

    return ping


def plain(user_id: int) -> None: ...


def test_enqueue_takes_a_job_function_with_its_arguments(app, send):
    app.enqueue(send, 7, text="bye")

    (job,) = enqueued(app, send)
    assert (job.payload, job.queue) == ({"user_id": 7, "text": "bye"}, "emails")


def test_the_arguments_of_a_function_may_be_called_like_those_of_enqueue(app):
    @app.job
    def move(job: int, backend: str, connection: str = "a") -> None: ...

    app.enqueue(move, job=1, backend="x", connection="y")
    app.schedule(move, job=1, backend="x").daily()

    assert enqueued(app)[0].payload == {"job": 1, "backend": "x", "connection": "y"}
    assert app.schedules.get("move").job.payload == {"job": 1, "backend": "x"}


def test_schedule_takes_a_job_function_with_its_arguments(app, send, ping):
    app.schedule(ping).daily()
    app.schedule(send, user_id=7).hourly()

    assert app.schedules.get("ping").job.payload == {}
    assert (app.schedules.get("send").job.payload, app.schedules.get("send").job.queue) == ({"user_id": 7}, "emails")


def test_wrong_arguments_of_a_scheduled_function_are_refused_at_once(app, send):
    with pytest.raises(InvalidPayload, match="missing a required argument: 'user_id'"):
        app.schedule(send)


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        (plain, r"got the function 'plain'; decorate it with @app\.job, then write plain\.enqueue\(\.\.\.\)"),
        ("hello", r"got 'hello'; write app\.define\('hello', payload\)\.dispatch\(\)"),
        (dict, r'got the class \'dict\'; write app\.register\("key", dict\)'),
        (lambda: None, "write a function with def"),
        (None, r"got None; write fn\.build\(\.\.\.\) of a function with @app\.job"),
    ],
)
def test_enqueue_refuses_everything_else_with_what_to_write(app, given, advice):
    with pytest.raises(NotAJob, match=advice):
        app.enqueue(given)
    with pytest.raises(TypeError, match=advice):
        app.enqueue_many([given])
    with pytest.raises(TypeError, match=advice):
        asyncio.run(app.aio.enqueue(given))


def test_enqueue_refuses_a_builder_and_using_with_what_to_write(app, send):
    with pytest.raises(NotAJob, match=r"call dispatch\(\) on it"):
        app.enqueue(app.define("send", {"user_id": 1}))
    with pytest.raises(NotAJob, match=r"call enqueue\(\.\.\.\) on it"):
        app.enqueue(send.using(delay=1))


def test_enqueue_refuses_a_call_of_an_async_job(app):
    @app.job
    async def fetch() -> None: ...

    with pytest.raises(NotAJob, match="pass the job function itself, without calling it"):
        app.enqueue(fetch())


def test_many_jobs_cannot_be_one_job_or_a_function(app, send):
    with pytest.raises(NotAJob, match=r"app\.enqueue_many\(\[fn\.build\(\.\.\.\), \.\.\.\]\)"):
        app.enqueue_many(send.build(1))
    with pytest.raises(NotAJob, match="got the job function 'send'"):
        app.enqueue_each(send)
    with pytest.raises(NotAJob, match=r"write .*send\.build\(\.\.\.\) with its arguments"):
        app.enqueue_many([send])


def test_a_wrong_item_among_independent_jobs_is_refused_alone(app, send):
    id, error = app.enqueue_each([send.build(1), "hello"])

    assert isinstance(id, str)
    assert isinstance(error, NotAJob)


def test_the_other_methods_say_what_to_write(app, send):
    with pytest.raises(NotAJob, match=r"app\.schedule takes a job, got the function 'plain'; decorate it"):
        app.schedule(plain)
    with pytest.raises(NotAJob, match="which has its payload already"):
        app.schedule(send.build(1), 2)
    with pytest.raises(NotAJob, match=r"app\.define takes the key of a handler as text, got the job function 'send'"):
        app.define(send)
    with pytest.raises(NotAJob, match=r'write app\.worker\("emails"\)'):
        app.worker(send)
    with pytest.raises(InvalidSchedule, match=r'is a text such as "0 2 \* \* \*" or "@daily", got None'):
        app.schedule("send", {"user_id": 1}).cron(None)


def test_a_follower_may_be_a_function_without_required_arguments_or_a_builder(app, send, ping):
    job = send.using(then=ping, on_failure=[app.define("ping")]).build(1)

    assert [each.handler for each in (*job.then, *job.on_failure)] == ["ping", "ping"]
    assert app.define("send", {"user_id": 1}).then(ping).build().then[0].handler == "ping"


def test_a_follower_with_required_arguments_must_be_built(send, ping):
    with pytest.raises(InvalidJob, match=r"then takes a job: write build\(\.\.\.\) with its arguments; .*'user_id'"):
        ping.using(then=send)
    with pytest.raises(InvalidJob, match=r"chain takes jobs, as build\(\) makes them, got 7"):
        ping.using(chain=[7])


@pytest.mark.parametrize(
    ("name", "hint"),
    [("delay", r"send\.enqueue\(\.\.\.\)"), ("apply_async", r"send\.using\(delay=\.\.\.\)"), ("s", r"send\.build\(")],
)
def test_the_names_of_other_libraries_are_explained_by_a_job_function(send, name, hint):
    assert not hasattr(send, name)
    with pytest.raises(AttributeError, match=f"use {hint}"):
        getattr(send, name)


@pytest.mark.parametrize(
    ("name", "hint"), [("task", r"with @app\.job"), ("send_task", r"app\.define"), ("run", r"app\.worker\(\)\.run\(\)")]
)
def test_the_names_of_other_libraries_are_explained_by_an_app(app, name, hint):
    assert not hasattr(app, name)
    with pytest.raises(AttributeError, match=hint):
        getattr(app, name)


def test_unknown_names_are_plain_attribute_errors(app, send):
    with pytest.raises(AttributeError, match=r"^'JobFunction' object has no attribute 'nothing'$"):
        send.nothing  # noqa: B018
    with pytest.raises(AttributeError, match=r"^'Tenure' object has no attribute 'nothing'$"):
        app.nothing  # noqa: B018


def test_options_of_other_libraries_are_explained(app, send):
    with pytest.raises(InvalidJob, match="unknown job option 'countdown'; use delay"):
        send.using(countdown=10)
    with pytest.raises(InvalidJob, match="unknown job option 'retries'; use max_retries"):
        app.job(retries=3)(plain)


def test_options_among_the_arguments_are_explained(send):
    with pytest.raises(InvalidPayload, match=r"options go before: using\(delay=\.\.\.\)\.enqueue\(\.\.\.\)"):
        send.enqueue(user_id=1, delay=10)
