"""The `event` handler: calls all listeners of a named event, even if some of them fail."""

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct, convert

from tenure.builtin.authorisation import CheckedShape
from tenure.definition.callables import check_callable, completed, name_of, refuse_lazy
from tenure.definition.context import Context
from tenure.definition.handler import Handler
from tenure.definition.payload import Shape
from tenure.errors import ListenersFailed, Refused
from tenure.permissions import Event

Subscriber = Callable[[Any], Any]


class EventPayload(Struct, frozen=True, forbid_unknown_fields=True):
    """The payload of an event job."""

    name: str
    data: Any = None


class Subscribers:
    """The listeners of each event; events that the settings do not allow are refused."""

    def __init__(self, permitted: Event) -> None:
        self._permitted = permitted
        self._subscribers: dict[str, list[Subscriber]] = {}

    def add(self, name: str, subscriber: Subscriber) -> None:
        check_callable(subscriber, f"a listener of event {name!r}")
        self._subscribers.setdefault(name, []).append(subscriber)

    def authorise(self, payload: EventPayload) -> None:
        name, allowed = payload.name, self._permitted.allow
        if name in allowed:
            return
        if not allowed:
            raise Refused(
                f"event {name!r:.80} is not allowed: no event is; name the allowed ones in the setting 'event.allow', "
                'such as allow = ["order.paid"] in the table [tool.tenure.event]'
            )
        raise Refused(f"event {name!r:.80} is not allowed: the setting 'event.allow' does not name it")

    def notify(self, context: Context, payload: EventPayload) -> int:  # noqa: ARG002 - every handler is given it
        """Call every listener, then raise if any failed; returns the number of listeners."""
        self.authorise(payload)
        name = payload.name
        subscribers = self._subscribers.get(name, [])
        if not subscribers:
            raise ListenersFailed(
                f"event {name!r} has no listener in this worker; name the module of its listeners in 'modules'"
            )
        failures: dict[str, Exception] = {}
        for subscriber in subscribers:
            try:
                _call(subscriber, payload.data)
            except Exception as error:
                failures[name_of(subscriber)] = error
        if failures:
            listed = "; ".join(f"{who}: {type(error).__qualname__}: {error}" for who, error in failures.items())
            message = f"{len(failures)} of {len(subscribers)} listeners of event {name!r} failed: {listed}"
            raise ListenersFailed(message) from ExceptionGroup(f"listeners of {name!r}", list(failures.values()))
        return len(subscribers)


def event_handler(subscribers: Subscribers) -> Handler:
    """Payload: `{"name": …, "data": …}`; result: how many listeners were called."""
    shape = Shape(EventPayload, rebuild=lambda payload: convert(payload, EventPayload))
    checked = CheckedShape(shape, subscribers.authorise)
    return Handler(key="event", shape=checked, call=subscribers.notify, is_async=False)


def _call(subscriber: Subscriber, data: Any) -> None:
    result, what = subscriber(data), "the listener"
    if isinstance(result, Awaitable):
        import asyncio  # most apps have no such listener

        result = asyncio.run(completed(result, what))
    refuse_lazy(result, what)
