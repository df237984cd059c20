"""Classes as handlers: the arguments of `handle`, and the job options that a class can declare."""

from dataclasses import dataclass

import pytest

from tenure import Context
from tenure.definition.handler import from_class
from tenure.errors import InvalidHandler, InvalidPayload

CONTEXT = Context(id="id-1", handler="report", payload=None, queue="default")


@dataclass
class Month:
    year: int
    month: int


class WithContext:
    def handle(self, context: Context):
        return context.id


class WithPayload:
    def handle(self, payload):
        return payload


class WithTypedPayload:
    def handle(self, payload: Month):
        return payload


class WithBoth:
    def handle(self, context: Context, payload: Month):
        return context.id, payload.month


class WithNeither:
    def handle(self):
        return "done"


class WithTooMuch:
    def handle(self, context: Context, one, two): ...


class WithoutHandle: ...


class WithUncallableHandle:
    handle = 5


class WithVariableArguments:
    def handle(self, *parts): ...


class WithDefaults:
    queue = "slow"
    max_retries = 4
    timeout = "2m"
    priority = "low"

    def handle(self): ...


class WithAsyncHandle:
    async def handle(self): ...


def run(cls, payload=None):
    """What a fresh instance gives for a payload that travelled as JSON."""
    handler = from_class("report", cls, {})
    return handler.call(handler.make(), CONTEXT, handler.shape.unpack(handler.shape.pack(payload)))


def test_handle_may_take_the_context():
    assert run(WithContext) == "id-1"


def test_handle_may_take_the_payload():
    assert run(WithPayload, {"a": 1}) == {"a": 1}


def test_handle_is_given_the_type_it_declares():
    assert run(WithTypedPayload, {"year": 2030, "month": 6}) == Month(2030, 6)


def test_a_value_of_the_declared_type_may_be_sent():
    assert run(WithTypedPayload, Month(2030, 6)) == Month(2030, 6)


def test_handle_may_take_both():
    assert run(WithBoth, Month(2030, 6)) == ("id-1", 6)


def test_handle_may_take_neither():
    assert run(WithNeither, {"ignored": True}) == "done"


def test_any_json_value_is_a_payload():
    assert run(WithPayload, [1, "two", None]) == [1, "two", None]


def test_a_payload_that_does_not_fit_is_refused():
    with pytest.raises(InvalidPayload, match="Object missing required field `month`"):
        run(WithTypedPayload, {"year": 2030})


def test_handle_takes_at_most_a_context_and_a_payload():
    with pytest.raises(InvalidHandler, match=r"WithTooMuch\.handle takes at most a Context and one payload"):
        from_class("report", WithTooMuch, {})


@pytest.mark.parametrize("cls", [WithoutHandle, WithUncallableHandle])
def test_a_class_without_a_handle_method_is_refused(cls):
    with pytest.raises(InvalidHandler, match=r"for key 'report' needs a method handle\(self, \.\.\.\)"):
        from_class("report", cls, {})


def test_handle_names_its_arguments():
    with pytest.raises(InvalidHandler, match=r"takes \*parts"):
        from_class("report", WithVariableArguments, {})


def test_class_attributes_named_like_options_are_defaults():
    handler = from_class("report", WithDefaults, {})

    assert handler.defaults == {"queue": "slow", "max_retries": 4, "timeout": 120.0, "priority": 2}


def test_options_of_the_registration_go_before_class_attributes():
    handler = from_class("report", WithDefaults, {"queue": "fast"})

    assert handler.defaults["queue"] == "fast"


def test_every_attempt_gets_an_instance_of_its_own():
    handler = from_class("report", WithNeither, {})

    assert handler.make() is not handler.make()


def test_an_async_handle_is_recognised():
    assert from_class("report", WithAsyncHandle, {}).is_async
