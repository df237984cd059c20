"""Jobs called directly: `fn(...)`, `fn.call(...)` and `fn.call_with(context, ...)`."""

import asyncio

import pytest

from tenure import Context, Tenure, current_context


@pytest.fixture
def app():
    with Tenure("memory://") as app:
        yield app


@pytest.fixture
def ping(app):
    @app.job(queue="net", meta={"tenant": "a"}, max_retries=2)
    def ping(ctx: Context, host: str, port: int = 80) -> tuple[Context, str, int]:
        return ctx, host, port

    return ping


def test_a_function_that_takes_a_context_gets_one_outside_a_job(ping):
    ctx, host, port = ping("a.example", port=81)

    assert (host, port) == ("a.example", 81)
    assert (ctx.handler, ctx.queue, ctx.payload) == ("ping", "net", {"host": "a.example", "port": 81})
    assert (ctx.attempt, ctx.max_retries, ctx.meta) == (1, 2, {"tenant": "a"})


def test_a_context_may_still_be_given(ping):
    given = Context(id="1", handler="ping", payload=None, queue="net", attempt=3)

    assert ping(given, "a.example")[0] is given
    assert ping(ctx=given, host="a.example")[0] is given


def test_inside_a_job_the_function_gets_the_context_of_that_job(app, ping):
    seen = []

    @app.job
    def outer(ctx: Context) -> None:
        seen.append((ping("a.example")[0], ctx))

    id = outer.enqueue()
    app.worker(burst=True).run()
    ((inner, own),) = seen

    assert inner is own
    assert inner.id == id


def test_call_makes_a_new_context_that_current_context_returns(app):
    @app.job
    def whoami(ctx: Context, name: str) -> tuple[Context, Context]:
        return ctx, current_context()

    first, second = whoami.call(name="a"), whoami.call("a")

    assert first[0] is first[1]
    assert first[0].id != second[0].id
    with pytest.raises(LookupError):
        current_context()


def test_call_with_takes_any_context(ping):
    last = Context(id="1", handler="ping", payload=None, queue="net", attempt=3)

    assert ping.call_with(last, "a.example")[0] is last


def test_a_function_without_a_context_parameter_can_read_the_current_one(app):
    @app.job
    def attempt_number() -> int:
        return current_context().attempt

    assert attempt_number.call() == 1
    given = Context(id="1", handler="attempt_number", payload=None, queue="net", attempt=3)
    assert attempt_number.call_with(given) == 3


def test_an_async_function_returns_its_coroutine(app):
    @app.job
    async def fetch(ctx: Context, url: str) -> tuple[bool, str]:
        await asyncio.sleep(0)
        return ctx is current_context(), url

    assert asyncio.run(fetch.call(url="a")) == (True, "a")


def test_progress_and_breakers_work_in_the_context_of_a_call(app):
    @app.job
    def load(ctx: Context) -> None:
        ctx.progress(1, 2)
        with ctx.breaker("stripe"):
            ctx.raise_if_cancelled()

    load.call()


def test_wrong_arguments_are_refused_before_the_function_runs(ping):
    with pytest.raises(ValueError, match="handler 'ping' was given the wrong arguments"):
        ping.call()


def test_the_bare_function_is_at_hand(app):
    def send(user: int) -> int:
        return user

    job = app.job(send)

    assert job.original is job.__wrapped__ is send
