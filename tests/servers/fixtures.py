"""Fixtures that give each test a place of its own on a real server.

`postgres_url` and `mariadb_url` are fresh databases, `redis_url` has a prefix of its own, `beanstalk_url` is the
bare server. `own_server` starts one that a test may kill. Without a server tests skip, or fail when CI=true.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from secrets import token_hex
from urllib.parse import urlsplit

import pytest

from tests.servers.kinds import KINDS
from tests.servers.running import Missing, Server, started
from tests.servers.sharing import end_shared, shared

_FOLDER = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        folder = Path(tempfile.mkdtemp(prefix="tenure-servers-"))
        config.stash[_FOLDER] = folder
        os.environ["TEST_SERVERS_OF_RUN"] = f"{os.getpid()}:{folder}"


def pytest_unconfigure(config: pytest.Config) -> None:
    if folder := config.stash.get(_FOLDER, None):
        end_shared(folder)
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()


@pytest.fixture
def postgres_url() -> Iterator[str]:
    psycopg = pytest.importorskip("psycopg")
    server = _address("postgresql")
    name = f"tenure_{token_hex(6)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield urlsplit(server)._replace(path=f"/{name}").geturl()
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def mariadb_url() -> Iterator[str]:
    pymysql = pytest.importorskip("pymysql")
    server = urlsplit(_address("mariadb"))
    name = f"tenure_{token_hex(6)}"
    login = {"host": server.hostname, "port": server.port, "user": server.username, "password": server.password or ""}
    with pymysql.connect(**login) as connection:
        connection.cursor().execute(f"CREATE DATABASE {name}")
    yield server._replace(path=f"/{name}").geturl()
    with pymysql.connect(**login) as connection:
        connection.cursor().execute(f"DROP DATABASE {name}")


@pytest.fixture
def redis_url() -> Iterator[str]:
    redis = pytest.importorskip("redis")
    server = _address("redis")
    prefix = f"test-{token_hex(6)}"
    yield f"{server}?prefix={prefix}"
    with redis.Redis.from_url(server) as connection:
        for key in connection.scan_iter(match=f"{prefix}:*", count=10_000):
            connection.unlink(key)


@pytest.fixture
def beanstalk_url() -> str:
    return _address("beanstalk")


@pytest.fixture
def own_server() -> Iterator[Callable[..., Server]]:
    """Start servers that nobody else uses: `own_server("redis", durable=True)`."""
    with ExitStack() as servers:

        def start(name: str, durable: bool = False) -> Server:
            try:
                return servers.enter_context(started(name, durable))
            except Missing as missing:
                raise _absent(missing) from missing

        yield start


def _address(name: str) -> str:
    if url := os.environ.get(KINDS[name].variable):
        return url
    run_pid, _, folder = os.environ["TEST_SERVERS_OF_RUN"].partition(":")
    try:
        return shared(name, Path(folder), int(run_pid))
    except Missing as missing:
        raise _absent(missing) from missing


def _absent(missing: Missing) -> BaseException:
    verdict = pytest.fail.Exception if os.environ.get("CI") == "true" else pytest.skip.Exception
    return verdict(str(missing))
