"""Places: where a row measures; each has a backend of its own, so that no row meets the leftovers of another."""

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

VARIABLE = "BENCH_URL"  # a server's address; without one rows measure SQLite


@contextmanager
def server_of(url: str) -> Iterator[None]:
    """Rows measure on the server at this address meanwhile."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = url
    try:
        yield
    finally:
        os.environ.pop(VARIABLE)
        if before is not None:
            os.environ[VARIABLE] = before


@contextmanager
def place() -> Iterator[tuple[str, Path]]:
    """The URL of an empty backend, and a folder for what else a row needs."""
    with tempfile.TemporaryDirectory(prefix="tenure-bench-") as folder:
        server = os.environ.get(VARIABLE)
        if server is None:
            yield f"sqlite:///{folder}/bench.db", Path(folder)
        else:
            with _MAKERS[urlsplit(server).scheme](server) as url:
                yield url, Path(folder)


@contextmanager
def _postgresql(server: str) -> Iterator[str]:
    import psycopg

    name = f"bench_{secrets.token_hex(4)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield urlsplit(server)._replace(path=f"/{name}").geturl()
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def mysql_connection(url: str) -> Any:
    """To the database of this URL."""
    import pymysql

    parts = urlsplit(url)
    login = {"host": parts.hostname, "port": parts.port or 3306, "user": parts.username, "database": parts.path[1:]}
    return pymysql.connect(**login, password=parts.password or "", autocommit=True)


@contextmanager
def _mysql(server: str) -> Iterator[str]:
    name = f"bench_{secrets.token_hex(4)}"
    with mysql_connection(server) as connection:
        connection.cursor().execute(f"CREATE DATABASE {name}")
        yield urlsplit(server)._replace(path=f"/{name}").geturl()
        connection.cursor().execute(f"DROP DATABASE {name}")


@contextmanager
def _redis(server: str) -> Iterator[str]:
    import redis

    prefix = f"bench-{secrets.token_hex(4)}"
    yield f"{server}?prefix={prefix}"
    with redis.Redis.from_url(server) as connection:
        for key in connection.scan_iter(match=f"{prefix}:*", count=10_000):
            connection.unlink(key)


@contextmanager
def _beanstalk(server: str) -> Iterator[str]:
    yield f"{server}?prefix=bench-{secrets.token_hex(4)}.&ttr=3600"


_MAKERS = {
    "postgresql": _postgresql,
    "mysql": _mysql,
    "mariadb": _mysql,
    "redis": _redis,
    "beanstalk": _beanstalk,
}
