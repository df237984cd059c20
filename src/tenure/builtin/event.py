"""The `event` handler: tells listeners of an event by its name, each of them, whatever the others do."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from msgspec import Struct, convert

from tenure.builtin.shape import CheckedShape
from tenure.definition.context import Context
from tenure.definition.handler import Handler
from tenure.errors import InvalidHandler, ListenersFailed, Refused
from tenure.permissions import Event

Subscriber = Callable[[Any], Any]


class Announcement(Struct, frozen=True, forbid_unknown_fields=True):
    """The payload of an event job."""

    name: str
    data: Any = None


class Subscribers:
    """Who wants to hear of which event; a name that the settings do not allow is refused."""

    def __init__(self, permitted: Event) -> None:
        self._permitted = permitted
        self._subscribers: dict[str, list[Subscriber]] = {}

    def add(self, name: str, subscriber: Subscriber) -> None:
        if not callable(subscriber):
            raise InvalidHandler(f"a listener of event {name!r} must be callable, got {subscriber!r:.80}")
        self._subscribers.setdefault(name, []).append(subscriber)

    def authorise(self, announcement: Announcement) -> None:
        name, allowed = announcement.name, self._permitted.allow
        if name in allowed:
            return
        if not allowed:
            raise Refused(
                f"event {name!r:.80} may not be told: no event is allowed; name those that are in the setting "
                "'event.allow', such as allow = [\"order.paid\"] in the table [tool.tenure.event]"
            )
        raise Refused(f"event {name!r:.80} may not be told: the setting 'event.allow' does not name it")

    def tell(self, context: Context, announcement: Announcement) -> int:  # noqa: ARG002 - every handler is given it
        """Call every listener; then raise if some failed."""
        self.authorise(announcement)
        name = announcement.name
        subscribers = self._subscribers.get(name, [])
        if not subscribers:
            raise ListenersFailed(
                f"nobody listens to event {name!r} in this worker; import the module that does: setting 'modules'"
            )
        failures: dict[str, Exception] = {}
        for subscriber in subscribers:
            try:
                _call(subscriber, announcement.data)
            except Exception as error:
                failures[getattr(subscriber, "__qualname__", repr(subscriber))] = error
        if failures:
            told = "; ".join(f"{who}: {type(error).__qualname__}: {error}" for who, error in failures.items())
            story = f"{len(failures)} of {len(subscribers)} listeners of event {name!r} failed: {told}"
            raise ListenersFailed(story) from ExceptionGroup(f"listeners of {name!r}", list(failures.values()))
        return len(subscribers)


def event_handler(subscribers: Subscribers) -> Handler:
    """Payload: `{"name": …, "data": …}`; result: how many listeners were told."""
    shape = CheckedShape(Announcement, subscribers.authorise, rebuild=lambda payload: convert(payload, Announcement))
    return Handler(key="event", shape=shape, call=subscribers.tell, is_async=False)


def _call(subscriber: Subscriber, data: Any) -> None:
    result = subscriber(data)
    if inspect.iscoroutine(result):
        asyncio.run(result)
