"""Opens `postgresql://user@host/database`; options that Tenure does not know go to libpq."""

from typing import TYPE_CHECKING
from urllib.parse import SplitResult, parse_qsl, quote, urlencode

from tenure.backends.sql.backend import SqlBackend, migrated
from tenure.backends.sql.connections import timeout_option
from tenure.clock import Clock
from tenure.errors import BackendUnavailable, UnknownBackend

if TYPE_CHECKING:
    from tenure.backends.sql.postgresql.dialect import PostgresDialect

_LISTEN = ("auto", "on", "off")


def open_url(parts: SplitResult, clock: Clock) -> SqlBackend:
    """The backend on this database; migrates it when needed."""
    dialect = open_outbox(parts, clock)
    return migrated(SqlBackend(dialect, server=dialect))


def open_outbox(parts: SplitResult, clock: Clock) -> "PostgresDialect":
    """The statements on this database, without the tables of jobs."""
    try:
        import psycopg
    except ImportError as error:
        raise BackendUnavailable("PostgreSQL needs its driver: pip install 'tenure[postgres]'") from error
    from tenure.backends.sql.postgresql.connection import PostgresServer
    from tenure.backends.sql.postgresql.dialect import PostgresDialect

    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    listen, timeout = query.pop("listen", "auto"), query.pop("timeout", "30")
    if listen not in _LISTEN:
        raise UnknownBackend(f"option listen={listen!r} in the postgresql URL must be one of {', '.join(_LISTEN)}")
    given = urlencode(query, quote_via=quote)  # libpq does not read "+" as a space
    # `geturl` omits the slashes of a URL without a host: the driver would not know it as a URL.
    url = f"postgresql://{parts.netloc}{parts.path}{'?' if given else ''}{given}"
    try:
        server = PostgresServer(url, timeout_option(timeout), listen)
    except psycopg.ProgrammingError as error:
        raise UnknownBackend(f"cannot parse the postgresql URL: {error}") from error
    return PostgresDialect(server, clock)
