"""A job never succeeds when its code has not run: what a handler returns is awaited, or the attempt fails."""

import asyncio
import functools
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

import pytest

from tenure.definition.callables import is_async
from tenure.definition.context import LocalLink
from tenure.definition.handler import from_class, from_function
from tenure.errors import InvalidHandler
from tenure.execution.attempt import Performer
from tenure.execution.child.event_loop import LoopPerformer
from tenure.execution.deadline import ThreadDeadline, Watchdog
from tenure.execution.outcome import Capture

ran: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran():
    ran.clear()


def generate():
    ran.append("generate")
    yield 1


async def generate_async():
    ran.append("generate_async")
    yield 1


async def later():
    await asyncio.sleep(0)
    ran.append("later")
    return "later"


async def even_later():
    return later()


async def hang():
    ran.append("hang")
    await asyncio.sleep(3600)


class Awaited:
    """An awaitable that is no coroutine."""

    def __await__(self):
        return later().__await__()


@dataclass
class Holder:
    held: object


@contextmanager
def opened():
    ran.append("opened")
    yield


@asynccontextmanager
async def opened_async():
    ran.append("opened_async")
    yield


def plainly_decorated(function):
    @functools.wraps(function)
    def wrapper():
        return function()

    return wrapper


class CallableGenerator:
    def __call__(self):
        yield 1


class CallableCoroutine:
    async def __call__(self):
        return await later()


@pytest.mark.parametrize(
    "function",
    [generate, generate_async, functools.partial(generate), CallableGenerator(), functools.partial(generate_async)],
)
def test_a_generator_function_is_refused_as_a_handler(function):
    with pytest.raises(InvalidHandler, match="handler 'job' is a generator function"):
        from_function("job", function, {})


@pytest.mark.parametrize("name", ["handle", "before_run", "after_run"])
@pytest.mark.parametrize("kind", [generate, generate_async])
def test_a_generator_is_refused_as_a_method_of_a_handler_class(name, kind):
    methods = {"handle": lambda self: None, name: kind}
    with pytest.raises(InvalidHandler, match=f"Report.{name} for key 'job' is a generator function"):
        from_class("job", type("Report", (), methods), {})


@pytest.mark.parametrize("function", [functools.partial(later), CallableCoroutine()])
def test_an_async_callable_is_seen_behind_a_partial_and_an_object(function):
    assert is_async(function)


AWAITABLES = {
    "coroutine": plainly_decorated(later),
    "awaitable": lambda: Awaited(),
    "nested": plainly_decorated(even_later),
    "async that forgot to await": even_later,
}
LAZY = {
    "generator": plainly_decorated(generate),
    "async generator": plainly_decorated(generate_async),
    "generator expression": lambda: (ran.append("no") for _ in range(3)),
    "map": lambda: map(ran.append, "abc"),
    "filter": lambda: filter(ran.append, "abc"),
    "context manager": lambda: opened(),
    "async context manager": lambda: opened_async(),
    "generator in a list": lambda: [generate()],
    "generator in a dataclass": lambda: Holder(generate()),
    "coroutine in a dictionary": lambda: {"first": later()},
    "coroutine that returns a generator": lambda: returning(generate()),
}


async def returning(value):
    return value


@pytest.fixture(params=["main thread", "thread", "event loop"])
def perform_anywhere(request, clock, attempt_at):
    """Runs one attempt, in the way that each of the runners does."""

    def on_a_thread(attempt):
        with Performer(clock, ThreadDeadline(Watchdog())) as performer:
            return performer.perform(attempt)

    def run(target, **facts):
        attempt = attempt_at(target, **facts)
        if request.param == "main thread":
            with Performer(clock) as performer:
                return performer.perform(attempt)
        if request.param == "thread":
            return asyncio.run(asyncio.to_thread(on_a_thread, attempt))
        return asyncio.run(LoopPerformer(clock, Capture(), 1).perform(attempt, LocalLink()))

    return run


@pytest.mark.parametrize("handler", AWAITABLES.values(), ids=AWAITABLES)
def test_an_awaitable_result_is_awaited_on_every_runner(perform_anywhere, handler):
    outcome = perform_anywhere(handler)

    assert (outcome.kind, outcome.output, ran) == ("succeeded", "later", ["later"])


@pytest.mark.parametrize("handler", LAZY.values(), ids=LAZY)
def test_a_result_that_is_lazy_fails_the_attempt_on_every_runner(perform_anywhere, handler):
    outcome = perform_anywhere(handler)

    assert (outcome.kind, outcome.failure.type, ran) == ("failed", "InvalidHandler", [])
    assert "whose code has not run" in outcome.failure.message


def test_the_deadline_covers_the_call_and_the_awaitable_that_it_returns(perform_anywhere):
    outcome = perform_anywhere(plainly_decorated(hang), timeout=0.3)

    assert (outcome.kind, ran) == ("timed_out", ["hang"])
    assert 0.25 < outcome.seconds < 30


class Hooked:
    hook_result = staticmethod(later)
    failing = "before_run"

    def before_run(self, context):
        return self.hook_result() if self.failing == "before_run" else None

    async def handle(self):
        ran.append("handle")

    def after_run(self, context, outcome):
        return self.hook_result() if self.failing == "after_run" else None


class AwaitedHook(Hooked):
    hook_result = Awaited


class LazyHook(Hooked):
    hook_result = staticmethod(generate)


class LazyAfterRun(LazyHook):
    failing = "after_run"


class PlainLazyHook(LazyHook):
    def handle(self):
        ran.append("handle")


@pytest.mark.parametrize("handler", [Hooked, AwaitedHook])
def test_what_a_hook_returns_is_awaited(perform_anywhere, handler):
    assert perform_anywhere(handler, payload=b"null").kind == "succeeded"
    assert ran == ["later", "handle"]


@pytest.mark.parametrize("handler", [LazyHook, PlainLazyHook])
def test_a_before_run_that_did_not_run_fails_the_attempt(perform_anywhere, handler):
    outcome = perform_anywhere(handler, payload=b"null")

    assert (outcome.kind, ran) == ("failed", [])
    assert "a hook of the handler returned an object of type 'generator'" in outcome.failure.message


def test_an_after_run_that_did_not_run_is_logged(perform_anywhere, caplog):
    assert perform_anywhere(LazyAfterRun, payload=b"null").kind == "succeeded"
    assert "after_run of handler 'job' failed" in caplog.text


@pytest.mark.parametrize("value", [None, "text", 5, 2.5, True, [1], {"a": (1,)}, Holder(1), object])
def test_results_that_have_run_are_kept_as_before(perform_anywhere, value):
    assert perform_anywhere(lambda: value).kind == "succeeded"
