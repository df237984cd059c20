"""Payload versions: old payloads are converted, and new ones wait for a deploy that can read them."""

import pytest

from tenure import Tenure
from tenure.errors import InvalidHandler
from tenure.testing import run_due

pytestmark = pytest.mark.timeout(60, method="thread")  # the runner needs the alarm that the other method uses


def split_name(payload):
    first, _, last = payload["name"].partition(" ")
    return {"first": first, "last": last}


def add_title(payload):
    return {**payload, "title": "Dr"}


@pytest.fixture
def shop(tmp_path, clock):
    """Makes apps on one database, as releases that follow each other would be."""
    apps = []

    def make():
        apps.append(Tenure(f"sqlite:///{tmp_path}/jobs.db?synchronous=normal", clock=clock, unknown_timeout=60))
        return apps[-1]

    yield make
    for app in apps:
        app.close()


def greet_of(app, version):
    if version == 1:

        @app.job(name="greet")
        def first(name: str):
            return f"Hello {name}"

        return first

    upcasters = {1: split_name, 2: add_title}

    @app.job(name="greet", payload_version=3, upcasters=upcasters)
    def third(first: str, last: str, title: str = "") -> str:
        return f"Hello {title} {last}, {first}"

    return third


def test_an_old_payload_is_lifted_through_every_version_before_it_is_decoded(shop):
    old, new = shop(), shop()
    id = greet_of(old, 1).enqueue(name="Ada Lovelace")
    greet_of(new, 3)

    assert run_due(new) == {"acked": 1}
    assert new.backend.jobs.find(id).output == "Hello Dr Lovelace, Ada"


def test_a_payload_of_the_newest_version_is_not_lifted(shop):
    app = shop()
    id = greet_of(app, 3).enqueue(first="Ada", last="Lovelace")

    run_due(app)
    assert app.backend.jobs.find(id).output == "Hello  Lovelace, Ada"


def test_a_newer_payload_waits_for_the_deploy_at_no_cost(shop, clock):
    old, new = shop(), shop()
    greet_of(old, 1)
    id = greet_of(new, 3).enqueue(first="Ada", last="Lovelace")

    assert run_due(old) == {"postponed": 1}
    waiting = old.backend.jobs.find(id)
    assert (waiting.state, waiting.attempts, waiting.crashes) == ("delayed", 0, 0)
    clock.advance(11)
    assert run_due(new) == {"acked": 1}


def test_a_newer_payload_that_no_deploy_comes_for_is_dead_after_a_while(shop, clock):
    old, new = shop(), shop()
    greet_of(old, 1)
    id = greet_of(new, 3).enqueue(first="Ada", last="Lovelace")

    clock.advance(61)
    assert run_due(old) == {"dead-lettered": 1}
    assert old.backend.jobs.find(id).reason == "newer_payload"


def test_an_upcaster_that_fails_makes_a_dead_letter_that_says_so(shop):
    old, new = shop(), shop()
    id = greet_of(old, 1).enqueue(name="Ada")

    @new.job(name="greet", payload_version=2, upcasters={1: lambda payload: payload["surname"]})
    def greet(first: str): ...

    run_due(new)
    dead = new.backend.jobs.find(id)
    assert (dead.state, dead.reason) == ("dead", "invalid_payload")
    assert "surname" in dead.failures[-1].message


class Versioned:
    payload_version = 2
    upcasters = {1: lambda payload: [payload]}  # noqa: RUF012 - as a user would write it

    def handle(self, payload: list[int]) -> int:
        return sum(payload)


def test_a_handler_class_names_its_version_as_an_attribute(shop):
    old, new = shop(), shop()
    old.register("total", type("Old", (), {"handle": lambda self, payload: payload}))
    id = old.define("total", 7).dispatch()
    new.register("total", Versioned)

    run_due(new)
    assert new.backend.jobs.find(id).output == "7"


@pytest.mark.parametrize(
    ("version", "upcasters", "words"),
    [
        (0, {}, "must be a whole number"),
        (True, {}, "must be a whole number"),
        (3, {1: split_name}, "none for version 2"),
        (2, {1: split_name, 2: add_title}, "one for version 2"),
    ],
)
def test_versions_with_a_gap_are_refused_when_registered(app, version, upcasters, words):
    with pytest.raises(InvalidHandler, match=words):

        @app.job(payload_version=version, upcasters=upcasters)
        def greet(name: str): ...
