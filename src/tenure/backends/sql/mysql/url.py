"""Opens `mysql://user:password@host:3306/database`, or with `?socket=/path` a server on this machine."""

from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, parse_qsl, unquote

from tenure.backends.sql.backend import SqlBackend, migrated
from tenure.backends.sql.connections import timeout_option
from tenure.clock import Clock
from tenure.errors import BackendUnavailable, UnknownBackend

if TYPE_CHECKING:
    from tenure.backends.sql.mysql.dialect import MysqlDialect

_OPTIONS = ("socket", "timeout", "ssl_ca", "ssl_cert", "ssl_key")


def open_url(parts: SplitResult, clock: Clock) -> SqlBackend:
    """The backend on this database; migrates it when needed."""
    dialect = open_outbox(parts, clock)
    return migrated(SqlBackend(dialect, server=dialect))


def open_outbox(parts: SplitResult, clock: Clock) -> "MysqlDialect":
    """The statements on this database, without the tables of jobs."""
    try:
        import pymysql  # noqa: F401 - only users of MySQL need its driver
    except ImportError as error:
        raise BackendUnavailable("MySQL needs its driver: pip install 'tenure[mysql]'") from error
    from tenure.backends.sql.mysql.connection import MysqlServer
    from tenure.backends.sql.mysql.dialect import MysqlDialect

    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in query:
        if name not in _OPTIONS:
            raise UnknownBackend(f"unknown option {name!r} in the {parts.scheme} URL; known: {', '.join(_OPTIONS)}")
    return MysqlDialect(MysqlServer(login(parts, query), timeout_option(query.get("timeout", "30"))), clock)


def login(parts: SplitResult, query: dict[str, str]) -> dict[str, Any]:
    """The arguments of the driver."""
    database = unquote(parts.path).strip("/")
    if not database:
        raise UnknownBackend(f"a {parts.scheme} URL names a database: {parts.scheme}://user:password@host/database")
    where: dict[str, Any] = {"host": parts.hostname or "localhost", "port": parts.port or 3306}
    if "socket" in query:
        where = {"unix_socket": query["socket"]}
    secure = {name: value for name, value in query.items() if name.startswith("ssl_")}
    password = unquote(parts.password or "").encode()  # the driver would encode a text as latin1
    names = {"user": unquote(parts.username or ""), "password": password, "database": database}
    return {**where, **names, **secure}
