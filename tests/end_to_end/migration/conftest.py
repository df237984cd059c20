"""The old systems run on a Redis of their own, because their keys have no prefix."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.migration import Migration
from tests.support.servers.fixtures import absent
from tests.support.servers.server import Missing, started


@pytest.fixture(scope="module")
def _server() -> Iterator[str]:
    with ExitStack() as stack:
        try:
            server = stack.enter_context(started("redis"))
        except Missing as missing:
            raise absent(missing) from missing
        yield server.url


@pytest.fixture
def old_redis(_server: str) -> str:
    """The URL of a Redis that is empty."""
    redis = pytest.importorskip("redis")
    with redis.Redis.from_url(_server) as client:
        client.flushall()
    return _server


@pytest.fixture
def migration(tmp_path: Path, old_redis: str) -> Iterator[Callable[[str], Migration]]:
    """The worked example of a page: `migration("celery")`."""
    opened: list[Migration] = []

    def of(system: str) -> Migration:
        opened.append(Migration(tmp_path, system, old_redis))
        return opened[-1]

    yield of
    for each in opened:
        each.close()
