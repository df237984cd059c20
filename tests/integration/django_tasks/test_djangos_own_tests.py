"""Django's own tests of its tasks run with our backend in the places of Django's two backends."""

from functools import cache
from pathlib import Path

import pytest

from tests.support.django_suite import run_djangos_suite
from tests.support.servers.fixtures import absent
from tests.support.servers.server import Missing

_WAITING, _RUN = "test_dummy_backend.DummyBackendTestCase", "test_immediate_backend.ImmediateBackendTestCase"
_TASKS = "test_tasks.TaskTestCase"

# The tests that ask for a property of Django's backends that ours must not have, each with that property.
NOT_OURS = {
    f"{_TASKS}.test_using_correct_backend": "asserts that the backend is a DummyBackend",
    f"{_TASKS}.test_get_backend": "asserts that the backend is a DummyBackend",
    f"{_WAITING}.test_using_correct_backend": "asserts that the backend is a DummyBackend",
    f"{_WAITING}.test_refresh_result": "changes the list of results in the memory of the DummyBackend",
    f"{_WAITING}.test_refresh_result_async": "changes the list of results in the memory of the DummyBackend",
    f"{_RUN}.test_using_correct_backend": "asserts that the backend is an ImmediateBackend",
    f"{_RUN}.test_cannot_get_result": "asserts that the ImmediateBackend keeps no results",
    f"{_RUN}.test_cannot_refresh_result": "asserts that the ImmediateBackend keeps no results",
    f"{_RUN}.test_cannot_pass_run_after": "asserts that the ImmediateBackend cannot defer tasks",
}
TESTS = 85  # of Django 6.1; fewer would mean that some are no longer found


pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # the first run fetches a Python and Django


@cache
def run() -> dict[str, str]:
    """What became of each test, by its name; once for the tests of this file."""
    found: dict[str, str] = run_djangos_suite(Path(__file__).with_name("djangos_suite.py"))["outcomes"]
    return found


@pytest.fixture
def outcomes() -> dict[str, str]:
    try:
        return run()
    except Missing as missing:
        raise absent(missing) from missing


def test_tasks_of_django_6_have_options_of_tenure_and_are_checked(outcomes: dict[str, str]) -> None:
    own = {name: outcome for name, outcome in outcomes.items() if name.startswith("own_cases.")}

    assert len(own) == 7
    assert not [f"{name}\n{outcome}" for name, outcome in own.items() if outcome != "passed"]


def test_every_test_of_djangos_tasks_passes_that_does_not_ask_for_a_property_of_djangos_own_backends(
    outcomes: dict[str, str],
) -> None:
    theirs = {name.removeprefix("tasks."): each for name, each in outcomes.items() if name.startswith("tasks.")}
    failed = {name: outcome for name, outcome in theirs.items() if outcome != "passed"}

    unexpected = {name: outcome for name, outcome in failed.items() if name not in NOT_OURS}
    assert not unexpected, "\n".join(f"{name}\n{outcome}" for name, outcome in unexpected.items())
    assert failed.keys() == NOT_OURS.keys(), "a listed test passes: take it off the list"
    assert len(theirs) == TESTS
