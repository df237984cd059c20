"""The registry: which handlers exist, and which queue may run which."""

import pytest

from tenure.definition.handler import Registry, from_function
from tenure.definition.queues import Queues
from tenure.errors import ForbiddenHandler, InvalidHandler, UnknownHandler


def ping(): ...


PING = from_function("ping", ping, {})
SEND = from_function("send", ping, {})


@pytest.fixture
def registry():
    registry = Registry({"emails": ["send"], "closed": []})
    registry.add(PING)
    registry.add(SEND)
    return registry


def test_a_handler_is_found_under_its_key(registry):
    assert registry.get("ping") is PING


def test_an_unknown_key_lists_the_known_ones(registry):
    with pytest.raises(UnknownHandler, match=r"under 'mail' \(registered: ping, send\); register it, or import"):
        registry.get("mail")


def test_a_mistyped_key_gets_a_suggestion(registry):
    with pytest.raises(UnknownHandler, match=r"under 'pnig' \(registered: ping, send\); did you mean 'ping'\?$"):
        registry.get("pnig")


def test_the_queue_of_a_handler_is_known_to_the_queues():
    queues = Queues()
    registry = Registry(queues=queues)

    registry.add(from_function("report", ping, {"queue": "reports"}))

    assert queues.find("Reports") == "reports"


def test_an_empty_registry_says_so():
    with pytest.raises(UnknownHandler, match=r"\(registered: none\)"):
        Registry().get("pong")


def test_a_key_is_registered_once(registry):
    with pytest.raises(InvalidHandler, match=r"already registered under 'ping'; pass name=\.\.\. to give this one"):
        registry.add(from_function("ping", ping, {}))


def test_a_queue_without_allowlist_runs_everything(registry):
    assert registry.resolve("ping", "default") is PING


def test_a_queue_with_an_allowlist_runs_what_it_names(registry):
    assert registry.resolve("send", "emails") is SEND


def test_a_queue_with_an_allowlist_refuses_everything_else(registry):
    with pytest.raises(
        ForbiddenHandler, match=r"queue 'emails' does not allow handler 'ping'; its allowlist is \['send'\]"
    ):
        registry.resolve("ping", "emails")


def test_an_empty_allowlist_denies(registry):
    with pytest.raises(ForbiddenHandler, match=r"its allowlist is \[\]"):
        registry.resolve("ping", "closed")


def test_the_allowlist_is_checked_before_the_key(registry):
    with pytest.raises(ForbiddenHandler):
        registry.resolve("pong", "emails")


def test_membership_and_iteration_tell_what_is_registered(registry):
    assert "ping" in registry
    assert "pong" not in registry
    assert list(registry) == [PING, SEND]
