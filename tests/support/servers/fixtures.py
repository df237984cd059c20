"""Fixtures that give each test a place of its own on a real server.

`postgres_url` and `mariadb_url` are fresh databases, `redis_url` has a prefix of its own, `beanstalk_url` is the
bare server. `own_server` starts one that a test may kill. Without a server tests skip, or fail when CI=true.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from secrets import token_hex
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.servers.kinds import KINDS
from tests.support.servers.server import Missing, Server, started
from tests.support.servers.shared import end_shared, shared

_UNUSUAL_POSTGRES = {
    "bytea_output": "'escape'",
    "client_encoding": "'latin1'",
    "datestyle": "'German'",
    "default_transaction_deferrable": "on",
    "default_transaction_isolation": "'serializable'",
    "default_transaction_read_only": "on",
    "extra_float_digits": "-15",
    "lock_timeout": "1",
    "search_path": "elsewhere, public",
    "standard_conforming_strings": "off",
    "statement_timeout": "5",
    "timezone": "'Asia/Kolkata'",
    "transform_null_equals": "on",
}
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
    with _postgres_database() as url:
        yield url


@pytest.fixture
def mariadb_url() -> Iterator[str]:
    with _mariadb_database() as url:
        yield url


@pytest.fixture(scope="module")
def postgres_place() -> Iterator[tuple[str, Callable[[], None]]]:
    """A database for many tests, and what empties it: making one takes longer than most tests."""
    yield from _postgres_place()


@pytest.fixture(scope="module")
def postgres_unusual_place() -> Iterator[tuple[str, Callable[[], None]]]:
    """The same with defaults of the database that no session of Tenure may depend on."""
    yield from _postgres_place(_UNUSUAL_POSTGRES)


def _postgres_place(defaults: Mapping[str, str] = MappingProxyType({})) -> Iterator[tuple[str, Callable[[], None]]]:
    psycopg = pytest.importorskip("psycopg")
    with _postgres_database() as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA elsewhere")
        for name, value in defaults.items():
            connection.execute(f"ALTER DATABASE {connection.info.dbname} SET {name} = {value}")
        connection.execute(f"SET search_path = {defaults.get('search_path', 'public')}")
        yield url, lambda: _delete_rows(connection.cursor(), "current_schema()")


@pytest.fixture(scope="module")
def mariadb_place() -> Iterator[tuple[str, Callable[[], None]]]:
    """The same on MariaDB."""
    yield from _mariadb_place()


@pytest.fixture(scope="module")
def mariadb_unusual_place() -> Iterator[tuple[str, Callable[[], None]]]:
    """The same where the server's defaults are unusual: text, for example, has a set that lacks most characters."""
    yield from _mariadb_place("mariadb-unusual")


def _mariadb_place(server: str = "mariadb") -> Iterator[tuple[str, Callable[[], None]]]:
    pymysql = pytest.importorskip("pymysql")
    with _mariadb_database(server) as url, pymysql.connect(**_login(url), autocommit=True) as connection:
        connection.cursor().execute("SET SESSION TRANSACTION READ WRITE")
        yield url, lambda: _delete_rows(connection.cursor(), "database()")


@contextmanager
def _postgres_database() -> Iterator[str]:
    psycopg = pytest.importorskip("psycopg")
    server = _address("postgresql")
    name = f"tenure_{token_hex(6)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield urlsplit(server)._replace(path=f"/{name}").geturl()
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def _mariadb_database(kind: str = "mariadb") -> Iterator[str]:
    pymysql = pytest.importorskip("pymysql")
    server = _address(kind)
    name = f"tenure_{token_hex(6)}"
    with pymysql.connect(**_login(server)) as connection:
        connection.cursor().execute("SET SESSION TRANSACTION READ WRITE")
        connection.cursor().execute(f"CREATE DATABASE {name}")
    yield urlsplit(server)._replace(path=f"/{name}").geturl()
    with pymysql.connect(**_login(server)) as connection:
        connection.cursor().execute("SET SESSION TRANSACTION READ WRITE")
        connection.cursor().execute(f"DROP DATABASE {name}")


def _login(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    login = {"host": parts.hostname, "port": parts.port, "user": parts.username, "password": parts.password or ""}
    return {**login, "database": parts.path.strip("/") or None}


def _delete_rows(cursor: Any, schema: str) -> None:
    cursor.execute(
        f"SELECT table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' AND table_schema = {schema} "
        "AND table_name LIKE 'tenure%' AND table_name <> 'tenure_schema'"
    )
    for (table,) in cursor.fetchall():
        cursor.execute(f"DELETE FROM {table}")


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

        def start(name: str, durable: bool = False, more: Sequence[str] = (), disk: str | None = None) -> Server:
            try:
                return servers.enter_context(started(name, durable, more, disk))
            except Missing as missing:
                raise absent(missing) from missing

        yield start


def _address(name: str) -> str:
    if url := os.environ.get(KINDS[name].variable):
        return url
    run_pid, _, folder = os.environ["TEST_SERVERS_OF_RUN"].partition(":")
    try:
        return shared(name, Path(folder), int(run_pid))
    except Missing as missing:
        raise absent(missing) from missing


def absent(missing: Missing) -> BaseException:
    """What to raise in a test whose server there is not."""
    verdict = pytest.fail.Exception if os.environ.get("CI") == "true" else pytest.skip.Exception
    return verdict(str(missing))
