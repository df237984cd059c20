"""Capabilities: what a backend may lack. Tests that need a missing one are skipped, by name and counted."""

from collections.abc import Callable
from typing import TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., None])

PARTS = (
    *("jobs", "recent", "payloads", "queues", "dead_letters", "control", "ends", "workers", "stats"),
    *("guards", "parking", "unique", "ledger", "archive", "audit"),
)
SHARED = "Shared"  # other processes can open it by its URL; messages and leases survive the process
EVERY = frozenset({*PARTS, SHARED})
UNIQUE_IDS = "UniqueIds"  # an id that is known is stored once
LINGERING = "LingeringLeases"  # a lease outlives the process that held it, until it expires
ADDED_LETTERS = "AddedLetters"  # dead letters can be stored without a lease
PLACES = "Places"  # priorities are served in order, and a returned message takes its old place
# What every backend can do, unless its suite names it in `lacks`:
USUAL = frozenset({UNIQUE_IDS, LINGERING, PLACES, ADDED_LETTERS})


def needs(*capabilities: str) -> Callable[[Test], Test]:
    """Mark a test as one that only backends with these capabilities can pass."""

    def mark(test: Test) -> Test:
        test.__dict__["needs"] = frozenset(capabilities)
        return test

    return mark


def skip_unless_able(test: object, capabilities: frozenset[str]) -> None:
    """Skip the running test, naming what the backend lacks."""
    lacking = _lacking(test, capabilities)
    if lacking:
        pytest.skip(f"this backend has no {' and no '.join(lacking)}")


def skipped_tests(suite: type, capabilities: frozenset[str]) -> list[str]:
    """The names of the tests of a suite that a backend with just these capabilities skips."""
    tests = [(name, getattr(suite, name)) for name in dir(suite) if name.startswith("test_")]
    return [name for name, test in tests if _lacking(test, capabilities)]


def _lacking(test: object, capabilities: frozenset[str]) -> list[str]:
    needed: frozenset[str] = getattr(test, "needs", frozenset())
    return sorted(needed - capabilities)
