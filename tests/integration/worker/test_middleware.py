"""Middleware: plain functions around handlers, in order, inside the deadline."""

from functools import partial

import pytest

from tenure import Context
from tenure.errors import InvalidHandler
from tenure.testing import run_due

pytestmark = pytest.mark.timeout(60, method="thread")  # the runner needs the alarm that the other method uses


@pytest.fixture
def told():
    return []


@pytest.fixture
def telling(told):
    """Makes middleware that tells when it is entered and left."""

    def make(name):
        def around(ctx, proceed):
            told.append(f"{name} before {ctx.handler}")
            result = proceed()
            told.append(f"{name} after {result}")
            return result

        return around

    return make


def test_middleware_surrounds_every_handler_the_first_outermost(app, told, telling):
    app.middleware(telling("outer"))

    @app.job(middleware=[telling("own")])
    def greet(name: str) -> str:
        return name

    app.middleware(telling("inner"))  # also around what was registered before
    greet.enqueue("Ada")

    assert run_due(app) == {"acked": 1}
    assert told == [
        *("outer before greet", "inner before greet", "own before greet"),
        *("own after Ada", "inner after Ada", "outer after Ada"),
    ]


def test_what_middleware_returns_is_the_result(app):
    @app.middleware
    def shout(ctx: Context, proceed):
        return proceed().upper()

    @app.job
    def greet(name: str) -> str:
        return name

    id = greet.enqueue("Ada")
    run_due(app)
    assert app.backend.jobs.find(id).output == "ADA"


def test_middleware_may_keep_the_handler_from_running(app):
    @app.middleware
    def refuse(ctx: Context, proceed):
        return "not today"

    @app.job
    def greet() -> str:
        raise AssertionError

    id = greet.enqueue()
    assert run_due(app) == {"acked": 1}
    assert app.backend.jobs.find(id).output == "not today"


def test_an_error_in_middleware_fails_the_attempt(app):
    @app.middleware
    def trip(ctx: Context, proceed):
        proceed()
        raise ValueError("tripped")

    @app.job
    def greet(): ...

    id = greet.enqueue()
    assert run_due(app) == {"dead-lettered": 1}
    assert app.backend.jobs.find(id).failures[-1].message == "tripped"


def test_coroutines_surround_coroutines_and_functions_surround_functions(app, told, telling):
    app.middleware(telling("function"))

    @app.middleware
    async def coroutine(ctx: Context, proceed):
        told.append(f"coroutine before {ctx.handler}")
        return await proceed()

    @app.job
    async def ping() -> str:
        return "pong"

    @app.job
    def plain() -> str:
        return "plain"

    ping.enqueue()
    plain.enqueue()
    assert run_due(app) == {"acked": 2}
    assert told == ["coroutine before ping", "function before plain", "function after plain"]


def test_middleware_surrounds_the_method_of_a_handler_class(app, told, telling):
    class Greeter:
        def handle(self, ctx: Context, payload: str) -> str:
            return payload

    app.register("greet", Greeter, middleware=[telling("own")])
    app.define("greet", "Ada").dispatch()

    assert run_due(app) == {"acked": 1}
    assert told == ["own before greet", "own after Ada"]


async def check_async(ctx, proceed):
    return await proceed()


class CheckAsync:
    async def __call__(self, ctx, proceed):
        return await proceed()


def check(ctx, proceed):
    return proceed()


def generate(ctx, proceed):
    yield proceed()


@pytest.mark.parametrize("middleware", [check_async, CheckAsync(), partial(check_async)])
def test_async_middleware_is_refused_for_a_plain_handler(app, middleware):
    with pytest.raises(InvalidHandler, match=r"handler 'greet' is a plain function, and its middleware .* is async"):
        app.job(name="greet", middleware=[middleware])(lambda: None)
    assert "greet" not in app.registry


def test_plain_middleware_is_refused_for_an_async_handler(app):
    class Greeter:
        middleware = (check,)

        async def handle(self): ...

    with pytest.raises(InvalidHandler, match="is async, and its middleware 'check' is a plain function"):
        app.register("greet", Greeter)
    assert "greet" not in app.registry


def test_an_object_with_an_async_call_surrounds_async_handlers(app):
    @app.job(middleware=[CheckAsync()])
    async def greet() -> str:
        return "Ada"

    id = greet.enqueue()
    run_due(app)
    assert app.backend.jobs.find(id).output == "Ada"


@pytest.mark.parametrize("middleware", [[5], [None], [generate], 5, check])
def test_what_cannot_be_middleware_is_refused(app, middleware):
    with pytest.raises(InvalidHandler, match="middleware"):
        app.job(name="greet", middleware=middleware)(lambda: None)
    assert "greet" not in app.registry


@pytest.mark.parametrize("middleware", [5, generate])
def test_what_cannot_be_middleware_of_the_app_is_refused(app, middleware):
    with pytest.raises(InvalidHandler, match="middleware"):
        app.middleware(middleware)

    app.job(name="greet")(lambda: None).enqueue()
    assert run_due(app) == {"acked": 1}
