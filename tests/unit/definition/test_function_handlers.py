"""Functions as handlers: which arguments they may have, and what they get when they run."""

import inspect
from dataclasses import dataclass
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure import Backoff, Context
from tenure.definition.handler import from_function
from tenure.errors import InvalidHandler, InvalidJob, InvalidPayload

CONTEXT = Context(id="id-1", handler="f", payload=None, queue="default")
MISSING = object()


@dataclass
class Cat:
    name: str


@dataclass
class Dog:
    name: str


def run(handler, *args, **kwargs):
    """What the function gives for a call that travelled as JSON."""
    raw = handler.shape.pack(handler.bind(args, kwargs))
    return handler.call(CONTEXT, handler.shape.unpack(raw))


def test_positional_and_keyword_arguments_arrive():
    def resize(path: str, width: int, height: int = 10):
        return path, width, height

    handler = from_function("resize", resize, {})

    assert run(handler, "a.png", height=3, width=2) == ("a.png", 2, 3)


def test_keyword_only_arguments_arrive():
    def resize(path: str, *, width: int, height: int = 10):
        return path, width, height

    handler = from_function("resize", resize, {})

    assert run(handler, "a.png", width=2) == ("a.png", 2, 10)


def test_positional_only_arguments_arrive():
    def resize(path: str, /, width: int):
        return path, width

    handler = from_function("resize", resize, {})

    assert run(handler, "a.png", 2) == ("a.png", 2)


def test_a_function_without_arguments_runs():
    def ping():
        return "pong"

    assert run(from_function("ping", ping, {})) == "pong"


def test_an_argument_without_annotation_takes_any_json_value():
    def echo(value):
        return value

    assert run(from_function("echo", echo, {}), {"a": [1, None, "b", 2.5, True]}) == {"a": [1, None, "b", 2.5, True]}


def test_a_first_parameter_annotated_context_is_given():
    def ping(ctx: Context, host: str):
        return ctx.id, host

    assert run(from_function("ping", ping, {}), "a.example") == ("id-1", "a.example")


def test_a_context_and_keyword_only_arguments_arrive_together():
    def ping(ctx: Context, host: str, *, port: int):
        return ctx.id, host, port

    assert run(from_function("ping", ping, {}), "a.example", port=80) == ("id-1", "a.example", 80)


def test_a_function_may_take_the_context_alone():
    def ping(ctx: Context):
        return ctx.id

    assert run(from_function("ping", ping, {})) == "id-1"


def test_defaults_are_those_of_the_worker_and_do_not_travel():
    def resize(path: str, width: int = 100):
        return path, width

    handler = from_function("resize", resize, {})

    assert handler.shape.pack(handler.bind(("a.png",), {})) == b'{"path":"a.png"}'


def test_a_mutable_default_is_fresh_for_every_run():
    def gather(item: int, into: list[int] = []):  # noqa: B006 - what is tested
        into.append(item)
        return into

    handler = from_function("gather", gather, {})
    run(handler, 1)

    assert run(handler, 2) == [2]


def test_a_sentinel_default_keeps_its_identity():
    def update(value: object = MISSING):
        return value is MISSING

    assert run(from_function("update", update, {})) is True


def test_a_function_with_variable_positional_arguments_is_refused():
    def add(*numbers: int): ...

    with pytest.raises(InvalidHandler, match=r"takes \*numbers: int; name each argument, so that it can be checked"):
        from_function("add", add, {})


def test_a_function_with_variable_keyword_arguments_is_refused():
    def tag(**labels: str): ...

    with pytest.raises(InvalidHandler, match=r"takes \*\*labels: str; name each argument, so that it can be checked"):
        from_function("tag", tag, {})


def test_an_annotation_that_cannot_be_resolved_is_refused_with_advice():
    def greet(who: "Nobody"): ...  # noqa: F821 - what is tested

    with pytest.raises(InvalidHandler, match="'Nobody' is not defined; define the types at module level"):
        from_function("greet", greet, {})


def test_an_annotation_naming_a_missing_attribute_is_refused():
    def greet(who: "pytest.Nobody"): ...

    with pytest.raises(InvalidHandler, match=r"cannot be resolved: .*Nobody"):
        from_function("greet", greet, {})


def test_a_type_that_json_cannot_tell_apart_is_refused_at_registration():
    def feed(pet: Cat | Dog): ...

    with pytest.raises(InvalidHandler, match="declares a type that cannot be read from JSON: Type unions may not"):
        from_function("feed", feed, {})


def test_a_callable_that_is_no_function_is_refused():
    with pytest.raises(InvalidHandler, match=r"the annotations of handler .*partial.* cannot be resolved"):
        from_function("half", partial(divmod, 2), {})


def test_a_lambda_needs_a_key_of_its_own():
    with pytest.raises(InvalidJob, match="'<lambda>' cannot name a handler"):
        from_function("<lambda>", lambda: None, {})


def test_a_missing_argument_is_refused_by_name():
    def resize(path: str, width: int): ...

    handler = from_function("resize", resize, {})

    with pytest.raises(InvalidPayload, match=r"handler 'resize' was given the wrong arguments: missing .* 'width'"):
        handler.bind((), {"path": "a.png"})


def test_an_unknown_argument_is_refused_by_name():
    def resize(path: str): ...

    handler = from_function("resize", resize, {})

    with pytest.raises(InvalidPayload, match=r"handler 'resize' was given the wrong arguments: .* 'widht'"):
        handler.bind((), {"path": "a.png", "widht": 3})


def test_too_many_arguments_are_refused():
    def resize(path: str): ...

    handler = from_function("resize", resize, {})

    with pytest.raises(InvalidPayload, match="handler 'resize' was given the wrong arguments: too many positional"):
        handler.bind(("a.png", 3), {})


SIGNATURES = [
    lambda a: None,
    lambda a, b=2: None,
    lambda a, b=2, *, c=3: None,
    lambda a, *, c: None,
    lambda a, /, b=2: None,
    lambda a=1, /, *, c=3: None,
    lambda: None,
]
names = st.sampled_from(["a", "b", "c", "d"])


@given(st.sampled_from(SIGNATURES), st.lists(st.integers(), max_size=3), st.dictionaries(names, st.integers()))
def test_arguments_are_bound_as_python_binds_them(function, args, kwargs):
    handler = from_function("any", function, {})
    try:
        expected = inspect.signature(function).bind(*args, **kwargs).arguments
    except TypeError:
        with pytest.raises(InvalidPayload, match="was given the wrong arguments"):
            handler.bind(tuple(args), kwargs)
    else:
        assert handler.bind(tuple(args), kwargs) == expected


def test_the_context_is_no_argument_of_a_call():
    def ping(ctx: Context, host: str): ...

    handler = from_function("ping", ping, {})

    with pytest.raises(InvalidPayload, match=r"wrong arguments: .* 'ctx'"):
        handler.bind((), {"ctx": CONTEXT, "host": "a.example"})


def test_a_value_of_the_wrong_type_is_refused_with_its_path():
    def resize(path: str, width: int): ...

    handler = from_function("resize", resize, {})

    with pytest.raises(InvalidPayload, match=r"does not fit its handler: Expected `int`, got `str` - at `\$.width`"):
        run(handler, "a.png", "wide")


def test_options_become_defaults_of_the_jobs():
    def ping(): ...

    handler = from_function("ping", ping, {"queue": "fast", "priority": "high", "timeout": "1m", "backoff": "fixed"})

    assert handler.defaults == {
        "queue": "fast",
        "priority": 8,
        "timeout": 60.0,
        "backoff": Backoff(strategy="fixed"),
    }


def test_an_unknown_option_is_refused_at_registration():
    def ping(): ...

    with pytest.raises(InvalidJob, match="unknown job option 'retries'"):
        from_function("ping", ping, {"retries": 3})


def test_an_async_function_is_recognised():
    async def ping(): ...

    assert from_function("ping", ping, {}).is_async


def test_a_function_is_not_async():
    def ping(): ...

    assert not from_function("ping", ping, {}).is_async
