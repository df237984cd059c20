"""Every backend behaves like a simple model that was written independently of them."""

import itertools
import tempfile

import pytest
from hypothesis import settings

from tenure.backends.memory import MemoryBackend
from tenure.backends.url import open_backend
from tenure.testing.model import machine_for


def test_the_memory_backend_agrees_with_the_model():
    run(MemoryBackend, examples=60)


def test_the_sqlite_backend_agrees_with_the_model():
    numbers = itertools.count()
    with tempfile.TemporaryDirectory() as folder:
        run(lambda clock: open_backend(f"sqlite:///{folder}/{next(numbers)}.db?synchronous=normal", clock), examples=30)


def test_the_redis_backend_agrees_with_the_model(redis_url):
    numbers = itertools.count()
    run(lambda clock: open_backend(f"{redis_url}:{next(numbers)}", clock), examples=30)


@pytest.mark.parametrize("server", ["postgres", "mariadb"])
def test_a_database_server_agrees_with_the_model(server, request):
    url, empty = request.getfixturevalue(f"{server}_place")

    def fresh(clock):
        empty()
        return open_backend(url, clock)

    run(fresh, examples=15)


def run(opener, examples):
    machine = machine_for(opener)
    machine.TestCase.settings = settings(max_examples=examples, stateful_step_count=40, deadline=None)
    machine.TestCase().runTest()
