"""Listeners get events and cannot change the flow."""

import logging

import pytest

from tenure.errors import InvalidHandler
from tenure.events import Leased, Listeners

EVENT = Leased("default", ("id-1",))


def test_listeners_are_told_in_the_order_they_were_added():
    listeners, heard = Listeners(), []
    listeners.add(lambda event: heard.append(("first", event)))
    listeners.add(lambda event: heard.append(("second", event)))

    listeners.emit(EVENT)

    assert heard == [("first", EVENT), ("second", EVENT)]


def test_a_failing_listener_keeps_nothing_from_the_others(caplog):
    listeners, heard = Listeners(), []
    listeners.add(lambda event: 1 / 0)
    listeners.add(heard.append)

    with caplog.at_level(logging.ERROR):
        listeners.emit(EVENT)

    assert heard == [EVENT]
    assert "a listener failed on Leased; the others were still called" in caplog.text


def test_listeners_are_true_once_there_is_one():
    listeners = Listeners()
    before = bool(listeners)

    listeners.add(lambda event: None)

    assert (before, bool(listeners)) == (False, True)


def test_an_event_without_listeners_is_nothing():
    Listeners().emit(EVENT)


class AsyncListener:
    async def __call__(self, event):
        """Would never be awaited."""


async def async_listener(event):
    """Would never be awaited."""


@pytest.mark.parametrize("listener", [async_listener, AsyncListener()])
def test_an_async_listener_is_refused_because_it_would_never_be_awaited(listener):
    with pytest.raises(InvalidHandler, match="is async, and a listener is called in the thread of the step"):
        Listeners().add(listener)
