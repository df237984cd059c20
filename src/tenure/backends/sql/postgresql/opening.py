"""Opening `postgresql://user@host/database`; what libpq understands in a URL is passed on."""

from urllib.parse import SplitResult, parse_qsl, urlencode

from tenure.backends.sql.backend import SqlBackend
from tenure.backends.sql.patience import seconds
from tenure.clock import Clock
from tenure.errors import BackendUnavailable, UnknownBackend

_LISTEN = ("auto", "on", "off")


def open_url(parts: SplitResult, clock: Clock) -> SqlBackend:
    """The backend on this database, brought up to date when needed."""
    try:
        import psycopg
    except ImportError as error:
        raise BackendUnavailable("PostgreSQL needs its driver: pip install 'tenure[postgres]'") from error
    from tenure.backends.sql.postgresql.dialect import PostgresDialect
    from tenure.backends.sql.postgresql.server import Server

    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    listen, patience = query.pop("listen", "auto"), query.pop("patience", "30")
    if listen not in _LISTEN:
        raise UnknownBackend(f"option listen={listen!r} in the postgresql URL must be one of {', '.join(_LISTEN)}")
    url = parts._replace(scheme="postgresql", query=urlencode(query)).geturl()
    try:
        server = Server(url, seconds(patience), listen)
    except psycopg.ProgrammingError as error:
        raise UnknownBackend(f"the postgresql URL cannot be understood: {error}") from error
    dialect = PostgresDialect(server, clock)
    backend = SqlBackend(dialect)
    backend.facts = dialect.facts
    backend.migrate()
    return backend
