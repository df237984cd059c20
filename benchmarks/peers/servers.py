"""Servers: the same for every peer, on loopback with data in a temporary folder, started when first needed."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.peers.environments import Unavailable
from tests.support.servers import Missing, Server, started

# As their packages ship them, except that Redis and beanstalkd keep nothing on disk, as queues are mostly run.
DURABLE = {"redis": False, "postgresql": True, "mariadb": True, "beanstalk": False}
ON_DISK = {
    "redis": "no: in memory, lost with the server",
    "postgresql": "yes: every commit is on disk",
    "mariadb": "yes: every commit is on disk",
    "sqlite": "yes: every commit is on disk",
    "beanstalk": "no: in memory, lost with the server",
}


class Servers:
    """One of each kind, and an empty place on it for each measurement."""

    def __init__(self) -> None:
        self._running: dict[str, Server] = {}
        self._stack = ExitStack()

    def fresh(self, name: str, folder: Path) -> str:
        """The URL of an empty server or database, or of a file in this folder."""
        if name == "sqlite":
            return f"sqlite:///{folder}/bench.db"
        return _EMPTIERS[name](self._server(name))

    def pids(self, name: str) -> list[int]:
        """Of the server program; none for a library such as SQLite."""
        return [self._running[name].process.pid] if name in self._running else []

    def close(self) -> None:
        self._stack.close()

    def _server(self, name: str) -> Server:
        if name not in self._running:
            try:
                self._running[name] = self._stack.enter_context(started(name, durable=DURABLE[name]))
            except (Missing, OSError) as error:
                raise Unavailable(f"there is no {name} server: {error}") from error
        return self._running[name]


@contextmanager
def servers() -> Iterator[Servers]:
    made = Servers()
    try:
        yield made
    finally:
        made.close()


def _empty_redis(server: Server) -> str:
    import redis

    with redis.Redis.from_url(server.url) as connection:
        connection.flushall(asynchronous=False)
        connection.function_flush("SYNC")
    return server.url


def _new_postgresql(server: Server) -> str:
    import psycopg

    name = "bench"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name}")
        connection.execute("CHECKPOINT")
    return urlsplit(server.url)._replace(path=f"/{name}").geturl()


def _new_mariadb(server: Server) -> str:
    import pymysql

    parts = urlsplit(server.url)
    login = {"host": parts.hostname, "port": parts.port or 3306, "user": parts.username}
    with pymysql.connect(**login, password=parts.password or "", autocommit=True) as connection:
        connection.cursor().execute("DROP DATABASE IF EXISTS bench")
        connection.cursor().execute("CREATE DATABASE bench")
    return parts._replace(path="/bench").geturl()


def _new_beanstalk(server: Server) -> str:
    server.kill()
    server.start()
    return server.url


_EMPTIERS: dict[str, Callable[[Server], str]] = {
    "redis": _empty_redis,
    "postgresql": _new_postgresql,
    "mariadb": _new_mariadb,
    "beanstalk": _new_beanstalk,
}
